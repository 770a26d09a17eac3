//! Which faults happen when: drawn from the seed, before anything starts.
//!
//! Kinds come in rounds, each of which has every kind of the topology once, in an order of its own. A history takes as many as fit,
//! beginning at its offset; the next one goes on where it ended. So after many histories every kind was there equally often.

use crate::{
    faults::{Domain, Kind},
    rng::Rng,
    topology::Topology,
};
use std::time::Duration;

/// One fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// Counted from the beginning of the history.
    pub(crate) at: Duration,
    /// For how long it lasts, where it lasts.
    pub(crate) hold: Duration,
    /// Which one, where there are several.
    pub(crate) target: usize,
    /// What else it draws.
    pub(crate) draw: u64,
}

const QUIET_BEGIN: Duration = Duration::from_millis(1_000);
/// The last fault ends this long before the clients do.
const QUIET_END: Duration = Duration::from_millis(1_800);
/// What a fault takes on top of its hold: processes start, connections are made.
const OVERHEAD: Duration = Duration::from_millis(300);

/// The `number`th kind of fault of a topology.
pub(crate) fn kind_at(topology: Topology, number: u64) -> Kind {
    let mut kinds = topology.kinds();
    let length = u64::try_from(kinds.len()).unwrap_or(1);
    Rng::new(number / length, 0x0f).shuffle(&mut kinds);
    kinds[usize::try_from(number % length).unwrap_or(0)]
}

/// The faults of a history, in the order of their beginning.
pub(crate) fn events(topology: Topology, seed: u64, offset: u64, duration: Duration) -> Vec<Event> {
    let mut rng = Rng::new(seed, 0xfa);
    let (mut events, mut at, mut number) = (Vec::<Event>::new(), QUIET_BEGIN, offset);
    loop {
        let first = event(topology, &mut rng, number, at);
        let end = at + first.hold + OVERHEAD;
        if end + QUIET_END > duration {
            return events;
        }
        let together = rng.chance(35);
        let second = event(topology, &mut rng, number + 1, at + first.hold.mul_f64(0.4));
        let second_end = second.at + second.hold + OVERHEAD;
        let mut over = end;
        number += 1;
        let fits = go_together(first.kind, second.kind) && second_end + QUIET_END <= duration;
        events.push(first);
        if together && fits {
            events.push(second);
            number += 1;
            over = over.max(second_end);
        }
        at = over + rng.millis(250, 900);
    }
}

fn event(topology: Topology, rng: &mut Rng, number: u64, at: Duration) -> Event {
    // A pause longer than a TTL now and then.
    let hold = if rng.chance(25) { rng.millis(1_500, 2_600) } else { rng.millis(200, 1_300) };
    let (target, draw) = (rng.index(64), rng.next());
    Event { kind: kind_at(topology, number), at, hold, target, draw }
}

fn go_together(one: Kind, other: Kind) -> bool {
    let (one, other) = (one.domain(), other.domain());
    one != other && one != Domain::All && other != Domain::All
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_seed_says_it_all() {
        let plan = |seed| events(Topology::Redis, seed, 3, LONG);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn every_kind_gets_its_turn_and_faults_leave_time_to_recover() {
        for topology in [Topology::Memory, Topology::Redis, Topology::RedisReplica] {
            let (mut counts, mut offset, mut total) = (BTreeMap::<Kind, u32>::new(), 0, 0);
            for seed in 0..150 {
                let plan = events(topology, seed, offset, LONG);
                assert!((4..=14).contains(&plan.len()), "{}", plan.len());
                offset += u64::try_from(plan.len()).unwrap_or(0);
                total += plan.len();
                plan.iter().for_each(|event| *counts.entry(event.kind).or_default() += 1);
                assert!(plan.iter().all(|event| event.at + event.hold + QUIET_END <= LONG));
            }
            let (least, most) = (counts.values().min().copied(), counts.values().max().copied());
            assert_eq!(counts.len(), topology.kinds().len());
            assert!(most <= least.map(|least| least + 1), "{counts:?}");
            assert!(total > 150 * 5, "{total}");
        }
    }
}
