//! Configuration: the file, variables, flags, and the URL of the store.

use fencepost::{
    config::{Config, options},
    node::NodeUrl,
};
use std::{cell::RefCell, ffi::OsString, fs, os::unix::ffi::OsStringExt};

fn url(text: &str) -> Result<(), String> {
    NodeUrl::parse(text).map(drop)
}

/// Any file, and any text for any option. An accepted configuration can be written back.
pub fn config(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let loaded = match kind % 3 {
        0 => {
            thread_local! {
                static FILE: RefCell<tempfile::NamedTempFile> =
                    RefCell::new(tempfile::NamedTempFile::new().expect("a file can be made"));
            }
            FILE.with_borrow(|file| {
                fs::write(file.path(), bytes).expect("a file can be written");
                Config::load([(options::FILE_KEY, file.path().display().to_string())], |_| None, url)
            })
        }
        1 => {
            let values: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
            let index = |name: &str| options::OPTIONS.iter().position(|option| option.variable() == name);
            Config::load(
                [],
                |name| {
                    let value = index(name).and_then(|index| values.get(index)).filter(|value| !value.is_empty())?;
                    // Never read a path that the input made up.
                    (name != options::FILE_VARIABLE).then(|| OsString::from_vec(value.to_vec()))
                },
                url,
            )
        }
        _ => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            if let Ok(url) = NodeUrl::parse(&text) {
                let _ = url.to_string();
            }
            return;
        }
    };
    match loaded {
        Ok(config) => {
            let text = config.to_toml();
            for option in options::in_file() {
                assert!(config.text_of(option.key).is_some(), "{} is written: {text}", option.key);
            }
        }
        Err(error) => assert!(!error.problems.is_empty() && !error.to_string().is_empty()),
    }
}
