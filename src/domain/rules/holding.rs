//! Commands on a lease: renew, attach to a stream, release, revoke.
//!
//! Only the lease id proves ownership. A lease that ended is never revived, even if the lock is still free: waiters,
//! watchers and the holder itself act on the end and must be able to rely on it.

use super::Turn;
use crate::domain::{
    command::Effect,
    ids::{AttachmentId, LeaseId},
    lease::{Lease, LeaseEnd},
    outcome::{Fate, Gone, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
    time::StoreTime,
    token::FencingToken,
};
use std::time::Duration;

impl Turn<'_> {
    /// Releases a lease and offers the lock to the next waiter. Ends the `lock_delay` after a lease that has ended.
    pub(super) fn release(&mut self, lease_id: LeaseId) -> ReleaseOutcome {
        self.apply_time();
        if let Some(token) = self.lasting_share(lease_id).map(|lease| lease.token) {
            self.end_share(token, LeaseEnd::Released, self.now);
            // mutant: reader hands nothing over
            self.promote();
            return ReleaseOutcome::Released;
        }
        // mutant: release without the lease id
        if self.held(lease_id).is_none() {
            let gone = self.gone(lease_id);
            self.end_lock_delay(lease_id);
            return ReleaseOutcome::Gone(gone);
        }
        self.end_lease(LeaseEnd::Released, self.now);
        // mutant: release hands nothing over
        self.promote();
        ReleaseOutcome::Released
    }

    /// Extends a lease to `ttl` from now, or to its own TTL. With an attachment, only if that attachment keeps the
    /// lease.
    pub(super) fn renew(
        &mut self,
        lease_id: LeaseId,
        ttl: Option<Duration>,
        attachment: Option<AttachmentId>,
    ) -> RenewOutcome {
        self.apply_time();
        let now = self.now;
        let renewed = self.with_held(lease_id, |lease| {
            // mutant: renewal by a lost attachment
            if attachment.is_some() && attachment != lease.attachment {
                return RenewOutcome::AttachedElsewhere;
            }
            lease.renew(now, ttl.unwrap_or(lease.terms.ttl));
            RenewOutcome::Renewed(renewed(lease, now))
        });
        renewed.unwrap_or_else(|| RenewOutcome::Lost(self.gone(lease_id)))
    }

    /// Attaches a lease to a stream, and renews it. The highest attempt wins; among equal attempts, the latest.
    pub(super) fn attach(&mut self, lease_id: LeaseId, attempt: u32, attachment: AttachmentId) -> RenewOutcome {
        self.apply_time();
        let (now, replica) = (self.now, self.replica);
        let attached = self.with_held(lease_id, |lease| {
            // mutant: older attachment wins
            if attempt < lease.attachment_attempt {
                return (RenewOutcome::AttachedElsewhere, None, replica);
            }
            lease.attachment_attempt = attempt;
            let before = lease.attachment.replace(attachment);
            lease.told_wanted = before == Some(attachment) && lease.told_wanted;
            let replica = std::mem::replace(&mut lease.attachment_replica, replica);
            lease.renew(now, lease.terms.ttl);
            (RenewOutcome::Renewed(renewed(lease, now)), before, replica)
        });
        let Some((outcome, before, replica)) = attached else { return RenewOutcome::Lost(self.gone(lease_id)) };
        // A repeat of the same attachment, whose answer was lost, replaces nothing: its stream must not be told that it
        // lost the lease.
        if let Some(before) = before.filter(|before| *before != attachment) {
            self.effects.push(Effect::Detached { replica, lease_id, attachment: before });
        }
        self.tell_wanted();
        outcome
    }

    /// Detaches a lease from this attachment, if it is still the current one. The lease lasts until its end.
    pub(super) fn detach(&mut self, lease_id: LeaseId, attachment: AttachmentId) {
        self.apply_time();
        self.with_held(lease_id, |lease| {
            // The next stream, perhaps of another process that was given the lease, counts its attachments from 1.
            // mutant: detach of a stale attachment
            if lease.attachment.take_if(|current| *current == attachment).is_some() {
                lease.attachment_attempt = 0;
            }
        });
    }

    /// Revokes a lease whose stream ended, if this attachment still keeps it and its holder asked for release on
    /// disconnect.
    pub(super) fn disconnect(&mut self, lease_id: LeaseId, attachment: AttachmentId) {
        self.apply_time();
        let shared = self.lasting_share(lease_id).filter(|lease| lease.attachment == Some(attachment));
        if let Some(token) = shared.map(|lease| lease.token) {
            self.end_share(token, LeaseEnd::Revoked, self.now);
            self.promote();
        }
        // mutant: disconnect of a stale attachment
        if self.held(lease_id).is_some_and(|lease| lease.attachment == Some(attachment)) {
            self.end_lease(LeaseEnd::Revoked, self.now);
            self.promote();
        }
    }

    /// Revokes the lease with this token, or ends the delay after it. An operator knows better than a delay: it leaves
    /// none, whatever its lease asked for.
    pub(super) fn force_release(&mut self, expected: FencingToken) -> RevokeOutcome {
        self.apply_time();
        let newest_shared = self.lock.newest_shared(self.now).map(|lease| lease.token);
        if let Some(newest) = newest_shared.or_else(|| self.lock.newest_ghost(self.now)) {
            return self.force_release_shared(expected, newest);
        }
        let of_lease = self.lock.lease.as_ref().map(|lease| (lease.token, &lease.terms.holder));
        let of_delay = self.lock.delay.as_ref().map(|delay| (delay.token, &delay.holder));
        let Some((token, holder)) = of_lease.or(of_delay) else { return RevokeOutcome::NotHeld };
        // mutant: force release of any token
        if token != expected {
            return RevokeOutcome::TokenMismatch(token);
        }
        let holder = holder.clone();
        self.end_lease_at_once(LeaseEnd::Revoked, self.now);
        // mutant: force release leaves a delay
        self.end_delay(self.now);
        self.promote();
        RevokeOutcome::Revoked(holder)
    }

    fn force_release_shared(&mut self, expected: FencingToken, newest: FencingToken) -> RevokeOutcome {
        self.end_if_overdue(Some(expected));
        let lease = self.lock.lease_of(expected);
        let ghost = self.lock.ghost_of(expected).map(|ghost| &ghost.delay.holder);
        let Some(holder) = lease.map(|lease| &lease.terms.holder).or(ghost).cloned() else {
            return RevokeOutcome::TokenMismatch(newest);
        };
        self.end_share_at_once(expected, LeaseEnd::Revoked);
        // mutant: force release leaves a ghost
        self.lift_ghost(expected, self.now);
        self.promote();
        RevokeOutcome::Revoked(holder)
    }

    /// Changes the lease with this id, if it lasts.
    pub(super) fn with_held<R>(&mut self, lease_id: LeaseId, change: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        if self.lock.lease.is_none() {
            return self.change_share(lease_id, change);
        }
        self.held(lease_id).map(change)
    }

    /// The shared lease with this id, if it lasts.
    pub(super) fn lasting_share(&self, lease_id: LeaseId) -> Option<&Lease> {
        self.lock.shares.as_ref()?.of_lease(lease_id).filter(|lease| self.now < lease.expires_at)
    }

    fn held(&mut self, lease_id: LeaseId) -> Option<&mut Lease> {
        self.lock.lease.as_mut().filter(|lease| lease.lease_id == lease_id)
    }

    pub(super) fn gone(&self, lease_id: LeaseId) -> Gone {
        let exclusive = self.lock.lease.as_ref().map(|lease| lease.token);
        let is_overdue = || self.lock.shares.as_ref().is_some_and(|shares| shares.of_lease(lease_id).is_some());
        let fate = match (self.lock.ended_lease(lease_id, self.now), exclusive) {
            (Some(end), _) => Fate::Ended(end),
            (None, Some(_)) => Fate::Superseded,
            // It is among the shared leases that this turn had no room to end.
            (None, None) if is_overdue() => Fate::Ended(LeaseEnd::Expired),
            // Beside readers, nobody can tell whether one of them was granted since.
            (None, None) => Fate::Unknown,
        };
        let shared = || self.lock.newest_shared(self.now).map(|lease| lease.token);
        Gone { fate, successor: exclusive.or_else(shared) }
    }
}

pub(super) fn renewed(lease: &Lease, now: StoreTime) -> Renewed {
    Renewed { token: lease.token, ttl: lease.terms.ttl, left: lease.left(now) }
}
