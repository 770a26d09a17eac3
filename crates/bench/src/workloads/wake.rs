//! `wake`: one holder and one waiter, each with its own connection, and its own server if there are two. Measures from
//! sending the release to the waiter's grant.

use super::{Run, TTL, WAIT};
use crate::{
    caller::{Caller, Failure, connect},
    figures::Figures,
    load::{Client, Load, Measurement},
    plan::Via,
    testbed::Testbed,
};
use anyhow::Result;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often to check whether the waiter is queued.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let callers = connect(&testbed.servers, testbed.servers.len().max(2), via).await?;
    let mut load = Load::closed(run.plan, run.label, 1);
    let name = format!("{}one", run.prefix);
    load.start(0, |client| async move {
        while client.is_running() {
            if let Err(failure) = alternate(&client, &callers, &name).await {
                client.failed(failure).await;
            }
        }
    });
    let measured = load.measure(testbed).await?;
    Ok((measured.figures(), measured))
}

/// Alternates: the waiter becomes the next holder.
async fn alternate(client: &Client, callers: &[Caller], name: &str) -> Result<(), Failure> {
    let mut callers = callers.iter().cycle();
    let mut next = || callers.next().cloned().ok_or_else(|| Failure("no connection".to_owned()));
    let mut holder = next()?;
    let mut held = holder.acquire(name, TTL, WAIT).await?;
    while client.is_running() {
        let mut waiter = next()?;
        let (mut waiting, waited_for) = (waiter.clone(), name.to_owned());
        let grant = tokio::spawn(async move {
            let granted = waiting.acquire(&waited_for, TTL, WAIT).await;
            (granted, Instant::now())
        });
        while waiter.waiters(name).await? == 0 && !grant.is_finished() {
            sleep(POLL_INTERVAL).await;
        }
        let began = Instant::now();
        holder.release(held).await?;
        let (granted, at) = grant.await.map_err(|error| Failure(error.to_string()))?;
        held = granted?;
        client.done(at.duration_since(began), None, None);
        holder = waiter;
    }
    holder.release(held).await
}
