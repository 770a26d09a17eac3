//! Defaults of this client and of servers, and the bounds that a server checks.
//!
//! Those of a server are what it has unless it is configured otherwise: a server says in its error which bound a
//! request breaks.

use crate::facts;
use std::time::Duration;

/// The TTL that a server gives a lease if the caller names none. The client then sends none.
pub const TTL_DEFAULT: Duration = Duration::from_millis(facts::DEFAULT_TTL_MS);
/// The shortest TTL that a server accepts.
pub const TTL_MIN: Duration = Duration::from_millis(facts::TTL_MIN_MS);
/// The longest TTL that a server accepts.
pub const TTL_MAX: Duration = Duration::from_millis(facts::TTL_MAX_MS);
/// The longest wait that a server accepts.
pub const WAIT_MAX: Duration = Duration::from_millis(facts::WAIT_MAX_MS);
/// How long a call is repeated while no server answers it, in addition to its wait
/// ([`ClientBuilder::retry_for`](crate::ClientBuilder::retry_for)).
pub const RETRY_FOR_DEFAULT: Duration = Duration::from_millis(facts::RETRY_FOR_MS);
/// The maximum length of a lock name in bytes of UTF-8. The minimum is 1.
pub const NAME_BYTES_MAX: usize = facts::NAME_BYTES_MAX;
/// The maximum number of locks of one [`LockSet`](crate::LockSet).
pub const SET_NAMES_MAX: usize = facts::SET_NAMES_MAX;
/// The highest limit of a [`semaphore`](crate::Acquire::semaphore). The lowest is 1.
pub const PERMITS_MAX: u32 = facts::PERMITS_MAX;
/// The maximum length of a holder label in bytes of UTF-8.
pub const HOLDER_BYTES_MAX: usize = facts::HOLDER_BYTES_MAX;
/// The maximum size of the metadata of a request in bytes, keys and values together.
pub const METADATA_BYTES_MAX: usize = facts::METADATA_BYTES_MAX;
/// The highest fencing token: 2^53 - 1, so that a double holds each token exactly.
pub const TOKEN_MAX: u64 = facts::TOKEN_MAX;
