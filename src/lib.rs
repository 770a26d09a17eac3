//! Fencepost: a lock server with fencing tokens.
pub mod cli;
pub mod config;
pub mod domain;
pub mod server;
pub mod telemetry;
