//! Servers for the tests of programs that take locks. Needs the feature `testing`; set it in `[dev-dependencies]`.
//!
//! [`Server`] runs the real server, and needs its program. [`FakeServer`] runs in this process, needs nothing else, and
//! fails when it is told to. Clients connect to the `address` of either.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fencepost_client::{Client, LossCause, testing::FakeServer};
//!
//! let server = FakeServer::start()?;
//! let client = Client::new(server.address())?;
//! let lock = client.acquire("orders/42").await?;
//! server.lose("orders/42")?;
//! assert_eq!(lock.lost().await.cause, LossCause::Revoked);
//! assert!(!lock.is_valid());
//! # Ok(()) }
//! ```

mod fake;
mod server;

pub use fake::{FakeServer, NotHeld};
pub use server::{Server, StartError};
