//! Shared leases: any number of holders have a lock together, and no exclusive one beside them.
//!
//! A lock without shared leases and without offers of them keeps none of this.

use super::{LastLease, Lock, Offer, Turn, delay::ended, view::holder_view};
use crate::domain::{
    command::Effect,
    ids::{GrantId, LeaseId, RequestId},
    lease::{Lease, LeaseEnd, Mode},
    limits::{CLAIM_WINDOW, ENDED_MEMORY, HOLDERS_MAX, HOLDERS_SHOWN, OFFERS_MAX, SHARED_ENDS_PER_TURN},
    outcome::SharedView,
    queue::WaiterState,
    time::StoreTime,
    token::FencingToken,
};
use std::collections::{BTreeMap, BTreeSet};

/// More leases than these are not checked one by one, because each turn would then cost their number.
const CHECKED_WHOLE: usize = 32;

/// The shared leases that changed: their tokens, and the grant ids under which they are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedShares(Vec<(FencingToken, GrantId)>);

/// The shared leases of a lock, and the offers of such.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    leases: BTreeMap<FencingToken, Lease>,
    by_lease: BTreeMap<LeaseId, FencingToken>,
    by_request: BTreeMap<RequestId, FencingToken>,
    /// When each lease ends, the next first.
    ends: BTreeSet<(StoreTime, FencingToken)>,
    /// At most [`OFFERS_MAX`].
    offers: Vec<Offer>,
    /// The time of the last turn.
    seen: StoreTime,
}

impl Shares {
    /// Whether another lease may be granted or offered.
    fn has_room(&self) -> bool {
        self.offers.len() < OFFERS_MAX && self.leases.len() + self.offers.len() < HOLDERS_MAX
    }

    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.offers.is_empty()
    }

    pub(super) fn leases(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.leases.values()
    }

    pub(super) fn offers(&self) -> &[Offer] {
        &self.offers
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

    fn insert(&mut self, lease: Lease) {
        let token = lease.token;
        self.by_lease.insert(lease.lease_id, token);
        self.by_request.insert(lease.request, token);
        self.ends.insert((lease.expires_at, token));
        let before = self.leases.insert(token, lease);
        assert!(before.is_none(), "no two leases have one token");
    }

    fn remove(&mut self, token: FencingToken) -> Option<Lease> {
        let lease = self.leases.remove(&token)?;
        self.by_lease.remove(&lease.lease_id);
        self.by_request.remove(&lease.request);
        self.ends.remove(&(lease.expires_at, token));
        Some(lease)
    }

    /// Changes a lease, which may end at another time afterwards.
    fn change<R>(&mut self, token: FencingToken, change: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&token)?;
        let before = lease.expires_at;
        let changed = change(lease);
        let after = lease.expires_at;
        if before != after {
            self.ends.remove(&(before, token));
            self.ends.insert((after, token));
        }
        Some(changed)
    }

    /// Repairs times after the clock stepped back, and returns what it changed. Only then it looks at each lease.
    fn heal(&mut self, now: StoreTime) -> Vec<(FencingToken, GrantId)> {
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
            self.offers.iter_mut().for_each(|offer| offer.until = offer.until.min(now.after(CLAIM_WINDOW)));
        }
        self.seen = now;
        changed
    }

    fn next_due(&self) -> Option<StoreTime> {
        let ends = self.ends.first().map(|(at, _)| *at);
        self.offers.iter().map(|offer| offer.until).chain(ends).min()
    }

    fn oldest(&self) -> Option<FencingToken> {
        self.leases.first_key_value().map(|(token, _)| *token)
    }

    fn check(&self) {
        assert!(!self.is_empty(), "what is shared by nobody is given up");
        assert!(self.offers.len() <= OFFERS_MAX && self.leases.len() <= HOLDERS_MAX, "the bounds are kept");
        let sizes = [self.by_lease.len(), self.by_request.len(), self.ends.len()];
        assert_eq!(sizes, [self.leases.len(); 3], "each lease is found by its id and its request, and ends once");
        if self.leases.len() > CHECKED_WHOLE {
            return;
        }
        let is_right = |(token, lease): (&FencingToken, &Lease)| {
            lease.token == *token && self.ends.contains(&(lease.expires_at, *token))
        };
        assert!(self.leases.iter().all(is_right), "each lease ends when its index says");
    }
}

impl Lock {
    /// Its shared leases, in the order of their tokens, as of the last turn.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.shares.iter().flat_map(|shares| shares.leases())
    }

    /// Adds a shared lease that another leader granted.
    pub fn keep_shared(&mut self, lease: Lease) {
        let shares = self.shares.get_or_insert_default();
        // Its clock may have been ahead: the first turn looks at each lease.
        shares.seen = StoreTime::from_micros(u64::MAX);
        shares.insert(lease);
    }

    /// The shared leases that turns granted, changed or ended since it was last asked.
    pub fn take_changed_shares(&mut self) -> Vec<(FencingToken, GrantId)> {
        self.changed_shares.take().map_or_else(Vec::new, |changed| changed.0)
    }

    fn share_changed(&mut self, token: FencingToken, grant_id: GrantId) {
        self.changed_shares.get_or_insert_default().0.push((token, grant_id));
    }

    /// Whether a request of this mode could be granted or offered the lock now, as far as leases, offers and delays go.
    #[inline]
    pub(super) fn has_room(&self, mode: Mode) -> bool {
        let has_room_beside = |shares: &Shares| mode == Mode::Shared && shares.has_room();
        self.lease.is_none()
            && self.offer.is_none()
            // mutant: grant within a delay
            && self.delay.is_none()
            // mutant: writer beside readers
            && self.shares.as_deref().is_none_or(has_room_beside)
    }

    pub(super) fn next_due_of_shares(&self) -> Option<StoreTime> {
        self.shares.as_ref().and_then(|shares| shares.next_due())
    }

    /// The shared leases that last at `now`; `None` if there are none.
    pub(super) fn shared_view(&self, now: StoreTime, token: Option<FencingToken>) -> Option<Box<SharedView>> {
        let shares = self.shares.as_ref()?;
        let count = shares.leases.len() - shares.overdue(now).count();
        let live = || shares.leases().filter(|lease| now < lease.expires_at);
        let has_token = token.and_then(|token| shares.of_token(token)).is_some_and(|lease| now < lease.expires_at);
        let holders = live().take(HOLDERS_SHOWN).map(|lease| holder_view(lease, now)).collect();
        (count > 0).then(|| Box::new(SharedView { holders, count, has_token }))
    }

    /// The newest shared lease that lasts at `now`.
    pub(super) fn newest_shared(&self, now: StoreTime) -> Option<&Lease> {
        self.shares.as_ref()?.leases().rev().find(|lease| now < lease.expires_at)
    }

    /// What ended last once the shared leases whose time ran out unnoticed have ended as well.
    pub(super) fn last_with_overdue_shares(&self, now: StoreTime) -> Option<LastLease> {
        let overdue = self.shares.iter().flat_map(|shares| shares.overdue(now));
        overdue.fold(self.last, |last, lease| Some(last_of(last, lease, LeaseEnd::Expired, lease.expires_at)))
    }

    pub(super) fn check_shares(&self) {
        let Some(shares) = &self.shares else { return };
        assert!(self.lease.is_none() && self.offer.is_none(), "what is shared, nobody has alone");
        assert!(self.delay.is_none(), "a lock that is unavailable is not shared");
        shares.check();
        for Offer { request, .. } in &shares.offers {
            let waiter = self.queue.as_ref().and_then(|queue| queue.get(*request));
            let is_offered = waiter.is_some_and(|waiter| waiter.state() == WaiterState::Offered);
            assert!(is_offered, "what is offered, is offered to a waiter");
        }
    }
}

impl Shares {
    /// The leases whose time is over and that are not ended yet.
    fn overdue(&self, now: StoreTime) -> impl Iterator<Item = &Lease> {
        let ends = self.ends.iter().take_while(move |(at, _)| *at <= now);
        ends.filter_map(|(_, token)| self.leases.get(token))
    }
}

/// The lease that ended last, after this one has. Among readers, an older lease may end after a newer one, whose token
/// is the highest then, as long as it is remembered.
fn last_of(last: Option<LastLease>, lease: &Lease, end: LeaseEnd, at: StoreTime) -> LastLease {
    let remembered = last.filter(|last| at < last.at.after(ENDED_MEMORY));
    let token = remembered.map_or(lease.token, |last| last.token.max(lease.token));
    // mutant: reader hides how the writer ended
    let end = lease.previous_end.map_or(end, |before| before.worse(end));
    LastLease { token, end, at }
}

impl Turn<'_> {
    pub(super) fn grant_shared(&mut self, lease: Lease) {
        self.lock.share_changed(lease.token, lease.grant_id);
        let shares = self.lock.shares.get_or_insert_default();
        shares.seen = self.now;
        shares.insert(lease);
    }

    /// Offers the lock to a request that would share it.
    pub(super) fn offer_shared(&mut self, offer: Offer) {
        let shares = self.lock.shares.get_or_insert_default();
        shares.seen = self.now;
        shares.offers.push(offer);
    }

    /// Withdraws the open offer to this request, if there is one.
    pub(super) fn decline_shared(&mut self, request: RequestId) {
        if let Some(shares) = &mut self.lock.shares {
            shares.offers.retain(|offer| offer.request != request);
            self.give_up_empty_shares();
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

    /// Ends a shared lease. The caller promotes.
    pub(super) fn end_share(&mut self, token: FencingToken, end: LeaseEnd, at: StoreTime) {
        let Some(lease) = self.lock.shares.as_mut().and_then(|shares| shares.remove(token)) else { return };
        self.lock.share_changed(token, lease.grant_id);
        let last = last_of(self.lock.last, &lease, end, at);
        self.lock.ended.push(ended(&lease, end, &last));
        self.lock.last = Some(last);
        self.effects.push(Effect::Ended { lease, end });
        self.give_up_empty_shares();
    }

    /// Ends shared leases whose time is over, and their offers.
    pub(super) fn apply_time_to_shares(&mut self) {
        let now = self.now;
        let Some(shares) = &mut self.lock.shares else { return };
        for (token, grant_id) in shares.heal(now) {
            self.lock.share_changed(token, grant_id);
        }
        for _ in 0..SHARED_ENDS_PER_TURN {
            let due = self.lock.shares.as_ref().and_then(|shares| shares.ends.first().copied());
            let Some((at, token)) = due.filter(|(at, _)| *at <= now) else { break };
            // Earlier ends first, as for an exclusive lease.
            self.abandon(at);
            // mutant: reader never expires
            self.end_share(token, LeaseEnd::Expired, at);
        }
        let offers = self.lock.shares.as_ref().map(|shares| shares.offers.clone()).unwrap_or_default();
        for Offer { request, until } in offers {
            let state = match (until <= now, self.is_left(request)) {
                (true, _) => WaiterState::Missed,
                // Nobody is there to claim.
                (false, true) => WaiterState::Waiting,
                (false, false) => continue,
            };
            self.decline_shared(request);
            self.set_state(request, state);
        }
    }

    /// A classic client has the lock: what is shared is revoked.
    pub(super) fn revoke_shares(&mut self) {
        for _ in 0..SHARED_ENDS_PER_TURN {
            let Some(token) = self.lock.shares.as_ref().and_then(|shares| shares.oldest()) else { break };
            self.end_share(token, LeaseEnd::Revoked, self.now);
        }
        let offers = self.lock.shares.as_ref().map(|shares| shares.offers.clone()).unwrap_or_default();
        for Offer { request, .. } in offers {
            self.decline_shared(request);
            self.set_state(request, WaiterState::Waiting);
        }
    }

    fn give_up_empty_shares(&mut self) {
        self.lock.shares.take_if(|shares| shares.is_empty());
    }
}
