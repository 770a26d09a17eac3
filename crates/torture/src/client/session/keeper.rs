//! Keeps one lease attached: to the session that it was acquired on, and after that ends, to others.

use super::{
    Sessions,
    messages::{Attachment, Notification},
};
use crate::{
    client::{caller::Caller, held_lease::HeldLease},
    clock,
};
use fencepost_proto::v1::detached::Reason;
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::timeout};

const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MIN: Duration = Duration::from_millis(1);

pub(super) struct Keeper {
    caller: Caller,
    sessions: Arc<Sessions>,
    held: HeldLease,
}

/// Dropped, the lease is detached.
pub(super) struct KeepAliveTask(JoinHandle<()>);

impl Drop for KeepAliveTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a lease leaves a session.
enum SessionEnd {
    LeaseOver,
    Reattach,
}

impl Keeper {
    pub(super) fn of(caller: Caller, sessions: Arc<Sessions>, held: HeldLease) -> Self {
        Self { caller, sessions, held }
    }

    pub(super) fn start(self) -> KeepAliveTask {
        KeepAliveTask(tokio::spawn(self.keep()))
    }

    async fn keep(self) {
        // The attempt number of the grant's own attachment.
        let mut attempt = 1;
        let mut attachment = self.held.take_attachment();
        let mut server = attachment.as_ref().map_or(0, |attachment| attachment.stream.server);
        // The previous attachment is dropped only when the next one is confirmed.
        let mut before = None;
        while self.held.is_valid() {
            let mut on = attachment.take().unwrap_or_else(|| {
                attempt += 1;
                server += 1;
                self.sessions.stream_to(server).attach(&self.held.lease, attempt)
            });
            if matches!(self.listen(&mut on, &mut before).await, SessionEnd::LeaseOver) {
                return;
            }
            before = Some(on);
            tokio::time::sleep(PAUSE).await;
        }
        self.held.expire(&self.caller);
    }

    async fn listen(&self, on: &mut Attachment, before: &mut Option<Attachment>) -> SessionEnd {
        let silence_max = clock::nanos(self.held.ttl / 2);
        loop {
            let silent_at = on.stream.last_received_at() + silence_max;
            let left = clock::until(silent_at.min(self.held.valid_until()));
            match timeout(left.max(PAUSE_MIN), on.notifications.recv()).await {
                Ok(Some(Notification::Renewed { sent, at, ttl })) => {
                    *before = None;
                    self.held.renewed(&self.caller, sent, at, ttl);
                }
                Ok(Some(Notification::Lost { at, lost })) => {
                    self.held.lost(&self.caller, &lost, at);
                    return SessionEnd::LeaseOver;
                }
                Ok(Some(Notification::Detached(Reason::Requested))) => return SessionEnd::LeaseOver,
                // There is no other server to move to.
                Ok(Some(Notification::AtRisk | Notification::Draining)) if self.caller.servers() == 1 => {}
                Ok(Some(Notification::AtRisk | Notification::Draining | Notification::Detached(_)) | None) => {
                    return SessionEnd::Reattach;
                }
                Err(_) if !self.held.is_valid() => {
                    self.held.expire(&self.caller);
                    return SessionEnd::LeaseOver;
                }
                Err(_) if clock::now() >= on.stream.last_received_at() + silence_max => {
                    // The session is dead for all of its leases.
                    on.stream.close();
                    return SessionEnd::Reattach;
                }
                Err(_) => {}
            }
        }
    }
}
