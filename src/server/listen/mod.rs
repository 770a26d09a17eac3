//! Opens the sockets that the server listens on.

pub(super) mod tcp;
mod unix;

use super::{access, audit, tls::Tls};
use crate::{
    access::Access,
    api::peer::Peer,
    config::{Config, ConfigError, Listen, Problem},
    telemetry::audit::AuditFile,
};
use std::{
    fmt,
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address and the options of TLS do not fit together, or a file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The socket cannot be opened.
    #[error("{error} ({advice})")]
    Socket {
        /// What failed.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> Self {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "another process uses the port; choose another one with --listen",
            ErrorKind::AddrNotAvailable => "this machine does not have the address; choose another one with --listen",
            _ => "choose another address with --listen",
        };
        Self::Socket { error, advice }
    }
}

/// The sockets that the server listens on, its TLS, its access file, and its audit log.
#[derive(Debug)]
pub struct Listeners {
    pub(super) sockets: Vec<Listener>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) access: Option<Arc<Access>>,
    pub(super) audit: Option<AuditFile>,
}

impl Listeners {
    /// Whether other machines can reach any of the sockets.
    pub fn is_reachable(&self) -> io::Result<bool> {
        for socket in &self.sockets {
            if let Listener::Tcp(socket) = socket
                && !socket.local_addr()?.ip().to_canonical().is_loopback()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The addresses as clients write them.
    pub fn addresses(&self) -> io::Result<Vec<String>> {
        self.sockets.iter().map(Listener::address).collect()
    }
}

/// Loads the files of TLS and the access file, and opens the audit log and the sockets. Needs a running tokio runtime.
pub async fn bind(config: &Config) -> Result<Listeners, ListenError> {
    let tls = config.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let access = config.access.clone().map(access::load).transpose()?;
    let audit = audit::open(config)?;
    let sockets = match &config.listen {
        Listen::Unix(path) => vec![Listener::Unix(unix::Socket::open(path).await?)],
        Listen::Tcp(address) => {
            let sockets = tcp::bind(address).await?;
            if tls.is_none() && !config.plaintext {
                for socket in &sockets {
                    only_loopback("listen", &config.listen, socket.local_addr()?, TLS_OR_PLAINTEXT)?;
                }
            }
            sockets.into_iter().map(Listener::Tcp).collect()
        }
    };
    Ok(Listeners { sockets, tls, access, audit })
}

/// What to do about an API without TLS.
const TLS_OR_PLAINTEXT: &str = "has no TLS, so anybody on the network could read lease ids: give a certificate \
                                (--tls-cert FILE and --tls-key FILE), or --plaintext if the network is trusted";

/// Refuses to serve plain text on an address that other machines can reach. `why` says what is at stake and what to do.
pub(super) fn only_loopback(
    option: &str,
    listen: &dyn fmt::Display,
    bound: SocketAddr,
    why: &str,
) -> Result<(), ConfigError> {
    let ip = bound.ip().to_canonical();
    if ip.is_loopback() {
        return Ok(());
    }
    let rule = format!("other machines can reach {ip}, and this port {why}");
    Err(ConfigError { problems: vec![Problem { at: option.to_owned(), value: listen.to_string(), rule }] })
}

/// A socket that the server listens on.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(unix::Socket),
}

/// An accepted connection, before any byte was read.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listener {
    fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(socket) => Ok(socket.local_addr()?.to_string()),
            Self::Unix(socket) => Ok(format!("unix:{}", socket.path().display())),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(socket) => socket.accept().await.map(|(stream, peer)| Accepted::Tcp(stream, peer)),
            Self::Unix(socket) => socket.accept().await.map(Accepted::Unix),
        }
    }
}

impl Accepted {
    pub(super) fn peer(&self) -> Peer {
        match self {
            Self::Tcp(_, peer) => Peer::Tcp(*peer),
            Self::Unix(_) => Peer::Unix,
        }
    }
}
