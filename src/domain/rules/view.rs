//! Reading a lock. A view is computed for one moment and changes nothing: overdue entries are left out, not cleared.

use super::{Lock, Turn};
use crate::domain::{
    lease::{Lease, LeaseEnd},
    limits::ENDED_MEMORY,
    outcome::{Contention, HeldPermits, HolderView, LockView},
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
            delay: self.delay_at(now).filter(|delay| now < delay.until()).map(|delay| delay.view(now)),
            shared: self.shared_view(now, token),
        }
    }

    /// The highest token granted, if it is remembered.
    fn newest_token(&self, now: StoreTime) -> Option<FencingToken> {
        let live = self.live(now).or_else(|| self.newest_shared(now)).map(|lease| lease.token);
        // Among readers, a lease that has ended may be newer.
        live.max(self.last_ended(now).map(|(token, _)| token))
    }

    /// Whether it is held, unavailable after a lease, or has waiters.
    pub fn is_in_use(&self, now: StoreTime) -> bool {
        self.live(now).is_some()
            || self.newest_shared(now).is_some()
            || self.waiters(now) > 0
            || self.delay_at(now).is_some_and(|delay| now < delay.until())
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
    pub(super) fn contention(&self) -> Box<Contention> {
        let current = self.lock.lease.as_ref().map(|lease| holder_view(lease, self.now));
        let delay = self.lock.delay.as_ref().map(|delay| delay.view(self.now));
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
    }
}
