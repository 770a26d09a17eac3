//! Fencepost: a lock server with fencing tokens.
//!
//! Dependencies between modules go one way: `domain` <- `node` <- `store` <- `locks` <- `api` <- `server` <- `cli`;
//! `clock`, `config`, `sync` and `telemetry` are leaves. `node` does not know locks. `tests/repo/tidy` enforces this.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod locks;
pub mod node;
pub mod server;
pub mod store;
mod sync;
pub mod telemetry;
