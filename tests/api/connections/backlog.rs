//! Clients whose sessions take nothing, because the clients do not read: what they send has a bound for the whole
//! server.

use crate::{
    binary::Server,
    kept::Kept,
    metrics::{WITH_ADMIN, becomes, reaches},
    raw_calls::{GRPC, MESSAGE, RawCalls, head},
    support::until,
    tls_server::addr,
};
use bytes::Bytes;
use h2::{SendStream, client::Builder};
use tokio::net::TcpStream;

/// Sessions of a connection, and bytes on each: all that HTTP/2 lets a client send ahead.
const SESSIONS: usize = 64;
const WINDOW: usize = 256 * 1_024;
/// Bytes of such a connection.
const MIB_EACH: usize = SESSIONS * WINDOW / (1_024 * 1_024);
/// The bound, and more connections than it has room for.
const MIB_MAX: usize = 256;
const CONNECTIONS: usize = MIB_MAX / MIB_EACH + 4;

/// A client that makes no room for answers. Returns the connection, with its streams, when the server has got all that
/// it sends, or has closed the connection.
async fn hostile(server: &Server) -> (RawCalls, Vec<SendStream<Bytes>>) {
    let stream = TcpStream::connect(addr(server)).await.unwrap();
    let raw = RawCalls::open_with(Builder::new().initial_window_size(0), stream).await;
    let mut streams = Vec::new();
    for _ in 0..SESSIONS {
        let (_response, mut messages) = raw.send("fencepost.v1.LockService/Session", &[GRPC], b"").await;
        messages.reserve_capacity(WINDOW);
        streams.push(messages);
    }
    // The server's settings make room.
    until(async || !raw.is_open() || streams.iter().all(|messages| messages.capacity() == WINDOW)).await;
    for messages in &mut streams {
        if messages.send_data(Bytes::from_static(&[0; WINDOW]), false).is_err() {
            assert!(!raw.is_open());
        }
    }
    // No more can be sent when all has been sent.
    for messages in &mut streams {
        messages.reserve_capacity(1);
    }
    (raw, streams)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sessions_do_not_take_is_bounded_for_the_server_and_costs_no_lease() {
    let server = Server::start_with(&WITH_ADMIN);
    let burden = async {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(hostile(&server).await);
        }
        until(async || clients.iter().filter(|(raw, _)| raw.is_open()).count() <= MIB_MAX / MIB_EACH).await;
        clients
    };
    let clients = Kept::new(addr(&server)).await.beside(burden).await;
    reaches(&server, "fencepost_refusals_total{bound=\"backlog\"}", 4.0).await;
    drop(clients);
    becomes(&server, "fencepost_connections", 0.0).await;
    // There is room again.
    let (raw, _streams) = hostile(&server).await;
    head(raw.get(&[], MESSAGE).await.0).await;
    assert!(raw.is_open());
}
