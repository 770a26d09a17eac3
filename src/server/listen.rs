//! Accepting connections.

use socket2::{SockRef, TcpKeepalive};
use std::{io, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::Stream;

/// How long to wait after an accept that failed. Without it a process that is out of file descriptors would spin: the
/// connection stays in the backlog and accept fails at once, again and again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// After this much silence the kernel probes a connection. HTTP/2 pings come first; this is for connections that never spoke it.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// The connections that come in. Never ends.
pub(super) fn connections(listener: TcpListener) -> impl Stream<Item = Result<TcpStream, io::Error>> {
    async_stream::stream! {
        loop {
            match listener.accept().await.and_then(|(stream, _)| prepare(&stream).map(|()| stream)) {
                Ok(stream) => yield Ok(stream),
                // The peer went away between its connect and our accept: nothing is wrong here.
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::InvalidInput) => {}
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed; trying again shortly");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE))
}
