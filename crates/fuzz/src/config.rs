//! Configuration: the file, variables, flags, and the URL of the store.

use fencepost::testing::{
    config::{Config, Environment, options},
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
                Config::load([(options::FILE_KEY, file.path().display().to_string())], &Environment::new(), url)
            })
        }
        1 => {
            // Never read a path that the input made up.
            let options = options::OPTIONS.iter().filter(|option| option.key != options::FILE_KEY);
            let values = options.zip(bytes.split(|byte| *byte == 0));
            let mut environment: Environment =
                values.map(|(option, value)| (option.variable().into(), OsString::from_vec(value.to_vec()))).collect();
            // One that nobody knows, with a name that the input made up.
            let name = bytes.rsplit(|byte| *byte == 0).next().unwrap_or_default();
            environment.entry(OsString::from_vec([b"FENCEPOST_", name].concat())).or_insert("10.0.0.7".into());
            Config::load([], &environment, url)
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
