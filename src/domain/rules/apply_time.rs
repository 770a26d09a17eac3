//! Effects of time: expiry, lapsed offers, hand-off, forgetting.

use super::{LastLease, Offer, Turn, delay::ended};
use crate::domain::{
    command::Effect,
    ended::{Ended, RequestEnd},
    ids::RequestId,
    lease::LeaseEnd,
    limits::{CLAIM_WINDOW, COMMAND_WINDOW, ENDED_MEMORY, MISSED_GRACE, OVERDUE_BATCH},
    mode::Mode,
    queue::{Waiter, WaiterState},
    time::StoreTime,
};

impl Turn<'_> {
    /// Brings the lock up to `now`. Clears at most [`OVERDUE_BATCH`] overdue entries of each kind. An overdue entry
    /// that is left is recognised by its time, so no rule depends on the clearing.
    pub fn apply_time(&mut self) {
        self.heal();
        // mutant: lease never expires
        let expired = self.lock.lease.as_ref().map(|lease| lease.expires_at).filter(|at| *at <= self.now);
        if let Some(at) = expired {
            // Earlier ends first: the memory of ended requests is ordered by time.
            self.abandon(at);
            self.end_lease(LeaseEnd::Expired, at);
        }
        self.apply_time_to_shares();
        // mutant: delay never ends
        self.apply_time_to_delay();
        if let Some(offer) = self.lock.offer.filter(|offer| offer.until <= self.now) {
            // mutant: offer counts as expiry
            self.lock.offer = None;
            // mutant: lapsed offer stands first again
            self.set_state(offer.request, self.missed());
        }
        // Nobody is there to claim.
        // mutant: offer waits for the dead
        if self.lock.offer.is_some_and(|offer| self.is_left(offer.request)) {
            self.withdraw_offer();
        }
        self.make_way();
        self.abandon(self.now);
        // mutant: gone replicas keep their waiters
        self.delete_gone();
        self.forget();
        // mutant: time brings no hand-off
        self.promote();
    }

    /// Whether the calls of a waiter are at a server that is silent.
    pub(super) fn is_left(&self, request: RequestId) -> bool {
        let waiter = self.lock.queue.as_ref().and_then(|queue| queue.get(request));
        waiter.is_some_and(|waiter| !self.replicas.is_alive(waiter.binding.replica(), self.now))
    }

    /// Makes way for a classic client that has the lock: an offer is withdrawn, and a lease is revoked (its key was
    /// deleted, or a server without the classic prefix granted it), as a classic holder loses the lock when it finds
    /// another value under its key.
    fn make_way(&mut self) {
        if self.classic.is_none() {
            return;
        }
        // The classic client does not see a delay.
        // mutant: lease beside a classic client
        self.end_lease_at_once(LeaseEnd::Revoked, self.now);
        self.revoke_shares();
        // mutant: offer beside a classic client
        self.withdraw_offer();
    }

    /// Withdraws the open offer. It is no fault of the waiter, which is next again when it can be.
    fn withdraw_offer(&mut self) {
        if let Some(offer) = self.lock.offer.take() {
            self.set_state(offer.request, WaiterState::Waiting);
        }
    }

    /// Repairs times after the clock stepped back: a stored time further ahead than its own period is cut to now +
    /// period.
    fn heal(&mut self) {
        if let Some(lease) = &mut self.lock.lease {
            lease.expires_at = lease.healed_end(self.now);
        }
        if let Some(offer) = &mut self.lock.offer {
            offer.until = offer.until.min(self.now.after(CLAIM_WINDOW));
        }
        for tombstone in &mut self.lock.tombstones {
            tombstone.until = tombstone.until.min(self.now.after(COMMAND_WINDOW));
        }
        if let Some(queue) = &mut self.lock.queue {
            queue.heal(self.now);
        }
        if let Some(last) = &mut self.lock.last {
            last.at = last.at.min(self.now);
        }
        if let Some(delay) = &mut self.lock.delay {
            delay.heal(self.now);
        }
        self.lock.ended.heal(self.now);
    }

    /// Removes dropped waiters whose time for a retry was over at `now`.
    pub(super) fn abandon(&mut self, now: StoreTime) {
        for _ in 0..OVERDUE_BATCH {
            let Some(queue) = &mut self.lock.queue else { break };
            let Some((request, waiter, at)) = queue.pop_abandoned(now) else { break };
            self.remember(request, &waiter, RequestEnd::Abandoned, at);
        }
        self.give_up_empty_queue();
    }

    /// The state of a waiter that has let an offer lapse, or has to claim before it is made another one.
    pub(super) fn missed(&self) -> WaiterState {
        WaiterState::Missed(self.now.after(MISSED_GRACE))
    }

    /// Deletes the waiters of servers that are gone, and those that are not heard of. This does not end their requests:
    /// their clients may ask again, through another server.
    fn delete_gone(&mut self) {
        for _ in 0..OVERDUE_BATCH {
            // mutant: missed for ever
            let unheard = self.lock.queue.as_mut().and_then(|queue| queue.pop_missed(self.now));
            if unheard.is_none() {
                break;
            }
        }
        for _ in 0..OVERDUE_BATCH {
            let Some(queue) = &mut self.lock.queue else { break };
            let Some(request) = queue.first_gone(|replica| self.replicas.is_gone(replica, self.now)) else { break };
            queue.remove(request);
        }
        self.give_up_empty_queue();
    }

    fn forget(&mut self) {
        // mutant: ended requests forgotten at once
        self.lock.ended.forget(self.now, OVERDUE_BATCH);
        let now = self.now;
        self.lock.tombstones.retain(|tombstone| tombstone.is_live(now));
        if self.lock.tombstones.is_empty() {
            self.lock.tombstones = Vec::new();
        }
        // The last lease is remembered as long as its request.
        if self.lock.delay.is_none() {
            self.lock.last = self.lock.last.filter(|last| now < last.at.after(ENDED_MEMORY));
        }
    }

    /// Offers a free lock to the next waiter; if that would be beside others, to those behind it as well, up to the
    /// first for which there is no room. Every command that frees the lock does this in the same turn, and so does any
    /// other command on the lock: a hand-off does not depend on a wake-up.
    pub(super) fn promote(&mut self) {
        if self.lock.lease.is_some() || self.lock.offer.is_some() || self.classic.is_some() {
            return;
        }
        // Each round but the last makes an offer to a request that would be beside others, and these are bounded; or
        // skips a waiter.
        loop {
            let Some(queue) = &self.lock.queue else { return };
            // mutant: promotion ignores silence
            let alive = |replica| self.replicas.is_alive(replica, self.now);
            let Some((request, waiter)) = queue.first(alive) else { return };
            let (replica, attempt) = (waiter.binding.replica(), waiter.binding.attempt());
            let mode = &waiter.terms.mode;
            let (permits, is_exclusive) = (mode.permits().copied(), *mode == Mode::Exclusive);
            // The limit was lowered. Its call is told when it claims.
            // mutant: permits above the limit block the queue
            let never_fits = self.lock.is_exceeded_by(mode);
            // mutant: offer to who has no room
            if !never_fits && !self.lock.has_room(mode) {
                return;
            }
            self.set_state(request, if never_fits { self.missed() } else { WaiterState::Offered });
            let offer = Offer { request, until: self.now.after(CLAIM_WINDOW) };
            match permits {
                _ if never_fits => {}
                None if is_exclusive => self.lock.offer = Some(offer),
                permits => self.offer_shared(offer, permits.map_or(0, |permits| permits.count)),
            }
            // mutant: hand-off tells nobody
            self.effects.push(Effect::LookAgain { replica, request, attempt });
            if is_exclusive {
                return;
            }
        }
    }

    /// Ends the lease that holds the lock, without a delay after it. The caller promotes.
    pub(super) fn end_lease_at_once(&mut self, end: LeaseEnd, at: StoreTime) {
        let Some(lease) = self.lock.lease.take() else { return };
        let last = LastLease { token: lease.token, end, at };
        self.lock.ended.push(ended(&lease, end, &last));
        self.lock.last = Some(last);
        self.effects.push(Effect::Ended { lease, end });
    }

    /// Removes a waiter from the queue, withdraws an offer to it, and remembers how its request ended. The caller
    /// promotes.
    pub(super) fn remove_waiter(&mut self, request: RequestId, end: RequestEnd) {
        let Some(waiter) = self.lock.queue.as_mut().and_then(|queue| queue.remove(request)) else { return };
        self.decline(request);
        self.remember(request, &waiter, end, self.now);
        self.give_up_empty_queue();
    }

    /// Withdraws the open offer to this request, if there is one.
    pub(super) fn decline(&mut self, request: RequestId) {
        self.lock.offer = self.lock.offer.filter(|offer| offer.request != request);
        self.decline_shared(request);
    }

    pub(super) fn set_state(&mut self, request: RequestId, state: WaiterState) {
        if let Some(queue) = &mut self.lock.queue {
            queue.set_state(request, state);
        }
    }

    pub(super) fn give_up_empty_queue(&mut self) {
        self.lock.queue.take_if(|queue| queue.is_empty());
    }

    fn remember(&mut self, request: RequestId, waiter: &Waiter, end: RequestEnd, at: StoreTime) {
        self.lock.ended.push(Ended { request, fingerprint: waiter.terms.fingerprint, end, at });
    }
}
