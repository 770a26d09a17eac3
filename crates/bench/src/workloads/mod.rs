//! The workloads, for any server of the API.

pub(super) mod handoff;
pub(super) mod held;
pub(super) mod hold;
pub(super) mod idle;
pub(super) mod pairs;
pub(super) mod wake;

use super::{
    figures::{Figures, Fold},
    usage::Reading,
};
use std::time::Duration;

/// The TTL of leases that are released at once: the server's default.
const TTL: Duration = Duration::from_secs(30);
/// Longer than any wait in a queue that moves.
const WAIT: Duration = Duration::from_secs(60);

/// The parameters of one measurement.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub plan: &'a super::plan::Plan,
    /// The prefix of its lock names, unique to it.
    pub prefix: &'a str,
    /// The prefix of its progress messages.
    pub label: &'a str,
}

/// The additional memory of each server and of Redis, divided by `count`.
pub(crate) fn memory(figures: &mut Figures, alone: &Reading, with: &Reading, count: usize, names: [&'static str; 2]) {
    let server = with.server_memory.zip(alone.server_memory).map(|(with, alone)| with - alone);
    let redis = with.redis.zip(alone.redis).map(|(with, alone)| with.memory - alone.memory);
    for (name, bytes) in names.into_iter().zip([server, redis]) {
        figures.put_known(name, Fold::Median, bytes.map(|bytes| bytes / count as f64));
    }
}
