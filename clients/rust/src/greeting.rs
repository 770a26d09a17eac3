//! The first bytes that a server sends on a connection: they show whether it speaks gRPC.
//!
//! An HTTP/2 server begins each connection with a SETTINGS frame. tonic does not wait for it, and its errors hardly
//! distinguish a missing frame from a connection that broke later. So the first bytes of each connection are inspected
//! here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The length of an HTTP/2 frame header: 3 bytes of length, then type, flags and stream.
const HEAD: usize = 9;
/// Type, flags and stream of the expected first frame: SETTINGS, without the ACK flag, on stream 0.
const SETTINGS: [u8; HEAD - 3] = [4, 0, 0, 0, 0, 0];
/// The start of a TLS alert record, with which a TLS server refuses plain text.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
/// The most bytes that an error message shows of a foreign protocol.
const SHOWN_MAX: usize = 60;

/// What connections to one server have received first.
#[derive(Debug, Default)]
pub(crate) struct Greeting(Mutex<FirstBytes>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum FirstBytes {
    /// No connection yet.
    #[default]
    NotConnected,
    /// A connection was established, and nothing has arrived.
    Nothing,
    /// A connection was closed before anything arrived.
    Closed,
    Http2,
    /// The first bytes of another protocol.
    Other(Vec<u8>),
}

/// The evidence that a server does not speak gRPC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotGrpc {
    /// Completes a sentence that starts with the server's address.
    pub(crate) words: String,
    /// Whether it may be a gRPC server that hangs or stops, and has read the request.
    pub(crate) maybe_hangs: bool,
}

impl Greeting {
    fn first_bytes(&self) -> MutexGuard<'_, FirstBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was established. Earlier evidence stays until something else arrives.
    pub(crate) fn connected(&self) {
        let mut first_bytes = self.first_bytes();
        if *first_bytes == FirstBytes::NotConnected {
            *first_bytes = FirstBytes::Nothing;
        }
    }

    /// A connection was closed before its greeting. A server that spoke HTTP/2 before is now stopping or hanging.
    fn closed(&self) {
        let mut first_bytes = self.first_bytes();
        if *first_bytes != FirstBytes::Http2 {
            *first_bytes = FirstBytes::Closed;
        }
    }

    /// The evidence that the server does not speak gRPC; `None` if it may.
    pub(crate) fn not_grpc(&self) -> Option<NotGrpc> {
        let because = |why: &str, maybe_hangs| Some(NotGrpc { words: why.to_owned(), maybe_hangs });
        match &*self.first_bytes() {
            FirstBytes::NotConnected | FirstBytes::Http2 => None,
            FirstBytes::Nothing => {
                because("does not speak gRPC, or hangs (it accepted the connection and sent nothing)", true)
            }
            FirstBytes::Closed => because("does not speak gRPC (it closed the connection and sent nothing)", true),
            FirstBytes::Other(bytes) if bytes.starts_with(&TLS_ALERT) => {
                because("does not speak gRPC without TLS (it sent a TLS alert)", false)
            }
            FirstBytes::Other(bytes) => because(&format!("does not speak gRPC (it sent {})", shown(bytes)), false),
        }
    }
}

/// The first line, if it is text.
fn shown(bytes: &[u8]) -> String {
    let line: Vec<u8> = bytes.iter().copied().take_while(|byte| !b"\r\n".contains(byte)).collect();
    match String::from_utf8(line) {
        Ok(line) if !line.is_empty() && !line.contains(char::is_control) => format!("{line:?}"),
        _ => "bytes that are not HTTP/2".to_owned(),
    }
}

/// A connection whose first bytes are inspected.
#[derive(Debug)]
pub(crate) struct InspectedStream {
    stream: TcpStream,
    greeting: Arc<Greeting>,
    /// The first bytes, until the greeting is complete.
    first: Option<Vec<u8>>,
}

impl InspectedStream {
    pub(crate) fn new(stream: TcpStream, greeting: Arc<Greeting>) -> Self {
        greeting.connected();
        Self { stream, greeting, first: Some(Vec::new()) }
    }

    /// The connection broke or was closed.
    fn ended(&self) {
        if self.first.as_ref().is_some_and(Vec::is_empty) {
            self.greeting.closed();
        }
    }

    fn written<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Err(_))) {
            self.ended();
        }
        result
    }

    /// Inspects received bytes, none at the end of the stream. Fails if the protocol is not HTTP/2.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.ended();
            return Ok(());
        }
        let Some(first) = &mut self.first else { return Ok(()) };
        first.extend(&bytes[..bytes.len().min(SHOWN_MAX)]);
        let known = first.len().min(HEAD);
        // A server's first frame is never 64 KiB or more, but text looks like that.
        if first[0] != 0 || first.get(3..known).is_some_and(|rest| !SETTINGS.starts_with(rest)) {
            first.truncate(SHOWN_MAX);
            *self.greeting.first_bytes() = FirstBytes::Other(self.first.take().unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP/2"));
        }
        if known == HEAD {
            self.first = None;
            *self.greeting.first_bytes() = FirstBytes::Http2;
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
            Err(_) => {
                this.ended();
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for InspectedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Reads a new connection on which the server sends these parts and then closes it.
    async fn listened(greeting: &Arc<Greeting>, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        let (mut server, _) = listener.accept().await?;
        let (mut client, mut read) = (InspectedStream::new(stream, greeting.clone()), Vec::new());
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
        assert_eq!(greeting.not_grpc(), None);
        // A server that spoke HTTP/2 is still one after it closes a connection, unless another protocol replaces it.
        listened(&greeting, &[]).await.unwrap();
        assert_eq!(greeting.not_grpc(), None);
        listened(&greeting, &[b"220 mail.example\r\n"]).await.unwrap_err();
        assert!(greeting.not_grpc().unwrap().words.contains("220 mail.example"));
    }

    #[tokio::test]
    async fn a_first_frame_that_is_no_settings_is_no_greeting() {
        for head in [[0, 0, 8, 6, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0], [0, 0, 0, 4, 0, 0, 0, 0, 1]] {
            let greeting = Arc::default();
            listened(&greeting, &[&head]).await.unwrap_err();
            assert!(!greeting.not_grpc().unwrap().maybe_hangs, "{head:?}");
        }
    }
}
