//! Files for the connections to a Redis. They are read for each connection, so that a rotation needs no restart.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFile {
    /// The authorities of TLS.
    Ca,
    /// The client certificate.
    Cert,
    /// The private key of the client certificate.
    Key,
    /// The password.
    Password,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFileProblem {
    /// Which file.
    pub file: NodeFile,
    /// Its path.
    pub path: PathBuf,
    /// The reason, as the end of a sentence about the file.
    pub why: String,
}

impl NodeFileProblem {
    pub(super) fn new(file: NodeFile, path: &Path, why: impl Into<String>) -> Self {
        Self { file, path: path.to_owned(), why: why.into() }
    }
}

/// What is in a file.
pub(super) fn read(file: NodeFile, path: &Path) -> Result<Vec<u8>, NodeFileProblem> {
    crate::files::read(path).map_err(|why| NodeFileProblem::new(file, path, why))
}

impl fmt::Display for NodeFileProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.path.display(), self.why)
    }
}
