//! Unary calls whose message does not arrive, or only its beginning.

use crate::{
    binary::Server,
    metrics::{WITH_ADMIN, becomes},
    session_stream::Session,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, assert_refused, channel, within},
    tls_server::addr,
};
use bytes::Bytes;
use fencepost_proto::v1::{keep_alive_response::Message as ServerMessage, lock_service_client::LockServiceClient};
use h2::client::{ResponseFuture, SendRequest};
use http::HeaderMap;
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// The streams of a connection to a server that has room for one waiting call.
const STREAMS: usize = 1_025;
/// A message: not compressed, three bytes, the lock "a".
const MESSAGE: &[u8] = &[0, 0, 0, 0, 3, 10, 1, b'a'];

/// Calls Get with these bytes.
async fn get(
    calls: SendRequest<Bytes>,
    to: SocketAddr,
    bytes: &'static [u8],
) -> (SendRequest<Bytes>, ResponseFuture, h2::SendStream<Bytes>) {
    let mut calls = within(calls.ready()).await.unwrap();
    let request = http::Request::post(format!("http://{to}/fencepost.v1.LockService/Get"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut message) = calls.send_request(request, false).unwrap();
    if !bytes.is_empty() {
        message.send_data(Bytes::from_static(bytes), bytes == MESSAGE).unwrap();
    }
    (calls, response, message)
}

async fn headers(response: ResponseFuture) -> HeaderMap {
    within(response).await.unwrap().headers().clone()
}

#[tokio::test]
async fn a_call_whose_message_does_not_arrive_ends_and_frees_its_stream() {
    let server = Server::start_with(&[&WITH_ADMIN[..], &["--waiters-per-server", "1"]].concat());
    let to = addr(&server);
    let mut client = LockServiceClient::new(channel(to));
    let lease = client.acquire_lease(acquire_request("kept", Duration::from_secs(60))).await;
    // Streams whose clients say nothing have no such bound.
    let (mut stream, mut session) = (Stream::open(client.clone()).await, Session::open(client.clone()).await);

    let (calls, connection) = h2::client::handshake(TcpStream::connect(to).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    // With the answer, the client knows how many streams it may open.
    let (mut calls, response, _) = get(calls, to, MESSAGE).await;
    assert_eq!(headers(response).await.get("grpc-status"), None);
    let mut open = Vec::new();
    for bytes in [&[][..], &MESSAGE[..1], &MESSAGE[..5], &MESSAGE[..7]].into_iter().cycle().take(STREAMS) {
        let (again, response, message) = get(calls, to, bytes).await;
        calls = again;
        open.push((response, message));
    }
    // It gets a stream when one of them has ended.
    let (_calls, response, _message) = get(calls, to, MESSAGE).await;
    assert_eq!(headers(response).await.get("grpc-status"), None);
    for (response, _message) in open {
        let status = Status::from_header_map(&headers(response).await).unwrap();
        assert_refused(Err::<(), _>(status), Code::Unavailable, "REQUEST_TOO_SLOW");
    }
    let refused = f64::from(u16::try_from(STREAMS).unwrap());
    becomes(&server, "fencepost_refusals_total{bound=\"request_time\"}", refused).await;
    assert!(!connection.is_finished());

    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    session.acquire_lease(1, acquire_request("session", Duration::from_secs(60))).await;
}
