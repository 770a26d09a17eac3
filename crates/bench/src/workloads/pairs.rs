//! `pairs`: acquire and release of an uncontended lock.

use super::{Run, TTL};
use crate::{
    caller::{Caller, connect},
    figures::Figures,
    load::{Client, Load, Measurement},
    plan::Via,
    testbed::Testbed,
};
use anyhow::Result;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let callers = connect(&testbed.servers, run.plan.connections(run.plan.clients, testbed.servers.len()), via).await?;
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let caller = callers[index % callers.len()].clone();
        let (name, fresh) = (format!("{}{index}", run.prefix), run.plan.fresh_names);
        load.start(index, |client| pairs(client, caller, name, fresh));
    }
    let measured = load.measure(testbed).await?;
    Ok((measured.figures(), measured))
}

async fn pairs(client: Client, mut caller: Caller, own: String, fresh: bool) {
    let mut count = 0u64;
    while let Some(began) = client.next().await {
        count += 1;
        let name = if fresh { &format!("{own}/{count}") } else { &own };
        let granted = caller.acquire(name, TTL, Duration::ZERO).await;
        let acquired = began.elapsed();
        let released = match granted {
            Ok(granted) => caller.release(granted).await,
            Err(failure) => Err(failure),
        };
        match released {
            Ok(()) => client.done(began.elapsed(), Some(acquired), None),
            Err(failure) => client.failed(failure).await,
        }
    }
}

/// The baseline of sequential round trips: one call in flight, whatever the plan's number of clients.
pub(crate) async fn round_trips(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let mut caller = connect(&testbed.servers, 1, via).await?.remove(0);
    let mut load = Load::closed(run.plan, run.label, 1);
    let name = format!("{}0", run.prefix);
    load.start(0, |client| async move {
        while client.is_running() {
            let began = Instant::now();
            match caller.acquire(&name, TTL, Duration::ZERO).await {
                Ok(_) => client.done(began.elapsed(), None, None),
                Err(failure) => client.failed(failure).await,
            }
        }
    });
    let measured = load.measure(testbed).await?;
    Ok((measured.figures(), measured))
}
