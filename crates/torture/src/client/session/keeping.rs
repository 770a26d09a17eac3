//! Keeps one lease attached: to the session that it was acquired on, and when that is over, to others.

use super::{
    Sessions,
    messages::{Kept, Tiding},
};
use crate::{
    client::{caller::Caller, holding::Holding},
    clock,
};
use fencepost_proto::v1::detached::Reason;
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::timeout};

const PAUSE: Duration = Duration::from_millis(20);
const MOMENT: Duration = Duration::from_millis(1);

pub(super) struct Keeper {
    caller: Caller,
    sessions: Arc<Sessions>,
    holding: Holding,
}

/// Dropped, the lease is detached, and not attached any more.
pub(super) struct Keeping(JoinHandle<()>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a session is left.
enum Left {
    Over,
    Elsewhere,
}

impl Keeper {
    pub(super) fn of(caller: Caller, sessions: Arc<Sessions>, holding: Holding) -> Self {
        Self { caller, sessions, holding }
    }

    pub(super) fn start(self) -> Keeping {
        Keeping(tokio::spawn(self.keep()))
    }

    async fn keep(self) {
        // The one that it was acquired with.
        let mut attempt = 1;
        let mut kept = self.holding.take_kept();
        let mut server = kept.as_ref().map_or(0, |kept| kept.stream.server);
        // Detached only when it is attached elsewhere.
        let mut before = None;
        while self.holding.is_valid() {
            let mut on = kept.take().unwrap_or_else(|| {
                attempt += 1;
                server += 1;
                self.sessions.with(server).attach(&self.holding.lease, attempt)
            });
            if matches!(self.listen(&mut on, &mut before).await, Left::Over) {
                return;
            }
            before = Some(on);
            tokio::time::sleep(PAUSE).await;
        }
        self.holding.run_out(&self.caller);
    }

    async fn listen(&self, on: &mut Kept, before: &mut Option<Kept>) -> Left {
        let patience = clock::nanos(self.holding.ttl / 2);
        loop {
            let silent_at = on.stream.heard_at() + patience;
            let left = clock::until(silent_at.min(self.holding.valid_until()));
            match timeout(left.max(MOMENT), on.tidings.recv()).await {
                Ok(Some(Tiding::Renewed { sent, at, ttl })) => {
                    *before = None;
                    self.holding.renewed(&self.caller, sent, at, ttl);
                }
                Ok(Some(Tiding::Lost { at, lost })) => {
                    self.holding.lost(&self.caller, &lost, at);
                    return Left::Over;
                }
                Ok(Some(Tiding::Detached(Reason::Requested))) => return Left::Over,
                // Where there is no other server, it stays.
                Ok(Some(Tiding::AtRisk | Tiding::Draining)) if self.caller.servers() == 1 => {}
                Ok(Some(Tiding::AtRisk | Tiding::Draining | Tiding::Detached(_)) | None) => return Left::Elsewhere,
                Err(_) if !self.holding.is_valid() => {
                    self.holding.run_out(&self.caller);
                    return Left::Over;
                }
                Err(_) if clock::now() >= on.stream.heard_at() + patience => {
                    // The link is dead, for all that is on it.
                    on.stream.close();
                    return Left::Elsewhere;
                }
                Err(_) => {}
            }
        }
    }
}
