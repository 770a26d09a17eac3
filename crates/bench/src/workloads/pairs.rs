//! `pairs`: acquire and release of a lock that nobody else wants.

use super::{Run, TTL};
use crate::{
    caller::{Caller, connect},
    figures::Figures,
    load::{Client, Load, Measured},
    place::Place,
    plan::Via,
};
use anyhow::Result;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) async fn run(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let callers = connect(&place.urls, run.plan.connections(run.plan.clients, place.urls.len()), via).await?;
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let caller = callers[index % callers.len()].clone();
        let (name, fresh) = (format!("{}{index}", run.prefix), run.plan.fresh_names);
        load.start(index, |client| pairs(client, caller, name, fresh));
    }
    let measured = load.measure(place).await?;
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
            Err(fault) => Err(fault),
        };
        match released {
            Ok(()) => client.done(began.elapsed(), Some(acquired), None),
            Err(fault) => client.failed(fault).await,
        }
    }
}

/// The baseline of what takes one round trip after the other: one call under way, whatever the plan says of clients.
pub(crate) async fn round_trips(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let mut caller = connect(&place.urls, 1, via).await?.remove(0);
    let mut load = Load::closed(run.plan, run.label, 1);
    let name = format!("{}0", run.prefix);
    load.start(0, |client| async move {
        while client.goes_on() {
            let began = Instant::now();
            match caller.acquire(&name, TTL, Duration::ZERO).await {
                Ok(_) => client.done(began.elapsed(), None, None),
                Err(fault) => client.failed(fault).await,
            }
        }
    });
    let measured = load.measure(place).await?;
    Ok((measured.figures(), measured))
}
