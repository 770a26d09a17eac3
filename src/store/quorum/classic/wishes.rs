//! The step at a classic key that a turn needs first.

use crate::{
    domain::{
        command::{Acquire, Candidate, Command},
        ids::{GrantId, RequestId},
        lease::Lease,
        limits::CLAIM_WINDOW,
        rules::Lock,
        time::StoreTime,
    },
    store::{content::Bytes, quorum::paxos::classic::Wish},
};
use std::time::Duration;

/// How much longer a key lasts than the lease, or the offer, that it is for: the lease begins when the step is
/// answered, and ends by another clock.
pub(crate) const KEY_OUTLIVES: Duration = Duration::from_millis(500);
/// The value of a key while the lock is offered to a waiter.
const OFFERED: &[u8] = b"on offer by fencepost";

/// The value of the key of a lease.
fn value_of(grant_id: GrantId) -> Bytes {
    grant_id.0.to_string().into_bytes().into()
}

fn hold(value: Bytes, lasts: Duration) -> Wish {
    let ms = lasts.saturating_add(KEY_OUTLIVES).as_millis();
    Wish::Hold { value, ms: u64::try_from(ms).unwrap_or(u64::MAX) }
}

/// The lease goes on, for at least so long.
fn extend(lease: &Lease, ttl: Duration, now: StoreTime) -> Wish {
    let ttl = lease.terms.end(lease.granted_at, now, ttl).since(now);
    hold(value_of(lease.grant_id), ttl.max(lease.left(now)))
}

/// What the key of a lock is to say, with nothing under way.
pub(crate) fn settled(lock: Option<&Lock>, now: StoreTime) -> Wish {
    let lock_until = lock.and_then(|lock| lock.offered_to(now).and(lock.offered_until()));
    match (lease_of(lock, now), lock_until) {
        // Set before it was granted.
        (Some(_), _) => Wish::Look,
        (None, Some(until)) => hold(OFFERED.into(), until.since(now)),
        (None, None) => Wish::Drop,
    }
}

/// Whether this value is that of the lock's lease, or of its offer.
pub(crate) fn is_right(value: &[u8], lock: Option<&Lock>, now: StoreTime) -> bool {
    match lease_of(lock, now) {
        Some(lease) => *value == *value_of(lease.grant_id),
        None => value == OFFERED && lock.is_some_and(|lock| lock.offered_to(now).is_some()),
    }
}

/// A classic client has the lock: the key is to be that of an offer, if somebody waits.
pub(crate) fn polled(lock: Option<&Lock>, now: StoreTime) -> Option<Wish> {
    is_wanted(lock, now).then(|| hold(OFFERED.into(), CLAIM_WINDOW))
}

/// Whether somebody waits for a lock that has no lease.
pub(crate) fn is_wanted(lock: Option<&Lock>, now: StoreTime) -> bool {
    lease_of(lock, now).is_none() && lock.is_some_and(Lock::is_waited_for)
}

fn lease_of(lock: Option<&Lock>, now: StoreTime) -> Option<&Lease> {
    lock.and_then(Lock::lease).filter(|lease| now < lease.expires_at)
}

/// A turn of this command may grant the lock to the request, for this TTL at least, or tell it of its lease.
fn grants(
    lock: Option<&Lock>,
    request: RequestId,
    candidate: &Candidate,
    ttl: Duration,
    now: StoreTime,
) -> Option<Wish> {
    match (lease_of(lock, now), lock.and_then(|lock| lock.offered_to(now))) {
        (Some(lease), _) => (lease.request == request).then(|| extend(lease, ttl, now)),
        (None, Some(offered)) if offered != request => None,
        (None, _) => {
            let queued = lock.and_then(|lock| lock.ttl_of_waiter(request)).unwrap_or_default();
            Some(hold(value_of(candidate.grant_id), ttl.max(queued)))
        }
    }
}

/// A turn of this command.
pub(crate) fn of_command(command: &Command, lock: Option<&Lock>, now: StoreTime) -> Option<Wish> {
    let lease = lease_of(lock, now);
    let held = |lease_id| lease.filter(|lease| lease.lease_id == lease_id);
    match command {
        Command::Acquire(acquire) => of_acquire(acquire, lock, now),
        Command::Claim(call, candidate) => grants(lock, call.request, candidate, Duration::ZERO, now),
        // Its answer may be the lease.
        Command::GiveUp(call) => {
            lease.filter(|lease| lease.request == call.request).map(|lease| extend(lease, Duration::ZERO, now))
        }
        Command::Renew { lease_id, ttl } => {
            held(*lease_id).map(|lease| extend(lease, ttl.unwrap_or(lease.terms.ttl), now))
        }
        Command::RenewKept(lease_id, _) | Command::Attach { lease_id, .. } => {
            held(*lease_id).map(|lease| extend(lease, lease.terms.ttl, now))
        }
        Command::View { .. } | Command::ListWaiters { .. } => Some(Wish::Look),
        Command::DropCall(_)
        | Command::Decline { .. }
        | Command::Release(_)
        | Command::Detach(..)
        | Command::Disconnect(..)
        | Command::Convert { .. }
        | Command::Describe { .. }
        | Command::ForceRelease { .. } => None,
    }
}

/// A turn that acquires.
pub(crate) fn of_acquire(
    Acquire { call, terms, candidate, .. }: &Acquire,
    lock: Option<&Lock>,
    now: StoreTime,
) -> Option<Wish> {
    grants(lock, call.request, candidate, terms.ttl, now)
}
