//! The first bytes of a connection. HTTP/2 starts with a fixed preface; anything else is recognized as far as possible,
//! because the usual reasons are a wrong port or a client that expects TLS where there is none.
//!
//! The preface is read before HTTP/2 gets the connection: hyper would wait for it without a bound, also in a drain
//! (hyper #4170).

use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What each HTTP/2 client sends first (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of a TLS connection: a record of the handshake.
const TLS_HANDSHAKE: u8 = 22;

/// What the first bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The preface of HTTP/2, or its beginning.
    Http2,
    /// A request of HTTP/1.
    Http1,
    /// A TLS handshake.
    Tls,
    Unknown,
}

impl Protocol {
    pub(super) fn of(first: &[u8]) -> Self {
        const METHODS: [&[u8]; 8] =
            [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT "];
        match first {
            [TLS_HANDSHAKE, ..] => Self::Tls,
            _ if METHODS.iter().any(|method| first.starts_with(method)) => Self::Http1,
            _ if PREFACE.starts_with(&first[..first.len().min(PREFACE.len())]) => Self::Http2,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Http2 => "HTTP/2 without TLS",
            Self::Http1 => "HTTP/1",
            Self::Tls => "TLS",
            Self::Unknown => "neither HTTP/2 nor TLS",
        })
    }
}

/// Reads the preface and nothing beyond it. Otherwise returns what the first bytes look like; `None` if the client has
/// closed the connection without a byte.
pub(super) async fn read(transport: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<(), Option<Protocol>>> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    while length < PREFACE.len() {
        let read = transport.read(&mut first[length..]).await?;
        length += read;
        let bytes = &first[..length];
        if length == 0 {
            return Ok(Err(None));
        }
        if read == 0 || !PREFACE.starts_with(bytes) {
            return Ok(Err(Some(Protocol::of(bytes))));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn the_usual_protocols_are_recognized() {
        for (bytes, protocol) in [
            (PREFACE, Protocol::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore", Protocol::Http2),
            (b"PRI", Protocol::Http2),
            (b"POST /a HTTP/1.1\r\n", Protocol::Http1),
            (b"GET / HTTP/1.0\r\n\r\n", Protocol::Http1),
            (&[22, 3, 1, 2, 0], Protocol::Tls),
            (b"GETAWAY", Protocol::Unknown),
            (b"PRICE", Protocol::Unknown),
            (b"SSH-2.0-OpenSSH", Protocol::Unknown),
            (&[0], Protocol::Unknown),
        ] {
            assert_eq!(Protocol::of(bytes), protocol, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn the_preface_is_read_in_pieces_and_not_beyond() {
        let (mut client, mut server) = tokio::io::duplex(1_024);
        let reading = async {
            assert_eq!(read(&mut server).await.unwrap(), Ok(()));
            let mut rest = [0; 4];
            server.read_exact(&mut rest).await.unwrap();
            assert_eq!(&rest, b"next");
        };
        let writing = async {
            for byte in PREFACE {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.write_all(b"next").await.unwrap();
        };
        tokio::join!(reading, writing);
    }

    #[tokio::test]
    async fn other_beginnings_are_refused_as_soon_as_they_differ() {
        for (bytes, found) in [
            (&b""[..], None),
            (b"PRI * HTTP/1", Some(Protocol::Unknown)),
            (b"PRI * HTTP", Some(Protocol::Http2)),
            (b"P", Some(Protocol::Http2)),
            (b"X", Some(Protocol::Unknown)),
        ] {
            let (mut client, mut server) = tokio::io::duplex(1_024);
            client.write_all(bytes).await.unwrap();
            if found != Some(Protocol::Unknown) {
                // Here only the end of the connection says that no more bytes follow.
                client.shutdown().await.unwrap();
            }
            assert_eq!(read(&mut server).await.unwrap(), Err(found), "{bytes:?}");
        }
    }
}
