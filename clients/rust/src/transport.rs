//! A connection to a server, whose first bytes are inspected.
//!
//! An HTTP/2 server begins each connection with a SETTINGS frame. tonic does not wait for it.

use crate::greeting::{Greeting, SHOWN_MAX};
use crate::tls::{self, Identity, Shown};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// The length of an HTTP/2 frame header: 3 bytes of length, then type, flags and stream.
const HEAD: usize = 9;
/// Type, flags and stream of the expected first frame: SETTINGS, without the ACK flag, on stream 0.
const SETTINGS: [u8; HEAD - 3] = [4, 0, 0, 0, 0, 0];

/// A connection, with or without TLS.
pub(crate) type Transport = Either<TcpStream, Either<LocalStream, TlsStream<TcpStream>>>;

#[cfg(unix)]
pub(crate) type LocalStream = tokio::net::UnixStream;
/// Never made, because there are no addresses of Unix sockets.
#[cfg(not(unix))]
pub(crate) type LocalStream = TcpStream;

/// A connection whose first bytes are inspected.
#[derive(Debug)]
pub(crate) struct InspectedStream {
    stream: Transport,
    greeting: Arc<Greeting>,
    /// The first bytes, until the greeting is complete.
    first: Option<Vec<u8>>,
    /// The client's certificate, if the connection uses TLS.
    identity: Option<Arc<Identity>>,
    /// Set when the greeting has arrived.
    greeted: Arc<AtomicBool>,
}

impl InspectedStream {
    pub(crate) fn new(stream: Transport, greeting: Arc<Greeting>, identity: Option<Arc<Identity>>) -> Self {
        greeting.connected();
        Self { stream, greeting, first: Some(Vec::new()), identity, greeted: Arc::default() }
    }

    /// Reports here when the greeting has arrived.
    pub(crate) fn reporting(mut self, greeted: Arc<AtomicBool>) -> Self {
        self.greeted = greeted;
        self
    }

    /// The connection broke, or was closed by the server. What follows the first error says nothing more.
    fn ended(&mut self, error: Option<&io::Error>) {
        if !self.first.take().is_some_and(|first| first.is_empty()) {
            return;
        }
        let Some(shown) = self.identity.as_ref().map(|identity| identity.shown()) else {
            return self.greeting.closed(matches!(self.stream, Either::Left(_)));
        };
        match error {
            // The error of TLS itself, such as an alert.
            Some(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                self.greeting.tls_failed(tls::explain(error, shown));
            }
            // The connection ended after a request for a certificate: that may be the reason.
            _ if shown != Shown::NotAsked => {
                self.greeting.tls_failed(tls::explain(&io::ErrorKind::UnexpectedEof.into(), shown));
            }
            _ => self.greeting.closed(false),
        }
    }

    /// Passes on the result of a write. If it failed before the greeting, the server may have said why.
    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Err(_))) && self.first.is_some() {
            let mut bytes = [0; SHOWN_MAX];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                // The caller has its error already.
                Poll::Ready(Ok(())) => drop(self.receive(buffer.filled())),
                Poll::Ready(Err(said)) => self.ended(Some(&said)),
                // The end of a broken connection can be read in a moment, which wakes this task.
                Poll::Pending => return Poll::Pending,
            }
        }
        result
    }

    /// Inspects received bytes, none at the end of the stream. Fails if the protocol is not HTTP/2.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.ended(None);
            return Ok(());
        }
        let Some(first) = &mut self.first else { return Ok(()) };
        first.extend(&bytes[..bytes.len().min(SHOWN_MAX)]);
        let known = first.len().min(HEAD);
        // A server's first frame is never 64 KiB or more, but text looks like that.
        if first[0] != 0 || first.get(3..known).is_some_and(|rest| !SETTINGS.starts_with(rest)) {
            first.truncate(SHOWN_MAX);
            self.greeting.spoke_otherwise(self.first.take().unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP/2"));
        }
        if known == HEAD {
            self.first = None;
            self.greeting.spoke_http2();
            self.greeted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl AsyncRead for InspectedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buffer));
        match &read {
            Ok(()) => Poll::Ready(this.receive(&buffer.filled()[before..])),
            Err(error) => {
                this.ended(Some(error));
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for InspectedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(cx);
        this.written(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greeting::{Evidence, Why};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Reads a new connection on which the server sends these parts and then closes it.
    async fn listened(greeting: &Arc<Greeting>, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        let (mut server, _) = listener.accept().await?;
        let (mut client, mut read) = (InspectedStream::new(Either::Left(stream), greeting.clone(), None), Vec::new());
        for part in parts {
            server.write_all(part).await?;
            // Wait for this part before sending the next one.
            let mut arrived = vec![0; part.len()];
            client.read_exact(&mut arrived).await?;
            read.extend(arrived);
        }
        drop(server);
        client.read_to_end(&mut read).await?;
        Ok(read)
    }

    #[tokio::test]
    async fn a_greeting_may_arrive_in_parts() {
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        let (greeting, parts) = (Arc::default(), settings.chunks(1).collect::<Vec<_>>());
        assert_eq!(listened(&greeting, &parts).await.unwrap(), settings, "bytes pass through unchanged");
        assert_eq!(greeting.evidence(), None);
        // A server that spoke HTTP/2 is still one after it closes a connection, unless another protocol replaces it.
        listened(&greeting, &[]).await.unwrap();
        assert_eq!(greeting.evidence(), None);
        listened(&greeting, &[b"220 mail.example\r\n"]).await.unwrap_err();
        let Some(Evidence { why: Why::NotGrpc(words), maybe_sent, .. }) = greeting.evidence() else { panic!() };
        assert!(
            words.contains("220 mail.example") && maybe_sent,
            "the connection that failed may have worked: {words}"
        );
    }

    #[tokio::test]
    async fn a_first_frame_that_is_no_settings_is_no_greeting() {
        for head in [[0, 0, 8, 6, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0], [0, 0, 0, 4, 0, 0, 0, 0, 1]] {
            let greeting = Arc::default();
            listened(&greeting, &[&head]).await.unwrap_err();
            assert!(!greeting.evidence().unwrap().maybe_sent, "{head:?}");
        }
    }
}
