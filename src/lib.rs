//! Fencepost: a lock server with fencing tokens.
//!
//! The rooms and their one-way doors, held by `tests/repo/tidy`: `domain` <- `store` <- `locks` <- `api` <- `server` <-
//! the command line; `clock`, `config`, `sync` and `telemetry` are leaves.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod locks;
pub mod server;
pub mod store;
mod sync;
pub mod telemetry;
