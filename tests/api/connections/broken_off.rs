//! Calls whose clients give up, or are gone: each counts as CANCELLED, whatever had arrived of it.

use crate::{
    binary::Server,
    http1::get,
    metrics::WITH_ADMIN,
    raw_calls::{GRPC, MESSAGE, RawCalls, head},
    session_stream::Session,
    stream::Stream,
    support::{Lock, acquire_request, channel, until, waiting_request},
    tls_server::addr,
};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use h2::Reason;
use std::{collections::BTreeMap, time::Duration};
use tokio::net::TcpStream;

/// How the calls of a method have ended, by code.
fn ended(server: &Server, method: &str) -> BTreeMap<String, u64> {
    let page = get(&server.admin_address(), "/metrics").body;
    let prefix = format!("fencepost_calls_total{{method=\"{method}\",code=\"");
    let samples = page.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "));
    samples.map(|(code, count)| (code.to_owned(), count.parse().unwrap())).collect()
}

/// Waits until the calls of a method have ended with these codes and no others.
async fn awaits(server: &Server, method: &str, codes: &[(&str, u64)]) {
    let total: u64 = codes.iter().map(|(_, count)| count).sum();
    until(async || ended(server, method).values().sum::<u64>() >= total).await;
    let codes = codes.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
    assert_eq!(ended(server, method), codes, "{method}");
}

#[tokio::test]
async fn a_call_that_its_client_resets_before_the_message_is_there_is_cancelled() {
    let server = Server::start_with(&WITH_ADMIN);
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    let parts = [&b""[..], &MESSAGE[..1], &MESSAGE[..5], &MESSAGE[..7]];
    let mut open = Vec::new();
    for part in parts {
        // At once, often with its headers.
        let (_response, mut message) = raw.get(&[], part).await;
        message.send_reset(Reason::CANCEL);
        open.push(raw.get(&[], part).await);
    }
    // Its answer shows that the server has begun the calls before it.
    raw.call().await;
    for (_, message) in &mut open {
        message.send_reset(Reason::CANCEL);
    }
    awaits(&server, "Get", &[("CANCELLED", 2 * parts.len() as u64), ("OK", 1)]).await;
    assert_eq!(get(&server.admin_address(), "/metrics").body.matches("code=\"INTERNAL\"").count(), 0);
}

#[tokio::test]
async fn calls_of_a_connection_that_dies_are_cancelled() {
    let server = Server::start_with(&WITH_ADMIN);
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    let mut open = Vec::new();
    for part in [&b""[..], &MESSAGE[..7]] {
        open.push(raw.get(&[], part).await);
    }
    raw.call().await;
    drop(raw);
    awaits(&server, "Get", &[("CANCELLED", 2), ("OK", 1)]).await;
}

#[tokio::test]
async fn a_wait_and_streams_of_a_connection_that_dies_are_cancelled() {
    let server = Server::start_with(&WITH_ADMIN);
    let mut client = LockServiceClient::new(channel(addr(&server)));
    let ttl = Duration::from_secs(60);
    client.acquire_lease(acquire_request("a", ttl)).await;
    let mut waits = client.clone();
    let waiting = tokio::spawn(async move { waits.acquire(waiting_request("a", ttl, ttl)).await.map(drop) });
    let (stream, session) = (Stream::open(client.clone()).await, Session::open(client.clone()).await);
    until(|| async { client.clone().lock_info("a").await.waiters == 1 }).await;
    // The last handles of the connection.
    waiting.abort();
    drop((client, stream, session));
    awaits(&server, "Acquire", &[("CANCELLED", 1), ("OK", 1)]).await;
    awaits(&server, "KeepAlive", &[("CANCELLED", 1)]).await;
    awaits(&server, "Session", &[("CANCELLED", 1)]).await;
}

/// Reflection reads its requests in a task of its own.
#[tokio::test]
async fn a_stream_that_its_client_resets_leaves_no_task() {
    const STREAMS: u64 = 32;
    let server = Server::start_with(&WITH_ADMIN);
    let tasks = || {
        let page = get(&server.admin_address(), "/metrics").body;
        let count = page.lines().find_map(|line| line.strip_prefix("fencepost_runtime_alive_tasks "));
        count.unwrap().parse::<u64>().unwrap()
    };
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    raw.call().await;
    let before = tasks();
    for _ in 0..STREAMS {
        let reflection = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let (response, mut message) = raw.send(reflection, &[GRPC], b"").await;
        head(response).await;
        message.send_reset(Reason::CANCEL);
    }
    awaits(&server, "other", &[("CANCELLED", STREAMS)]).await;
    // Tasks of the admin port come and go meanwhile.
    until(async || tasks() < before + STREAMS / 2).await;
}
