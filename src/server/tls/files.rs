//! The contents of the TLS files.

use crate::config::TlsFiles;
use std::{fmt, fs, path::Path};

/// The content of a file, or why it cannot be read.
pub(super) type Content = Result<Vec<u8>, String>;

/// The contents of all files.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) cert: Content,
    pub(super) key: Content,
    pub(super) client_ca: Option<Content>,
}

/// The longest file. A bundle of all public authorities has a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

impl Contents {
    pub(super) fn read(files: &TlsFiles) -> Self {
        Self { cert: read(&files.cert), key: read(&files.key), client_ca: files.client_ca.as_deref().map(read) }
    }
}

fn read(path: &Path) -> Content {
    let read = || {
        let file = fs::metadata(path)?;
        // A pipe would block, and a device might never end.
        if !file.is_file() || file.len() > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!("not a file of at most {FILE_BYTES_MAX} bytes")));
        }
        fs::read(path)
    };
    read().map_err(|error| format!("cannot be read: {error}"))
}

/// Without the contents, because one is a private key.
impl fmt::Debug for Contents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Contents")
    }
}
