//! Every bound of the lock server, in one table: its name, its default and what happens at it.
//!
//! [`Limits`] holds those that an operator may have a reason to change; the constants hold the rest.

use std::time::Duration;

/// The name of a store whose operator chose none.
pub const STORE_PREFIX_DEFAULT: &str = "fp";
/// The longest name of a store in bytes: the keys of a partition then need no allocation.
pub const STORE_PREFIX_BYTES_MAX: usize = 24;
/// A lock name's length in bytes is 1 to this; outside it is `INVALID_ARGUMENT`.
pub const LOCK_NAME_BYTES_MAX: usize = 512;
/// A holder label's length in bytes is 0 to this; above it is `INVALID_ARGUMENT`.
pub const HOLDER_BYTES_MAX: usize = 256;
/// The metadata of a request, keys and values together; above it is `INVALID_ARGUMENT`.
pub const METADATA_BYTES_MAX: usize = 4 * 1024;
/// The label of an owner in bytes; above it is `INVALID_ARGUMENT`.
pub const OWNER_BYTES_MAX: usize = 128;
/// The name of an identity in bytes; longer ones are not shown whole.
pub const IDENTITY_BYTES_MAX: usize = 512;
/// The length of an operator's reason in bytes is 1 to this; outside it is `INVALID_ARGUMENT`.
pub const REASON_BYTES_MAX: usize = 256;
/// The size of a request message on the wire; above it the transport answers `OUT_OF_RANGE`.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Locks on a page of a listing, at most; above it is `INVALID_ARGUMENT`.
pub const PAGE_SIZE_MAX: u32 = 1_000;
/// Locks on a page of a listing, unless the request says otherwise.
pub const PAGE_SIZE_DEFAULT: u32 = 100;
/// About what the locks on a page of a listing take up, at most, however many were asked for: a client of gRPC refuses
/// messages of more than 4 MiB unless it is configured otherwise.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Waiters on a page of a queue, at most and unless the request says otherwise; above it is `INVALID_ARGUMENT`.
pub const WAITERS_PAGE_MAX: u32 = 100;
/// About what the waiters on a page of a queue take up, at most: a page fits into a message between servers.
pub const WAITERS_PAGE_BYTES_MAX: usize = 16 * 1024;
/// The TTL of a lease, unless the request says otherwise (or the configured range excludes it).
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// What a stream takes the TTL of a lease for until the store has told it: an attach that failed is tried again each
/// second.
pub const TTL_UNKNOWN: Duration = Duration::from_secs(9);
/// No configuration may set the TTL range outside of this: below it the margin for scheduling is all there is.
pub const TTL_FLOOR: Duration = Duration::from_millis(50);
/// No configuration may set the TTL range outside of this: a dead holder's lock must not outlive the working day that
/// follows.
pub const TTL_CEILING: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest `max_hold`; above it is `INVALID_ARGUMENT`. The shortest is the TTL of the request.
pub const MAX_HOLD_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The longest `min_hold`; above it is `INVALID_ARGUMENT`.
pub const MIN_HOLD_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest `lock_delay`; above it is `INVALID_ARGUMENT`. Consul's bound.
pub const LOCK_DELAY_MAX: Duration = Duration::from_secs(60);
/// How far a request's `min_token` may lie above the clock of the server that takes it, so that one buggy client cannot
/// use up the number space.
pub const MIN_TOKEN_AHEAD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Leases of one lock whose streams are told in one turn that somebody waits; the next request that queues tells more.
pub const WANTED_PER_TURN: usize = 64;
/// How long a waiter that was offered the lock has to claim it before the next one is served.
pub const CLAIM_WINDOW: Duration = Duration::from_secs(3);
/// How long a dropped call's place in the queue, or the lease it was granted unheard, is kept for a retry.
pub const DROP_GRACE: Duration = Duration::from_secs(3);
/// How long the end of a request is remembered, so that its late duplicates are recognised.
pub const ENDED_MEMORY: Duration = Duration::from_secs(10);
/// Calls of one attempt that are distinguished. Clients count their attempts, so more than one is rare: a proxy's
/// retry, or gRPC's own.
pub const CALLS_PER_ATTEMPT_MAX: usize = 16;
/// How long after it was sent a command may still take effect in the store. Later it changes nothing: its caller gave
/// up.
pub const COMMAND_WINDOW: Duration = Duration::from_millis(500);
/// How long a caller waits for a majority of the nodes, or for a leader. After that the outcome is unknown, or nothing
/// was done. Long enough for a node's connection to be replaced meanwhile.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// For how long one of several nodes may leave a parcel for another server without a reply, before the next parcels go
/// through another node.
pub const PARCEL_REPLY_MAX: Duration = Duration::from_millis(100);
/// How far above the clock a sequencer begins whose store may have forgotten grants.
pub const TOKEN_SKIP: Duration = Duration::from_secs(60);
/// Tokens stay below this (2^53), so that a double, and with it Lua and JSON, holds them exactly.
pub const TOKEN_END: u64 = 1 << 53;
/// After this much silence of a replica its waiters are skipped: ten beats. One that is found to be dead is skipped at
/// once.
pub const REPLICA_SILENT: Duration = Duration::from_secs(3);
/// After this much silence of a replica its waiters are deleted.
pub const REPLICA_GONE: Duration = Duration::from_secs(30);
/// How long a request that let an offer lapse keeps its queue position without a word of its calls: as long as those of
/// a server that is silent.
pub const MISSED_GRACE: Duration = REPLICA_GONE;
/// Overdue entries that one command clears away in passing; the rest is left to the next one and to the expiry task.
pub const OVERDUE_BATCH: usize = 64;

/// The highest `permit_limit`; above it is `INVALID_ARGUMENT`.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Leases that may share one lock, or have permits of one semaphore, with those that have ended and still occupy their
/// places. At it a request waits, or is `CONTENDED`.
pub const HOLDERS_MAX: usize = 10_000;
/// Offers of one lock that may be open, to requests that would be beside other holders. The next are made when these
/// are claimed.
pub const OFFERS_MAX: usize = 64;
/// Leases beside others that end by time in one turn, and places after such leases that are free again. More are left
/// to the next one, which is due at once: so the batch that a turn is part of keeps its bound.
pub const SHARED_ENDS_PER_TURN: usize = 32;
/// Leases of one lock that an answer shows. It counts all.
pub const HOLDERS_SHOWN: usize = 8;

/// A beat is sent this many times within the shortest TTL of a stream: three within the third after which leases are
/// renewed.
pub const BEATS_PER_TTL: u32 = 9;
/// The longest time between two beats of a stream, however long its TTLs are.
pub const BEAT_PERIOD_MAX: Duration = Duration::from_secs(10);
/// How often the server checks whether an open stream, or a waiting call, may go on: its credentials may have expired,
/// and the rules may have changed.
pub const PERMISSION_CHECK_PERIOD: Duration = Duration::from_secs(3);
/// Beats that may be unanswered before the stream sends no more of them: a client so far behind is not reading.
pub const BEATS_UNANSWERED_MAX: u64 = 32;
/// Handles in one message of a stream to the client: keeps each below 64 KiB.
pub const HANDLES_PER_MESSAGE: usize = 8_192;
/// Operations that may be in flight on one session. Above it: `RESOURCE_EXHAUSTED`, `SESSION_FULL`.
pub const OPERATIONS_PER_SESSION_MAX: usize = 16_384;
/// How often a session on which calls wait is checked for a client that takes no data. One that takes none for one to
/// two periods is stalled. Longer than most round trips with a lost packet, so that a slow network is no stall; much
/// shorter than [`CLAIM_WINDOW`], which each offer to a stalled session would cost.
pub const STALL_CHECK_PERIOD: Duration = Duration::from_millis(250);
/// After so many operations of a session that the store has to wait for, other tasks get their turn, and the store
/// sends that many at once. So the nodes work on some while the server works on others; a session with twice as many
/// under way would otherwise take turns with them.
pub const COMMANDS_BEGUN_AT_ONCE: usize = 32;
/// How often a session tells those that wait on it how many are before them, if that has changed.
pub const POSITION_PERIOD: Duration = Duration::from_secs(1);
/// Events that may wait for a watcher. More are lost, and the watcher receives MISSED.
pub const WATCH_BACKLOG_MAX: usize = 4_096;
/// Watch streams that may be open on one server; above it is `RESOURCE_EXHAUSTED`.
pub const WATCHERS_MAX: usize = 1_000;
/// How much earlier than the call's own deadline a wait ends, so that its answer still arrives: a tenth of the time, at
/// most this.
pub const DEADLINE_MARGIN_MAX: Duration = Duration::from_millis(250);
/// When a refused caller should try again, as `RetryInfo` tells it.
pub const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The bounds that an operator may have a reason to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest TTL of a lease; below it is `INVALID_ARGUMENT`.
    pub ttl_min: Duration,
    /// The longest TTL of a lease; above it is `INVALID_ARGUMENT`.
    pub ttl_max: Duration,
    /// The longest `wait_timeout`; above it is `INVALID_ARGUMENT`.
    pub wait_max: Duration,
    /// Requests waiting for one lock; at it `RESOURCE_EXHAUSTED`.
    pub waiters_per_lock: usize,
    /// Requests waiting on this server; at it `RESOURCE_EXHAUSTED`.
    pub waiters_per_server: usize,
    /// Leases attached to one KeepAlive stream; at it the attachment is refused (`STREAM_FULL`).
    pub leases_per_stream: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_min: Duration::from_secs(1),
            ttl_max: TTL_CEILING,
            wait_max: Duration::from_secs(60 * 60),
            waiters_per_lock: 10_000,
            waiters_per_server: 100_000,
            leases_per_stream: 100_000,
        }
    }
}

impl Limits {
    /// The TTL of a request that names none: the default, or the nearest that the range allows.
    pub fn ttl_default(&self) -> Duration {
        TTL_DEFAULT.clamp(self.ttl_min, self.ttl_max)
    }
}
