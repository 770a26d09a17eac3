//! What happened in one run, as lines of JSON in no particular order.
//!
//! All processes of a run are on one host and stamp with its `CLOCK_MONOTONIC` ([`Nanos`]): times of different
//! processes can be compared, which a test over several hosts cannot do. An outcome that is not known is
//! [`AcquireEnd::Unknown`], never a failure.

use serde::{Deserialize, Serialize};

/// `CLOCK_MONOTONIC` of the host, in nanoseconds.
pub type Nanos = u64;

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The first line: what was run.
    Run(Run),
    /// One transmission of Acquire.
    Acquire(Acquire),
    /// One transmission of Release.
    Release(Release),
    /// A lease was renewed, by Renew or on a stream.
    Renewed(Renewed),
    /// A holder was told, or reckoned, that its lease is over.
    Lost(Lost),
    /// An operator's force release.
    Revoked(Revoked),
    /// A step of a holder on the stores that the lock protects.
    Store(StoreStep),
    /// A fault that was injected.
    Fault(Fault),
    /// A lock after the run, when all was quiet.
    Final(Final),
    /// The whole, after the run, when all was quiet.
    Rest(Rest),
}

/// What was run: with this a run can be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Decides all that is drawn at random.
    pub seed: u64,
    /// The name of the topology.
    pub topology: String,
    /// The command line.
    pub args: Vec<String>,
    /// When the clients began.
    pub begin: Nanos,
    /// When the last fault had been healed and the clients were told to end.
    pub end: Nanos,
    /// What the bounds of the checks are made of.
    pub bounds: Bounds,
}

/// The periods that bounds are made of, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// For how long an offer stands.
    pub claim_window: Nanos,
    /// How often replicas poll.
    pub poll: Nanos,
    /// What the machine may add to any bound: scheduling, start of processes, reconnects.
    pub slack: Nanos,
}

/// One transmission of Acquire. The transmissions of one request are alike but for `attempt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acquire {
    /// The client (a process, or a worker in one).
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The request's id, in full.
    pub request: String,
    /// Which transmission.
    pub attempt: u32,
    /// The server replica that it was sent to.
    pub server: u32,
    /// The TTL asked for.
    pub ttl: Nanos,
    /// How long it was ready to wait; 0 is a try.
    pub wait: Nanos,
    /// The `min_token` asked for.
    pub min_token: u64,
    /// Before it was sent.
    pub invoke: Nanos,
    /// After it was answered, or given up.
    pub ret: Nanos,
    /// What came of it.
    pub end: AcquireEnd,
}

/// What a record says that was open when its process ended. When it was that its call ended, nobody knows: `ret` is
/// when that was noticed.
pub const OPEN: &str = "its process ended";

/// What came of an Acquire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquireEnd {
    /// Granted.
    Acquired(Grant),
    /// Held by another, and the call did not wait.
    Contended,
    /// The wait was over.
    TimedOut,
    /// The request has ended (ABORTED, `REQUEST_ENDED`).
    Aborted,
    /// A newer attempt of it is bound, or this one was dropped (ABORTED, `OVERTAKEN`).
    Overtaken,
    /// Refused for good, with this code: nothing was changed.
    Refused(String),
    /// Nobody knows: no answer, or one that says so (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED). The code, or what
    /// broke.
    Unknown(String),
    /// The client dropped the call.
    Dropped,
}

/// A grant as the client got it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The fencing token.
    pub token: u64,
    /// Its public name.
    pub grant: String,
    /// Until when it is valid by the client's own reckoning (DESIGN section 5).
    pub valid_until: Nanos,
    /// What the server said of the time before it asked its store (`held_for`).
    pub held_for: Nanos,
    /// The TTL in the answer.
    pub left: Nanos,
    /// Whether it was still valid when it arrived, and somebody waited for it. If not, the client never worked under
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
    /// Before it was sent: from here on the holder does no work.
    pub invoke: Nanos,
    /// After it was answered, or given up.
    pub ret: Nanos,
    /// What came of it.
    pub end: ReleaseEnd,
}

/// What came of a Release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseEnd {
    /// Given back, by this or an earlier transmission.
    Released,
    /// It had ended otherwise: expired, revoked, superseded, unknown.
    Gone(String),
    /// Nobody knows.
    Unknown(String),
}

/// A renewal that arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Renewed {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease, which a renewal never changes.
    pub token: u64,
    /// When the request, or the answer to the beat, was sent.
    pub sent: Nanos,
    /// When the result arrived.
    pub at: Nanos,
    /// Until when it is valid now, by the client's own reckoning.
    pub valid_until: Nanos,
}

/// The end of a lease that its holder did not ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token of the lease.
    pub token: u64,
    /// When the holder knew.
    pub at: Nanos,
    /// What the holder was told; `deadline` when it was its own reckoning.
    pub cause: String,
    /// Whether the server gave the successor's token, and which.
    pub successor: Option<u64>,
}

/// A force release that was carried out or may have been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revoked {
    /// The lock's name.
    pub lock: String,
    /// The token of the lease.
    pub token: u64,
    /// Before it was sent.
    pub invoke: Nanos,
    /// After it was answered, or given up.
    pub ret: Nanos,
    /// Whether it is certain.
    pub certain: bool,
}

/// One step of a holder on the stores that the lock protects. Each write goes to both: the fenced store, and the
/// control beside it that does not look at tokens. Written down by the stores, in the order in which they took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreStep {
    /// The client.
    pub client: u32,
    /// The lock's name.
    pub lock: String,
    /// The token that came with it.
    pub token: u64,
    /// The public name of the grant that came with it.
    pub grant: String,
    /// When the stores took it.
    pub at: Nanos,
    /// Which step in the order of the stores.
    pub seq: u64,
    /// A read (which raises the fence, so that what it read stays true for as long as it may write), or a write of what
    /// was read + 1.
    pub write: bool,
    /// The highest token that the fenced store had seen before.
    pub highest: u64,
    /// Whether the fenced store took it.
    pub accepted: bool,
    /// The fenced store's number after it.
    pub fenced: u64,
    /// The control's number after it.
    pub control: u64,
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind: the name that the report counts it under.
    pub kind: String,
    /// What it was done to.
    pub target: String,
    /// When it began.
    pub begin: Nanos,
    /// When it was healed, and what it was done to worked again.
    pub end: Nanos,
    /// What it leaves of the promises.
    pub leaves: Leaves,
}

/// Which promises a fault leaves standing. Tokens are unique and rise under every fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// All that DESIGN section 1 promises.
    All,
    /// Not exclusion by lease: Redis' clock stepped forward.
    NotExclusion,
    /// Not what rests on the store not forgetting: exclusion, FIFO, one effect a request. Data was lost.
    NotMemory,
}

/// A lock after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// The lock's name.
    pub lock: String,
    /// Writes that the fenced store accepted.
    pub writes_accepted: u64,
    /// Its number: with no update lost it is the same.
    pub fenced: u64,
    /// Writes that the control took, which are all.
    pub writes_all: u64,
    /// Its number: what is missing was lost.
    pub control: u64,
    /// Who still waits, by the server's List.
    pub waiters: u64,
    /// Whether it is still held.
    pub held: bool,
}

/// The whole after the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// When it was looked at.
    pub at: Nanos,
    /// Keys left in Redis that should not be: neither sequencer, nor meta key, nor about to expire.
    pub leaked_keys: Vec<String>,
    /// Server processes that ended by themselves, with what they said.
    pub crashed: Vec<String>,
    /// Lines in the logs of servers that tell of a panic or an internal error.
    pub log_errors: Vec<String>,
}
