//! Counts what the bounds of this server refuse, and tells the operator without flooding the log.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How often the log says that a bound refuses.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// A bound of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Open connections.
    Connections,
    /// Open connections from one IP address.
    ConnectionsPerPeer,
    /// Handshakes under way.
    Handshakes,
    /// The time of a handshake.
    HandshakeTime,
}

/// The number of bounds.
const BOUNDS: usize = 4;

impl Bound {
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerPeer => "connections_per_peer",
            Self::Handshakes => "handshakes",
            Self::HandshakeTime => "handshake_time",
        }
    }
}

/// What the bounds have refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    bounds: [Mutex<Refused>; BOUNDS],
}

#[derive(Debug, Default)]
struct Refused {
    /// Since the last line in the log.
    count: u64,
    logged: Option<Instant>,
}

impl Refusals {
    /// Counts a refusal, of something that came from `peer`.
    pub(super) fn count(&self, bound: Bound, peer: &dyn std::fmt::Display) {
        let mut refused = self.bounds[bound as usize].lock();
        refused.count += 1;
        if refused.logged.is_none_or(|logged| logged.elapsed() >= LOG_PERIOD) {
            refused.logged = Some(Instant::now());
            let refused = std::mem::take(&mut refused.count);
            tracing::warn!(bound = bound.name(), refused, %peer, "a bound of the server is reached; connection closed");
        }
    }
}
