//! Bounds on connections and handshakes.

use crate::{
    binary::Server,
    metrics::{WITH_ADMIN, metric, reaches},
    raw_calls::{MESSAGE, RawCalls, head},
    support::{Lock, acquire_request, channel, until, within},
    tls_server::addr,
};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use http::StatusCode;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// The most handshakes of a server at a time, and of those with one IP address.
const HANDSHAKES_MAX: usize = 1_024;
const HANDSHAKES_PER_PEER: usize = HANDSHAKES_MAX / 4;

pub(crate) fn raise_limit_of_open_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

pub(crate) async fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether the server has closed the connection.
async fn refused(stream: &mut TcpStream) -> bool {
    within(stream.read(&mut [0; 1])).await.unwrap_or_default() == 0
}

async fn logged(server: &Server, bound: &str) {
    until(async || server.log().contains(&format!("\"bound\":\"{bound}\""))).await;
}

/// A connection that has started HTTP/2.
pub(crate) async fn started(mut stream: TcpStream) -> TcpStream {
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // The settings of the server.
    within(stream.read_u8()).await.unwrap();
    stream
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_and_the_others_go_on() {
    let server = Server::start_with(&["--connections-max", "3"]);
    let to = addr(&server);
    let mut client = LockServiceClient::new(channel(to));
    let lease = client.acquire_lease(acquire_request("a", Duration::from_secs(30))).await;
    let (first, _second) =
        (started(connect_from("127.0.0.1", to).await).await, started(connect_from("127.0.0.2", to).await).await);
    assert!(refused(&mut connect_from("127.0.0.3", to).await).await);
    logged(&server, "connections").await;
    client.release_lease(&lease).await;
    // The permit of a closed connection is free again.
    drop(first);
    until(async || {
        let mut again = connect_from("127.0.0.3", to).await;
        let _ = again.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        within(again.read_u8()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn one_peer_cannot_take_all_connections() {
    let server = Server::start_with(&["--connections-per-peer", "2"]);
    let to = addr(&server);
    let mut taken = Vec::new();
    for _ in 0..2 {
        taken.push(started(connect_from("127.0.0.2", to).await).await);
    }
    assert!(refused(&mut connect_from("127.0.0.2", to).await).await);
    logged(&server, "connections_per_peer").await;
    started(connect_from("127.0.0.3", to).await).await;
    LockServiceClient::new(channel(to)).lock_info("a").await;
}

#[tokio::test]
async fn handshakes_under_way_are_bounded() {
    raise_limit_of_open_files();
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let mut client = LockServiceClient::new(channel(to));
    client.lock_info("a").await;
    // They say nothing, so each is under way until its time is over.
    let mut waiting = Vec::new();
    within(async {
        // More than the bound, in case that a busy machine takes longer than the time of the first ones.
        while !server.log().contains("\"bound\":\"handshakes\"") {
            for number in 0..HANDSHAKES_MAX / 4 {
                waiting.push(connect_from(&format!("127.0.0.{}", 2 + number % 8), to).await);
            }
        }
    })
    .await;
    client.lock_info("a").await;
    reaches(&server, "fencepost_refusals_total{bound=\"handshakes\"}", 1.0).await;
    // When their time is over, others are welcome.
    for stream in &mut waiting {
        assert!(refused(stream).await);
    }
    started(connect_from("127.0.0.2", to).await).await;
}

#[tokio::test]
async fn one_peer_cannot_take_all_handshakes() {
    raise_limit_of_open_files();
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let mut silent = Vec::new();
    within(async {
        while silent.len() < HANDSHAKES_MAX || !server.log().contains("\"bound\":\"handshakes") {
            for _ in 0..HANDSHAKES_PER_PEER {
                silent.push(connect_from("127.0.0.2", to).await);
            }
        }
    })
    .await;
    // Others come in while its handshakes are under way.
    started(connect_from("127.0.0.3", to).await).await;
    reaches(&server, "fencepost_refusals_total{bound=\"handshakes_per_peer\"}", 1.0).await;
    assert_eq!(metric(&server, "fencepost_refusals_total{bound=\"handshakes\"}"), 0.0);
    // Its handshakes that end make room for its next ones.
    for stream in &mut silent {
        assert!(refused(stream).await);
    }
    started(connect_from("127.0.0.2", to).await).await;
}

#[tokio::test]
async fn long_headers_end_their_call_only() {
    let server = Server::start();
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    let (response, _message) = raw.get(&[("long", &"a".repeat(17 * 1_024))], MESSAGE).await;
    assert_eq!(head(response).await.0, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    raw.call().await;
}
