//! `handoff`: all clients contend for one lock, wait in its queue, and release it at once.

use super::{Run, TTL, WAIT};
use crate::{
    caller::{Caller, connect},
    figures::Figures,
    load::{Client, Load, Measurement},
    meter::Grant,
    plan::Via,
    testbed::Testbed,
};
use anyhow::Result;
use tokio::time::Instant;

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let callers = connect(&testbed.servers, run.plan.connections(run.plan.clients, testbed.servers.len()), via).await?;
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let (caller, name) = (callers[index % callers.len()].clone(), format!("{}one", run.prefix));
        load.start(index, |client| contend(client, caller, name));
    }
    let mut measured = load.measure(testbed).await?;
    let mut figures = measured.figures();
    measured.order(&mut figures);
    Ok((figures, measured))
}

async fn contend(client: Client, mut caller: Caller, name: String) {
    while let Some(began) = client.next().await {
        let sent = Instant::now();
        let granted = match caller.acquire(&name, TTL, WAIT).await {
            Ok(granted) => granted,
            Err(failure) => {
                client.failed(failure).await;
                continue;
            }
        };
        let received = Instant::now();
        // At the latest: otherwise it would not have been held for so long.
        let arrived = received.checked_sub(granted.held_for).unwrap_or(received);
        let grant = Grant { order: granted.lease.fencing_token, client: client.index, sent, arrived };
        client.done(received.duration_since(began), None, Some(grant));
        if let Err(failure) = caller.release(granted).await {
            client.failed(failure).await;
        }
    }
}
