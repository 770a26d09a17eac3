//! Files for the connections to a Redis. They are read for each connection, so that a rotation needs no restart.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The most bytes of a file. Passwords of services and chains of certificates have some thousands.
const FILE_BYTES_MAX: u64 = 1 << 20;

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

/// What is in a file. One that could keep the reader waiting, as a named pipe does, is refused: connections are made by
/// tasks that share their threads with others.
pub(super) fn read(file: NodeFile, path: &Path) -> Result<Vec<u8>, NodeFileProblem> {
    let problem = |error: io::Error| NodeFileProblem::new(file, path, format!("cannot be read: {error}"));
    if !path.metadata().map_err(problem)?.is_file() {
        return Err(NodeFileProblem::new(file, path, "is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(problem)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(NodeFileProblem::new(file, path, format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

impl fmt::Display for NodeFileProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.path.display(), self.why)
    }
}
