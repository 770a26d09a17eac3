//! A lease: one grant of a lock, and the terms it was granted on.

use super::{
    binding::Binding,
    codec,
    ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
    limits::DROP_GRACE,
    mode::Mode,
    name::{Holder, Identity, Metadata, Owner},
    time::{StoreTime, micros},
    token::FencingToken,
};
use minicbor::{Decode, Encode};
use std::{num::NonZeroU64, time::Duration};

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum LeaseEnd {
    /// Its holder gave it back.
    #[n(0)]
    Released,
    /// Its time ran out.
    #[n(1)]
    Expired,
    /// An operator took it back, or the server when its holder's stream ended and the holder had asked for that.
    #[n(2)]
    Revoked,
}

impl LeaseEnd {
    /// Of two ends, the one after which unfinished work is more likely.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let badness = |end| match end {
            Self::Released => 0,
            Self::Revoked => 1,
            Self::Expired => 2,
        };
        if badness(self) < badness(other) { other } else { self }
    }
}

/// What a request asks for. Bound to its id: a repeat with other terms is refused.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Terms {
    /// A hash of all parameters that the request id is bound to. Equal parameters have the same hash on every server.
    #[n(0)]
    pub fingerprint: u64,
    /// How long the lease lasts unless it is renewed.
    #[cbor(n(1), with = "codec::span")]
    pub ttl: Duration,
    /// The label of the holder.
    #[n(2)]
    pub holder: Holder,
    /// What the holder says of itself.
    #[n(3)]
    pub metadata: Metadata,
    /// The token granted is at least this.
    #[n(4)]
    pub min_token: u64,
    /// The longest time from the grant to the end of the lease, with all renewals; `None`: no bound.
    #[n(5)]
    pub max_hold: Option<MaxHold>,
    /// What few requests ask for. In a box, so that the others do not pay for it.
    #[n(6)]
    pub extra: Option<Box<Extra>>,
    /// Which other holders it excludes.
    #[cbor(n(7), with = "codec::mode", has_nil)]
    pub mode: Mode,
}

/// What few requests ask for, and what is said of few leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Extra {
    /// How long its place stays unavailable after the lease; `None`: it does not.
    #[n(0)]
    pub delays: Option<Delays>,
    /// What acquires several locks, this one among them.
    #[n(1)]
    #[cbor(default)]
    pub owner: Owner,
    /// Who sent the request, where that was verified.
    #[n(2)]
    pub identity: Option<Identity>,
    /// The request does not queue if so many wait already; 0: it does.
    #[n(3)]
    #[cbor(default)]
    pub waiters_max: u32,
    /// The stream that keeps the lease is told when somebody waits whom it excludes.
    #[n(4)]
    #[cbor(default)]
    pub tell_when_wanted: bool,
    /// The number of the last description of the lease; 0: it was never described.
    #[n(5)]
    #[cbor(default)]
    pub description: u64,
}

impl Extra {
    /// In a box; `None` if nothing of it is asked for.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Nothing but these delays.
    pub fn of_delays(delays: Option<Delays>) -> Option<Box<Self>> {
        Self { delays, ..Self::default() }.boxed()
    }
}

/// How long the place of a lease, of an exclusive one the whole lock, stays unavailable after it. At least one of the
/// two is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Delays {
    /// At least this long after the grant, however the lease ends.
    #[cbor(n(0), with = "codec::span")]
    pub min_hold: Duration,
    /// This long after the end, unless the holder ended it: it may still be working.
    #[cbor(n(1), with = "codec::span")]
    pub lock_delay: Duration,
}

impl Delays {
    /// These spans, rounded up to whole microseconds; `None` if both are nothing.
    pub fn new(min_hold: Duration, lock_delay: Duration) -> Option<Self> {
        let whole = |span: Duration| Duration::from_micros(micros(span.saturating_add(Duration::from_nanos(999))));
        let delays = Self { min_hold: whole(min_hold), lock_delay: whole(lock_delay) };
        (!delays.min_hold.is_zero() || !delays.lock_delay.is_zero()).then_some(delays)
    }
}

/// The longest time to hold a lock, in whole microseconds. Never zero, so that having none takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct MaxHold(#[n(0)] NonZeroU64);

impl MaxHold {
    /// A bound of this span, rounded down; `None` if that is nothing.
    pub fn new(span: Duration) -> Option<Self> {
        Self::from_micros(micros(span))
    }

    /// A bound of as many microseconds; `None` if there are none.
    pub fn from_micros(micros: u64) -> Option<Self> {
        NonZeroU64::new(micros).map(Self)
    }

    /// The span.
    pub const fn span(self) -> Duration {
        Duration::from_micros(self.0.get())
    }
}

impl Terms {
    /// Whether classic clients of the lock, which see exclusive leases only, keep out of what these terms promise.
    pub fn suits_classic(&self) -> bool {
        self.delays().is_none() && self.mode == Mode::Exclusive
    }

    /// How long its place stays unavailable after the lease, if it does.
    pub fn delays(&self) -> Option<&Delays> {
        self.extra.as_ref()?.delays.as_ref()
    }

    /// The request has been queued: those that come to another leader before it do not have it refused there.
    pub fn waits(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.waiters_max = 0;
        }
    }

    /// Whether the stream that keeps the lease is told when somebody waits whom it excludes.
    pub fn tells_when_wanted(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.tell_when_wanted)
    }

    /// When a lease ends that was granted at `granted_at` and is granted or renewed at `now`: `ttl` later, or when it
    /// has been held for `max_hold`.
    pub fn end(&self, granted_at: StoreTime, now: StoreTime, ttl: Duration) -> StoreTime {
        let end = now.after(ttl);
        // mutant: renewed beyond max_hold
        self.max_hold.map_or(end, |max| end.min(granted_at.after(max.span())))
    }
}

/// One grant of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The request it answers.
    pub request: RequestId,
    /// The calls of that request.
    pub binding: Binding,
    /// What was asked for. A renewal without a TTL uses the TTL in here.
    pub terms: Terms,
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// Public name.
    pub grant_id: GrantId,
    /// Fencing token.
    pub token: FencingToken,
    /// When it was granted.
    pub granted_at: StoreTime,
    /// When it ends unless it is renewed. Never further ahead than the TTL, and never after its `max_hold`.
    pub expires_at: StoreTime,
    /// How the lock's previous lease ended, where that is remembered.
    pub previous_end: Option<LeaseEnd>,
    /// The stream that keeps it alive, if one does.
    pub attachment: Option<AttachmentId>,
    /// The server replica of that stream.
    pub attachment_replica: ReplicaId,
    /// The lowest attachment attempt that is accepted next: an older attempt that arrives late is refused.
    pub attachment_attempt: u32,
    /// Whether it was cut short because every call that could have heard of it was dropped.
    pub unheard: bool,
    /// Whether its holder has renewed, attached or converted it. It has heard of the lease then, so no dropped call
    /// cuts it short.
    pub heard: bool,
    /// Whether the stream that keeps it has been told that somebody waits. Not kept: the next leader tells it again.
    pub told_wanted: bool,
}

impl Lease {
    /// Extends the lease to `ttl` from now, at most to its `max_hold`, and makes that its TTL. Never shortens it.
    /// Whoever renews has heard of the lease.
    pub fn renew(&mut self, now: StoreTime, ttl: Duration) {
        self.extend(now, ttl);
        self.heard = true;
    }

    /// Gives a lease that was cut short its whole TTL again, because a call that can hear of it has arrived.
    pub fn rearm(&mut self, now: StoreTime) {
        if self.unheard {
            self.extend(now, self.terms.ttl);
        }
    }

    /// Notes that its holder has acted on it: no dropped call cuts short what the answer promises.
    pub fn hear(&mut self, now: StoreTime) {
        self.rearm(now);
        self.heard = true;
    }

    /// Cuts the lease to end after [`DROP_GRACE`], because every call that could have heard of it was dropped. Does
    /// nothing if the holder has acted on the lease: it relies on the time that a renewal promised.
    pub fn cut_short(&mut self, now: StoreTime) {
        // mutant: drop cuts a renewed lease
        if !self.heard {
            self.expires_at = self.expires_at.min(now.after(DROP_GRACE));
            self.unheard = true;
        }
    }

    fn extend(&mut self, now: StoreTime, ttl: Duration) {
        let expires_at = self.terms.end(self.granted_at, now, ttl);
        // mutant: renewal shortens
        if expires_at >= self.expires_at {
            self.expires_at = expires_at;
            self.terms.ttl = ttl;
        }
        self.unheard = false;
    }

    /// Whether the stream that keeps it is to be told when somebody waits.
    pub fn is_to_tell(&self) -> bool {
        self.terms.tells_when_wanted() && self.attachment.is_some() && !self.told_wanted
    }

    /// When it ends, as seen at `now`. An end further ahead than the TTL means that the clock stepped back; the result
    /// is then `now` plus the TTL.
    pub fn healed_end(&self, now: StoreTime) -> StoreTime {
        let period = if self.unheard { self.terms.ttl.min(DROP_GRACE) } else { self.terms.ttl };
        self.expires_at.min(now.after(period))
    }

    /// Its `max_hold`, if that ends it now and not its TTL.
    pub fn max_hold_reached(&self) -> Option<MaxHold> {
        self.terms.max_hold.filter(|max| self.granted_at.after(max.span()) <= self.expires_at)
    }

    /// How long it has left.
    pub fn left(&self, now: StoreTime) -> Duration {
        self.healed_end(now).since(now)
    }
}
