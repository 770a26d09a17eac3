//! End-to-end tests of the server, over real sockets and with the generated client.
//!
//! Tests await conditions with a bound (`support::within`) and do not sleep for them.
#![allow(clippy::unwrap_used, reason = "test code")]

mod acquire;
#[path = "../../support/asks.rs"]
mod asks;
mod at_each_await;
mod at_risk;
mod cancel;
mod client;
mod client_queue;
mod client_semaphores;
mod convert;
mod describe;
mod drain;
mod gated;
mod hostile;
mod inspect;
mod keepalive;
mod limits;
mod link;
mod polled_keepalive;
mod polled_session;
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
