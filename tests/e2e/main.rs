//! The server end to end, over real sockets, through the generated client: what any language gets.
//!
//! Conditions are awaited with a bound (`support::within`), never slept for.

mod acquire;
mod at_each_await;
mod cancel;
mod drain;
mod inspect;
mod keepalive;
mod limits;
mod scale;
mod support;
mod waiting;
