//! Messages of a session about its attached leases.

use super::Session;
use crate::clock::Moment;
use crate::mode::Mode;
use crate::proto::duration;
use crate::status::Loss;
use crate::v1;
use crate::validity::Reading;
use std::time::Duration;
use v1::detached::Reason;

impl Session {
    /// Leases were renewed, by the beat answer sent at `sent` or by their attachment.
    pub(super) fn renewed(&self, groups: &[v1::RenewedLeases], sent: Option<Moment>, now: Moment) {
        for group in groups {
            let ttl = duration(group.ttl);
            for handle in &group.handles {
                let confirmed = self.outbox().confirm(*handle);
                let Some((lease, attached)) = confirmed else { continue };
                let sent = sent.unwrap_or(attached);
                lease.mark_kept();
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

    /// The session no longer keeps a lease alive.
    pub(super) fn detached(&self, detached: v1::Detached, now: Moment) {
        let taken = self.outbox().take(detached.handle);
        // If this process has attached the lease to its next session since, this is expected.
        let Some(attachment) = taken.filter(|attachment| attachment.is_latest()) else { return };
        let lease = attachment.lease;
        match detached.reason() {
            Reason::StreamFull => {
                lease.leave_stream();
                self.core.spawn(crate::unary_renewal::keep_alive(self.core.clone(), lease));
            }
            // Another process attached the lease. Once on each session may be a delayed message of an old session, and
            // is corrected. Twice means that another process received the lease: it stays valid until the known end,
            // but is no longer renewed here, nor attached to later sessions.
            Reason::AttachedElsewhere | Reason::Unspecified | Reason::Requested => {
                if lease.may_reattach(attachment.repeated) {
                    self.outbox().attach_again(lease.clone(), now);
                    // If it was released concurrently, it must not be renewed again.
                    if lease.snapshot(now).is_lost() {
                        self.detach(lease.key);
                    }
                } else {
                    lease.leave_stream();
                    lease.at_risk(now, "another process renews its lease");
                }
            }
        }
    }

    /// Somebody waits for the lock of a lease that asked to be told.
    pub(super) fn wanted(&self, wanted: v1::Wanted, now: Moment) {
        let found = self.outbox().attachment(wanted.handle).cloned();
        if let Some(attachment) = found {
            attachment.lease.wanted(now, Mode::of(wanted.mode()).unwrap_or_default());
        }
    }

    pub(super) fn lost(&self, lost: v1::Lost) {
        let ended = self.outbox().take(lost.handle);
        if let Some(ended) = ended {
            ended.lease.end(Loss::from_server(lost.end(), lost.successor_token));
        }
    }
}
