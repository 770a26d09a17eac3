//! Keeps one lease alive with unary calls, when the stream carries as many as the server allows.

use crate::calls::Calls;
use crate::clock::Moment;
use crate::core::{Core, part_of};
use crate::lease::{LeaseState, Lost, Status};
use crate::proto::duration;
use crate::v1;
use crate::validity::Reading;
use std::sync::Arc;
use std::time::Duration;
use v1::renew_response::Outcome;

/// The least time between two renewals.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Renews about every third of the TTL until the lease is lost, given back or handed on. Dropped, it leaves the lease
/// to its TTL.
pub(crate) async fn keep_alive(core: Arc<Core>, lease: Arc<LeaseState>) {
    let calls = Calls { core: core.clone() };
    let mut changes = lease.changes();
    loop {
        if let Status::Lost(_) = lease.status(Moment::now()) {
            return;
        }
        let request = v1::RenewRequest { lock_name: lease.name.clone(), lease_id: lease.lease_id.clone(), ttl: None };
        let pause = (lease.ttl() / 4 + part_of(lease.ttl() / 16)).max(PAUSE_MIN);
        let renew = async {
            match calls.renew_timed(request).await {
                Ok(answer) => take_in(&lease, &answer),
                Err(error) => tracing::debug!(%error, "lease not renewed"),
            }
            core.sleep(pause).await;
        };
        // Dropped when the lease ends meanwhile: nothing renews it after it was given back.
        tokio::select! {
            () = renew => {}
            () = ended(&lease, &mut changes) => return,
        }
    }
}

fn take_in(lease: &LeaseState, answer: &crate::attempts::Timed<v1::RenewResponse>) {
    let message = &answer.message;
    match message.outcome() {
        Outcome::Renewed => lease.renewed(Reading {
            sent: answer.sent_at,
            read: Moment::now(),
            held_for: duration(message.held_for),
            ttl: duration(message.ttl),
        }),
        Outcome::Lost => {
            lease.end(Lost::told(message.end(), message.successor_token));
        }
        Outcome::Unspecified => tracing::warn!("the answer to a renewal is not one that this client knows"),
    }
}

/// Dropped, it leaves nothing behind.
async fn ended(lease: &LeaseState, changes: &mut tokio::sync::watch::Receiver<()>) {
    while !matches!(lease.status(Moment::now()), Status::Lost(_)) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}
