//! The servers that have waiters in a partition, and the time of the last sign of life of each.
//!
//! A server's heartbeat is for all of its waiters at once. Waiters of a silent server are skipped, and after a longer
//! time deleted: nobody would hear of a lock granted to them. When it is back, the server asks again for all of them.
//! Who finds a server dead sooner says so ([`Replicas::found_dead`]); if that was wrong, its waiters lose a turn.

use super::{
    ids::ReplicaId,
    limits::{REPLICA_GONE, REPLICA_SILENT},
    time::StoreTime,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// When each replica was last heard of.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// `None`: there is one server, which lives as long as the store.
    seen: Option<BTreeMap<ReplicaId, StoreTime>>,
    /// Those that were found dead, and not heard of since.
    dead: BTreeSet<ReplicaId>,
    /// The server in which the store is, if it is in one: it lives as long as the store.
    own: Option<ReplicaId>,
}

impl Replicas {
    /// For a store inside the one server that uses it.
    pub const fn one() -> Self {
        Self { seen: None, dead: BTreeSet::new(), own: None }
    }

    /// For a store inside this server, which others use through it. None of them has been heard of yet.
    pub const fn many_beside(own: ReplicaId) -> Self {
        Self { seen: Some(BTreeMap::new()), dead: BTreeSet::new(), own: Some(own) }
    }

    /// Notes a heartbeat.
    pub fn beat(&mut self, replica: ReplicaId, now: StoreTime) {
        if let Some(seen) = &mut self.seen {
            // A time in the future, from a clock that stepped back, is cut to now: a server that died since must not
            // count as alive for longer than others.
            seen.values_mut().for_each(|at| *at = (*at).min(now));
            seen.retain(|_, at| now.since(*at) < REPLICA_GONE);
            seen.insert(replica, now);
            // mutant: dead for ever
            self.dead.remove(&replica);
            self.dead.retain(|replica| seen.contains_key(replica));
        }
    }

    /// Notes that a replica does not live, as far as its server can tell. Until it is heard of again, its waiters are
    /// skipped. True if they were not before.
    pub fn found_dead(&mut self, replica: ReplicaId, now: StoreTime) -> bool {
        self.is_alive(replica, now) && self.own != Some(replica) && self.dead.insert(replica)
    }

    /// Whether a replica's waiters may be offered locks.
    pub fn is_alive(&self, replica: ReplicaId, now: StoreTime) -> bool {
        self.silent_for(replica, now).is_some_and(|silent| silent < REPLICA_SILENT) && !self.dead.contains(&replica)
    }

    /// Whether a replica's waiters are to be deleted.
    pub fn is_gone(&self, replica: ReplicaId, now: StoreTime) -> bool {
        // mutant: silent for ever
        self.silent_for(replica, now).is_none_or(|silent| silent >= REPLICA_GONE)
    }

    /// A time after now means that the clock stepped back: it counts as now.
    fn silent_for(&self, replica: ReplicaId, now: StoreTime) -> Option<Duration> {
        match &self.seen {
            None => Some(Duration::ZERO),
            // A server that stops for long does not take its own waiters for those of a dead one.
            Some(_) if self.own == Some(replica) => Some(Duration::ZERO),
            Some(seen) => seen.get(&replica).map(|at| now.since(*at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const A: ReplicaId = ReplicaId(Uuid::from_u128(1));
    const B: ReplicaId = ReplicaId(Uuid::from_u128(2));
    const OWN: ReplicaId = ReplicaId(Uuid::from_u128(3));

    fn at(seconds: u64) -> StoreTime {
        StoreTime::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_replica_is_skipped_after_3_s_of_silence_and_gone_after_30() {
        let mut replicas = Replicas::many_beside(OWN);
        assert!(replicas.is_gone(A, at(100)) && !replicas.is_alive(A, at(100)));
        replicas.beat(A, at(100));
        replicas.beat(A, at(101));
        let (alive, silent) = (StoreTime::from_micros(104_000_000 - 1), at(104));
        assert!(replicas.is_alive(A, alive) && !replicas.is_alive(A, silent) && !replicas.is_gone(A, silent));
        assert!(!replicas.is_gone(A, StoreTime::from_micros(131_000_000 - 1)) && replicas.is_gone(A, at(131)));
        replicas.beat(B, at(200));
        assert!(replicas.is_gone(A, at(200)));
        assert!(replicas.is_alive(B, at(150)), "a clock that stepped back silences nobody");
    }

    #[test]
    fn a_server_that_dies_before_the_clock_steps_back_is_gone_as_soon_as_others() {
        let mut replicas = Replicas::many_beside(OWN);
        replicas.beat(A, at(4_000));
        replicas.beat(B, at(400));
        assert!(replicas.is_alive(A, at(402)));
        replicas.beat(B, at(429));
        assert!(!replicas.is_alive(A, at(403)) && replicas.is_gone(A, at(430)));
    }

    #[test]
    fn the_server_that_has_the_store_is_always_there_and_others_are_heard_of() {
        let mut replicas = Replicas::many_beside(A);
        assert!(replicas.is_alive(A, at(1_000)) && !replicas.is_gone(A, at(1_000)));
        assert!(replicas.is_gone(B, at(1_000)));
        replicas.beat(B, at(1_000));
        assert!(replicas.is_alive(B, at(1_001)) && replicas.is_gone(B, at(1_030)) && replicas.is_alive(A, at(1_030)));
    }

    #[test]
    fn a_replica_that_is_found_dead_is_skipped_until_it_is_heard_of() {
        let mut replicas = Replicas::many_beside(OWN);
        assert!(!replicas.found_dead(A, at(100)), "it was never there");
        replicas.beat(A, at(100));
        replicas.beat(B, at(100));
        assert!(replicas.found_dead(A, at(101)) && !replicas.found_dead(A, at(101)));
        assert!(!replicas.is_alive(A, at(101)) && !replicas.is_gone(A, at(101)) && replicas.is_alive(B, at(101)));
        replicas.beat(A, at(102));
        assert!(replicas.is_alive(A, at(102)) && replicas.found_dead(A, at(102)));
        assert!(replicas.is_gone(A, at(132)), "as after any silence");
        assert!(!replicas.found_dead(OWN, at(101)) && replicas.is_alive(OWN, at(101)));
    }

    #[test]
    fn one_alone_is_always_there() {
        let mut replicas = Replicas::one();
        replicas.beat(A, at(1));
        assert!(replicas.is_alive(A, at(1_000)) && !replicas.is_gone(A, at(1_000)));
    }
}
