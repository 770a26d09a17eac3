//! `wake`: one holder, one waiter, each on a connection of its own and on a server of its own if there are two: from
//! the sending of the release to the waiter's grant.

use super::{Run, TTL, WAIT};
use crate::{
    caller::{Caller, Fault, connect},
    figures::Figures,
    load::{Client, Load, Measured},
    place::Place,
    plan::Via,
};
use anyhow::Result;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often to look whether the waiter stands in line.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) async fn run(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let callers = connect(&place.urls, place.urls.len().max(2), via).await?;
    let mut load = Load::closed(run.plan, run.label, 1);
    let name = format!("{}one", run.prefix);
    load.start(0, |client| async move {
        while client.goes_on() {
            if let Err(fault) = take_turns(&client, &callers, &name).await {
                client.failed(fault).await;
            }
        }
    });
    let measured = load.measure(place).await?;
    Ok((measured.figures(), measured))
}

/// The waiter is the next holder.
async fn take_turns(client: &Client, callers: &[Caller], name: &str) -> Result<(), Fault> {
    let mut callers = callers.iter().cycle();
    let mut next = || callers.next().cloned().ok_or_else(|| Fault("no connection".to_owned()));
    let mut holder = next()?;
    let mut held = holder.acquire(name, TTL, WAIT).await?;
    while client.goes_on() {
        let mut waiter = next()?;
        let (mut waiting, waited_for) = (waiter.clone(), name.to_owned());
        let grant = tokio::spawn(async move {
            let granted = waiting.acquire(&waited_for, TTL, WAIT).await;
            (granted, Instant::now())
        });
        while waiter.waiters(name).await? == 0 && !grant.is_finished() {
            sleep(LOOK).await;
        }
        let began = Instant::now();
        holder.release(held).await?;
        let (granted, at) = grant.await.map_err(|error| Fault(error.to_string()))?;
        held = granted?;
        client.done(at.duration_since(began), None, None);
        holder = waiter;
    }
    holder.release(held).await
}
