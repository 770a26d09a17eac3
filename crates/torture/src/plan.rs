//! The faults of a history and their times, determined by the seed in advance.
//!
//! The kinds are given in order of preference (a suite prefers those that it has had least), and a history takes as
//! many as fit. It takes the first kind that is allowed at that point:
//!
//! - Two faults of the same domain never overlap.
//! - Data is not lost in a history in which the clock goes back, before or after that, and not within a moment of a
//!   restart: there the promise of rising tokens ends (S2 in docs/architecture.md: a forgotten skip with a clock error
//!   above the time since; k restarts within k seconds).
//! - The clock is not set while Redis is not there.

use crate::{
    faults::{FaultDomain, FaultKind},
    rng::Rng,
};
use std::{collections::VecDeque, time::Duration};

/// A planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    pub(crate) kind: FaultKind,
    /// The time since the start of the history.
    pub(crate) at: Duration,
    /// How long it lasts, if it has a duration.
    pub(crate) hold: Duration,
    /// The index of its target.
    pub(crate) target: usize,
    /// The seed of its other random choices.
    pub(crate) draw: u64,
}

const QUIET_BEGIN: Duration = Duration::from_millis(1_000);
/// The time without faults at the end.
const QUIET_END: Duration = Duration::from_millis(1_800);
/// The additional duration of a fault: starting processes, connecting.
const OVERHEAD: Duration = Duration::from_millis(300);
/// The minimum time between two restarts of Redis, after which it may have lost data.
const RESTART_INTERVAL_MIN: Duration = Duration::from_millis(2_000);

/// Shuffles the kinds, by the seed.
pub(crate) fn shuffled(mut kinds: Vec<FaultKind>, seed: u64) -> Vec<FaultKind> {
    Rng::new(seed, 0x0f).shuffle(&mut kinds);
    kinds
}

/// The state of the plan that decides which kinds are allowed next.
struct Planner {
    rng: Rng,
    wanted: VecDeque<FaultKind>,
    clock_was_set_back: bool,
    data_was_lost: bool,
    restarted_at: Option<Duration>,
}

/// Plans the faults of a history, in order of time. Goes through `wanted` repeatedly.
pub(crate) fn faults(wanted: &[FaultKind], seed: u64, duration: Duration) -> Vec<PlannedFault> {
    let (rng, wanted) = (Rng::new(seed, 0xfa), wanted.iter().copied().collect());
    let mut planner = Planner { rng, wanted, clock_was_set_back: false, data_was_lost: false, restarted_at: None };
    let (mut faults, mut at) = (Vec::<PlannedFault>::new(), QUIET_BEGIN);
    let fits = |fault: &PlannedFault| fault.at + fault.hold + OVERHEAD + QUIET_END <= duration;
    loop {
        let Some(first) = planner.next(at, None) else { return faults };
        if !fits(&first) {
            return faults;
        }
        let mut over = first.at + first.hold + OVERHEAD;
        let together = planner.rng.chance(35);
        let second = together.then(|| planner.next(at + first.hold.mul_f64(0.4), Some(first.kind))).flatten();
        faults.push(first);
        if let Some(second) = second.filter(|second| fits(second)) {
            over = over.max(second.at + second.hold + OVERHEAD);
            faults.push(second);
        }
        at = over + planner.rng.millis(250, 900);
    }
}

impl Planner {
    fn next(&mut self, at: Duration, beside: Option<FaultKind>) -> Option<PlannedFault> {
        let index = self.wanted.iter().position(|kind| self.is_allowed(*kind, at, beside))?;
        let kind = self.wanted.remove(index)?;
        self.wanted.push_back(kind);
        // Sometimes longer than a TTL.
        let hold = if self.rng.chance(25) { self.rng.millis(1_500, 2_600) } else { self.rng.millis(200, 1_300) };
        let hold = kind.hold(hold);
        self.clock_was_set_back |= kind == FaultKind::ClockBack;
        self.data_was_lost |= kind.loses_data();
        if kind.restarts_redis() {
            self.restarted_at = Some(at + hold + OVERHEAD);
        }
        let (target, draw) = (self.rng.index(64), self.rng.next());
        Some(PlannedFault { kind, at, hold, target, draw })
    }

    fn is_allowed(&self, kind: FaultKind, at: Duration, beside: Option<FaultKind>) -> bool {
        let apart = beside.is_none_or(|other| may_overlap(kind, other));
        let affects_redis = kind.restarts_redis() || kind.loses_data();
        let is_long_after_restart = self.restarted_at.is_none_or(|until| at >= until + RESTART_INTERVAL_MIN);
        let mixes_loss_and_clock =
            kind.loses_data() && self.clock_was_set_back || kind == FaultKind::ClockBack && self.data_was_lost;
        apart && !mixes_loss_and_clock && (!affects_redis || is_long_after_restart)
    }
}

fn may_overlap(one: FaultKind, other: FaultKind) -> bool {
    let both = [one, other];
    let (one, other) = (one.domain(), other.domain());
    let sets_clock = |kind: &FaultKind| matches!(kind, FaultKind::ClockBack | FaultKind::ClockForward);
    let clocks = both.iter().any(sets_clock) && both.iter().any(|kind| kind.restarts_redis());
    one != other && one != FaultDomain::All && other != FaultDomain::All && !clocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use clap::ValueEnum;
    use std::collections::BTreeMap;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_seed_determines_the_plan() {
        let plan = |seed| faults(&shuffled(Topology::Redis.kinds(), seed), seed, LONG);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(faults(&[], 1, LONG).is_empty());
    }

    #[test]
    fn every_kind_occurs_if_the_rarest_are_preferred() {
        for topology in Topology::value_variants() {
            let mut counts: BTreeMap<FaultKind, u32> = topology.kinds().into_iter().map(|kind| (kind, 0)).collect();
            for seed in 0..150 {
                let mut wanted = shuffled(topology.kinds(), seed);
                wanted.sort_by_key(|kind| counts[kind]);
                let plan = faults(&wanted, seed, LONG);
                assert!((3..=16).contains(&plan.len()), "{}", plan.len());
                for fault in &plan {
                    counts.entry(fault.kind).and_modify(|count| *count += 1);
                    assert!(fault.at + fault.hold + QUIET_END <= LONG);
                }
                let goes_back = plan.iter().any(|fault| fault.kind == FaultKind::ClockBack);
                assert!(!(goes_back && plan.iter().any(|fault| fault.kind.loses_data())), "{plan:?}");
            }
            let (least, most) = (counts.values().min().copied(), counts.values().max().copied());
            assert!(most <= least.map(|least| least + 8), "{counts:?}");
            assert!(least >= Some(25), "{counts:?}");
        }
    }
}
