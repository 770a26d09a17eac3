//! What leases, ghosts and offers beside each other have to keep, whatever came before. Needs no oracle.

use super::{World, kind, request_number};
use fencepost::testing::domain::{
    command::{Effect, Effects},
    mode::Mode,
};
use std::{collections::HashSet, mem::discriminant};

impl World {
    pub(super) fn check_beside(&self, effects: &Effects) {
        let leases = self.lock.leases().map(|lease| &lease.terms.mode);
        let places: Vec<_> = leases.chain(self.lock.ghosts().map(|ghost| &ghost.mode)).collect();
        let modes: HashSet<_> = places.iter().map(|mode| discriminant(*mode)).collect();
        assert!(modes.len() <= 1, "leases and ghosts beside each other are of one mode");
        let is_exclusive = places.iter().any(|mode| **mode == Mode::Exclusive);
        assert!(!is_exclusive || places.len() == 1, "an exclusive lease is alone");
        let permits: Vec<_> = places.iter().filter_map(|mode| mode.permits()).collect();
        let mut slots = HashSet::new();
        for held in &permits {
            assert_eq!(held.count == 1, held.slot.is_some(), "a lease of one permit has a slot");
            let Some(slot) = held.slot else { continue };
            assert!(slot.get() <= held.limit.permits, "a slot is at most the limit at its grant");
            assert!(slots.insert(slot), "no two leases or ghosts have one slot");
        }
        let offered: Vec<_> = self.lock.offers().filter_map(|it| kind(request_number(it)).permits()).collect();
        let Some(limit) = self.lock.permit_limit() else {
            assert!(permits.is_empty() && offered.is_empty(), "a semaphore has a limit");
            return;
        };
        let taken = permits.iter().map(|held| held.count).chain(offered.iter().copied()).sum::<u32>();
        let is_granted = !permits.is_empty() && effects.iter().any(|it| matches!(it, Effect::Granted(_)));
        // A lower limit withdraws offers, and ends no lease.
        if is_granted || !offered.is_empty() {
            assert!(taken <= limit.permits, "no more permits than the limit: {taken} of {limit:?}");
        }
    }
}
