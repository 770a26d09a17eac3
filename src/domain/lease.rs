//! One grant, and what is bound to it.

use super::{
    binding::Binding,
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
    /// Whether its holder has renewed or attached it, and so has certainly heard of it: no dropped call cuts it any
    /// more.
    pub heard: bool,
}

impl Lease {
    /// Sets the time left to `ttl`, which becomes the lease's own; never shortens. Whoever renews has heard of the
    /// lease.
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

    /// Cuts the lease to end soon, because every call that could have heard of it was dropped. Not if its holder has
    /// acted on it: it reckons with the time that a renewal promised.
    pub fn cut_short(&mut self, now: StoreTime) {
        // mutant: drop cuts a renewed lease
        if !self.heard {
            self.expires_at = self.expires_at.min(now.after(DROP_GRACE));
            self.unheard = true;
        }
    }

    fn extend(&mut self, now: StoreTime, ttl: Duration) {
        let expires_at = now.after(ttl);
        // mutant: renewal shortens
        if expires_at >= self.expires_at {
            self.expires_at = expires_at;
            self.terms.ttl = ttl;
        }
        self.unheard = false;
    }

    /// When it ends, as seen at `now`. Further ahead than its own period means that the clock stepped back: cut to
    /// that.
    pub fn healed_end(&self, now: StoreTime) -> StoreTime {
        let period = if self.unheard { self.terms.ttl.min(DROP_GRACE) } else { self.terms.ttl };
        self.expires_at.min(now.after(period))
    }

    /// How long it has left.
    pub fn left(&self, now: StoreTime) -> Duration {
        self.healed_end(now).since(now)
    }
}
