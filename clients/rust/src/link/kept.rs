//! What a session says of the leases that are attached to it.

use super::Link;
use crate::clock::Moment;
use crate::lease::Lost;
use crate::proto::duration;
use crate::v1;
use crate::validity::Reading;
use std::time::Duration;
use v1::detached::Reason;

impl Link {
    /// Leases that were renewed, by the answer sent then or by what attached them.
    pub(super) fn renewed(&self, groups: &[v1::RenewedLeases], sent: Option<Moment>, now: Moment) {
        for group in groups {
            let ttl = duration(group.ttl);
            for handle in &group.handles {
                let confirmed = self.outbox().confirm(*handle);
                let Some((lease, attached)) = confirmed else { continue };
                let sent = sent.unwrap_or(attached);
                lease.kept_by_us();
                lease.renewed(Reading { sent, read: now, held_for: Duration::ZERO, ttl });
            }
        }
    }

    pub(super) fn at_risk(&self, handles: &[u32], now: Moment) {
        for handle in handles {
            let found = self.outbox().attachment(*handle).cloned();
            if let Some(attachment) = found.filter(|attachment| attachment.is_latest()) {
                attachment.lease.store_unreachable(now);
            }
        }
    }

    /// The stream no longer keeps a lease alive.
    pub(super) fn detached(&self, detached: v1::Detached, now: Moment) {
        let taken = self.outbox().take(detached.handle);
        // If this process has attached it to its next stream since, that is the reason, and all is well.
        let Some(attachment) = taken.filter(|attachment| attachment.is_latest()) else { return };
        let lease = attachment.lease;
        match detached.reason() {
            Reason::StreamFull => {
                lease.leave_stream();
                self.core.spawn(crate::alone::keep_alive(self.core.clone(), lease));
            }
            // Somebody else keeps it? Once is a mistake (an old stream that turned up late) and set right. Twice is
            // another process that was given the lease: it is valid until the end of what we know, and no longer ours
            // to renew.
            Reason::AttachedElsewhere | Reason::Unspecified | Reason::Requested => {
                if lease.may_reattach() {
                    self.attach(lease.clone(), now);
                    // Given back at this very moment? It must not be kept alive again.
                    if lease.lost(now).is_some() {
                        self.detach(lease.key);
                    }
                } else {
                    lease.leave_stream();
                    lease.at_risk(now);
                }
            }
        }
    }

    pub(super) fn lost(&self, lost: v1::Lost) {
        let ended = self.outbox().take(lost.handle);
        if let Some(ended) = ended {
            ended.lease.end(Lost::told(lost.end(), lost.successor_token));
        }
    }
}
