//! Leases beside others: any number of holders share a lock, or have permits of it, and no exclusive one beside them.
//!
//! A lock without such leases and without offers of them keeps none of this.

use super::{
    Ghost, Offer,
    ghosts::{Ghosts, NO_GHOSTS},
    permits::Semaphore,
};
use crate::domain::{
    ids::{GrantId, LeaseId, RequestId},
    lease::Lease,
    limits::{CLAIM_WINDOW, HOLDERS_MAX, OFFERS_MAX},
    mode::Mode,
    time::StoreTime,
    token::FencingToken,
};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// More leases than these are not checked one by one, because each turn would then cost their number.
const CHECKED_WHOLE: usize = 32;

/// An offer of a lease beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareOffer {
    pub(super) offer: Offer,
    /// The permits of it; none of a shared lease.
    pub(super) permits: u32,
}

/// The leases of a lock that stand beside each other, the ghosts of such, and the offers: all are shared, or all are of
/// a semaphore.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    pub(super) leases: BTreeMap<FencingToken, Lease>,
    pub(super) by_lease: BTreeMap<LeaseId, FencingToken>,
    pub(super) by_request: BTreeMap<RequestId, FencingToken>,
    /// When each lease ends, the next first.
    pub(super) ends: BTreeSet<(StoreTime, FencingToken)>,
    /// Those that have ended and still occupy their places. In a box, so that locks without any do not pay for it.
    pub(super) ghosts: Option<Box<Ghosts>>,
    /// Those whose streams are to be told when somebody waits.
    pub(super) to_tell: BTreeSet<FencingToken>,
    /// At most [`OFFERS_MAX`].
    pub(super) offers: Vec<ShareOffer>,
    /// What is used of the semaphore, if it is one.
    pub(super) semaphore: Option<Box<Semaphore>>,
    /// The time of the last turn.
    pub(super) seen: StoreTime,
}

impl Shares {
    /// Whether another lease may be granted or offered.
    pub(super) fn has_room(&self) -> bool {
        let places = self.leases.len() + self.ghosts().len() + self.offers.len();
        self.offers.len() < OFFERS_MAX && places < HOLDERS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.offers.is_empty() && self.ghosts.is_none()
    }

    pub(super) fn ghosts(&self) -> &Ghosts {
        self.ghosts.as_deref().unwrap_or(&NO_GHOSTS)
    }

    /// At least one is to be there afterwards.
    pub(super) fn ghosts_mut(&mut self) -> &mut Ghosts {
        self.ghosts.get_or_insert_default()
    }

    /// A lease that was removed goes on occupying its place.
    pub(super) fn insert_ghost(&mut self, ghost: Ghost) {
        if let (Some(semaphore), Some(permits)) = (&mut self.semaphore, ghost.mode.permits()) {
            // mutant: slot reused under a ghost
            semaphore.keep(permits);
        }
        self.ghosts_mut().insert(ghost);
    }

    /// Frees the place of a ghost.
    pub(super) fn remove_ghost(&mut self, token: FencingToken) -> Option<Ghost> {
        let ghost = self.ghosts.as_mut()?.remove(token)?;
        self.ghosts.take_if(|ghosts| ghosts.len() == 0);
        if let (Some(semaphore), Some(permits)) = (&mut self.semaphore, ghost.mode.permits()) {
            semaphore.remove(permits);
        }
        Some(ghost)
    }

    /// Gives a place to a lease, or a ghost, of another leader. False if it excludes one of these.
    pub(super) fn keep_place(&mut self, mode: &Mode) -> bool {
        let is_first = self.leases.is_empty() && self.ghosts.is_none();
        // Its clock may have been ahead: the first turn looks at each lease.
        self.seen = StoreTime::from_micros(u64::MAX);
        match (mode, &mut self.semaphore) {
            (Mode::Exclusive, _) | (Mode::Shared, Some(_)) => false,
            (Mode::Shared, None) => true,
            (Mode::Semaphore(permits), semaphore) if is_first || semaphore.is_some() => {
                semaphore.get_or_insert_with(|| Box::new(Semaphore::new(permits.limit))).keep(permits)
            }
            (Mode::Semaphore(_), _) => false,
        }
    }

    pub(super) fn leases(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.leases.values()
    }

    pub(super) fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter().map(|it| &it.offer)
    }

    pub(super) fn semaphore(&self) -> Option<&Semaphore> {
        self.semaphore.as_deref()
    }

    pub(super) fn semaphore_mut(&mut self) -> Option<&mut Semaphore> {
        self.semaphore.as_deref_mut()
    }

    pub(super) fn of_token(&self, token: FencingToken) -> Option<&Lease> {
        self.leases.get(&token)
    }

    /// The lease with this id, also one whose time is over and that is not ended yet.
    pub(super) fn of_lease(&self, lease_id: LeaseId) -> Option<&Lease> {
        self.by_lease.get(&lease_id).and_then(|token| self.leases.get(token))
    }

    /// The lease of this request, also one whose time is over and that is not ended yet.
    pub(super) fn of_request(&self, request: RequestId) -> Option<&Lease> {
        self.by_request.get(&request).and_then(|token| self.leases.get(token))
    }

    pub(super) fn insert(&mut self, lease: Lease) -> &Lease {
        let token = lease.token;
        self.by_lease.insert(lease.lease_id, token);
        self.by_request.insert(lease.request, token);
        self.ends.insert((lease.expires_at, token));
        if lease.is_to_tell() {
            self.to_tell.insert(token);
        }
        match self.leases.entry(token) {
            Entry::Vacant(entry) => entry.insert(lease),
            Entry::Occupied(_) => panic!("no two leases have one token"),
        }
    }

    pub(super) fn remove(&mut self, token: FencingToken) -> Option<Lease> {
        let lease = self.leases.remove(&token)?;
        self.by_lease.remove(&lease.lease_id);
        self.by_request.remove(&lease.request);
        self.ends.remove(&(lease.expires_at, token));
        self.to_tell.remove(&token);
        if let (Some(semaphore), Some(permits)) = (&mut self.semaphore, lease.terms.mode.permits()) {
            semaphore.remove(permits);
        }
        Some(lease)
    }

    /// Changes a lease, which may end at another time afterwards.
    pub(super) fn change<R>(&mut self, token: FencingToken, change: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&token)?;
        let before = lease.expires_at;
        let changed = change(lease);
        let (after, is_to_tell) = (lease.expires_at, lease.is_to_tell());
        if is_to_tell {
            self.to_tell.insert(token);
        } else {
            self.to_tell.remove(&token);
        }
        if before != after {
            self.ends.remove(&(before, token));
            self.ends.insert((after, token));
        }
        Some(changed)
    }

    /// Repairs times after the clock stepped back, and returns what it changed. Only then it looks at each lease.
    pub(super) fn heal(&mut self, now: StoreTime) -> Vec<(FencingToken, GrantId)> {
        let mut changed = Vec::new();
        if now < self.seen {
            for (token, lease) in &mut self.leases {
                let healed = lease.healed_end(now);
                let before = std::mem::replace(&mut lease.expires_at, healed);
                if before != healed {
                    changed.push((*token, lease.grant_id));
                    self.ends.remove(&(before, *token));
                    self.ends.insert((healed, *token));
                }
            }
            if let Some(ghosts) = &mut self.ghosts {
                changed.extend(ghosts.heal(now));
            }
            self.offers.iter_mut().for_each(|it| it.offer.until = it.offer.until.min(now.after(CLAIM_WINDOW)));
        }
        self.seen = now;
        changed
    }

    pub(super) fn next_due(&self) -> Option<StoreTime> {
        let ends = self.next_end().map(|(at, _)| at);
        self.offers().map(|offer| offer.until).chain(ends).min()
    }

    /// When the next lease ends, or the next ghost goes, and its token.
    pub(super) fn next_end(&self) -> Option<(StoreTime, FencingToken)> {
        self.ends.first().copied().into_iter().chain(self.ghosts().next()).min()
    }

    pub(super) fn oldest(&self) -> Option<FencingToken> {
        self.leases.first_key_value().map(|(token, _)| *token)
    }

    pub(super) fn check(&self) {
        assert!(!self.is_empty(), "what is shared by nobody is given up");
        let places = self.leases.len() + self.ghosts().len();
        assert!(self.offers.len() <= OFFERS_MAX && places <= HOLDERS_MAX, "the bounds are kept");
        self.ghosts().check();
        let sizes = [self.by_lease.len(), self.by_request.len(), self.ends.len()];
        assert_eq!(sizes, [self.leases.len(); 3], "each lease is found by its id and its request, and ends once");
        if places > CHECKED_WHOLE {
            return;
        }
        self.ghosts().check_each();
        let modes =
            || self.leases().map(|lease| &lease.terms.mode).chain(self.ghosts().iter().map(|ghost| &ghost.mode));
        let is_semaphore = self.semaphore.is_some();
        assert!(modes().all(|mode| mode.permits().is_some() == is_semaphore), "all are of one mode");
        if let Some(semaphore) = &self.semaphore {
            semaphore
                .check(modes().filter_map(Mode::permits), self.offers.iter().map(|it| u64::from(it.permits)).sum());
        }
        let is_right = |(token, lease): (&FencingToken, &Lease)| {
            let is_told = lease.is_to_tell() == self.to_tell.contains(token);
            lease.token == *token && self.ends.contains(&(lease.expires_at, *token)) && is_told
        };
        assert!(self.leases.iter().all(is_right), "each lease ends when its index says");
    }

    /// The leases whose time is over and that are not ended yet.
    pub(super) fn overdue(&self, now: StoreTime) -> impl Iterator<Item = &Lease> {
        let ends = self.ends.iter().take_while(move |(at, _)| *at <= now);
        ends.filter_map(|(_, token)| self.leases.get(token))
    }
}
