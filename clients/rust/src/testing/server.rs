//! The real server, as a child process that fails when it is told to.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The environment variable that names the program.
const PROGRAM_VARIABLE: &str = "FENCEPOST_BIN";
/// The store of the server, unless the options name another one.
const MEMORY: &str = "memory:";
/// The program if the variable is not set.
const PROGRAM: &str = "fencepost";

/// The longest time until a server listens: far more than it takes on a busy machine.
const START_MAX: Duration = Duration::from_secs(30);
/// The longest time until an order is carried out.
const ORDER_MAX: Duration = Duration::from_secs(10);
/// The pause between two looks at the port file.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A real server: a process of its own on a free port of 127.0.0.1, with its locks in memory, that loses locks and
/// replies, and pauses, when it is told to. Dropped, it is killed.
///
/// The program is the one that the environment variable `FENCEPOST_BIN` names, else `fencepost` on the `PATH`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use fencepost_client::{Client, LossCause, testing::Server};
///
/// let server = Server::start().await?;
/// let client = Client::new(server.address())?;
/// let lock = client.acquire("orders/42").await?;
/// server.lose("orders/42").await?;
/// assert_eq!(lock.lost().await.cause, LossCause::Revoked);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Server {
    process: Process,
    address: String,
    /// Takes orders to fail. None beside another store.
    faults: Option<String>,
}

impl Server {
    /// Starts a server, and waits until it listens. Dropped, it leaves no process behind.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with([""; 0]).await
    }

    /// Starts a server with more options of `fencepost serve`, such as `["--ttl-min", "200ms"]`. With `--store` and
    /// another store than `memory:` it takes no orders to fail, but for a pause.
    pub async fn start_with<I, S>(options: I) -> Result<Self, StartError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let named = env::var_os(PROGRAM_VARIABLE).filter(|named| !named.is_empty());
        let program = named.unwrap_or_else(|| PROGRAM.into());
        // The server has read its files when this folder goes.
        let folder = tempfile::tempdir().map_err(StartError::Folder)?;
        let (port_file, log) = (folder.path().join("port"), folder.path().join("log"));
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--port-file"]).arg(&port_file);
        command.args(["--admin-listen", "none", "--admin-service", "everywhere"]);
        let options: Vec<OsString> = options.into_iter().map(|option| option.as_ref().to_owned()).collect();
        let store = store_in(&options);
        if store.is_none() {
            command.args(["--store", MEMORY]);
        }
        let fails = store.is_none_or(|store| store == MEMORY);
        if fails {
            command.args(["--test-faults", "127.0.0.1:0"]);
        }
        command.args(options).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&log).map_err(StartError::Folder)?);
        let spawned = command.spawn();
        let program = || program.to_string_lossy().into_owned();
        let child = spawned.map_err(|cause| StartError::NotRun { program: program(), cause })?;
        let mut process = Process(child);
        match tokio::time::timeout(START_MAX, process.addresses(&port_file)).await {
            Ok(Some((address, faults))) => Ok(Self { process, address, faults: fails.then_some(faults) }),
            ended_or_silent => {
                let what = if ended_or_silent.is_ok() { "ended" } else { "did not listen" };
                let log = fs::read(&log).map_err(StartError::Folder)?;
                Err(StartError::Failed { program: program(), what, log: String::from_utf8_lossy(&log).into_owned() })
            }
        }
    }

    /// Where it listens, as [`Client::new`](crate::Client::new) takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Revokes the lease of a lock, as an operator does.
    pub async fn lose(&self, name: &str) -> Result<(), LoseError> {
        match self.order("/lose", name).await? {
            (404, _) => Err(LoseError::NotHeld { name: name.to_owned() }),
            (204, _) => Ok(()),
            (_, why) => Err(LoseError::Order(io::Error::other(why))),
        }
    }

    /// Loses the reply to the next acquire, release or renewal that succeeds, together with all connections of the
    /// server. What was asked for is done: the client asks again, with the same ids. Each call loses one reply.
    pub async fn drop_reply(&self) -> io::Result<()> {
        match self.order("/drop-reply", "").await? {
            (204, _) => Ok(()),
            (_, why) => Err(io::Error::other(why)),
        }
    }

    /// The HTTP status of the reply to an order, and its text.
    async fn order(&self, path: &str, body: &str) -> io::Result<(u16, String)> {
        let to = self.faults.as_ref().ok_or_else(|| io::Error::other("only a server with --store memory: can"))?;
        let length = body.len();
        let head = "Content-Type: text/plain\r\nConnection: close\r\n";
        let order = format!("POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\n{head}\r\n{body}");
        let reply = async {
            let mut stream = TcpStream::connect(to).await?;
            stream.write_all(order.as_bytes()).await?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await?;
            Ok::<_, io::Error>(reply)
        };
        let reply = tokio::time::timeout(ORDER_MAX, reply).await.map_err(io::Error::other)??;
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
        let text = reply.split_once("\r\n\r\n").map(|(_, text)| text.trim().to_owned());
        status.zip(text).ok_or_else(|| io::Error::other("it answered with something else than HTTP"))
    }

    /// Stops the process (SIGSTOP) until [`resume`](Self::resume): connections stay open, and nobody answers.
    #[cfg(unix)]
    pub fn pause(&self) -> io::Result<()> {
        self.process.signal(rustix::process::Signal::STOP)
    }

    /// Ends a pause.
    #[cfg(unix)]
    pub fn resume(&self) -> io::Result<()> {
        self.process.signal(rustix::process::Signal::CONT)
    }
}

/// The store that options of the server name.
fn store_in(options: &[OsString]) -> Option<&OsStr> {
    options.iter().enumerate().find_map(|(at, option)| match option.to_str()?.strip_prefix("--store")? {
        "" => options.get(at + 1).map(OsString::as_os_str),
        rest => rest.strip_prefix('=').map(OsStr::new),
    })
}

/// Kills the process when it is dropped, and waits for its end.
#[derive(Debug)]
struct Process(Child);

impl Process {
    /// The first and the last address in the port file; `None` if the process ends first.
    async fn addresses(&mut self, port_file: &Path) -> Option<(String, String)> {
        loop {
            // The server renames a complete file to this name.
            if let Ok(addresses) = fs::read_to_string(port_file) {
                let mut lines = addresses.lines().map(str::to_owned);
                let first = lines.next()?;
                return Some((first.clone(), lines.next_back().unwrap_or(first)));
            }
            if !matches!(self.0.try_wait(), Ok(None)) {
                return None;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        // The id is that of this process until its end has been waited for, which `drop` does.
        Ok(rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Why [`Server::lose`] did not revoke a lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoseError {
    /// Nobody holds the lock.
    #[error("nobody holds lock {name:?}")]
    NotHeld {
        /// The name of the lock.
        name: String,
    },
    /// The server could not be asked.
    #[error("cannot order a fault of the server: {0}")]
    Order(#[from] io::Error),
}

/// Why a [`Server`] did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program cannot be run.
    #[error(
        "cannot run `{program}`, the program of the server: {cause}. Set {PROGRAM_VARIABLE} to its path, or put \
         `{PROGRAM}` on the PATH"
    )]
    NotRun {
        /// The program.
        program: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The server ended, or did not listen in time.
    #[error("`{program} serve` {what}. Its log: {log}")]
    Failed {
        /// The program.
        program: String,
        /// What it did.
        what: &'static str,
        /// What it wrote to its stderr.
        log: String,
    },
    /// The folder for the port file and the log cannot be used.
    #[error("cannot use a temporary folder: {0}")]
    Folder(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_found_among_the_options() {
        let store = |options: &[&str]| {
            let options: Vec<OsString> = options.iter().map(OsString::from).collect();
            store_in(&options).map(OsStr::to_owned)
        };
        assert_eq!(store(&["--ttl-min", "1s"]), None);
        assert_eq!(store(&["--store-ca", "a.pem", "--store-key=b.pem"]), None);
        assert_eq!(store(&["--ttl-min", "1s", "--store", "memory:"]), Some(MEMORY.into()));
        assert_eq!(store(&["--store=redis://a", "--plaintext"]), Some("redis://a".into()));
    }
}
