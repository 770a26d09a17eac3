//! Client of Fencepost, the lock server with fencing tokens.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let client = fencepost_client::Client::builder()
//!     .server("a:7420")
//!     .server("b:7420")
//!     .holder("host-1:worker")
//!     .build()?;
//! let lock = client.acquire("orders/42").wait(Duration::from_secs(30)).await?;
//! let token = lock.token(); // send it with every write
//! tokio::select! {
//!     () = work(token) => {}
//!     lost = lock.lost() => return Err(lost.into()), // stop the work
//! }
//! lock.release().await?;
//! # Ok(()) }
//! # async fn work(token: u64) {}
//! ```
//!
//! # What a lock promises
//!
//! While [`Held::is_valid`] says so, no other process holds the lock, as long as clocks run at nearly the same rate and
//! the server's store forgets nothing. The check and the act after it are two steps, and a process can be paused
//! between them. So send the **fencing token** with every write to the store that the lock protects, and have the store
//! refuse lower ones: that holds whatever the timing.
//!
//! All locks of a [`Client`] are acquired, kept alive and released on one stream, the `Session` of the API; each is
//! kept alive in the background until it is released or dropped. [`Held::lost`] resolves when it is lost: as soon as
//! the server says so, at the latest when its validity is over by this process' own reckoning. Silence means lost.
//!
//! # Calls that fail
//!
//! A call whose outcome is unknown (a lost connection, no answer in time) is repeated with the same ids, on another
//! server if there is one, until a bound is over ([`ClientBuilder::retry_for`]); its effect is that of one call.

mod acquire;
mod address;
mod alone;
mod attempts;
mod calls;
mod client;
mod clock;
mod connect;
mod core;
mod error;
mod greeting;
mod held;
mod keeper;
mod lease;
mod link;
mod lock;
mod operation;
mod operations;
mod outbox;
mod patience;
mod proto;
mod release;
mod releasing;
mod run;
mod servers;
mod taken_back;
mod validity;
mod well_formed;

pub use acquire::{Acquire, AcquireError};
pub use address::{AddressError, ServerAddress};
pub use attempts::Timed;
pub use calls::Calls;
pub use client::{Client, ClientBuilder, ConfigError};
pub use clock::Moment;
pub use error::{CallError, FieldViolation};
pub use held::{Held, StatusChanges};
pub use lease::{LossCause, Lost, Status};
pub use lock::Lock;
pub use release::{ReleaseError, Released};
pub use run::RunError;

pub use fencepost_proto::v1;
