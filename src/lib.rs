//! Fencepost: a lock server with fencing tokens.
pub mod config;
pub mod domain;
pub mod telemetry;
