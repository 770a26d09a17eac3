//! The unit, checked by systemd itself.

use crate::{
    proxy::replaced,
    tools::{passes, read, system},
};
use std::{fs, process::Command};

/// The exposure, times ten. systemd calls up to 49 "OK"; ours has 12.
const EXPOSURE_MAX: &str = "--threshold=15";

/// The unit with the binary of the test: a unit whose binary does not exist is not valid.
fn unit() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let text = replaced(&read("deploy/systemd/fencepost.service"), "/usr/local/bin/fencepost", binary);
    let file = folder.path().join("fencepost.service");
    fs::write(&file, text).unwrap();
    (folder, file)
}

#[test]
fn systemd_accepts_the_unit_without_a_warning() {
    let (_folder, file) = unit();
    // No manual pages: those of other units may be missing.
    let ended = passes(
        system(Command::new("systemd-analyze")).args(["verify", "--man=no", "--recursive-errors=no"]).arg(&file),
    );
    assert_eq!(ended.err, "");
}

#[test]
fn systemd_finds_the_unit_well_confined() {
    let (_folder, file) = unit();
    let ended = passes(
        system(Command::new("systemd-analyze"))
            .args(["security", "--offline=yes", EXPOSURE_MAX, "--no-pager"])
            .arg(&file),
    );
    assert!(ended.out.contains("OK"), "{}", ended.out);
}
