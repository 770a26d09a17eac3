//! Force releases by an operator.

use super::{FaultContext, FaultOutcome};
use crate::{clock, config, rng::Rng};
use anyhow::Result;
use fencepost_proto::v1::{
    ForceReleaseRequest, GetRequest, admin_service_client::AdminServiceClient, force_release_response::Outcome,
    lock_service_client::LockServiceClient,
};
use fencepost_torture::history::{Record, Revoked};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const ANSWER_MAX: Duration = Duration::from_secs(1);
const TRIES: u32 = 40;

/// Revokes the lease of a held lock, starting with a random contended one.
pub(super) async fn force_release(context: &FaultContext<'_>, records: &mut Vec<Record>) -> Result<FaultOutcome> {
    let servers = &context.deployment.servers;
    let mut rng = Rng::new(context.fault.draw, 1);
    for _ in 0..TRIES {
        let lock = config::hot(rng.below(config::HOT));
        let server = &servers[rng.index(servers.len())];
        // The server may be down.
        if let Ok(channel) = server.direct().await
            && let Some(certain) = revoke(channel, &lock, records).await
        {
            return Ok(FaultOutcome::Hit(if certain { lock } else { format!("{lock}, unconfirmed") }));
        }
        sleep(Duration::from_millis(25)).await;
    }
    Ok(FaultOutcome::Missed("no lock was held".to_owned()))
}

/// Whether the release is known to be applied; `None` if there was no lease.
async fn revoke(channel: tonic::transport::Channel, lock: &str, records: &mut Vec<Record>) -> Option<bool> {
    let get = GetRequest { lock_name: lock.to_owned() };
    let mut client = LockServiceClient::new(channel.clone());
    let held = timeout(ANSWER_MAX, client.get(get)).await.ok()?.ok()?.into_inner().lock?.holders.pop()?;
    let token = held.fencing_token;
    let request =
        ForceReleaseRequest { lock_name: lock.to_owned(), expected_token: token, reason: "torture".to_owned() };
    let invoke = clock::now();
    let mut admin = AdminServiceClient::new(channel);
    let answer = timeout(ANSWER_MAX, admin.force_release(request)).await;
    let ret = clock::now();
    let certain = match answer {
        Ok(Ok(answer)) if answer.get_ref().outcome() == Outcome::Revoked => true,
        Ok(Ok(_)) => return None,
        Ok(Err(_)) | Err(_) => false,
    };
    records.push(Record::Revoked(Revoked { lock: lock.to_owned(), token, invoke, ret, certain }));
    Some(certain)
}
