//! The files of `deploy/` and the workflows, each run or parsed strictly by the program that it is for.
//!
//! `.ci/setup` installs those programs: from Debian, and below `target/deploy` with Python and Go.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/binary.rs"]
mod binary;
mod compose_tls;
mod credentials;
#[path = "../../support/issuer.rs"]
mod issuer;
mod kubernetes;
mod kubernetes_access;
mod metrics;
mod mounted;
mod pinned;
mod proxies;
mod proxy;
mod recipe;
#[path = "../../support/redis.rs"]
mod redis_server;
mod schemas;
#[path = "../../support/session_stream.rs"]
mod session_stream;
#[path = "../../support/stream.rs"]
mod stream;
#[path = "../../support/server.rs"]
mod support;
mod systemd;
mod tools;
