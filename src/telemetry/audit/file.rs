//! Where the lines of the audit log go: a file, a pipe, or stdout.

use nix::{
    errno::Errno,
    libc::O_NONBLOCK,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// The name of the log that is not a file but stdout.
const STDOUT: &str = "-";
/// Only the user of the server reads it.
const MODE: u32 = 0o600;
/// How long a line waits for room in a pipe until it is seen whether the pipe was moved away.
const ROOM_WAIT_MS: u16 = 1_000;

/// The open file of an audit log.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    /// None for stdout.
    open: Option<File>,
}

impl AuditFile {
    /// Opens this file, or stdout if it is `-`. Does not wait for the reader of a pipe: it fails if there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let open = if path == Path::new(STDOUT) { None } else { Some(open(path)?) };
        Ok(Self { path: path.to_owned(), open })
    }

    /// Writes a line. Waits for room in a pipe, until the line is `given_up`.
    pub(super) fn write(&mut self, line: &[u8], given_up: impl Fn() -> bool) -> io::Result<()> {
        let mut rest = line;
        while !rest.is_empty() {
            let Some(file) = &mut self.open else { return io::stdout().lock().write_all(line) };
            match file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let ready =
                        poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(ROOM_WAIT_MS));
                    if given_up() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    if ready == Ok(0) && self.look() {
                        rest = line;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens the file again if it was moved away, as logrotate does. As long as no other one can be opened, the old one
    /// stays. Returns whether it is another one.
    pub(super) fn look(&mut self) -> bool {
        if !self.is_moved() {
            return false;
        }
        match open(&self.path) {
            Ok(file) => {
                self.open = Some(file);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the audit log was moved, and cannot be opened again");
                false
            }
        }
    }

    fn is_moved(&self) -> bool {
        let Some(open) = self.open.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        let now = self.path.metadata().map(|at_path| (at_path.dev(), at_path.ino()));
        now.map_or(true, |now| now != (open.dev(), open.ino()))
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Otherwise the opener of a pipe would wait for its reader, and each writer for room in it.
    let opened = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(O_NONBLOCK).open(path);
    opened.map_err(|error| {
        let is_pipe = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
        if is_pipe && error.raw_os_error() == Some(Errno::ENXIO as i32) {
            io::Error::new(ErrorKind::NotConnected, "it is a pipe that nobody reads: start its reader first")
        } else {
            error
        }
    })
}
