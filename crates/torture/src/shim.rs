//! Libraries that replace functions of the C library in a process of a history (`LD_PRELOAD`).

use anyhow::{Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a library in this directory.
pub(crate) fn compile(folder: &Path, source: &str) -> Result<PathBuf> {
    let (text, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&text, source)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&text).arg("-ldl");
    let output = compiler.output()?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}
