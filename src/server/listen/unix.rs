//! A Unix socket: a file that only the user of the server may connect to.
//!
//! A server that was killed leaves its file behind. The next one removes it, but only if nobody listens there.

use super::{BACKLOG, ListenError};
use socket2::{Domain, SockAddr, Socket as RawSocket, Type};
use std::{
    fs::{self, File, Permissions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

/// Who may connect: the user of the server. Others cannot, because a connection may force the release of any lock.
const MODE: u32 = 0o600;
/// How long a server waits for another one that opens a socket in the same folder, which takes microseconds.
const FOLDER_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const FOLDER_LOCK_RETRY: Duration = Duration::from_millis(10);

const CHOOSE_PATH: &str = "choose another path with --listen unix:/path";

/// A listening Unix socket. Dropped, it removes its file.
#[derive(Debug)]
pub(in crate::server) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Listens at this path.
    pub(super) async fn open(path: &Path) -> Result<Self, ListenError> {
        // Two servers that start at the same time could both find a dead socket, and one would remove the new socket of
        // the other.
        let _lock = lock_folder(path).await?;
        remove_dead(path)?;
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None).map_err(cannot_open)?;
        socket.set_nonblocking(true).map_err(cannot_open)?;
        socket.bind(&SockAddr::unix(path).map_err(cannot_open)?).map_err(cannot_open)?;
        // Before it listens, so that nobody else can connect in between.
        fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(cannot_open)?;
        socket.listen(BACKLOG).map_err(cannot_open)?;
        let file = identity(path).map_err(cannot_open)?;
        let listener = UnixListener::from_std(socket.into()).map_err(cannot_open)?;
        Ok(Self { listener, path: path.to_owned(), file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have removed the file, and another server may have made a new one.
        if identity(&self.path).is_ok_and(|file| file == self.file)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

fn cannot_open(error: io::Error) -> ListenError {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "the folder must be writable for the user of the server",
        ErrorKind::NotFound => "make the folder first",
        _ => CHOOSE_PATH,
    };
    ListenError::Socket { error, advice }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Locks the folder of the socket until the returned file is dropped.
async fn lock_folder(path: &Path) -> Result<File, ListenError> {
    let folder = File::open(path.parent().unwrap_or(path)).map_err(cannot_open)?;
    let locked = timeout(FOLDER_LOCK_TIMEOUT, async {
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => sleep(FOLDER_LOCK_RETRY).await,
                Err(TryLockError::Error(error)) => return Err(cannot_open(error)),
            }
        }
    });
    match locked.await {
        Ok(locked) => locked.map(|()| folder),
        Err(_) => Err(ListenError::Socket {
            error: ErrorKind::WouldBlock.into(),
            advice: "another process holds a lock (flock) on the folder of the socket; choose another folder",
        }),
    }
}

/// Removes the socket of a server that has died.
fn remove_dead(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_open(error)),
        Ok(file) if !file.file_type().is_socket() => {
            let error = io::Error::new(ErrorKind::AlreadyExists, "the file exists and is not a socket");
            return Err(ListenError::Socket { error, advice: CHOOSE_PATH });
        }
        Ok(_) => {}
    }
    let probe = RawSocket::new(Domain::UNIX, Type::STREAM, None).map_err(cannot_open)?;
    // Otherwise it would wait while the other process has a full backlog.
    probe.set_nonblocking(true).map_err(cannot_open)?;
    match probe.connect(&SockAddr::unix(path).map_err(cannot_open)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(cannot_open),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(cannot_open(error)),
        Ok(()) | Err(_) => {
            let error = io::Error::new(ErrorKind::AddrInUse, "another process listens on this socket");
            Err(ListenError::Socket { error, advice: CHOOSE_PATH })
        }
    }
}
