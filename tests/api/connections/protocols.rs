//! Connections that do not start HTTP/2 in time, or not at all.

use crate::{
    binary::Server,
    certificates::Authority,
    metrics::{WITH_ADMIN, becomes},
    support::{channel, until, within},
    tls_client::TlsClient,
    tls_server::{Files, addr, server},
};
use fencepost_proto::v1::{GetRequest, lock_service_client::LockServiceClient};
use nix::sys::signal::Signal;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The beginning of a TLS handshake.
const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 0, 0, 0, 0];

/// What the server answers to these bytes before it closes the connection.
async fn answer(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset is fine: the server does not read what it refuses.
    let _ = within(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn logged(server: &Server, text: &str) {
    until(async || server.log().contains(text)).await;
}

#[tokio::test]
async fn other_protocols_on_a_plain_port_are_told_apart() {
    let server = Server::start();
    let addr = addr(&server);
    let told = answer(addr, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("speaks gRPC (HTTP/2 without TLS)"), "{told}");
    logged(&server, "the client speaks HTTP/1, but this port speaks gRPC (HTTP/2 without TLS)").await;
    assert_eq!(answer(addr, HELLO).await, "");
    logged(&server, "the client speaks TLS, but this port speaks gRPC (HTTP/2 without TLS)").await;
    assert_eq!(answer(addr, b"SSH-2.0-OpenSSH_9.2\r\n").await, "");
    logged(&server, "the client speaks neither HTTP/2 nor TLS").await;
}

#[tokio::test]
async fn other_protocols_on_a_port_with_tls_are_told_apart() {
    let authority = Authority::new("one");
    let server = server(&Files::new(&authority.issue("server")).flags());
    let addr = addr(&server);
    let told = answer(addr, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("speaks gRPC (HTTP/2 over TLS)"), "{told}");
    assert_eq!(answer(addr, PREFACE).await, "");
    logged(&server, "the client speaks HTTP/2 without TLS, but this port speaks gRPC (HTTP/2 over TLS)").await;
    // HTTP/1 within TLS.
    let mut stream = TlsClient::new(addr, &[&authority], None).offering(&[]).connect().await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut told = Vec::new();
    let _ = within(stream.read_to_end(&mut told)).await;
    assert!(told.starts_with(b"HTTP/1.1 400 "), "{told:?}");
}

#[tokio::test]
async fn strangers_are_counted_and_do_not_flood_the_log() {
    const STRANGERS: u16 = 100;
    const LINES_MAX: usize = 20;
    let server = Server::start_with(&WITH_ADMIN);
    for _ in 0..STRANGERS {
        assert_eq!(answer(addr(&server), b"SSH-2.0-OpenSSH_9.2\r\n").await, "");
    }
    becomes(&server, "fencepost_refusals_total{bound=\"protocol\"}", STRANGERS.into()).await;
    let lines = || server.log().matches("connection refused").count();
    assert!((LINES_MAX..usize::from(STRANGERS)).contains(&lines()), "{}", server.log());
    // The next line says how many there are not.
    until(async || {
        answer(addr(&server), b"SSH-2.0-OpenSSH_9.2\r\n").await;
        server.log().contains("\"suppressed\":")
    })
    .await;
}

/// Opens a connection that starts like this and then says nothing.
async fn silent(addr: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_ended() {
    let authority = Authority::new("one");
    let (plain, tls) = (Server::start(), server(&Files::new(&authority.issue("server")).flags()));
    let mut waiting = Vec::new();
    for bytes in [&b""[..], b"P", &PREFACE[..23]] {
        waiting.push(silent(addr(&plain), bytes).await);
    }
    for bytes in [&b""[..], &HELLO[..1], HELLO] {
        waiting.push(silent(addr(&tls), bytes).await);
    }
    for mut stream in waiting {
        assert_eq!(within(stream.read(&mut [0; 1])).await.unwrap_or_default(), 0);
    }
    // TLS alone is not enough.
    let mut stream = TlsClient::new(addr(&tls), &[&authority], None).connect().await.unwrap();
    assert_eq!(within(stream.read(&mut [0; 1])).await.unwrap_or_default(), 0);
    for server in [&plain, &tls] {
        logged(server, "\"bound\":\"handshake_time\"").await;
    }
    // A connection that has started may be silent.
    let mut started = silent(addr(&plain), PREFACE).await;
    let settings = within(started.read_u8()).await;
    assert!(settings.is_ok());
}

#[tokio::test]
async fn silent_connections_do_not_delay_a_drain() {
    let server = Server::start();
    let mut client = LockServiceClient::new(channel(addr(&server)));
    within(client.get(GetRequest { lock_name: "a".into() })).await.unwrap();
    drop(client);
    let silent = [silent(addr(&server), b"").await, silent(addr(&server), b"PRI").await];
    server.process.signal(Signal::SIGTERM);
    let log = server.drained();
    assert!(log.contains("drained") && !log.contains("aborting connections"), "{log}");
    drop(silent);
}
