//! A client that sends each message in an HTTP/2 DATA frame of its own, as grpc-go does.

use crate::support::{Server, acquire_request, within};
use bytes::{Buf, Bytes, BytesMut};
use fencepost_proto::v1::{
    self, session_request::Message as ClientMessage, session_response::Message as ServerMessage,
};
use prost::Message as _;
use std::time::Duration;
use tokio::net::TcpStream;

const TTL: Duration = Duration::from_secs(600);
/// More messages than the session reads while they arrive, and fewer than it may have in flight.
const OPERATIONS: u64 = 16_000;

/// A message with gRPC's prefix: not compressed, and its length.
fn frame(request: &v1::SessionRequest) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(request.encoded_len()).unwrap().to_be_bytes());
    request.encode(&mut frame).unwrap();
    frame.into()
}

fn acquire(operation: u64) -> v1::SessionRequest {
    let request = Some(acquire_request(&format!("lock/{operation}"), TTL));
    let handle = u32::try_from(operation).unwrap();
    let acquire = v1::SessionAcquire { request, handle, release_on_disconnect: false };
    v1::SessionRequest { operation, message: Some(ClientMessage::Acquire(acquire)) }
}

/// h2 limits the small frames that it buffers, against a flood, and closes the connection above the limit
/// (ENHANCE_YOUR_CALM, `too_many_data_frames`). Flow control has to stop a client before that.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_small_frames_is_slowed_down_and_served() {
    let server = Server::start().await;
    let (client, connection) = h2::client::handshake(TcpStream::connect(server.addr).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}/fencepost.v1.LockService/Session", server.addr))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut requests) = client.ready().await.unwrap().send_request(request, false).unwrap();
    for operation in 1..=OPERATIONS {
        requests.send_data(frame(&acquire(operation)), false).unwrap();
    }
    let mut responses = within(response).await.unwrap().into_body();
    let (mut received, mut acquired) = (BytesMut::new(), 0);
    while acquired < OPERATIONS {
        let data = within(responses.data()).await.expect("the stream goes on").unwrap();
        responses.flow_control().release_capacity(data.len()).unwrap();
        received.extend_from_slice(&data);
        while received.len() >= 5 {
            let length = usize::try_from(u32::from_be_bytes(received[1..5].try_into().unwrap())).unwrap();
            if received.len() < 5 + length {
                break;
            }
            received.advance(5);
            let message = v1::SessionResponse::decode(received.split_to(length)).unwrap().message.unwrap();
            match message {
                ServerMessage::Acquire(answer) => acquired += u64::from(answer.lease.is_some()),
                ServerMessage::Beat(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    connection.abort();
}
