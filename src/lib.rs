//! Fencepost: a lock server with fencing tokens.
pub mod domain;
