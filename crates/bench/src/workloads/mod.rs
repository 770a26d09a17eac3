//! The workloads of the load, against anything that answers the calls.

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

/// Of leases that are given back at once: what the server takes if nothing is asked for.
const TTL: Duration = Duration::from_secs(30);
/// Longer than any wait in a line that moves.
const WAIT: Duration = Duration::from_secs(60);

/// What a run needs besides the place.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub plan: &'a super::plan::Plan,
    /// What its locks' names begin with, unlike those of any other run.
    pub prefix: &'a str,
    /// What its progress begins with.
    pub label: &'a str,
}

/// What came on top of each server and of Redis, for each of so many.
pub(crate) fn memory(figures: &mut Figures, alone: &Reading, with: &Reading, count: usize, names: [&'static str; 2]) {
    let server = with.server_memory.zip(alone.server_memory).map(|(with, alone)| with - alone);
    let redis = with.redis.zip(alone.redis).map(|(with, alone)| with.memory - alone.memory);
    for (name, bytes) in names.into_iter().zip([server, redis]) {
        figures.put_known(name, Fold::Median, bytes.map(|bytes| bytes / count as f64));
    }
}
