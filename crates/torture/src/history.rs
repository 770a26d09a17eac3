//! The record of one run: lines of JSON in no particular order.
//!
//! All processes of a run are on one host and use its `CLOCK_MONOTONIC` ([`Nanos`]), so their times are comparable. An
//! unknown outcome is [`AcquireEnd::Unknown`], never a failure.

use crate::{
    nodes::{Kept, Voting},
    steps::StoreStep,
};
use serde::{Deserialize, Serialize};

/// `CLOCK_MONOTONIC` of the host, in nanoseconds.
pub type Nanos = u64;

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The parameters of the run; the first line.
    Run(Run),
    /// One transmission of Acquire.
    Acquire(Acquire),
    /// One transmission of Release.
    Release(Release),
    /// One transmission of Convert.
    Convert(Convert),
    /// A renewal that succeeded, by Renew or on a stream.
    Renewed(Renewed),
    /// The loss of a lease, reported by the server or noticed by its holder.
    Lost(Lost),
    /// An operator's force release.
    Revoked(Revoked),
    /// A step of a holder on the protected stores.
    Store(StoreStep),
    /// An injected fault.
    Fault(Fault),
    /// What a node kept.
    Kept(Kept),
    /// Whether all nodes voted again after a fault.
    Voting(Voting),
    /// The final state of a lock.
    Final(Final),
    /// What was left behind after the run.
    #[serde(rename = "rest")]
    Leftovers(Leftovers),
}

/// The parameters of a run: with them it can be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Determines all random choices.
    pub seed: u64,
    /// The name of the topology.
    pub topology: String,
    /// The command line.
    pub args: Vec<String>,
    /// When the clients started.
    pub begin: Nanos,
    /// When the last fault was healed and the clients were told to stop.
    pub end: Nanos,
    /// The periods that bounds consist of.
    pub bounds: Bounds,
}

/// The periods that bounds consist of, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// How long an offer is valid.
    pub claim_window: Nanos,
    /// By then servers find with their beats what they missed.
    pub beats: Nanos,
    /// What the machine may add to any bound: scheduling, process starts, reconnects.
    pub slack: Nanos,
}

/// The permits of each semaphore of a history.
pub const PERMIT_LIMIT: u32 = 3;

/// One transmission of Acquire. The transmissions of a request differ only in `attempt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acquire {
    /// The client (a process, or a worker in one).
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The request id.
    pub request: String,
    /// The attempt number.
    pub attempt: u32,
    /// The server replica it was sent to.
    pub server: u32,
    /// The requested TTL.
    pub ttl: Nanos,
    /// The requested wait; 0 for a try-acquire.
    pub wait: Nanos,
    /// The requested `min_token`.
    pub min_token: u64,
    /// Whether a shared lease was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The permits of a semaphore that were requested; 0 for other modes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub permits: u32,
    /// How long its lease occupies its place after the grant at least, however it ends.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub min_hold: Nanos,
    /// How long it occupies its place after its end, unless its holder releases it.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub lock_delay: Nanos,
    /// The longest time from the grant to its end, with all renewals; 0 without a bound.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub max_hold: Nanos,
    /// Before sending.
    pub invoke: Nanos,
    /// After the answer, or when the caller gave up.
    pub ret: Nanos,
    /// The outcome.
    pub end: AcquireEnd,
}

impl Acquire {
    /// Whether its lease may stand beside others: a shared one, or one of a semaphore.
    pub fn is_beside_others(&self) -> bool {
        self.shared || self.permits > 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_no_time(span: &Nanos) -> bool {
    *span == 0
}

/// The outcome of a call that was open when its process ended. When its call ended is unknown: `ret` is when that was
/// noticed.
pub const OPEN: &str = "its process ended";

/// The outcome of an Acquire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquireEnd {
    /// Granted.
    Acquired(Grant),
    /// Held by another, and the call did not wait.
    Contended,
    /// The wait ended.
    TimedOut,
    /// The request has ended (ABORTED, `REQUEST_ENDED`).
    Aborted,
    /// A newer attempt is bound, or this one was dropped (ABORTED, `OVERTAKEN`).
    Overtaken,
    /// Refused with this code: nothing was changed.
    Refused(String),
    /// Unknown: no answer, or one with an unknown outcome (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED). The code, or the
    /// broken connection.
    Unknown(String),
    /// The client dropped the call.
    Dropped,
}

/// A grant as its client received it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The fencing token.
    pub token: u64,
    /// The grant id.
    pub grant: String,
    /// Until when it is valid by the client's clock (`held_for` in `lock.proto`).
    pub valid_until: Nanos,
    /// How long the server held the request before it asked its store (`held_for`).
    pub held_for: Nanos,
    /// The TTL in the answer.
    pub left: Nanos,
    /// The slot of a lease with one permit of a semaphore; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slot: u32,
    /// Whether it was valid when it arrived, and the caller was still waiting. If not, the client never worked under
    /// it.
    pub usable: bool,
}

/// One transmission of Release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease.
    pub token: u64,
    /// Before sending: the holder does no work from here on.
    pub invoke: Nanos,
    /// After the answer, or when the caller gave up.
    pub ret: Nanos,
    /// The outcome.
    pub end: ReleaseEnd,
}

/// The outcome of a Release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseEnd {
    /// Released, by this or an earlier transmission.
    Released,
    /// The lease had ended otherwise: expired, revoked, superseded, unknown.
    Gone(String),
    /// Unknown.
    Unknown(String),
}

/// One transmission of Convert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convert {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease, as its holder knows it.
    pub token: u64,
    /// Whether the lease is to be shared; exclusive if not.
    pub shared: bool,
    /// Before sending. From here on the holder of a lease that is to be shared only reads.
    pub invoke: Nanos,
    /// After the answer, or when the caller gave up.
    pub ret: Nanos,
    /// The outcome.
    pub end: ConvertEnd,
}

impl Convert {
    /// The token of the lease after it, if its holder knows.
    pub fn new_token(&self) -> Option<u64> {
        if let ConvertEnd::Converted(token) = self.end { Some(token) } else { None }
    }

    /// Whether it may have given the lease another token.
    pub fn may_change_token(&self) -> bool {
        !self.shared && matches!(self.end, ConvertEnd::Converted(_) | ConvertEnd::Unknown(_))
    }
}

/// The outcome of a Convert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvertEnd {
    /// The lease has the mode, and this token.
    Converted(u64),
    /// Others hold the lock too, so it cannot be exclusive.
    Contended,
    /// The lease had ended: expired, revoked, superseded, unknown.
    Gone(String),
    /// Refused with this code: nothing was changed.
    Refused(String),
    /// Unknown.
    Unknown(String),
}

/// A successful renewal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Renewed {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease, as its holder knows it; a renewal never changes it.
    pub token: u64,
    /// When the request, or the beat answer, was sent.
    pub sent: Nanos,
    /// When the result arrived.
    pub at: Nanos,
    /// Until when the lease is now valid, by the client's clock.
    pub valid_until: Nanos,
}

/// An end of a lease that its holder did not request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease.
    pub token: u64,
    /// When the holder learned of it.
    pub at: Nanos,
    /// The reported cause; `deadline` if the holder noticed it by its own clock.
    pub cause: String,
    /// The successor's token, if the server reported one.
    pub successor: Option<u64>,
}

/// A force release that was applied or may have been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revoked {
    /// The lock's name.
    pub lock: String,
    /// The token of the lease.
    pub token: u64,
    /// Before sending.
    pub invoke: Nanos,
    /// After the answer, or when the caller gave up.
    pub ret: Nanos,
    /// Whether it is known to be applied.
    pub certain: bool,
}

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The kind, under which the report counts it.
    pub kind: String,
    /// The target.
    pub target: String,
    /// When it was injected.
    pub begin: Nanos,
    /// When it was healed, and its target worked again.
    pub end: Nanos,
    /// The guarantees that hold despite the fault.
    #[serde(rename = "leaves")]
    pub guarantees: Guarantees,
}

/// Guarantees that hold despite a fault. Tokens are unique and rise under every fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantees {
    /// All promises of docs/architecture.md.
    All,
    /// Only what does not depend on the store's memory: no exclusion, FIFO, or one effect per request. Data was lost.
    NotMemory,
}

/// The final state of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// The lock's name, or `NAME#SLOT` of a slot of a semaphore, which has a fence of its own.
    pub lock: String,
    /// Writes accepted by the fenced store.
    pub writes_accepted: u64,
    /// Its number: equal to the accepted writes if no update was lost.
    pub fenced: u64,
    /// Writes to the control, which accepts all.
    pub writes_all: u64,
    /// Its number: the difference to the writes was lost.
    pub control: u64,
    /// Remaining waiters, as reported by List.
    pub waiters: u64,
    /// The first of them, as ListWaiters tells them afterwards, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
    /// Whether the lock is still held.
    pub held: bool,
}

/// What was left behind after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leftovers {
    /// When this was checked.
    pub at: Nanos,
    /// Redis keys that should not be left: neither sequencer nor meta key, and without a TTL.
    pub leaked_keys: Vec<String>,
    /// Server processes that ended by themselves, with their status.
    pub crashed: Vec<String>,
    /// Log lines of servers that report a panic or an internal error.
    pub log_errors: Vec<String>,
}
