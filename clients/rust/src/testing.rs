//! For the tests of programs that take locks. Needs the feature `testing`; set it in `[dev-dependencies]`.
//!
//! [`Server`] runs the real server, which fails when it is told to, and needs its program. [`FakeLock`] is a lock for
//! unit tests without a server.

mod lock;
mod server;

pub use lock::FakeLock;
pub use server::{LoseError, Server, StartError};
