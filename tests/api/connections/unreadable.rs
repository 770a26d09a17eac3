//! Requests that are no messages of the API: the client is told so, and the server is not blamed.

use crate::{
    binary::Server,
    http1::get,
    metrics::{WITH_ADMIN, becomes},
    raw_calls::{GRPC, RawCalls, head},
    support::{assert_refused, within},
    tls_server::addr,
};
use bytes::Bytes;
use h2::client::ResponseFuture;
use http::HeaderMap;
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// Bytes that cannot be read as a message of any call.
const BROKEN: [&[u8]; 5] = [
    // No message.
    b"",
    // A field of which nothing follows, and one with a number that no field has.
    &[0, 0, 0, 0, 1, 10],
    &[0, 0, 0, 0, 2, 0, 0],
    // Compressed, in a way that no header names.
    &[1, 0, 0, 0, 3, 10, 1, b'a'],
    // Neither compressed nor not.
    &[7, 0, 0, 0, 3, 10, 1, b'a'],
];

fn assert_client_is_blamed(headers: &HeaderMap) {
    let status = Status::from_header_map(headers).unwrap();
    assert!(status.message().starts_with("message must be readable as a message of this call: "), "{status:?}");
    assert_refused(Err::<(), _>(status), Code::InvalidArgument, "INVALID_FIELD");
}

/// What ends a stream that has begun.
async fn trailers(response: ResponseFuture) -> HeaderMap {
    let mut body = within(response).await.unwrap().into_body();
    while let Some(data) = within(body.data()).await {
        body.flow_control().release_capacity(data.unwrap().len()).unwrap();
    }
    within(body.trailers()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_the_fault_of_its_client() {
    let server = Server::start_with(&WITH_ADMIN);
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    let calls = ["LockService/Acquire", "LockService/Watch", "AdminService/ForceRelease"];
    for bytes in BROKEN {
        for call in calls {
            let (response, mut message) = raw.send(&format!("fencepost.v1.{call}"), &[GRPC], bytes).await;
            message.send_data(Bytes::new(), true).unwrap();
            assert_client_is_blamed(&head(response).await.1);
        }
    }
    // A session that ends without a message is none that breaks a rule.
    for bytes in &BROKEN[1..] {
        for call in ["LockService/Session", "LockService/KeepAlive"] {
            let (response, _message) = raw.send(&format!("fencepost.v1.{call}"), &[GRPC], bytes).await;
            assert_client_is_blamed(&trailers(response).await);
        }
    }
    for (method, count) in
        [("Acquire", 5.0), ("Watch", 5.0), ("ForceRelease", 5.0), ("Session", 4.0), ("KeepAlive", 4.0)]
    {
        let metric = format!("fencepost_calls_total{{method=\"{method}\",code=\"INVALID_ARGUMENT\"}}");
        becomes(&server, &metric, count).await;
    }
    assert!(!get(&server.admin_address(), "/metrics").body.contains("code=\"INTERNAL\""));
    assert!(raw.is_open());
}
