//! Several servers on one cluster: each answers for any lock, whoever leads its partition.
//!
//! Time is that of the tokio runtime, which is paused: it goes on to the next timer when nothing else is left to do. So
//! no pause of this machine is taken for a server's death, and no test waits for real.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/asks.rs"]
mod asks;
mod calls;
mod changes;
mod crowd;
mod deaths;
mod ends;
mod features;
mod moves;
mod one_node;
mod parcels;
mod planned;
#[path = "../../support/twins.rs"]
mod twins;
