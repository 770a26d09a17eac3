//! Who waits for whom, and who of them waits in a circle.

use super::circles::circles;
use fencepost_client::raw::v1::{ListWaitersResponse, LockHolder, LockInfo, LockMode, LockWaiter};
use std::{collections::HashMap, mem::take};

/// What does one thing at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    Owner(String),
    /// A request without an owner. It waits, and holds nothing as far as is known.
    Request {
        lock_name: String,
        waiter_id: String,
    },
}

/// Whom a request waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Blocker {
    Holder(LockHolder),
    /// A request before it in the queue.
    Ahead(LockWaiter),
}

impl Blocker {
    /// Its permits, if a request for permits may go on without them.
    fn permits_beside(&self, mode: LockMode) -> Option<u64> {
        match self {
            Self::Holder(holder) if (mode, holder.mode()) == (LockMode::Semaphore, LockMode::Semaphore) => {
                Some(holder.permits.into())
            }
            _ => None,
        }
    }
}

/// A request that waits, and those it waits for, each with the number of its party.
#[derive(Debug)]
struct Wait {
    party: usize,
    lock_name: String,
    waiter: LockWaiter,
    blockers: Vec<(usize, Blocker)>,
    /// With permits: how many of them others may keep, so that there are enough for this request.
    spare: u64,
}

impl Wait {
    /// Whether it waits for ever if those parties do.
    fn is_stuck(&self, stuck: &[bool]) -> bool {
        let mut kept = 0;
        for (_, blocker) in self.blockers.iter().filter(|(party, _)| stuck[*party]) {
            match blocker.permits_beside(self.waiter.mode()) {
                Some(permits) => kept += permits,
                None => return true,
            }
        }
        kept > self.spare
    }
}

/// Owners that wait for each other in a circle: each request with those of them for whom it waits.
#[derive(Debug, PartialEq)]
pub(super) struct Deadlock(pub(super) Vec<Blocked>);

/// A request of a deadlock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocked {
    pub(super) lock_name: String,
    pub(super) waiter: LockWaiter,
    pub(super) blockers: Vec<Blocker>,
}

/// What the rounds do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    /// Requests that wait, and holders of their locks, without an owner.
    pub(super) without_owner: usize,
    /// Holders that the server does not show.
    pub(super) not_shown: u32,
}

/// What was so in both rounds, and what is not known.
#[derive(Debug, Default)]
pub(super) struct Known {
    parties: Vec<Party>,
    waits: Vec<Wait>,
    pub(super) unknown: Unknown,
}

impl Known {
    /// What was so in both rounds.
    pub(super) fn of(first: &[ListWaitersResponse], second: &[ListWaitersResponse]) -> Self {
        let name = |queue: &ListWaitersResponse| queue.lock.as_ref().map(|lock| lock.lock_name.clone());
        let before: HashMap<_, _> = first.iter().filter_map(|queue| Some((name(queue)?, queue))).collect();
        let (mut known, mut numbers) = (Self::default(), HashMap::new());
        for queue in second {
            if let Some(before) = name(queue).and_then(|name| before.get(&name)) {
                known.add(before, queue, &mut numbers);
            }
        }
        known
    }

    /// Adds the waits of a lock.
    fn add(&mut self, before: &ListWaitersResponse, now: &ListWaitersResponse, numbers: &mut HashMap<Party, usize>) {
        let (Some(lock_before), Some(lock)) = (&before.lock, &now.lock) else { return };
        let waiters = lasting_waiters(&before.waiters, &now.waiters);
        if waiters.is_empty() {
            return;
        }
        let holders = lasting_holders(&lock_before.holders, &lock.holders);
        let ownerless = waiters.iter().filter(|waiter| waiter.owner.is_empty()).count();
        self.unknown.without_owner += ownerless + holders.iter().filter(|holder| holder.owner.is_empty()).count();
        self.unknown.not_shown +=
            lock.holder_count.saturating_sub(u32::try_from(lock.holders.len()).unwrap_or(u32::MAX));
        let limit = limit(lock_before).max(limit(lock));
        let mut number = |party: Party| {
            *numbers.entry(party.clone()).or_insert_with(|| {
                self.parties.push(party);
                self.parties.len() - 1
            })
        };
        for (index, waiter) in waiters.iter().enumerate() {
            let party = number(party_of(&lock.lock_name, waiter));
            let mut blockers = Vec::new();
            // Those without an owner go on, as far as is known.
            for holder in holders.iter().filter(|it| !it.owner.is_empty() && excludes(it.mode(), waiter.mode())) {
                blockers.push((number(Party::Owner(holder.owner.clone())), Blocker::Holder(holder.clone())));
            }
            for ahead in ahead_of(waiter.mode(), &waiters[..index]) {
                let other = number(party_of(&lock.lock_name, ahead));
                // The requests of one owner in one queue are served one after another.
                if other != party {
                    blockers.push((other, Blocker::Ahead(ahead.clone())));
                }
            }
            let spare = limit.saturating_sub(waiter.permits.into());
            let (lock_name, waiter) = (lock.lock_name.clone(), waiter.clone());
            self.waits.push(Wait { party, lock_name, waiter, blockers, spare });
        }
    }

    /// The deadlocks.
    pub(super) fn deadlocks(&self) -> Vec<Deadlock> {
        let stuck = self.stuck();
        let waits: Vec<_> = self.waits.iter().filter(|wait| stuck[wait.party] && wait.is_stuck(&stuck)).collect();
        let mut edges = vec![Vec::new(); self.parties.len()];
        for wait in &waits {
            edges[wait.party].extend(wait.blockers.iter().map(|(party, _)| *party).filter(|party| stuck[*party]));
        }
        let found = circles(&edges);
        let mut circle_of = vec![None; self.parties.len()];
        for (number, circle) in found.iter().enumerate() {
            circle.iter().for_each(|party| circle_of[*party] = Some(number));
        }
        let blocked = |wait: &Wait| {
            let circle = circle_of[wait.party]?;
            let blockers = wait.blockers.iter().filter(|(party, _)| circle_of[*party] == Some(circle));
            let blockers: Vec<_> = blockers.map(|(_, blocker)| blocker.clone()).collect();
            let (lock_name, waiter) = (wait.lock_name.clone(), wait.waiter.clone());
            (!blockers.is_empty()).then_some(Blocked { lock_name, waiter, blockers })
        };
        let mut blocked_of = vec![Vec::new(); self.parties.len()];
        waits.iter().for_each(|wait| blocked_of[wait.party].extend(blocked(wait)));
        let deadlock =
            |circle: Vec<usize>| Deadlock(circle.iter().flat_map(|party| take(&mut blocked_of[*party])).collect());
        found.into_iter().map(deadlock).collect()
    }

    /// The parties that cannot go on, whatever the others do. One that can gives back what it holds in the end.
    fn stuck(&self) -> Vec<bool> {
        let mut waits_of = vec![Vec::new(); self.parties.len()];
        for wait in &self.waits {
            waits_of[wait.party].push(wait);
        }
        let mut stuck = vec![true; self.parties.len()];
        loop {
            let mut changed = false;
            for (party, waits) in waits_of.iter().enumerate() {
                if stuck[party] && !waits.iter().any(|wait| wait.is_stuck(&stuck)) {
                    (stuck[party], changed) = (false, true);
                }
            }
            if !changed {
                return stuck;
            }
        }
    }
}

fn party_of(lock_name: &str, waiter: &LockWaiter) -> Party {
    match waiter.owner.as_str() {
        // One id may be used for several locks.
        "" => Party::Request { lock_name: lock_name.to_owned(), waiter_id: waiter.waiter_id.clone() },
        owner => Party::Owner(owner.to_owned()),
    }
}

/// The limit of a semaphore; none if it is not held as one.
fn limit(lock: &LockInfo) -> u64 {
    lock.semaphore.as_ref().map_or(u64::MAX, |semaphore| semaphore.permit_limit.into())
}

/// Whether one has to wait for the other. Permits are counted apart.
fn excludes(one: LockMode, other: LockMode) -> bool {
    !matches!((one, other), (LockMode::Shared, LockMode::Shared))
}

/// The requests that have to be served first. Those before them are theirs to wait for.
fn ahead_of(mode: LockMode, before: &[LockWaiter]) -> Vec<&LockWaiter> {
    let mut ahead = Vec::new();
    for other in before.iter().rev().filter(|other| excludes(other.mode(), mode)) {
        ahead.push(other);
        if other.mode() != LockMode::Shared {
            break;
        }
    }
    ahead
}

/// The requests that wait in both rounds, in the order of the queue. Not those that the queue passes over, nor one that
/// went to its end meanwhile.
fn lasting_waiters(before: &[LockWaiter], now: &[LockWaiter]) -> Vec<LockWaiter> {
    let live = |waiter: &&LockWaiter| !waiter.skipped;
    let places = before.iter().filter(live).enumerate().map(|(place, waiter)| (waiter.waiter_id.as_str(), place));
    let places: HashMap<_, _> = places.collect();
    let mut last = None;
    let lasts = |waiter: &&LockWaiter| {
        let place = places.get(waiter.waiter_id.as_str()).copied();
        let in_order = place.is_some() && place > last;
        last = if in_order { place } else { last };
        in_order
    };
    now.iter().filter(live).filter(lasts).cloned().collect()
}

/// The leases of both rounds. One that was converted meanwhile counts as shared: so it excludes less.
fn lasting_holders(before: &[LockHolder], now: &[LockHolder]) -> Vec<LockHolder> {
    let modes: HashMap<_, _> = before.iter().map(|holder| (holder.grant_id.as_str(), holder.mode())).collect();
    let lasting = |holder: &LockHolder| {
        let before = *modes.get(holder.grant_id.as_str()).filter(|_| !holder.grant_id.is_empty())?;
        let mode = if before == holder.mode() { before } else { LockMode::Shared };
        Some(LockHolder { mode: mode.into(), ..holder.clone() })
    };
    now.iter().filter_map(lasting).collect()
}

#[cfg(test)]
mod tests;
