//! `handoff`: all clients contend for one lock, wait in its queue, and release it at once.

use super::{Run, TTL, WAIT};
use crate::{
    caller::{Caller, connect},
    figures::Figures,
    load::{Client, Load, Measurement},
    meter::Grant,
    plan::{Mode, Via},
    testbed::Testbed,
};
use anyhow::Result;
use tokio::time::Instant;

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let callers = connect(&testbed.servers, run.plan.connections(run.plan.clients, testbed.servers.len()), via).await?;
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let (caller, name) = (callers[index % callers.len()].clone(), format!("{}one", run.prefix));
        load.start(index, |client| contend(client, caller, name, run.plan.mode));
    }
    let mut measured = load.measure(testbed).await?;
    let mut figures = measured.figures();
    match run.plan.mode {
        Mode::Exclusive => measured.order(&mut figures),
        // Those that are offered the lock together get it in any order.
        Mode::Shared | Mode::Mixed | Mode::Semaphore(_) => measured.fairness(&mut figures),
    }
    Ok((figures, measured))
}

/// In [`Mode::Mixed`] one request of so many is a writer's.
const WRITER_EVERY: usize = 10;

async fn contend(client: Client, mut caller: Caller, name: String, mode: Mode) {
    let mut count = client.index;
    while let Some(began) = client.next().await {
        count += 1;
        let is_writer = mode == Mode::Mixed && count.is_multiple_of(WRITER_EVERY);
        let asked = if is_writer { Mode::Exclusive } else { mode };
        let sent = Instant::now();
        let granted = match caller.acquire_as(&name, TTL, WAIT, asked).await {
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
