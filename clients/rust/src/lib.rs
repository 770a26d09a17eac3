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
//! While [`Held::is_valid`] is true, no other process holds the lock, provided that clocks run at nearly the same rate
//! and the server's store loses no data. The check and the action that follows are two steps, and a process can be
//! paused between them. So send the **fencing token** with every write to the store that the lock protects, and have
//! the store refuse lower tokens: that holds whatever the timing.
//!
//! All locks of a [`Client`] share one stream, the `Session` of the API, which acquires, renews and releases them. Each
//! lock is renewed in the background until it is released or dropped. [`Held::lost`] resolves when the lock is lost: as
//! soon as the server reports it, at the latest when its validity ends by the local clock. Silence means lost.
//!
//! The crate has types of its own. Those of the wire, which depend on the versions of tonic and prost, are in [`raw`].
//!
//! # Calls that fail
//!
//! A call whose outcome is unknown (connection lost, no answer in time) is retried with the same ids, on another server
//! if there is one, until its bound is reached ([`ClientBuilder::retry_for`]). Retries have the effect of one call.
//!
//! # Logs
//!
//! Events of [`tracing`](https://docs.rs/tracing) with the target `fencepost_client`: renewals of a lock begin to fail
//! or work again, a lock is lost, a server fails, a release in the background gives up. Each is logged once, and none
//! has a lease id.

mod acquire;
mod acquire_all;
mod acquire_error;
mod address;
mod attempts;
mod bearer;
pub mod bounds;
mod calls;
mod cleanup;
mod client;
mod clock;
mod code;
mod connect;
mod convert;
mod core;
mod credentials;
mod describe;
mod environment;
mod error;
mod events;
/// Generated, for the crates of this repository: [`bounds`] has what programs need.
#[doc(hidden)]
pub mod facts;
mod greeting;
mod held;
mod info;
mod keeper;
mod lead;
mod lease;
mod lock;
mod lock_set;
mod mode;
mod observe;
mod operation;
mod operations;
mod outbox;
mod proto;
pub mod raw;
mod release;
mod releasing;
mod run;
mod servers;
mod session;
mod set_item;
mod silence;
mod status;
mod stores;
#[cfg(feature = "testing")]
pub mod testing;
mod timing;
mod tls;
mod transport;
mod unary_renewal;
mod validate;
mod validity;
mod values;
mod waiters;

pub use acquire::Acquire;
pub use acquire_all::{AcquireAll, AcquireAllError};
pub use acquire_error::AcquireError;
pub use address::{AddressError, ServerAddress};
pub use client::{Client, ClientBuilder, ConfigError};
pub use clock::Moment;
pub use code::Code;
pub use convert::ConvertError;
// For the command line, which tells of a file before it makes a client.
#[doc(hidden)]
pub use credentials::token_in;
pub use describe::{Describe, DescribeError};
pub use error::{CallError, FieldViolation};
pub use held::{Held, StatusChanges};
pub use info::{LockInfo, SemaphoreInfo};
pub use lock::Lock;
pub use lock_set::{LockSet, ReleaseAllError};
pub use mode::Mode;
pub use observe::Observing;
pub use release::{ReleaseError, Released};
pub use run::RunError;
pub use set_item::SetItem;
pub use status::{LockLost, LossCause, Status};
pub use tls::{Tls, TlsFailure, TlsFileError};
pub use values::{Holder, Lease, LeaseEnd, LockDelay};
pub use waiters::Waiter;

use fencepost_proto::v1;

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The examples of the README compile.
#[cfg(all(doctest, unix, feature = "testing"))]
#[doc = include_str!("../README.md")]
struct Readme;
