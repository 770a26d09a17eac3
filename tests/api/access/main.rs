//! `--access`: who may do what, over real sockets.
#![allow(clippy::unwrap_used, reason = "test code")]

mod audit;
#[path = "../../support/certificates.rs"]
mod certificates;
mod file;
mod grants;
#[path = "../../support/http.rs"]
mod http1;
#[path = "../../support/issuer.rs"]
mod issuer;
mod mutual_tls;
mod operations;
#[path = "../../support/redis.rs"]
mod redis;
mod rotation;
mod streams;
#[path = "../../support/server.rs"]
mod support;
mod table;
mod world;
