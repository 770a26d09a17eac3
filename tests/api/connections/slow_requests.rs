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
/// Those of them that may wait for their messages at a time.
const LATE: usize = 1_024;

async fn status_of(response: ResponseFuture) -> Status {
    let (_, headers) = head(response).await;
    Status::from_header_map(&headers).unwrap()
}

async fn assert_status(response: ResponseFuture, code: Code, reason: &str) {
    assert_refused(Err::<(), _>(status_of(response).await), code, reason);
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
    let beginnings = [&[][..], &MESSAGE[..1], &MESSAGE[..5], &MESSAGE[..7]].into_iter().cycle().take(LATE);
    for bytes in beginnings.chain(std::iter::repeat_n(&[][..], STREAMS - LATE)) {
        open.push(raw.get(&[], bytes).await);
    }
    // Others have their calls meanwhile.
    client.lock_info("kept").await;
    raw.call().await;
    let mut slow = 0;
    for (response, _message) in open {
        let status = status_of(response).await;
        if status.code() == Code::Unavailable {
            assert_refused(Err::<(), _>(status), Code::Unavailable, "REQUEST_TOO_SLOW");
            slow += 1;
        } else {
            assert_refused(Err::<(), _>(status), Code::ResourceExhausted, "SERVER_FULL");
        }
    }
    assert_eq!(slow, LATE);
    let count = |calls: usize| f64::from(u16::try_from(calls).unwrap());
    becomes(&server, "fencepost_refusals_total{bound=\"request_time\"}", count(LATE)).await;
    becomes(&server, "fencepost_refusals_total{bound=\"late_requests\"}", count(STREAMS - LATE)).await;
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
