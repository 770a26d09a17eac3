//! The admin port of real server processes: pages, probes, metrics, and AdminService. And the traces of
//! servers.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/authority.rs"]
mod authority;
#[path = "../../support/binary.rs"]
mod binary;
#[path = "../../support/certificates.rs"]
mod certificates;
#[path = "../../support/http.rs"]
mod http;
mod losses;
mod metrics;
mod port;
mod probes;
#[path = "../../support/redis.rs"]
mod redis_server;
mod scrape;
mod services;
#[path = "../../support/stream.rs"]
mod stream;
#[path = "../../support/server.rs"]
mod support;
mod tls;
mod traces;

use binary::Server;

/// A server with an admin port on a free port, and the address of that.
fn start(flags: &[&str]) -> (Server, String) {
    let server = Server::start_with(&[&["--admin-listen", "127.0.0.1:0"], flags].concat());
    let address = server.admin_address();
    (server, address)
}
