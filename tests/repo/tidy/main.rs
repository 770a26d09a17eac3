//! Rules of this repository that no other tool checks: sizes of files, lengths of lines, dependencies between modules,
//! forbidden code. `cases` tests each rule.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod cases;
mod code;
mod rooms;
mod rules;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[test]
fn the_repository_follows_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut violations = Vec::new();
    let mut rust_files = Vec::new();
    for path in files(root) {
        // Git lists deleted files, too.
        let Ok(bytes) = fs::read(root.join(&path)) else { continue };
        violations.extend(rules::size(&path, bytes.len()));
        let Ok(text) = String::from_utf8(bytes) else {
            violations.extend(rules::binary(&path));
            continue;
        };
        violations.extend(rules::check(&path, &text));
        violations.extend(rooms::ladder(&path, &text));
        if path.ends_with(".rs") {
            rust_files.push((path, text));
        }
    }
    violations.extend(rooms::cycles(rust_files.iter().map(|(path, text)| (path.as_str(), text.as_str()))));
    let found = rust_files.len();
    assert!(found > 10, "found only {found} Rust files: is this the repository?");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Cargo runs only the tests that its manifest names.
#[test]
fn every_test_is_named_in_the_manifest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let named = |path: &str| manifest.contains(&format!("path = \"{path}\""));
    let tests = files(root).into_iter().filter(|path| rules::is_test(path) && root.join(path).exists());
    assert_eq!(tests.filter(|path| !named(path)).collect::<Vec<_>>(), Vec::<String>::new(), "not in Cargo.toml");
}

/// The files that git tracks or would add; in a copy without git, all files except build output.
fn files(root: &Path) -> Vec<String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    if let Ok(listed) = Command::new("git").args(arguments).current_dir(root).output()
        && listed.status.success()
        && !listed.stdout.is_empty()
    {
        return String::from_utf8(listed.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect();
    }
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if ["target", ".git", ".venv", "__pycache__"].contains(&name.as_str()) => {}
                true => folders.push(path),
                false => found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    found
}
