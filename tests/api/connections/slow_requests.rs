//! Unary calls whose message does not arrive, or only its beginning.

use crate::{
    binary::Server,
    metrics::{WITH_ADMIN, becomes},
    raw_calls::{MESSAGE, RawCalls, head},
    session_stream::Session,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, assert_refused, channel},
    tls_server::addr,
};
use fencepost_proto::v1::{keep_alive_response::Message as ServerMessage, lock_service_client::LockServiceClient};
use h2::client::ResponseFuture;
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// The streams of a connection.
const STREAMS: usize = 17_408;

async fn assert_status(response: ResponseFuture, code: Code, reason: &str) {
    let (_, headers) = head(response).await;
    assert_refused(Err::<(), _>(Status::from_header_map(&headers).unwrap()), code, reason);
}

#[tokio::test]
async fn a_call_whose_message_does_not_arrive_ends_and_frees_its_stream() {
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let mut client = LockServiceClient::new(channel(to));
    let lease = client.acquire_lease(acquire_request("kept", Duration::from_secs(60))).await;
    // Streams whose clients say nothing have no such bound.
    let (mut stream, mut session) = (Stream::open(client.clone()).await, Session::open(client.clone()).await);

    let raw = RawCalls::open(TcpStream::connect(to).await.unwrap()).await;
    raw.call().await;
    let mut open = Vec::new();
    for bytes in [&[][..], &MESSAGE[..1], &MESSAGE[..5], &MESSAGE[..7]].into_iter().cycle().take(STREAMS) {
        open.push(raw.get(&[], bytes).await);
    }
    // It gets a stream when one of them has ended.
    raw.call().await;
    for (response, _message) in open {
        assert_status(response, Code::Unavailable, "REQUEST_TOO_SLOW").await;
    }
    let refused = f64::from(u16::try_from(STREAMS).unwrap());
    becomes(&server, "fencepost_refusals_total{bound=\"request_time\"}", refused).await;
    assert!(raw.is_open());

    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    session.acquire_lease(1, acquire_request("session", Duration::from_secs(60))).await;
}

#[tokio::test]
async fn the_deadline_of_the_client_may_come_earlier() {
    let server = Server::start_with(&WITH_ADMIN);
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    let (response, _message) = raw.get(&[("grpc-timeout", "100m")], &MESSAGE[..1]).await;
    assert_status(response, Code::DeadlineExceeded, "DEADLINE_OVER").await;
    becomes(&server, "fencepost_calls_total{method=\"Get\",code=\"DEADLINE_EXCEEDED\"}", 1.0).await;
    becomes(&server, "fencepost_refusals_total{bound=\"request_time\"}", 0.0).await;
}
