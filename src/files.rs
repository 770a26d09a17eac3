//! Small files that an operator names: options, passwords, certificates.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The most bytes of a file. A bundle of all public authorities has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is in a file; otherwise the reason, as the end of a sentence about the file. One that could keep the reader
/// waiting, as a named pipe does, is refused: a server would never start, or its threads would stand still.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let problem = |error: io::Error| format!("cannot be read: {error}");
    if !path.metadata().map_err(problem)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(problem)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}
