//! Accepts connections, within bounds. Each handshake has a task of its own, so that a slow client delays nobody.

mod admission;
mod connection;
mod frames;
mod handshake;
mod preface;

pub(super) use admission::Admission;
pub(super) use connection::Connection;

use super::{
    backlog::Backlogs,
    listen::{Accepted, Listener},
    refusals::Refusals,
    tls::Tls,
};
use crate::{
    api::peer::Peer,
    telemetry::metrics::{Bound, ConnectionMetrics},
};
use admission::Permit;
use futures_util::stream::select_all;
use handshake::{Failure, handshake};
use socket2::{SockRef, TcpKeepalive};
use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_stream::{Stream, StreamExt};

/// The time of a handshake, TLS and the preface of HTTP/2: a few round trips, and some packets that are sent again.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept. Without it, a process without free file descriptors would spin, because the
/// connection stays in the backlog and accept fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The kernel probes a connection after this idle time. HTTP/2 pings come earlier; this is for machines that vanish
/// while their connection is closed.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Decides which connections may come in.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) admission: Arc<Admission>,
    pub(super) backlogs: Backlogs,
    pub(super) refusals: Arc<Refusals>,
    pub(super) metrics: Arc<ConnectionMetrics>,
}

/// The connections of all listeners, after their handshakes. Never ends. Dropped, it closes the listeners and the
/// connections whose handshakes are under way.
pub(super) fn connections(listeners: Vec<Listener>, gate: Gate) -> impl Stream<Item = Connection> {
    let mut accepted = select_all(listeners.into_iter().map(|listener| Box::pin(accepted(listener))));
    async_stream::stream! {
        let mut handshakes = JoinSet::new();
        loop {
            tokio::select! {
                Some(ended) = handshakes.join_next() => {
                    if let Ok(Some(connection)) = ended {
                        yield connection;
                    }
                }
                Some(new) = accepted.next() => {
                    let peer = new.peer();
                    match gate.admission.admit(peer) {
                        Ok(permit) => drop(handshakes.spawn(gate.clone().open(new, permit))),
                        Err(bound) => gate.refusals.count(bound, Some(peer)),
                    }
                }
            }
        }
    }
}

/// The TCP connections of all listeners, as they come. Never ends.
pub(super) fn accepted_tcp(listeners: Vec<TcpListener>) -> impl Stream<Item = (TcpStream, Peer)> {
    let each = listeners.into_iter().map(|listener| Box::pin(accepted(Listener::Tcp(listener))));
    select_all(each).filter_map(|new| match new {
        Accepted::Tcp(stream, peer) => Some((stream, Peer::Tcp(peer))),
        Accepted::Unix(_) => None,
    })
}

fn accepted(listener: Listener) -> impl Stream<Item = Accepted> {
    async_stream::stream! {
        loop {
            match listener.accept().await.and_then(prepared) {
                Ok(new) => yield new,
                // The peer closed the connection before we accepted it: not an error.
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed; trying again shortly");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::InvalidInput)
}

fn prepared(new: Accepted) -> io::Result<Accepted> {
    if let Accepted::Tcp(stream, _) = &new {
        stream.set_nodelay(true)?;
        SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE))?;
    }
    Ok(new)
}

impl Gate {
    /// Carries out the handshake. `None` if it fails; the reason is in the log.
    async fn open(self, new: Accepted, mut permit: Permit) -> Option<Connection> {
        let peer = new.peer();
        match timeout(HANDSHAKE_TIMEOUT, handshake(new, self.tls.map(|tls| tls.config()), &self.metrics)).await {
            Ok(Ok(transport)) => {
                permit.end_handshake();
                return Some(Connection::after_preface(transport, peer, permit, self.backlogs.open(), self.refusals));
            }
            Ok(Err(why @ (Failure::Closed | Failure::Io(_)))) => {
                tracing::debug!(%peer, %why, "a connection ended before its handshake");
            }
            Ok(Err(Failure::Protocol(why))) => self.refusals.protocol(peer, &why),
            Ok(Err(Failure::Tls(why))) => self.refusals.log_connection(peer, &why),
            Err(_) => self.refusals.count(Bound::HandshakeTime, Some(peer)),
        }
        None
    }
}
