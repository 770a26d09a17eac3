//! Bounds on connections where the limit of open files is low.

use crate::{
    binary::Server,
    bounds::{connect_from, started},
    metrics::{WITH_ADMIN, becomes},
    support::{until, within},
    tls_server::addr,
};
use tokio::io::AsyncReadExt;

/// The limit of open files of the server.
const FILES: &str = "300";
/// Those that are not for connections to the main port.
const RESERVE: usize = 256;

#[tokio::test]
async fn connections_leave_the_files_that_the_server_itself_needs() {
    let server = Server::start_limited(FILES, &WITH_ADMIN);
    let mut open = Vec::new();
    for _ in 0..300 - RESERVE {
        open.push(started(connect_from("127.0.0.1", addr(&server)).await).await);
    }
    assert!(!server.log().contains("WARN"), "{}", server.log());
    let mut refused = connect_from("127.0.0.1", addr(&server)).await;
    assert_eq!(within(refused.read(&mut [0; 1])).await.unwrap_or_default(), 0);
    becomes(&server, "fencepost_refusals_total{bound=\"connections\"}", 1.0).await;
}

#[tokio::test]
async fn a_limit_that_is_too_low_for_what_was_asked_is_reported() {
    let server = Server::start_limited(FILES, &["--connections-max", "44"]);
    started(connect_from("127.0.0.1", addr(&server)).await).await;
    assert!(!server.log().contains("WARN"), "{}", server.log());
    let server = Server::start_limited(FILES, &["--connections-max", "45"]);
    until(async || server.log().contains("the limit of open files is too low for all connections")).await;
    // Without it, a server that serves one connection would not say why.
    let server = Server::start_limited(&RESERVE.to_string(), &[]);
    until(async || server.log().contains("the limit of open files is too low for all connections")).await;
}
