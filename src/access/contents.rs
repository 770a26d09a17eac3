//! What the access file and the files that it names contain.

use super::{error::AccessError, fetched::Fetched, file::AccessFile, keys_at::KeysAt};
use crate::files::read;
use std::path::Path;

/// The contents of all files of a policy. Compared as they are, because a mounted secret may keep its times.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) text: String,
    /// The keys of the issuers, in the order of their entries, or why they cannot be read. None if they are at a URL
    /// and were not fetched yet.
    pub(super) keys: Vec<Result<Option<Vec<u8>>, String>>,
}

impl Contents {
    /// Reads the file, and those that it names.
    pub(super) fn read(path: &Path, fetched: &Fetched) -> Result<(AccessFile, Self), AccessError> {
        let bytes = read(path).map_err(AccessError::of_file)?;
        let text = String::from_utf8(bytes).map_err(|_| AccessError::of_file("is no text: it must be UTF-8"))?;
        let file = parse(&text)?;
        let folder = path.parent().unwrap_or(path);
        let keys = file.jwt.iter().map(|entry| match entry.keys.get_ref() {
            KeysAt::File(keys) => read(&folder.join(keys)).map(Some),
            KeysAt::Url(url) => Ok(fetched.of(url)),
        });
        let keys = keys.collect();
        Ok((file, Self { text, keys }))
    }
}

pub(super) fn parse(text: &str) -> Result<AccessFile, AccessError> {
    toml::from_str(text).map_err(|error| AccessError::of_parser(text, &error))
}
