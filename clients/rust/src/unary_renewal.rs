//! Renews one lease with unary calls: when the session has as many leases as the server allows, and once when a grant
//! arrived late.

use crate::calls::Calls;
use crate::clock::Moment;
use crate::core::{Core, random_part};
use crate::lease::LeaseState;
use crate::proto::duration;
use crate::status::Loss;
use crate::v1;
use crate::validity::Reading;
use std::sync::Arc;
use std::time::Duration;
use v1::renew_response::Outcome;

/// The minimum time between two renewals.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Renews once, if an answer comes before the lease ends. Dropped, the renewal may still be applied.
pub(crate) async fn once(core: &Arc<Core>, lease: &LeaseState) {
    let Some(left) = lease.valid_for(Moment::now()) else { return };
    let calls = Calls { core: core.clone() };
    let request = v1::RenewRequest { lock_name: lease.name.clone(), lease_id: lease.lease_id.clone(), ttl: None };
    let over = core.sleep(left);
    tokio::select! {
        answer = calls.renew_timed(request) => match answer {
            Ok(answer) => receive(lease, &answer),
            Err(error) => tracing::debug!(%error, "lease not renewed on arrival"),
        },
        () = over => {}
    }
}

/// Renews about every third of the TTL until the lease is lost, released or handed over. Dropped, it leaves the lease
/// to its TTL.
pub(crate) async fn keep_alive(core: Arc<Core>, lease: Arc<LeaseState>) {
    let calls = Calls { core: core.clone() };
    let mut changes = lease.changes();
    loop {
        if lease.snapshot(Moment::now()).is_lost() {
            return;
        }
        let request = v1::RenewRequest { lock_name: lease.name.clone(), lease_id: lease.lease_id.clone(), ttl: None };
        let pause = (lease.ttl() / 4 + random_part(lease.ttl() / 16)).max(PAUSE_MIN);
        let renew = async {
            match calls.renew_timed(request).await {
                Ok(answer) => receive(&lease, &answer),
                Err(error) => tracing::debug!(%error, "lease not renewed"),
            }
            core.sleep(pause).await;
        };
        // Dropped when the lease ends meanwhile: nothing renews a lease after its release.
        tokio::select! {
            () = renew => {}
            () = ended(&lease, &mut changes) => return,
        }
    }
}

fn receive(lease: &LeaseState, answer: &crate::attempts::Timed<v1::RenewResponse>) {
    let message = &answer.message;
    match message.outcome() {
        Outcome::Renewed => lease.renewed(Reading {
            sent: answer.sent_at,
            read: Moment::now(),
            held_for: duration(message.held_for),
            ttl: duration(message.ttl),
        }),
        Outcome::Lost => {
            lease.end(Loss::from_server(message.end(), message.successor_token));
        }
        Outcome::Unspecified => tracing::warn!("unknown answer to a renewal"),
    }
}

/// Cancel-safe.
async fn ended(lease: &LeaseState, changes: &mut tokio::sync::watch::Receiver<()>) {
    while !lease.snapshot(Moment::now()).is_lost() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}
