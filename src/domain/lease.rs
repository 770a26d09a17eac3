//! One grant, and what is bound to it.

use super::{
    ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
    limits::DROP_GRACE,
    name::{Holder, Metadata},
    time::StoreTime,
    token::FencingToken,
};
use std::time::Duration;

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEnd {
    /// Its holder gave it back.
    Released,
    /// Its time ran out.
    Expired,
    /// An operator took it back, or the server when its holder's stream ended and the holder had asked for that.
    Revoked,
}

/// What a request asks for. Bound to its id: a repeat with other terms is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Stands for all parameters that the id is bound to: the same for equal ones, whichever replica computes it.
    pub fingerprint: u64,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
    /// The label of the holder-to-be.
    pub holder: Holder,
    /// What it says of itself.
    pub metadata: Metadata,
    /// The granted token is at least this.
    pub min_token: u64,
}

/// Which transmission of a request counts, and how many calls carry it.
///
/// A server cannot tell a cancelled call from a lost one, so the newest attempt is bound and older ones are not heard any more.
/// Equal numbers share the binding, because a proxy may repeat a call that its client sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    attempt: u32,
    calls: u32,
    replica: ReplicaId,
}

/// What became of an attempt to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is bound, alone or beside calls of the same number.
    Yes,
    /// It is bound, and the attempt of this number, last carried by this replica, no longer is.
    TookOver(u32, ReplicaId),
    /// A newer attempt is bound. Nothing was changed.
    Overtaken,
}

impl Binding {
    /// The binding of a request's first call.
    pub const fn first(attempt: u32, replica: ReplicaId) -> Self {
        Self { attempt, calls: 1, replica }
    }

    /// The number of the attempt that is bound.
    pub const fn attempt(self) -> u32 {
        self.attempt
    }

    /// The server replica that carries its calls; of several, the one that came last.
    pub const fn replica(self) -> ReplicaId {
        self.replica
    }

    /// Binds a further call.
    pub fn bind(&mut self, attempt: u32, replica: ReplicaId) -> Bound {
        match attempt.cmp(&self.attempt) {
            std::cmp::Ordering::Less => Bound::Overtaken,
            std::cmp::Ordering::Equal => {
                self.calls = self.calls.saturating_add(1);
                self.replica = replica;
                Bound::Yes
            }
            std::cmp::Ordering::Greater => {
                let before = Bound::TookOver(self.attempt, self.replica);
                *self = Self::first(attempt, replica);
                before
            }
        }
    }

    /// Takes one call of this attempt away. True if that was the last one of the attempt that is bound: only then may its clean-up act.
    pub fn unbind(&mut self, attempt: u32) -> bool {
        if attempt != self.attempt || self.calls == 0 {
            return false;
        }
        self.calls -= 1;
        self.calls == 0
    }

    /// The same for a call that was dropped, and had come through `replica`. Where one call is left and it came through another, the
    /// dropped one was never bound (its command was refused or lost): the one that is left may have heard of its lease.
    pub fn unbind_dropped(&mut self, attempt: u32, replica: ReplicaId) -> bool {
        let is_anothers = self.calls == 1 && self.replica != replica;
        !is_anothers && self.unbind(attempt)
    }

    /// Whether any call is bound.
    pub const fn is_bound(self) -> bool {
        self.calls > 0
    }
}

/// One grant of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The request it answers.
    pub request: RequestId,
    /// The calls of that request.
    pub binding: Binding,
    /// What was asked for; its TTL is the one that it is renewed by.
    pub terms: Terms,
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// Public name.
    pub grant_id: GrantId,
    /// Fencing token.
    pub token: FencingToken,
    /// When it was granted.
    pub granted_at: StoreTime,
    /// When it ends unless it is renewed. Never further ahead than the TTL.
    pub expires_at: StoreTime,
    /// How the lock's previous lease ended, where that is remembered.
    pub previous_end: Option<LeaseEnd>,
    /// The stream that keeps it alive, if one does.
    pub attachment: Option<AttachmentId>,
    /// The server replica of that stream.
    pub attachment_replica: ReplicaId,
    /// The attachment attempt that the next one must reach, so that an older one that turns up late loses.
    pub attachment_attempt: u32,
    /// Whether its time was cut because every call that could have heard of it was dropped.
    pub unheard: bool,
    /// Whether its holder has renewed or attached it, and so has certainly heard of it: no dropped call cuts it any more.
    pub heard: bool,
}

impl Lease {
    /// Sets the time left to `ttl`, which becomes the lease's own; never shortens. Whoever renews has heard of the lease.
    pub fn renew(&mut self, now: StoreTime, ttl: Duration) {
        self.extend(now, ttl);
        self.heard = true;
    }

    /// Gives a lease that was cut short its whole TTL again: a call that can hear of it has turned up.
    pub fn rearm(&mut self, now: StoreTime) {
        if self.unheard {
            self.extend(now, self.terms.ttl);
        }
    }

    /// Cuts the lease to end soon, because every call that could have heard of it was dropped. Not if its holder has acted on
    /// it: it reckons with the time that a renewal promised.
    pub fn cut_short(&mut self, now: StoreTime) {
        if !self.heard {
            self.expires_at = self.expires_at.min(now.after(DROP_GRACE));
            self.unheard = true;
        }
    }

    fn extend(&mut self, now: StoreTime, ttl: Duration) {
        let expires_at = now.after(ttl);
        if expires_at >= self.expires_at {
            self.expires_at = expires_at;
            self.terms.ttl = ttl;
        }
        self.unheard = false;
    }

    /// When it ends, as seen at `now`. Further ahead than its own period means that the clock stepped back: cut to that.
    pub fn healed_end(&self, now: StoreTime) -> StoreTime {
        let period = if self.unheard { self.terms.ttl.min(DROP_GRACE) } else { self.terms.ttl };
        self.expires_at.min(now.after(period))
    }

    /// How long it has left.
    pub fn left(&self, now: StoreTime) -> Duration {
        self.healed_end(now).since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_newest_attempt_is_bound_and_equal_ones_share_it() {
        let (one, two) = (ReplicaId(Uuid::from_u128(1)), ReplicaId(Uuid::from_u128(2)));
        let mut binding = Binding::first(1, one);
        assert_eq!(binding.bind(1, two), Bound::Yes);
        assert!(!binding.unbind(1), "one call of attempt 1 is left");
        assert_eq!(binding.bind(3, one), Bound::TookOver(1, two));
        assert_eq!(binding.bind(2, two), Bound::Overtaken);
        assert!(!binding.unbind(1), "an overtaken attempt cleans nothing up");
        assert!(binding.unbind(3));
        assert!(!binding.unbind(3), "a clean-up acts once");
        assert!(!binding.is_bound());
        assert_eq!(binding.bind(3, two), Bound::Yes, "a retry that does not count binds again");
        assert!(binding.is_bound());
    }
}
