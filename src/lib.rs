//! Fencepost: a lock server with fencing tokens.
//!
//! Dependencies between modules go one way: `domain` <- `node` <- `store` <- `locks` <- `api` <- `server` <- `cli`;
//! `access`, `clock`, `config`, `files`, `sync` and `telemetry` are leaves. `node` does not know locks.
//! `tests/repo/tidy` enforces this.

mod access;
mod api;
pub mod cli;
mod clock;
mod config;
mod domain;
mod files;
mod locks;
mod node;
mod server;
mod store;
mod sync;
mod telemetry;
#[doc(hidden)]
pub mod testing;
