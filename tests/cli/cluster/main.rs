//! Several servers on three Redis servers, all of them real processes: what their users see when one of them dies.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "../../support/binary.rs"]
mod binary;
#[path = "../../support/clock.rs"]
mod clock;
mod clocks;
mod failures;
#[path = "../../support/http.rs"]
mod http;
mod nodes;
mod one_node;
#[path = "../../support/redis.rs"]
mod redis;
mod several;
#[path = "../../support/stream.rs"]
mod stream;
mod streams;
#[path = "../../support/server.rs"]
mod support;
