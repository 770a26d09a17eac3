//! The contents of the TLS files.

use crate::{config::TlsFiles, files::read};
use std::fmt;

/// The content of a file, or why it cannot be read.
pub(super) type Content = Result<Vec<u8>, String>;

/// The contents of all files.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) cert: Content,
    pub(super) key: Content,
    pub(super) client_ca: Option<Content>,
}

impl Contents {
    pub(super) fn read(files: &TlsFiles) -> Self {
        Self { cert: read(&files.cert), key: read(&files.key), client_ca: files.client_ca.as_deref().map(read) }
    }
}

/// Without the contents, because one is a private key.
impl fmt::Debug for Contents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Contents")
    }
}
