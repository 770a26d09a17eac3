//! The admin port of real server processes: pages, probes, metrics, and AdminService. And the traces of
//! servers.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/binary.rs"]
mod binary;
mod http;
mod metrics;
mod port;
mod probes;
#[path = "../../support/redis.rs"]
mod redis_server;
mod scrape;
mod services;
#[path = "../../support/server.rs"]
mod support;
mod traces;

use binary::{Server, await_some};
use serde_json::Value;

/// A server with an admin port on a free port, and the address of that.
fn start(flags: &[&str]) -> (Server, String) {
    let server = Server::start_with(&[&["--admin-listen", "127.0.0.1:0"], flags].concat());
    let address = admin_address(&server);
    (server, address)
}

/// The address of the admin port in the log.
fn admin_address(server: &Server) -> String {
    await_some("the address of the admin port", || {
        let log = server.log();
        let line = log.split_inclusive('\n').find(|line| line.contains("admin port open") && line.ends_with('\n'))?;
        Some(serde_json::from_str::<Value>(line).unwrap()["addr"].as_str().unwrap().to_owned())
    })
}
