//! Reading a lock. A view is computed for one moment and changes nothing: overdue entries are left out, not cleared.

use super::{Lock, Turn};
use crate::domain::{
    ids::RequestId,
    lease::{Extra, Lease, LeaseEnd, Terms},
    limits::{ENDED_MEMORY, WAITERS_PAGE_BYTES_MAX, WAITERS_PAGE_MAX},
    outcome::{Contention, DelayView, HeldPermits, HolderExtra, HolderView, LockView, WaiterView, WaitersView},
    queue::{Waiter, WaiterState},
    time::StoreTime,
    token::FencingToken,
};

impl Lock {
    /// The lock at `now`, without credentials.
    ///
    /// With a token, it says whether a shared lease has it.
    pub fn view(&self, now: StoreTime, token: Option<FencingToken>) -> LockView {
        let live = self.live(now);
        LockView {
            current: live.map(|lease| holder_view(lease, now)),
            classic: None,
            waiters: self.waiters(now),
            previous_end: match live.or_else(|| self.newest_shared(now)) {
                Some(lease) => lease.previous_end,
                None => self.last_ended(now).map(|(_, end)| end),
            },
            newest_token: self.newest_token(now),
            delay: self.delay_view(now),
            shared: self.shared_view(now, token),
        }
    }

    /// The highest token granted, if it is remembered.
    fn newest_token(&self, now: StoreTime) -> Option<FencingToken> {
        let live = self.live(now).or_else(|| self.newest_shared(now)).map(|lease| lease.token);
        // Among readers, a lease that has ended may be newer.
        live.max(self.last_ended(now).map(|(token, _)| token)).max(self.newest_ghost(now))
    }

    /// Why it is unavailable, or a place of it, although nobody holds that.
    fn delay_view(&self, now: StoreTime) -> Option<DelayView> {
        let delay = self.delay_at(now).filter(|delay| now < delay.until()).map(|delay| delay.view(now));
        delay.or_else(|| self.ghost_view(now))
    }

    /// Whether it is held, or a place of it is unavailable after a lease, or has waiters.
    pub fn is_in_use(&self, now: StoreTime) -> bool {
        self.live(now).is_some()
            || self.newest_shared(now).is_some()
            || self.waiters(now) > 0
            || self.delay_view(now).is_some()
    }

    fn live(&self, now: StoreTime) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| now < lease.expires_at)
    }

    /// The lease that ended last: one whose time ran out unnoticed, or the one remembered.
    fn last_ended(&self, now: StoreTime) -> Option<(FencingToken, LeaseEnd)> {
        let unnoticed = self.lease.as_ref().filter(|lease| lease.expires_at <= now);
        let (token, end, at) = match (unnoticed, self.last_with_overdue_shares(now)) {
            (Some(lease), _) => (lease.token, LeaseEnd::Expired, lease.expires_at),
            (None, Some(last)) => (last.token, last.end, last.at),
            (None, None) => return None,
        };
        let at = self.delay_at(now).map_or(at, |delay| delay.until());
        (now < at.after(ENDED_MEMORY)).then_some((token, end))
    }
}

impl Turn<'_> {
    /// The lock, and the waiters behind a position: at most `max`, and no more than fit into a message.
    pub(super) fn list_waiters(&self, after: Option<u64>, max: u32) -> WaitersView {
        let lock = LockView { classic: self.classic, ..self.lock.view(self.now, None) };
        let from = after.map_or(0, |after| after.saturating_add(1));
        let max = usize::try_from(max.min(WAITERS_PAGE_MAX)).unwrap_or(0);
        let queue = self.lock.queue.as_ref();
        // One more tells whether there are more.
        let found = queue.map(|queue| queue.from_position(from, self.lock.offers(), max + 1)).unwrap_or_default();
        let (mut waiters, mut bytes) = (Vec::new(), 0);
        for (request, waiter) in found.iter().take(max) {
            let waiter = self.waiter_view(*request, waiter);
            bytes += waiter_bytes(&waiter);
            if WAITERS_PAGE_BYTES_MAX < bytes && !waiters.is_empty() {
                break;
            }
            waiters.push(waiter);
        }
        let has_more = waiters.len() < found.len();
        WaitersView { lock, waiters, has_more }
    }

    fn waiter_view(&self, request: RequestId, waiter: &Waiter) -> WaiterView {
        let Terms { holder, mode, extra, .. } = &waiter.terms;
        let extra = extra.as_deref();
        let is_waiting = matches!(waiter.state(), WaiterState::Waiting | WaiterState::Offered);
        WaiterView {
            position: waiter.position,
            request,
            holder: holder.clone(),
            owner: extra.map(|extra| extra.owner.clone()).unwrap_or_default(),
            identity: extra.and_then(|extra| extra.identity.clone()),
            mode: mode.name(),
            permits: mode.permits().map_or(0, |permits| permits.count),
            waited: self.now.since(waiter.since),
            is_skipped: !is_waiting || self.is_left(request),
        }
    }

    pub(super) fn contention(&self) -> Box<Contention> {
        let current = self.lock.lease.as_ref().map(|lease| holder_view(lease, self.now));
        let delay = self.lock.delay.as_ref().map(|delay| delay.view(self.now));
        let delay = delay.or_else(|| self.lock.ghost_view(self.now));
        let shared = self.lock.shared_view(self.now, None);
        Box::new(Contention { current, classic: self.classic, waiters: self.lock.waiters(self.now), delay, shared })
    }
}

pub(super) fn holder_view(lease: &Lease, now: StoreTime) -> HolderView {
    HolderView {
        holder: lease.terms.holder.clone(),
        metadata: lease.terms.metadata.clone(),
        grant_id: lease.grant_id,
        token: lease.token,
        ttl: lease.terms.ttl,
        left: lease.left(now),
        held: now.since(lease.granted_at),
        permits: lease.terms.mode.permits().map(|it| HeldPermits { count: it.count, slot: it.slot }),
        extra: lease.terms.extra.as_deref().and_then(holder_extra),
    }
}

/// About what a waiter takes up in a message.
fn waiter_bytes(waiter: &WaiterView) -> usize {
    /// Its numbers and ids, and what is around texts.
    const AROUND: usize = 96;
    let identity = waiter.identity.as_ref().map_or(0, |identity| identity.as_str().len());
    AROUND + waiter.holder.as_str().len() + waiter.owner.as_str().len() + identity
}

fn holder_extra(extra: &Extra) -> Option<Box<HolderExtra>> {
    let Extra { owner, identity, description, delays: _, waiters_max: _, tell_when_wanted: _ } = extra;
    let shown = HolderExtra { owner: owner.clone(), identity: identity.clone(), description: *description };
    (shown != HolderExtra::default()).then(|| Box::new(shown))
}
