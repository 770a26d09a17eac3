//! Leases beside others: any number of holders share a lock, or have permits of it, and no exclusive one beside them.
//!
//! A lock without such leases and without offers of them keeps none of this.

use super::{Offer, permits::Semaphore};
use crate::domain::{
    ids::{GrantId, LeaseId, RequestId},
    lease::Lease,
    limits::{CLAIM_WINDOW, HOLDERS_MAX, OFFERS_MAX},
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

/// The leases of a lock that stand beside each other, and the offers of such: all are shared, or all are of a
/// semaphore.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    pub(super) leases: BTreeMap<FencingToken, Lease>,
    pub(super) by_lease: BTreeMap<LeaseId, FencingToken>,
    pub(super) by_request: BTreeMap<RequestId, FencingToken>,
    /// When each lease ends, the next first.
    pub(super) ends: BTreeSet<(StoreTime, FencingToken)>,
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
        self.offers.len() < OFFERS_MAX && self.leases.len() + self.offers.len() < HOLDERS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.offers.is_empty()
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
            self.offers.iter_mut().for_each(|it| it.offer.until = it.offer.until.min(now.after(CLAIM_WINDOW)));
        }
        self.seen = now;
        changed
    }

    pub(super) fn next_due(&self) -> Option<StoreTime> {
        let ends = self.ends.first().map(|(at, _)| *at);
        self.offers().map(|offer| offer.until).chain(ends).min()
    }

    pub(super) fn oldest(&self) -> Option<FencingToken> {
        self.leases.first_key_value().map(|(token, _)| *token)
    }

    pub(super) fn check(&self) {
        assert!(!self.is_empty(), "what is shared by nobody is given up");
        assert!(self.offers.len() <= OFFERS_MAX && self.leases.len() <= HOLDERS_MAX, "the bounds are kept");
        let sizes = [self.by_lease.len(), self.by_request.len(), self.ends.len()];
        assert_eq!(sizes, [self.leases.len(); 3], "each lease is found by its id and its request, and ends once");
        if self.leases.len() > CHECKED_WHOLE {
            return;
        }
        let is_semaphore = self.leases().map(|lease| lease.terms.mode.permits().is_some());
        assert!(is_semaphore.into_iter().all(|it| it == self.semaphore.is_some()), "all are of one mode");
        if let Some(semaphore) = &self.semaphore {
            semaphore.check(self.leases(), self.offers.iter().map(|it| u64::from(it.permits)).sum());
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
