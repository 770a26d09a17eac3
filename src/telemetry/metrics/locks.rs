//! What happens to locks, leases and waiting calls on this server.

use super::{
    Buckets,
    label::{Counters, Gauges, label},
    register,
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

label! {
    /// How a lease was granted.
    Granted = "by" {
        /// The lock was free.
        Try = "try",
        /// The call had waited in the queue.
        Wait = "wait",
    }
}

label! {
    /// Why an acquire that neither got the lock nor found it contended ended.
    AcquireFailure = "reason" {
        /// Its wait ended.
        TimedOut = "timed_out",
        /// A newer attempt replaced it.
        Overtaken = "overtaken",
        /// Its request had ended.
        Ended = "ended",
        /// A parameter broke a rule that the store checks.
        Invalid = "invalid",
        /// The queue of the lock is full.
        QueueFull = "queue_full",
        /// Too many calls wait on this server.
        ServerFull = "server_full",
        /// Another call of its attempt waits.
        Shared = "shared",
        /// The store lost its queue position.
        PlaceLost = "place_lost",
        /// The command reached the leader too late.
        TooLate = "too_late",
        /// The server drains.
        Draining = "draining",
        /// No token is left.
        TokensExhausted = "tokens_exhausted",
        /// It asked for what classic clients would not see.
        BesideClassic = "beside_classic",
        /// The lock is in use in another mode.
        ModeMismatch = "mode_mismatch",
        /// Another limit of the semaphore is in force.
        LimitMismatch = "limit_mismatch",
        /// Servers of an earlier version do not know what it asked for.
        NotAllServers = "not_all_servers",
        /// The store cannot be reached.
        StoreUnavailable = "store_unavailable",
        /// The store has too much to do.
        StoreOverloaded = "store_overloaded",
        /// The store did not answer in time.
        OutcomeUnknown = "outcome_unknown",
        /// The store holds data that the server did not write.
        StoreCorrupt = "store_corrupt",
    }
}

label! {
    /// The outcome of a renewal.
    Renewal = "outcome" {
        /// The lease was extended.
        Renewed = "renewed",
        /// The lease had ended.
        Lost = "lost",
        /// Neither the store nor this server knows the lease: it ended long ago, or never was.
        Unknown = "unknown",
        /// The store did not do it.
        Failed = "failed",
    }
}

label! {
    /// How a lease was lost. Of one that the store does not know, only if this server kept it: anybody can make up the
    /// id of a lease.
    Loss = "cause" {
        /// Its TTL ran out.
        Expired = "expired",
        /// An operator revoked it, or the end of its stream.
        Revoked = "revoked",
        /// A stream kept it; the store does not know it, and another lease holds the lock.
        Superseded = "superseded",
        /// A stream kept it, and the store does not know it.
        Unknown = "unknown",
    }
}

label! {
    /// The kind of a stream.
    StreamKind = "kind" {
        /// KeepAlive.
        KeepAlive = "keep_alive",
        /// Session.
        Session = "session",
    }
}

/// What happens to locks, leases and waiting calls on this server.
#[derive(Debug)]
pub struct LockMetrics {
    /// Leases granted.
    pub grants: Counters<Granted>,
    /// Acquires that did not wait and found the lock held.
    pub contended: Counter,
    /// Acquires that failed otherwise.
    pub acquire_failures: Counters<AcquireFailure>,
    /// The time in the queue.
    pub wait: Histogram,
    /// The time for which leases are held.
    pub hold: Histogram,
    /// The time of a hand-off.
    pub handoff: Histogram,
    /// Renewals.
    pub renewals: Counters<Renewal>,
    /// Losses.
    pub losses: Counters<Loss>,
    /// Answers that came after a lease had expired.
    pub late_answers: Counter,
    /// Waiting calls; set at each scrape.
    pub waiters: Gauge,
    /// Open watches; set at each scrape.
    pub watchers: Gauge,
    /// Open streams.
    pub streams: Gauges<StreamKind>,
    /// Leases that streams keep alive.
    pub kept_leases: Gauge,
}

impl LockMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let it = registry;
        Self {
            grants: Counters::register(
                it,
                "grants",
                "Leases granted: by=\"try\" if the lock was free, by=\"wait\" from the queue. A repeat that is \
                 answered the same lease counts again",
            ),
            contended: register(it, "contended", "Acquires that did not wait and found the lock held"),
            acquire_failures: Counters::register(
                it,
                "acquire_failures",
                "Acquires that ended without a lease for another reason. Calls that the client gave up are not counted",
            ),
            wait: Buckets::Long.register(it, "wait", "Time from the arrival of a call to its grant, if it was queued"),
            hold: Buckets::Long.register(
                it,
                "hold",
                "Time for which a stream of this server kept a lease, up to its release or loss. Not known for leases \
                 that no stream keeps, and for streams that end before their leases",
            ),
            handoff: Buckets::Short.register(
                it,
                "handoff",
                "Time from the offer of a lock to a call waiting here, or from the release that hands it over, to the \
                 grant",
            ),
            renewals: Counters::register(
                it,
                "renewals",
                "Renewals of leases, on streams and by calls; the attachment of a lease is one",
            ),
            losses: Counters::register(
                it,
                "losses",
                "Leases of which this server told the holder that they are lost. Those that the store does not know \
                 count if a stream of this server kept them",
            ),
            late_answers: register(
                it,
                "late_answers",
                "Answers to beats sent before a lease of the stream expired, that came after it had expired",
            ),
            waiters: register(it, "waiters", "Calls that wait on this server"),
            watchers: register(it, "watchers", "Open Watch streams, and locks that are observed"),
            streams: Gauges::register(it, "streams", "Open KeepAlive and Session streams"),
            kept_leases: register(it, "kept_leases", "Leases that streams of this server keep alive"),
        }
    }
}

impl Default for LockMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
