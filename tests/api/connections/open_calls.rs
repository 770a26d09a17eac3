//! Bounds on open calls: of a connection, and of the server.

use crate::{
    binary::Server,
    kept::Kept,
    metrics::{WITH_ADMIN, becomes},
    raw_calls::{GRPC, MESSAGE, RawCalls, head},
    support::{assert_refused, until},
    tls_server::addr,
};
use bytes::Bytes;
use h2::{
    SendStream,
    client::{Builder, ResponseFuture},
};
use http::StatusCode;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// The calls of a connection that may last.
const LASTING_PER_CONNECTION: usize = 16_384;
/// Calls beyond those that may last.
const SPARE: usize = 1_024;

/// The window of a connection. With a smaller one, h2 takes the unread beats of many sessions for a flood.
const WINDOW: u32 = 1 << 30;

async fn connect(to: SocketAddr) -> RawCalls {
    let stream = TcpStream::connect(to).await.unwrap();
    let raw = RawCalls::open_with(Builder::new().initial_connection_window_size(WINDOW), stream).await;
    raw.call().await;
    raw
}

/// Opens a session without a message.
async fn session(raw: &RawCalls) -> (ResponseFuture, SendStream<Bytes>) {
    raw.send("fencepost.v1.LockService/Session", &[GRPC], &[]).await
}

async fn sessions(raw: &RawCalls, count: usize) -> Vec<(ResponseFuture, SendStream<Bytes>)> {
    let mut open = Vec::new();
    for _ in 0..count {
        open.push(session(raw).await);
    }
    open
}

/// Whether a further session is opened. If not, nothing was done, and the client is told when to repeat.
async fn opens_another(raw: &RawCalls) -> bool {
    let (response, _message) = session(raw).await;
    let (status, headers) = head(response).await;
    assert_eq!(status, StatusCode::OK);
    let Some(status) = Status::from_header_map(&headers) else { return true };
    assert!(status.message().contains("nothing was done"), "{status:?}");
    assert_refused(Err::<(), _>(status), Code::ResourceExhausted, "SERVER_FULL");
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_connection_are_bounded_and_leave_room_for_short_calls() {
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let (raw, other) = (connect(to).await, connect(to).await);
    let mut open = sessions(&raw, LASTING_PER_CONNECTION).await;
    becomes(&server, "fencepost_open_calls", 16_384.0).await;
    assert!(!opens_another(&raw).await);
    raw.call().await;
    becomes(&server, "fencepost_refusals_total{bound=\"calls_per_connection\"}", 1.0).await;
    assert!(opens_another(&other).await);
    open.pop();
    until(async || opens_another(&raw).await).await;
    drop(raw);
    becomes(&server, "fencepost_open_calls", 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_server_are_bounded_and_cost_no_lease() {
    const WAITERS: usize = 1;
    const CONNECTIONS: usize = 10;
    let bounds = ["--waiters-per-server", "1", "--connections-max", "10"];
    let server = Server::start_with(&[&WITH_ADMIN[..], &bounds].concat());
    let to = addr(&server);
    let kept = Kept::new(to).await;
    let burden = async {
        becomes(&server, "fencepost_open_calls", 2.0).await;
        let (first, second) = (connect(to).await, connect(to).await);
        let open = sessions(&first, WAITERS + CONNECTIONS + SPARE - 2).await;
        becomes(&server, "fencepost_open_calls", 1_035.0).await;
        assert!(!opens_another(&second).await);
        let (response, _message) = second.get(&[], MESSAGE).await;
        assert_eq!(head(response).await.1.get("grpc-status"), None);
        open
    };
    kept.beside(burden).await;
    becomes(&server, "fencepost_refusals_total{bound=\"calls\"}", 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_bounded_until_their_pages_are_read() {
    /// Calls of List that may be open at once.
    const LISTS_MAX: usize = 32;
    let server = Server::start_with(&WITH_ADMIN);
    let raw = connect(addr(&server)).await;
    let list = async || raw.send("fencepost.v1.LockService/List", &[GRPC], &[]).await;
    // Without a message, a call stays open, as one does whose page is not read.
    let mut open = Vec::new();
    for _ in 0..LISTS_MAX {
        open.push(list().await);
    }
    becomes(&server, "fencepost_open_calls", 32.0).await;
    let (response, _message) = list().await;
    let (status, headers) = head(response).await;
    assert_eq!(status, StatusCode::OK);
    let status = Status::from_header_map(&headers).unwrap();
    assert!(status.message().contains("32 calls of List"), "{status:?}");
    assert_refused(Err::<(), _>(status), Code::ResourceExhausted, "SERVER_FULL");
    becomes(&server, "fencepost_refusals_total{bound=\"lists\"}", 1.0).await;
    // Other calls are served, and an answered List makes room.
    raw.call().await;
    let (response, mut message) = open.pop().unwrap();
    message.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
    let (status, headers) = head(response).await;
    assert_eq!((status, headers.get("grpc-status")), (StatusCode::OK, None));
    until(async || {
        let (response, mut message) = list().await;
        message.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
        head(response).await.1.get("grpc-status").is_none()
    })
    .await;
}

/// They need no credentials, so they must leave room for the calls of those who have some.
#[tokio::test(flavor = "multi_thread")]
async fn health_watches_are_bounded_by_themselves() {
    const CONNECTIONS_MAX: usize = 64;
    let server = Server::start_with(&[&WITH_ADMIN[..], &["--connections-max", "64"]].concat());
    let raw = connect(addr(&server)).await;
    // Without a message, a call stays open.
    let watch = async || raw.send("grpc.health.v1.Health/Watch", &[GRPC], &[]).await;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        open.push(watch().await);
    }
    becomes(&server, "fencepost_open_calls", 64.0).await;
    let (response, _message) = watch().await;
    let status = Status::from_header_map(&head(response).await.1).unwrap();
    assert!(status.message().contains("64 health watches"), "{status:?}");
    assert_refused(Err::<(), _>(status), Code::ResourceExhausted, "SERVER_FULL");
    becomes(&server, "fencepost_refusals_total{bound=\"health_watches\"}", 1.0).await;
    raw.call().await;
    drop(open.pop());
    until(async || {
        let (response, _message) = watch().await;
        tokio::time::timeout(std::time::Duration::from_millis(200), head(response)).await.is_err()
    })
    .await;
}
