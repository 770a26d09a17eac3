//! What a web page in the browser of an operator can send to a server, and what gRPC sends.

use crate::{
    binary::Server,
    http1::get,
    metrics::{WITH_ADMIN, becomes},
    raw_calls::{EMPTY_MESSAGE, MESSAGE, RawCalls, head},
    tls_server::addr,
};
use http::StatusCode;
use tokio::net::TcpStream;

const GET: &str = "fencepost.v1.LockService/Get";
const DRAIN: &str = "fencepost.v1.AdminService/Drain";

/// The content types that a page can send to other servers without asking them, and none.
const OF_PAGES: [&[(&str, &str)]; 4] = [
    &[("content-type", "text/plain")],
    &[("content-type", "application/x-www-form-urlencoded")],
    &[("content-type", "multipart/form-data; boundary=application/grpc")],
    &[],
];

#[tokio::test]
async fn a_web_page_can_call_neither_port() {
    let server = Server::start_with(&WITH_ADMIN);
    let (main, admin) = (addr(&server), server.admin_address().parse().unwrap());
    for to in [main, admin] {
        let raw = RawCalls::open(TcpStream::connect(to).await.unwrap()).await;
        for headers in OF_PAGES {
            let (response, _message) = raw.send(DRAIN, headers, EMPTY_MESSAGE).await;
            let (status, headers) = head(response).await;
            assert_eq!((status, headers.get("grpc-status")), (StatusCode::UNSUPPORTED_MEDIA_TYPE, None));
        }
    }
    becomes(&server, "fencepost_refusals_total{bound=\"content_type\"}", 8.0).await;
    becomes(&server, "fencepost_draining", 0.0).await;
    // What is no call is not counted as a failed one, of which the alerts speak.
    assert!(!get(&server.admin_address(), "/metrics").body.contains("fencepost_calls_total{method=\"Drain\""));
}

#[tokio::test]
async fn calls_of_grpc_may_name_the_encoding_of_messages() {
    let server = Server::start();
    let raw = RawCalls::open(TcpStream::connect(addr(&server)).await.unwrap()).await;
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        let (response, _message) = raw.send(GET, &[("content-type", content_type)], MESSAGE).await;
        let (status, headers) = head(response).await;
        assert_eq!((status, headers.get("grpc-status")), (StatusCode::OK, None), "{content_type}");
    }
}
