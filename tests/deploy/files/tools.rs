//! Runs the programs that check the files.

use crate::binary::{Ended, Process};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The text of a file of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder, below the folder of the repository.
pub(crate) fn files_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let mut files: Vec<_> =
        entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap())).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

/// A program that `.ci/setup` puts below `target/deploy/bin`.
pub(crate) fn tool(name: &str) -> Command {
    let path: PathBuf = [ROOT, "target/deploy/bin", name].iter().collect();
    assert!(path.exists(), "{name} is missing: run `make setup`");
    in_root(Command::new(path))
}

/// A program of the system. Those of administrators are not on the path of every user.
pub(crate) fn system(mut command: Command) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    in_root(command)
}

fn in_root(mut command: Command) -> Command {
    command.current_dir(ROOT);
    command
}

/// Runs a check, which has to succeed.
#[track_caller]
pub(crate) fn passes(command: &mut Command) -> Ended {
    Process::start(command).ended().expect(0)
}

/// Runs a check, which has to fail and to say this.
#[track_caller]
pub(crate) fn fails(command: &mut Command, text: &str) {
    let ended = Process::start(command).ended();
    assert_ne!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains(text) || ended.err.contains(text), "{text:?} is not in {ended:?}");
}

/// The documents of a text of YAML.
pub(crate) fn documents(yaml: &str) -> Vec<serde_json::Value> {
    const CONVERT: &str = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), yaml).unwrap();
    let converted = passes(tool("python").args(["-c", CONVERT]).arg(file.path()));
    serde_json::from_str(&converted.out).unwrap()
}

/// A copy of a file with something wrong in it, to show that a check looks at it. Keeps the file's extension.
pub(crate) fn spoilt(text: &str, from: &str, to: &str, extension: &str) -> tempfile::NamedTempFile {
    assert!(text.contains(from), "{from:?} is not in the file");
    let file = tempfile::Builder::new().suffix(extension).tempfile().unwrap();
    fs::write(file.path(), text.replacen(from, to, 1)).unwrap();
    file
}
