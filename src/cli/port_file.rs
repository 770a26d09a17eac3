//! The port file: tells the program that started a server where it listens.
//!
//! Tests start a server on port 0, and need its address. They wait for the file, which appears complete or not at all.

use super::exit::{Failure, OUTPUT};
use std::{
    fs::{self, File, Metadata, Permissions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The rights to the file before the process' umask: it has no secrets.
const MODE: u32 = 0o666;

/// The file with the addresses of a running server. Dropped, it removes the file.
#[derive(Debug)]
pub(super) struct PortFile {
    path: PathBuf,
    /// Open, so that no other file gets its inode, and locked, so that a second server sees that its writer runs.
    file: File,
}

impl PortFile {
    /// Removes what an earlier server left at this path, so that nobody reads an address of the past while this server
    /// starts. The file of a running server stays: it is true until this one replaces it, or fails to start. Fails if
    /// the file could not be written later.
    pub(super) fn prepare(path: &Path) -> Result<(), Failure> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Ok(file) if !file.is_file() => {
                Err(failure(path, &io::Error::new(ErrorKind::AlreadyExists, "it exists and is not a regular file")))
            }
            Ok(_) if is_locked(path) => Ok(()),
            Ok(_) => fs::remove_file(path).map_err(|error| failure(path, &error)),
            Err(error) => Err(failure(path, &error)),
        }
    }

    /// Writes the addresses of open listeners, one a line.
    pub(super) fn write(path: &Path, addresses: &[String]) -> Result<Self, Failure> {
        let file = Self::place(path, addresses).map_err(|error| failure(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Renames a complete temporary file, which is in the same folder.
    fn place(path: &Path, addresses: &[String]) -> io::Result<File> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
        for address in addresses {
            writeln!(file, "{address}")?;
        }
        if let Err(error) = file.as_file().try_lock() {
            // Some network file systems have no locks. A server that starts there takes this file for an old one.
            tracing::debug!(path = %path.display(), %error, "cannot lock the port file");
        }
        Ok(file.persist(path)?)
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        // Another server may have replaced the file.
        let identity = |file: Metadata| (file.dev(), file.ino());
        let (ours, found) = (self.file.metadata().map(identity), fs::symlink_metadata(&self.path).map(identity));
        if matches!((ours, found), (Ok(ours), Ok(found)) if ours == found)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the port file");
        }
    }
}

/// Whether the server that wrote the file still runs. The kernel unlocks the file of a killed one.
fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::NotFound => "make its folder first",
        ErrorKind::PermissionDenied => "its folder must be writable for the user of the server",
        _ => "choose another path with --port-file",
    };
    Failure::new(OUTPUT, format!("cannot write the port file {}: {error} ({advice})", path.display()))
}
