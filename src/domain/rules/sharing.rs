//! What turns do with leases beside others: grant, change and end them, and offer them.

use super::{
    Ghost, LastLease, Lock, Offer, Turn, delay::ended, permits::Semaphore, shares::ShareOffer, view::holder_view,
};
use crate::domain::{
    command::Effect,
    ids::{GrantId, LeaseId, RequestId},
    lease::{Lease, LeaseEnd},
    limits::{ENDED_MEMORY, HOLDERS_SHOWN, SHARED_ENDS_PER_TURN},
    mode::{Mode, PermitLimit},
    outcome::SharedView,
    queue::WaiterState,
    time::StoreTime,
    token::FencingToken,
};

/// The leases beside others, and their ghosts, that changed: their tokens, and the grant ids under which they are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedShares(Vec<(FencingToken, GrantId)>);

impl Lock {
    /// Its leases that stand beside each other, in the order of their tokens, as of the last turn.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.shares.iter().flat_map(|shares| shares.leases())
    }

    /// Adds a lease beside others that another leader granted. False if it excludes one of these.
    #[must_use]
    pub fn keep_shared(&mut self, lease: Lease) -> bool {
        let shares = self.shares.get_or_insert_default();
        let suits = shares.keep_place(&lease.terms.mode);
        if suits {
            shares.insert(lease);
        }
        suits
    }

    /// The limit that was in force at another leader. The leases are to be added.
    pub fn keep_permit_limit(&mut self, limit: PermitLimit) {
        self.shares.get_or_insert_default().semaphore = Some(Box::new(Semaphore::new(limit)));
    }

    /// All leases have been added: a limit without any is of no use.
    pub fn forget_unused_limit(&mut self) {
        self.shares.take_if(|shares| shares.is_empty());
    }

    /// The leases beside others that turns granted, changed or ended since it was last asked, and the ghosts that these
    /// changed or lifted.
    pub fn take_changed_shares(&mut self) -> Vec<(FencingToken, GrantId)> {
        self.changed_shares.take().map_or_else(Vec::new, |changed| changed.0)
    }

    pub(super) fn share_changed(&mut self, token: FencingToken, grant_id: GrantId) {
        self.changed_shares.get_or_insert_default().0.push((token, grant_id));
    }

    /// Whether a request of this mode could be granted or offered the lock now, as far as leases, offers and delays go.
    #[inline]
    pub(super) fn has_room(&self, mode: &Mode) -> bool {
        self.lease.is_none()
            && self.offer.is_none()
            // mutant: grant within a delay
            && self.delay.is_none()
            // mutant: writer beside readers
            && self.has_room_beside(mode)
    }

    fn has_room_beside(&self, mode: &Mode) -> bool {
        let Some(shares) = self.shares.as_deref() else { return mode.permits().is_none_or(|it| self.fits(it)) };
        let suits = match mode {
            // mutant: ghost not counted
            Mode::Exclusive => false,
            Mode::Shared => shares.semaphore.is_none(),
            // mutant: permits above the limit
            Mode::Semaphore(permits) => shares.semaphore.is_some() && self.fits(permits),
        };
        suits && shares.has_room()
    }

    pub(super) fn next_due_of_shares(&self) -> Option<StoreTime> {
        self.shares.as_ref().and_then(|shares| shares.next_due())
    }

    /// The leases beside others that last at `now`, and the semaphore that they or ghosts use; `None` if there is none
    /// of these.
    pub(super) fn shared_view(&self, now: StoreTime, token: Option<FencingToken>) -> Option<Box<SharedView>> {
        let shares = self.shares.as_ref()?;
        let count = shares.leases.len() - shares.overdue(now).count();
        let live = || shares.leases().filter(|lease| now < lease.expires_at);
        let has_token = token.and_then(|token| shares.of_token(token)).is_some_and(|lease| now < lease.expires_at);
        let holders = live().take(HOLDERS_SHOWN).map(|lease| holder_view(lease, now)).collect();
        let semaphore = shares.semaphore().map(|it| it.view(shares.overdue_permits(now)));
        let is_used = count > 0 || semaphore.is_some_and(|semaphore| semaphore.used > 0);
        is_used.then(|| Box::new(SharedView { holders, count, has_token, semaphore }))
    }

    /// The newest shared lease that lasts at `now`.
    pub(super) fn newest_shared(&self, now: StoreTime) -> Option<&Lease> {
        self.shares.as_ref()?.leases().rev().find(|lease| now < lease.expires_at)
    }

    pub(super) fn check_shares(&self) {
        let Some(shares) = &self.shares else { return };
        assert!(self.lease.is_none() && self.offer.is_none(), "what is shared, nobody has alone");
        assert!(self.delay.is_none(), "a lock that is unavailable is not shared");
        shares.check();
        for Offer { request, .. } in shares.offers() {
            let waiter = self.queue.as_ref().and_then(|queue| queue.get(*request));
            let is_offered = waiter.is_some_and(|waiter| waiter.state() == WaiterState::Offered);
            assert!(is_offered, "what is offered, is offered to a waiter");
        }
    }
}

/// The lease that ended last, after this one has.
fn last_of(last: Option<LastLease>, lease: &Lease, end: LeaseEnd, at: StoreTime) -> LastLease {
    last_with(last, LastLease { token: lease.token, end: handed_on(lease, end), at })
}

/// The lease that ended last, after this one has, or after its ghost is gone. Among readers, an older lease may end
/// after a newer one, whose token is the highest then, as long as it is remembered.
pub(super) fn last_with(last: Option<LastLease>, ended: LastLease) -> LastLease {
    let remembered = last.filter(|last| ended.at < last.at.after(ENDED_MEMORY));
    let token = remembered.map_or(ended.token, |last| last.token.max(ended.token));
    LastLease { token, ..ended }
}

/// What the next holder hears of a lease that ends in this way.
pub(super) fn handed_on(lease: &Lease, end: LeaseEnd) -> LeaseEnd {
    // What a writer left unfinished, no reader has finished. The holder of a permit knows of nobody before it.
    // mutant: permit hands on what it was told
    let handed_on = lease.previous_end.filter(|_| lease.terms.mode == Mode::Shared);
    // mutant: reader hides how the writer ended
    handed_on.map_or(end, |before| before.worse(end))
}

impl Turn<'_> {
    /// Grants a lease beside others. If it is of a semaphore, `limit` is the one in force. Returns the lease with its
    /// slot.
    pub(super) fn grant_shared(&mut self, mut lease: Lease, limit: Option<PermitLimit>) -> &Lease {
        let (token, grant_id) = (lease.token, lease.grant_id);
        self.lock.share_changed(token, grant_id);
        let shares = self.lock.shares.get_or_insert_default();
        shares.seen = self.now;
        if let Mode::Semaphore(permits) = &mut lease.terms.mode {
            let limit = limit.map_or(permits.limit, |limit| limit.newer(permits.limit));
            let semaphore = shares.semaphore.get_or_insert_with(|| Box::new(Semaphore::new(limit)));
            **permits = semaphore.grant(permits.count);
        }
        shares.insert(lease)
    }

    /// Offers the lock to a request that would be beside others, with so many permits.
    pub(super) fn offer_shared(&mut self, offer: Offer, permits: u32) {
        let limit = self.lock.permit_limit().filter(|_| permits > 0);
        let shares = self.lock.shares.get_or_insert_default();
        shares.seen = self.now;
        if let Some(limit) = limit {
            shares.semaphore.get_or_insert_with(|| Box::new(Semaphore::new(limit))).promise(permits);
        }
        shares.offers.push(ShareOffer { offer, permits });
    }

    /// Withdraws the open offer to this request, if there is one.
    pub(super) fn decline_shared(&mut self, request: RequestId) {
        let Some(shares) = &mut self.lock.shares else { return };
        if let Some(at) = shares.offers.iter().position(|it| it.offer.request == request) {
            let ShareOffer { permits, .. } = shares.offers.remove(at);
            if let Some(semaphore) = &mut shares.semaphore {
                semaphore.withdraw(permits);
            }
        }
        self.give_up_empty_shares();
    }

    /// Withdraws those of the open offers, whose requests are in this state afterwards.
    pub(super) fn withdraw_shared(&mut self, those: impl Fn(&Offer) -> bool, state: WaiterState) {
        let offers = self.lock.shares.as_ref().map(|shares| shares.offers.clone()).unwrap_or_default();
        for ShareOffer { offer, .. } in offers.into_iter().filter(|it| those(&it.offer)) {
            self.decline_shared(offer.request);
            self.set_state(offer.request, state);
        }
    }

    /// Changes the shared lease with this id, if it lasts.
    pub(super) fn change_share<R>(&mut self, lease_id: LeaseId, change: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.lock.shares.as_ref()?.of_lease(lease_id)?;
        // mutant: overdue reader renews
        if lease.expires_at <= self.now {
            return None;
        }
        let token = lease.token;
        self.change_share_of(token, change)
    }

    /// Changes the shared lease with this token.
    pub(super) fn change_share_of<R>(
        &mut self,
        token: FencingToken,
        change: impl FnOnce(&mut Lease) -> R,
    ) -> Option<R> {
        let grant_id = self.lock.shares.as_ref()?.of_token(token)?.grant_id;
        self.lock.share_changed(token, grant_id);
        self.lock.shares.as_mut()?.change(token, change)
    }

    /// Takes out a shared lease.
    pub(super) fn take_share(&mut self, token: FencingToken) -> Option<Lease> {
        let lease = self.lock.shares.as_mut()?.remove(token)?;
        self.lock.share_changed(token, lease.grant_id);
        self.give_up_empty_shares();
        Some(lease)
    }

    /// Ends a shared lease, which may leave a ghost. The caller promotes.
    pub(super) fn end_share(&mut self, token: FencingToken, end: LeaseEnd, at: StoreTime) {
        let Some(shares) = &mut self.lock.shares else { return };
        let Some(lease) = shares.remove(token) else { return };
        let last = last_of(self.lock.last, &lease, end, at);
        // mutant: reader leaves no ghost
        if let Some(ghost) = Ghost::after(&lease, end, &last) {
            shares.insert_ghost(ghost);
        }
        self.lock.share_changed(token, lease.grant_id);
        self.give_up_empty_shares();
        self.share_ended(lease, end, last);
    }

    /// Ends a shared lease without a ghost. The caller promotes.
    pub(super) fn end_share_at_once(&mut self, token: FencingToken, end: LeaseEnd) {
        let Some(lease) = self.take_share(token) else { return };
        let last = last_of(self.lock.last, &lease, end, self.now);
        self.share_ended(lease, end, last);
    }

    fn share_ended(&mut self, lease: Lease, end: LeaseEnd, last: LastLease) {
        self.lock.ended.push(ended(&lease, end, &last));
        self.lock.last = Some(last);
        self.effects.push(Effect::Ended { lease, end });
    }

    /// Ends shared leases whose time is over, and their offers, and frees the places of ghosts.
    pub(super) fn apply_time_to_shares(&mut self) {
        let now = self.now;
        let Some(shares) = &mut self.lock.shares else { return };
        for (token, grant_id) in shares.heal(now) {
            self.lock.share_changed(token, grant_id);
        }
        for _ in 0..SHARED_ENDS_PER_TURN {
            let Some(shares) = &self.lock.shares else { break };
            let Some((at, token)) = shares.next_end().filter(|(at, _)| *at <= now) else { break };
            let is_ghost = shares.of_token(token).is_none();
            // Earlier ends first, as for an exclusive lease.
            self.abandon(at);
            if is_ghost {
                self.lift_ghost(token, at);
                continue;
            }
            // mutant: reader never expires
            self.end_share(token, LeaseEnd::Expired, at);
        }
        self.withdraw_shared(|offer| offer.until <= now, self.missed());
        // Nobody is there to claim.
        let offers = self.lock.shares.as_ref().map(|shares| shares.offers.clone()).unwrap_or_default();
        for ShareOffer { offer: Offer { request, .. }, .. } in offers {
            if self.is_left(request) {
                self.decline_shared(request);
                self.set_state(request, WaiterState::Waiting);
            }
        }
    }

    /// A classic client has the lock: what is shared is revoked. It does not see ghosts.
    pub(super) fn revoke_shares(&mut self) {
        for _ in 0..SHARED_ENDS_PER_TURN {
            let Some(token) = self.lock.shares.as_ref().and_then(|shares| shares.oldest()) else { break };
            self.end_share_at_once(token, LeaseEnd::Revoked);
        }
        self.withdraw_shared(|_| true, WaiterState::Waiting);
    }

    pub(super) fn give_up_empty_shares(&mut self) {
        self.lock.shares.take_if(|shares| shares.is_empty());
    }
}
