//! Ghosts: leases beside others that have ended and go on occupying their places, for `min_hold` or `lock_delay`.
//!
//! The delay after an exclusive lease keeps the lock from everybody. A ghost keeps from others what its lease kept from
//! them: the ghost of a reader lets other readers in and no writer, and the permits and the slot of a semaphore stay
//! used.

use super::{
    Delay, LastLease, Lock, Turn,
    shares::Shares,
    sharing::{handed_on, last_with},
};
use crate::domain::{
    ended::{Ended, EndedLease, RequestEnd},
    ids::{GrantId, LeaseId, RequestId},
    lease::{Lease, LeaseEnd},
    mode::Mode,
    name::Holder,
    outcome::DelayView,
    time::StoreTime,
    token::FencingToken,
};
use std::collections::{BTreeMap, BTreeSet};

/// A lease beside others that has ended and still occupies its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ghost {
    /// The delay after the lease.
    pub delay: Delay,
    /// The public name of the grant, under which it is kept.
    pub grant_id: GrantId,
    /// What it occupies.
    pub mode: Mode,
}

impl Ghost {
    /// What stays of a lease that ends in this way, and is the last one then; `None` if its place is free at once.
    pub(super) fn after(lease: &Lease, end: LeaseEnd, last: &LastLease) -> Option<Self> {
        // Not the highest of the lock's, which may be forgotten when the ghost goes.
        let delay = Delay::after(lease, end, &LastLease { token: lease.token, ..*last })?;
        Some(Self { delay, grant_id: lease.grant_id, mode: lease.terms.mode.clone() })
    }

    /// What stays of a lease whose time ran out.
    fn after_expiry(lease: &Lease) -> Option<Self> {
        let (end, at) = (LeaseEnd::Expired, lease.expires_at);
        Self::after(lease, end, &LastLease { token: lease.token, end: handed_on(lease, end), at })
    }

    /// What the next holder of the lock hears.
    fn handed_on(&self) -> Option<LeaseEnd> {
        self.delay.lease().map(|it| it.handed_on)
    }

    fn index(&self) -> (StoreTime, FencingToken) {
        (self.delay.until(), self.delay.token)
    }
}

/// The ghosts of a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Ghosts {
    by_token: BTreeMap<FencingToken, Ghost>,
    by_lease: BTreeMap<LeaseId, FencingToken>,
    by_request: BTreeMap<RequestId, FencingToken>,
    /// When each place is free, the next first.
    ends: BTreeSet<(StoreTime, FencingToken)>,
}

/// Those of a lock without any.
pub(super) static NO_GHOSTS: Ghosts =
    Ghosts { by_token: BTreeMap::new(), by_lease: BTreeMap::new(), by_request: BTreeMap::new(), ends: BTreeSet::new() };

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.by_token.len()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Ghost> {
        self.by_token.values()
    }

    pub(super) fn of_token(&self, token: FencingToken) -> Option<&Ghost> {
        self.by_token.get(&token)
    }

    pub(super) fn of_lease(&self, lease_id: LeaseId) -> Option<&Ghost> {
        self.by_lease.get(&lease_id).and_then(|token| self.by_token.get(token))
    }

    pub(super) fn of_request(&self, request: RequestId) -> Option<&Ghost> {
        self.by_request.get(&request).and_then(|token| self.by_token.get(token))
    }

    pub(super) fn insert(&mut self, ghost: Ghost) {
        let token = ghost.delay.token;
        if let Some(lease) = ghost.delay.lease() {
            self.by_lease.insert(lease.lease_id, token);
        }
        self.by_request.insert(ghost.delay.ended.request, token);
        self.ends.insert(ghost.index());
        self.by_token.insert(token, ghost);
    }

    pub(super) fn remove(&mut self, token: FencingToken) -> Option<Ghost> {
        let ghost = self.by_token.remove(&token)?;
        if let Some(lease) = ghost.delay.lease() {
            self.by_lease.remove(&lease.lease_id);
        }
        self.by_request.remove(&ghost.delay.ended.request);
        self.ends.remove(&ghost.index());
        Some(ghost)
    }

    fn change(&mut self, token: FencingToken, change: impl FnOnce(&mut Delay)) {
        if let Some(ghost) = self.by_token.get_mut(&token) {
            self.ends.remove(&ghost.index());
            change(&mut ghost.delay);
            self.ends.insert(ghost.index());
        }
    }

    /// Repairs times after the clock stepped back, and returns what it changed.
    pub(super) fn heal(&mut self, now: StoreTime) -> Vec<(FencingToken, GrantId)> {
        let mut changed = Vec::new();
        for (token, ghost) in &mut self.by_token {
            let before = ghost.delay.clone();
            ghost.delay.heal(now);
            if before != ghost.delay {
                self.ends.remove(&(before.until(), *token));
                self.ends.insert(ghost.index());
                changed.push((*token, ghost.grant_id));
            }
        }
        changed
    }

    /// When the next place is free, and whose it was.
    pub(super) fn next(&self) -> Option<(StoreTime, FencingToken)> {
        self.ends.first().copied()
    }

    /// Those whose time is over and that are not lifted yet.
    pub(super) fn overdue(&self, now: StoreTime) -> impl Iterator<Item = &Ghost> {
        let ends = self.ends.iter().take_while(move |(at, _)| *at <= now);
        ends.filter_map(|(_, token)| self.by_token.get(token))
    }

    pub(super) fn check(&self) {
        let sizes = [self.by_lease.len(), self.by_request.len(), self.ends.len()];
        assert_eq!(sizes, [self.len(); 3], "each ghost is found by its lease and its request, and goes once");
    }

    pub(super) fn check_each(&self) {
        let is_right = |(token, ghost): (&FencingToken, &Ghost)| {
            ghost.delay.token == *token && self.ends.contains(&ghost.index()) && ghost.mode != Mode::Exclusive
        };
        assert!(self.by_token.iter().all(is_right), "each ghost goes when its index says");
    }
}

impl Shares {
    /// When the lock can next be granted to somebody whom ghosts keep out, as far as ghosts go; and whose ghost that
    /// is. Permits are free one by one; a writer waits for all readers.
    fn next_place(&self, now: StoreTime) -> Option<(StoreTime, FencingToken)> {
        let of_overdue = self.overdue(now).filter_map(Ghost::after_expiry).map(|ghost| ghost.index());
        let mut of_ghosts = Vec::new();
        if now < self.seen {
            of_ghosts.extend(self.ghosts().iter().cloned().map(|mut ghost| {
                ghost.delay.heal(now);
                ghost.index()
            }));
        } else {
            // The first whose time is not over, and the last.
            of_ghosts.extend(self.ghosts().ends.iter().copied().find(|(until, _)| now < *until));
            of_ghosts.extend(self.ghosts().ends.last().copied());
        }
        let ends = of_overdue.chain(of_ghosts).filter(|(until, _)| now < *until);
        if self.semaphore.is_some() { ends.min() } else { ends.max() }
    }

    /// The label of the holder of the lease with this token, or of the one that its ghost is of.
    fn holder_of(&self, token: FencingToken) -> Option<&Holder> {
        let lease = self.of_token(token).map(|lease| &lease.terms.holder);
        lease.or_else(|| self.ghosts().of_token(token).map(|ghost| &ghost.delay.holder))
    }

    /// The permits of leases and ghosts that are still counted although their time is over.
    pub(super) fn overdue_permits(&self, now: StoreTime) -> u64 {
        let is_free = |lease: &&Lease| Ghost::after_expiry(lease).is_none_or(|ghost| ghost.delay.until() <= now);
        let of_leases = self.overdue(now).filter(is_free).map(|lease| &lease.terms.mode);
        let modes = of_leases.chain(self.ghosts().overdue(now).map(|ghost| &ghost.mode));
        modes.filter_map(Mode::permits).map(|permits| u64::from(permits.count)).sum()
    }
}

impl Lock {
    /// The ghosts, in the order of their tokens, as of the last turn.
    pub fn ghosts(&self) -> impl Iterator<Item = &Ghost> {
        self.shares.iter().flat_map(|shares| shares.ghosts().iter())
    }

    /// The ghost of the lease with this token, as of the last turn.
    pub fn ghost_of(&self, token: FencingToken) -> Option<&Ghost> {
        self.shares.as_ref()?.ghosts().of_token(token)
    }

    /// Adds a ghost of another leader. False if its place is taken.
    #[must_use]
    pub fn keep_ghost(&mut self, ghost: Ghost) -> bool {
        let shares = self.shares.get_or_insert_default();
        let suits = shares.keep_place(&ghost.mode) && shares.ghosts().of_token(ghost.delay.token).is_none();
        if suits {
            shares.ghosts_mut().insert(ghost);
        }
        suits
    }

    /// Why places are not free although nobody holds them, as seen at `now`.
    pub(super) fn ghost_view(&self, now: StoreTime) -> Option<DelayView> {
        let shares = self.shares.as_ref()?;
        let (until, token) = shares.next_place(now)?;
        Some(DelayView { holder: shares.holder_of(token)?.clone(), token, left: until.since(now) })
    }

    /// The highest token of a ghost, as seen at `now`.
    pub(super) fn newest_ghost(&self, now: StoreTime) -> Option<FencingToken> {
        let shares = self.shares.as_ref()?;
        let is_there = |ghost: &Ghost| now < ghost.delay.until();
        let of_overdue = shares.overdue(now).filter_map(Ghost::after_expiry).filter(is_there);
        let newest = shares.ghosts().iter().rev().find(|ghost| is_there(ghost)).map(|ghost| ghost.delay.token);
        of_overdue.map(|ghost| ghost.delay.token).max().max(newest)
    }

    /// What ended last once all has ended whose time ran out unnoticed.
    pub(super) fn last_with_overdue_shares(&self, now: StoreTime) -> Option<LastLease> {
        let Some(shares) = &self.shares else { return self.last };
        let mut ends = Vec::new();
        for lease in shares.overdue(now) {
            let end = handed_on(lease, LeaseEnd::Expired);
            ends.push((lease.expires_at, lease.token, end));
            let ghost = Ghost::after_expiry(lease).filter(|ghost| ghost.delay.until() <= now);
            ends.extend(ghost.map(|ghost| (ghost.delay.until(), lease.token, end)));
        }
        let of_ghosts = shares.ghosts().overdue(now);
        ends.extend(of_ghosts.filter_map(|ghost| Some((ghost.delay.until(), ghost.delay.token, ghost.handed_on()?))));
        ends.sort_unstable_by_key(|(at, token, _)| (*at, *token));
        ends.into_iter().fold(self.last, |last, (at, token, end)| Some(last_with(last, LastLease { token, end, at })))
    }
}

impl Turn<'_> {
    /// The holder of a lease that ended says that it has stopped: ends the `lock_delay` of its ghost. A `min_hold`
    /// stands.
    pub(super) fn end_lock_delay_of_ghost(&mut self, lease_id: LeaseId) {
        let now = self.now;
        let token = self.lock.shares.as_ref().and_then(|shares| shares.of_lease(lease_id)).map(|lease| lease.token);
        self.end_if_overdue(token);
        let Some(shares) = &mut self.lock.shares else { return };
        let Some((token, grant_id)) = shares.ghosts().of_lease(lease_id).map(|it| (it.delay.token, it.grant_id)) else {
            return;
        };
        shares.ghosts_mut().change(token, |delay| delay.delayed_until = delay.delayed_until.min(now));
        // mutant: ghost lifted by a late release of min_hold
        let is_over = shares.ghosts().of_token(token).is_some_and(|ghost| ghost.delay.until() <= now);
        self.lock.share_changed(token, grant_id);
        if is_over {
            self.lift_ghost(token, now);
            self.promote();
        }
    }

    /// Ends the lease with this token, if it leaves a ghost, and is among those that this turn had no room to end.
    pub(super) fn end_if_overdue(&mut self, token: Option<FencingToken>) {
        let lease = token.and_then(|token| self.lock.shares.as_ref()?.of_token(token));
        let lease = lease.filter(|lease| lease.terms.delays().is_some());
        if let Some((token, at)) = lease.map(|it| (it.token, it.expires_at)).filter(|(_, at)| *at <= self.now) {
            self.end_share(token, LeaseEnd::Expired, at);
            self.promote();
        }
    }

    /// Frees the place of a ghost. The end of its lease is remembered from now on as if it had ended now: the next
    /// holder is to hear of it. The caller promotes.
    pub(super) fn lift_ghost(&mut self, token: FencingToken, at: StoreTime) {
        let Some(ghost) = self.lock.shares.as_mut().and_then(|shares| shares.remove_ghost(token)) else { return };
        self.lock.share_changed(token, ghost.grant_id);
        self.give_up_empty_shares();
        let Some(lease) = ghost.delay.lease() else { return };
        let last = last_with(self.lock.last, LastLease { token, end: lease.handed_on, at });
        let end = RequestEnd::Lease(EndedLease { token: Some(last.token), handed_on: last.end, ..lease });
        self.lock.ended.push(Ended { end, at, ..ghost.delay.ended });
        // mutant: ghost forgets how its lease ended
        self.lock.last = Some(last);
    }
}
