//! What a server says first on a connection, and so whether it speaks gRPC at all.
//!
//! An HTTP/2 server begins each connection with a SETTINGS frame. tonic does not wait for it, and its errors hardly
//! tell one that never came from a connection that broke later. So what comes on a connection is looked at here until
//! its greeting is known.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long the head of an HTTP/2 frame is: 3 bytes of length, then type, flags and stream.
const HEAD: usize = 9;
/// Type, flags and stream of the first frame: SETTINGS, that of the server and no acknowledgement, of no stream.
const SETTINGS: [u8; HEAD - 3] = [4, 0, 0, 0, 0, 0];
/// How a TLS server refuses a client that does not speak TLS: an alert record.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
/// How much is shown of what another server said.
const SHOWN_MAX: usize = 60;

/// What was heard on the connections to one server.
#[derive(Debug, Default)]
pub(crate) struct Greeting(Mutex<Heard>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Heard {
    /// No connection was made yet.
    #[default]
    NotAsked,
    /// A connection was made, and nothing came.
    Nothing,
    /// A connection was closed before anything came.
    Closed,
    Http2,
    /// Something else: its first bytes.
    Other(Vec<u8>),
}

/// Why a server is not taken for one that speaks gRPC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotGrpc {
    /// Follows the address of the server.
    pub(crate) words: String,
    /// May it be a server that hangs or ends, and reads what was sent all the same?
    pub(crate) perhaps_hangs: bool,
}

impl Greeting {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was made. What is known already stays until something else is heard.
    pub(crate) fn connected(&self) {
        let mut heard = self.heard();
        if *heard == Heard::NotAsked {
            *heard = Heard::Nothing;
        }
    }

    /// A server that spoke HTTP/2 before is one that hangs or ends now.
    fn closed(&self) {
        let mut heard = self.heard();
        if *heard != Heard::Http2 {
            *heard = Heard::Closed;
        }
    }

    /// Why the server is not taken for one that speaks gRPC; `None` if it may be one.
    pub(crate) fn not_grpc(&self) -> Option<NotGrpc> {
        let because = |why: &str, perhaps_hangs| Some(NotGrpc { words: why.to_owned(), perhaps_hangs });
        match &*self.heard() {
            Heard::NotAsked | Heard::Http2 => None,
            Heard::Nothing => {
                because("does not speak gRPC, or hangs (it accepted the connection and sent nothing)", true)
            }
            Heard::Closed => because("does not speak gRPC (it closed the connection and sent nothing)", true),
            Heard::Other(bytes) if bytes.starts_with(&TLS_ALERT) => {
                because("does not speak gRPC without TLS (it sent a TLS alert)", false)
            }
            Heard::Other(bytes) => because(&format!("does not speak gRPC (it sent {})", shown(bytes)), false),
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

/// A connection that is listened to until its greeting is known.
#[derive(Debug)]
pub(crate) struct Listened {
    stream: TcpStream,
    greeting: Arc<Greeting>,
    /// The first bytes, until they are known to be a greeting.
    first: Option<Vec<u8>>,
}

impl Listened {
    pub(crate) fn new(stream: TcpStream, greeting: Arc<Greeting>) -> Self {
        greeting.connected();
        Self { stream, greeting, first: Some(Vec::new()) }
    }

    /// It broke, or the other end closed it.
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

    /// Takes the next bytes in, none at the end. Fails if this is not HTTP/2.
    fn take_in(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.ended();
            return Ok(());
        }
        let Some(first) = &mut self.first else { return Ok(()) };
        first.extend(&bytes[..bytes.len().min(SHOWN_MAX)]);
        let known = first.len().min(HEAD);
        // A first frame of 64 KiB or more is none that a server begins with, but text is.
        if first[0] != 0 || first.get(3..known).is_some_and(|rest| !SETTINGS.starts_with(rest)) {
            first.truncate(SHOWN_MAX);
            *self.greeting.heard() = Heard::Other(self.first.take().unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP/2"));
        }
        if known == HEAD {
            self.first = None;
            *self.greeting.heard() = Heard::Http2;
        }
        Ok(())
    }
}

impl AsyncRead for Listened {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buffer));
        match &read {
            Ok(()) => Poll::Ready(this.take_in(&buffer.filled()[before..])),
            Err(_) => {
                this.ended();
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for Listened {
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

    /// Reads along on one more connection, on which the server sends these parts and then closes it.
    async fn listened(greeting: &Arc<Greeting>, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        let (mut server, _) = listener.accept().await?;
        let (mut client, mut read) = (Listened::new(stream, greeting.clone()), Vec::new());
        for part in parts {
            server.write_all(part).await?;
            // All of it has arrived before the next part is sent.
            let mut arrived = vec![0; part.len()];
            client.read_exact(&mut arrived).await?;
            read.extend(arrived);
        }
        drop(server);
        client.read_to_end(&mut read).await?;
        Ok(read)
    }

    #[tokio::test]
    async fn a_greeting_in_parts_is_one() {
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        let (greeting, parts) = (Arc::default(), settings.chunks(1).collect::<Vec<_>>());
        assert_eq!(listened(&greeting, &parts).await.unwrap(), settings, "it is passed on as it came");
        assert_eq!(greeting.not_grpc(), None);
        // What spoke HTTP/2 once does not stop to be gRPC because it goes away, but if something else took its place.
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
            assert!(!greeting.not_grpc().unwrap().perhaps_hangs, "{head:?}");
        }
    }
}
