//! An open connection that has begun to speak HTTP/2.

use super::{admission::Permit, frames::Frames, preface::PREFACE};
use crate::{
    api::peer::Peer,
    server::{
        backlog::{Backlog, Taken},
        refusals::Refusals,
    },
    telemetry::metrics::Bound,
};
use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::Instant,
};
use tokio_rustls::server::TlsStream;

/// What carries the bytes. An enum, so that plain TCP costs one comparison for each read and write.
#[derive(Debug)]
pub(super) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed, because it is a kilobyte.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection after its handshake.
#[derive(Debug)]
pub(in crate::server) struct Connection {
    transport: Transport,
    /// The bytes of the preface that have been read from the transport but not from this connection.
    preface: &'static [u8],
    /// What follows the preface.
    frames: Frames,
    backlog: Backlog,
    peer: Peer,
    refusals: Arc<Refusals>,
    _permit: Permit,
}

impl Connection {
    /// A connection whose preface has just been read from the transport.
    pub(super) fn after_preface(
        transport: Transport,
        peer: Peer,
        permit: Permit,
        backlog: Backlog,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            transport,
            preface: PREFACE,
            frames: Frames::new(Instant::now()),
            backlog,
            peer,
            refusals,
            _permit: permit,
        }
    }

    /// What the calls of this connection have taken of it.
    pub(in crate::server) fn taken(&self) -> Taken {
        self.backlog.taken()
    }

    pub(in crate::server) fn peer(&self) -> Peer {
        self.peer
    }

    /// The certificate of the client, as DER, if it showed one.
    pub(in crate::server) fn certificate(&self) -> Option<&[u8]> {
        match &self.transport {
            Transport::Tls(stream) => stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref),
            Transport::Tcp(_) | Transport::Unix(_) => None,
        }
    }

    fn transport(self: Pin<&mut Self>) -> &mut Transport {
        &mut self.get_mut().transport
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.preface.is_empty() {
            let (now, later) = self.preface.split_at(out.remaining().min(self.preface.len()));
            out.put_slice(now);
            self.preface = later;
            return Poll::Ready(Ok(()));
        }
        let before = out.filled().len();
        ready!(match &mut self.transport {
            Transport::Tcp(stream) => pin!(stream).poll_read(cx, out),
            Transport::Unix(stream) => pin!(stream).poll_read(cx, out),
            Transport::Tls(stream) => pin!(stream).poll_read(cx, out),
        })?;
        let (bound, why) = match self.frames.take(&out.filled()[before..]) {
            Some(data) if self.backlog.arrive(data) => return Poll::Ready(Ok(())),
            Some(_) => (Bound::Backlog, "there is no room for what the client sends"),
            None => (Bound::Settings, "the client sent too many SETTINGS frames"),
        };
        self.refusals.count(bound, Some(self.peer));
        Poll::Ready(Err(io::Error::other(why)))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.transport() {
            Transport::Tcp(stream) => pin!(stream).poll_write(cx, bytes),
            Transport::Unix(stream) => pin!(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => pin!(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.transport() {
            Transport::Tcp(stream) => pin!(stream).poll_write_vectored(cx, slices),
            Transport::Unix(stream) => pin!(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => pin!(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Tcp(stream) => stream.is_write_vectored(),
            Transport::Unix(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.transport() {
            Transport::Tcp(stream) => pin!(stream).poll_flush(cx),
            Transport::Unix(stream) => pin!(stream).poll_flush(cx),
            Transport::Tls(stream) => pin!(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.transport() {
            Transport::Tcp(stream) => pin!(stream).poll_shutdown(cx),
            Transport::Unix(stream) => pin!(stream).poll_shutdown(cx),
            Transport::Tls(stream) => pin!(stream).poll_shutdown(cx),
        }
    }
}
