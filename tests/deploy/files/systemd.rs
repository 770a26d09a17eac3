//! The units, checked by systemd itself.

use crate::{
    proxy::replaced,
    tools::{fails, passes, read, system},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The exposure, times ten. systemd calls up to 49 "OK"; ours has 12.
const EXPOSURE_MAX: &str = "--threshold=15";
/// Where the units expect the binary.
pub(crate) const INSTALLED: &str = "/usr/local/bin/fencepost";

/// A folder with a unit.
pub(crate) struct Unit {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Unit {
    /// The unit with the binary of the test: a unit whose binary does not exist is not valid.
    fn of(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(Path::new(path).file_name().unwrap());
        fs::write(&file, replaced(&read(path), INSTALLED, env!("CARGO_BIN_EXE_fencepost"))).unwrap();
        Self { _folder: folder, file }
    }

    /// The server.
    fn server() -> Self {
        Self::of("deploy/systemd/fencepost.service")
    }

    /// The server with its access file as a credential.
    pub(crate) fn server_with_access() -> Self {
        let unit = Self::server();
        unit.add(&read("deploy/systemd/access.conf"));
        unit
    }

    /// A job with a token.
    pub(crate) fn client() -> Self {
        Self::of("deploy/access/billing.service")
    }

    /// Adds a drop-in.
    fn add(&self, text: &str) {
        let folder = self.file.with_extension("service.d");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("access.conf"), text).unwrap();
    }

    fn verify(&self) -> Command {
        let mut command = system(Command::new("systemd-analyze"));
        // No manual pages: those of other units may be missing.
        command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&self.file);
        command
    }

    /// The variables that systemd sets, as it says itself.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let told = passes(self.verify().env("SYSTEMD_LOG_LEVEL", "debug")).out;
        let name = self.file.file_name().unwrap().to_str().unwrap();
        let (_, unit) = told.split_once(&format!("-> Unit {name}:\n")).unwrap_or_else(|| panic!("{told}"));
        let unit = unit.split("-> Unit ").next().unwrap();
        let lines = unit.lines().filter_map(|line| line.trim().strip_prefix("Environment: "));
        lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

#[test]
fn systemd_accepts_the_units_without_a_warning() {
    for unit in [Unit::server(), Unit::server_with_access(), Unit::client()] {
        assert_eq!(passes(&mut unit.verify()).err, "");
    }
    // It reads drop-ins here.
    let unit = Unit::server();
    unit.add(&replaced(&read("deploy/systemd/access.conf"), "LoadCredential=", "LoadCredentials="));
    fails(&mut unit.verify(), "Unknown key 'LoadCredentials'");
}

#[test]
fn systemd_finds_the_server_well_confined() {
    for unit in [Unit::server(), Unit::server_with_access()] {
        let ended = passes(
            system(Command::new("systemd-analyze"))
                .args(["security", "--offline=yes", EXPOSURE_MAX, "--no-pager"])
                .arg(&unit.file),
        );
        assert!(ended.out.contains("OK"), "{}", ended.out);
    }
}
