//! End-to-end tests of the server, over real sockets and with the generated client.
//!
//! Tests await conditions with a bound (`support::within`) and do not sleep for them.
#![allow(clippy::unwrap_used, reason = "test code")]

mod acquire;
#[path = "../../support/asks.rs"]
mod asks;
mod at_each_await;
mod at_risk;
#[path = "../../support/binary.rs"]
mod binary;
mod cancel;
mod client;
mod client_queue;
mod client_semaphores;
mod convert;
mod convert_refused;
mod describe;
mod drain;
mod fleet;
mod gated;
mod holders_full;
mod hostile;
mod inspect;
mod keepalive;
mod limits;
mod limits_session;
mod link;
#[path = "../../support/old_server.rs"]
mod old_server;
mod open_offer;
mod polled_keepalive;
mod polled_session;
#[path = "../../support/redis.rs"]
mod redis;
mod refused_terms;
mod semaphore;
mod session;
mod session_bursts;
mod session_stalled;
#[path = "../../support/session_stream.rs"]
mod session_stream;
mod small_frames;
#[path = "../../support/stream.rs"]
mod stream;
#[path = "../../support/server.rs"]
mod support;
mod turns;
mod waiting;
