//! Tells holders that somebody waits whom they exclude, if they asked for that: for lazy release, and for jobs that may
//! be interrupted (CURATOR-171, CURATOR-650). A hint, for each attachment of a lease once.

use super::Turn;
use crate::domain::{command::Effect, lease::Lease, limits::WANTED_PER_TURN, mode::ModeName};

impl Turn<'_> {
    /// Tells the streams that keep the lock's leases, and have not been told, what the queue waits for.
    pub(super) fn tell_wanted(&mut self) {
        if let Some(queue) = &self.lock.queue
            && self.lock.has_any_to_tell()
            && let Some(mode) = queue.wanted_mode()
        {
            self.tell(mode);
        }
    }

    fn tell(&mut self, mode: ModeName) {
        if let Some(lease) = self.lock.lease.as_mut().filter(|lease| lease.is_to_tell()) {
            self.effects.extend(told(lease, mode));
        }
        for _ in 0..WANTED_PER_TURN {
            let Some(token) = self.lock.shares.as_ref().and_then(|shares| shares.to_tell.first().copied()) else {
                break;
            };
            let Some(lease) = self.lock.lease_of(token) else { break };
            if !lease.terms.mode.name().excludes(mode) {
                break;
            }
            let effect = self.lock.shares.as_mut().and_then(|shares| shares.change(token, |lease| told(lease, mode)));
            self.effects.extend(effect.flatten());
        }
    }
}

impl super::Lock {
    fn has_any_to_tell(&self) -> bool {
        let exclusive = self.lease.as_ref().is_some_and(Lease::is_to_tell);
        exclusive || self.shares.as_ref().is_some_and(|shares| !shares.to_tell.is_empty())
    }
}

fn told(lease: &mut Lease, mode: ModeName) -> Option<Effect> {
    lease.told_wanted = true;
    let (replica, attachment) = (lease.attachment_replica, lease.attachment?);
    Some(Effect::Wanted { replica, attachment, mode })
}
