//! A client that answers pings, and makes no room for the response of a call.

use crate::{
    binary::Server,
    kept::Kept,
    metrics::{WITH_ADMIN, becomes},
    raw_calls::{MESSAGE, RawCalls, head},
    support::until,
    tls_server::addr,
};
use h2::client::Builder;
use http::StatusCode;
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_nobody_reads_closes_its_connection_and_costs_no_lease() {
    let server = Server::start_with(&WITH_ADMIN);
    let to = addr(&server);
    let reads = RawCalls::open(TcpStream::connect(to).await.unwrap()).await;
    reads.call().await;
    let burden = async {
        let stream = TcpStream::connect(to).await.unwrap();
        let blocked = RawCalls::open_with(Builder::new().initial_window_size(0), stream).await;
        let (response, _message) = blocked.get(&[], MESSAGE).await;
        assert_eq!(head(response).await.0, StatusCode::OK);
        until(async || !blocked.is_open()).await;
    };
    Kept::new(to).await.beside(burden).await;
    becomes(&server, "fencepost_refusals_total{bound=\"unread\"}", 1.0).await;
    // Its response has been read long ago.
    reads.call().await;
}
