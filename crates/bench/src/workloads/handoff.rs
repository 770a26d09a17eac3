//! `handoff`: everybody wants the same lock, waits in line, and gives it back at once.

use super::{Run, TTL, WAIT};
use crate::{
    caller::{Caller, connect},
    figures::Figures,
    load::{Client, Load, Measured},
    meter::Grant,
    place::Place,
    plan::Via,
};
use anyhow::Result;
use tokio::time::Instant;

pub(crate) async fn run(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let callers = connect(&place.urls, run.plan.connections(run.plan.clients, place.urls.len()), via).await?;
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let (caller, name) = (callers[index % callers.len()].clone(), format!("{}one", run.prefix));
        load.start(index, |client| contend(client, caller, name));
    }
    let mut measured = load.measure(place).await?;
    let mut figures = measured.figures();
    measured.order(&mut figures);
    Ok((figures, measured))
}

async fn contend(client: Client, mut caller: Caller, name: String) {
    while let Some(began) = client.next().await {
        let sent = Instant::now();
        let granted = match caller.acquire(&name, TTL, WAIT).await {
            Ok(granted) => granted,
            Err(fault) => {
                client.failed(fault).await;
                continue;
            }
        };
        let received = Instant::now();
        // It cannot have arrived later than that, or it would not have been held for so long.
        let arrived = received.checked_sub(granted.held_for).unwrap_or(received);
        let grant = Grant { order: granted.lease.fencing_token, client: client.index, sent, arrived };
        client.done(received.duration_since(began), None, Some(grant));
        if let Err(fault) = caller.release(granted).await {
            client.failed(fault).await;
        }
    }
}
