//! The file of a bearer token. No message about it has a byte of what is in it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a file with a token: no server takes longer headers.
const TOKEN_FILE_BYTES_MAX: u64 = 16 * 1_024;
/// What is before a token in an `authorization` header, and not in its file.
const SCHEME: &str = "Bearer";
/// What to do about a file with anything else.
const ALONE: &str = "write the token alone into it";

/// The token in a file; otherwise what is wrong with the file, and what to do. It is read each time, because others may
/// replace it. One that could keep the reader waiting, as a named pipe does, is refused.
pub fn token_in(file: &Path) -> Result<String, String> {
    read(file).and_then(|bytes| token(&bytes)).map_err(|why| format!("{} {why}", file.display()))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let problem = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist: write the token into it, or name another file".to_owned(),
        _ => format!("cannot be read ({error}): let this user read it, or name another file"),
    };
    let metadata = file.metadata().map_err(problem)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err(format!("{what}: name a file with the token alone"));
    }
    let mut bytes = Vec::new();
    File::open(file).and_then(|open| open.take(TOKEN_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(problem)?;
    Ok(bytes)
}

fn token(bytes: &[u8]) -> Result<String, String> {
    if bytes.is_empty() {
        return Err(format!("is empty: {ALONE}"));
    }
    if bytes.len() as u64 > TOKEN_FILE_BYTES_MAX {
        return Err(format!("has more than {TOKEN_FILE_BYTES_MAX} bytes, which no token has: {ALONE}"));
    }
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let text = str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(is_plain));
    let text = text.ok_or_else(|| format!("has bytes that are not printable ASCII, which no token has: {ALONE}"))?;
    let text = text.trim();
    let begins_with_scheme = text.get(..SCHEME.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME));
    match text.find(|c: char| c.is_ascii_whitespace()) {
        _ if text.is_empty() => Err(format!("has only white space: {ALONE}")),
        _ if text.contains(['\n', '\r']) => Err(format!("has several lines: {ALONE}")),
        Some(at) if at == SCHEME.len() && begins_with_scheme => {
            Err(format!("begins with the word {SCHEME}, which is sent anyway: {ALONE}"))
        }
        Some(_) => Err(format!("has several words: {ALONE}")),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_message_names_the_file_the_mistake_and_the_remedy_and_no_byte_of_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let long = "sec".repeat(6_000);
        for (bytes, said) in [
            (&b""[..], "is empty: write the token alone into it"),
            (b" \r\n\t\n", "has only white space: write the token alone into it"),
            (b"sec\nsec\n", "has several lines: write the token alone into it"),
            (b"sec\r\n\r\nsec", "has several lines: write the token alone into it"),
            (b"sec sec", "has several words: write the token alone into it"),
            (b"Bearer sec\n", "begins with the word Bearer, which is sent anyway: write the token alone into it"),
            (b"bearer\tsec", "begins with the word Bearer, which is sent anyway: write the token alone into it"),
            (b"\0sec", "has bytes that are not printable ASCII, which no token has: write the token alone into it"),
            (
                b"\xff\xfes\0e\0c\0",
                "has bytes that are not printable ASCII, which no token has: write the token alone into it",
            ),
            (
                "\u{feff}sec".as_bytes(),
                "has bytes that are not printable ASCII, which no token has: write the token alone into it",
            ),
            (long.as_bytes(), "has more than 16384 bytes, which no token has: write the token alone into it"),
        ] {
            fs::write(&path, bytes).unwrap();
            let why = token_in(&path).unwrap_err();
            assert_eq!(why, format!("{} {said}", path.display()));
        }
        for fine in ["secret", " secret\r\n", "Bearer"] {
            fs::write(&path, fine).unwrap();
            assert_eq!(token_in(&path), Ok(fine.trim().to_owned()));
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let why =
            |path: &Path| token_in(path).unwrap_err().strip_prefix(&format!("{} ", path.display())).unwrap().to_owned();
        assert_eq!(why(&folder.path().join("none")), "does not exist: write the token into it, or name another file");
        assert_eq!(why(folder.path()), "is a directory: name a file with the token alone");
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            assert_eq!(why(&pipe), "is not a regular file: name a file with the token alone");
            let below = folder.path().join("file");
            fs::write(&below, "").unwrap();
            // Also for root, whom no mode of a file hinders.
            let unreadable = why(&below.join("token"));
            assert!(unreadable.starts_with("cannot be read (Not a directory"), "{unreadable}");
            assert!(unreadable.ends_with("): let this user read it, or name another file"), "{unreadable}");
        }
    }
}
