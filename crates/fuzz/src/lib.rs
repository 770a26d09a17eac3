//! Bytes from outside: what a client sends, what Redis answers, what an operator configures. Each target takes any
//! bytes and panics if the code behind it does, or answers what it never should.

mod config;
mod redis;
mod request;
pub mod seeds;
mod talk;

pub use config::config;
pub use redis::redis;
pub use request::{METHODS, request};
