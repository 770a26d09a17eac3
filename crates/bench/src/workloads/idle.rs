//! `idle`: many wait for a lock that does not come free: what waiting itself costs.

use super::{Run, TTL, memory};
use crate::{
    caller::{Caller, Fault, connect},
    figures::{Figures, Fold},
    load::{Load, Measured},
    place::Place,
    plan::Via,
};
use anyhow::{Result, bail};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// As long as a wait may be, and longer than any run.
const WAIT: Duration = Duration::from_secs(3600);
/// How long they may take to get into line.
const LINE_MAX: Duration = Duration::from_secs(60);
/// How long the server has to see that they wait no more.
const LEAVE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) async fn run(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let waiters = run.plan.waiters;
    let callers = connect(&place.urls, run.plan.connections(waiters, place.urls.len()), via).await?;
    let name = format!("{}one", run.prefix);
    // Not one of the waiters' own: their sessions are to end before the lock is given back.
    let mut asking = connect(&place.urls, 1, Via::Unary).await?.remove(0);
    let held = asking.acquire(&name, WAIT + run.plan.duration, Duration::ZERO).await;
    let held = held.map_err(|fault| anyhow::anyhow!("cannot hold the lock: {}", fault.0))?;
    let alone = place.read().await?;
    let load = Load::closed(run.plan, run.label, 1);
    let tasks: Vec<_> = (0..waiters)
        .map(|index| {
            let (mut caller, name, meter) = (callers[index % callers.len()].clone(), name.clone(), load.meter.clone());
            tokio::spawn(async move {
                let why = match caller.acquire(&name, TTL, WAIT).await {
                    Ok(_) => Fault("a waiter was granted a lock that was held".to_owned()),
                    Err(fault) => fault,
                };
                meter.failed(why);
            })
        })
        .collect();
    all_in_line(&mut asking, &name, waiters).await?;
    // Nothing is started: what is used comes of the waiting.
    let measured = load.measure(place).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, tasks.iter().filter(|task| !task.is_finished()).count() as f64);
    measured.standing(&mut figures, place.urls.len());
    memory(&mut figures, &alone, &measured.after, waiters, ["server_bytes_per_waiter", "redis_bytes_per_waiter"]);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(callers);
    // A server that goes on is not left with it; nor does it pass the lock on to those who wait no more.
    sleep(LEAVE).await;
    let _ = asking.release(held).await;
    Ok((figures, measured))
}

async fn all_in_line(asking: &mut Caller, name: &str, waiters: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        match asking.waiters(name).await {
            Ok(found) if found as usize >= waiters => return Ok(()),
            Ok(found) if began.elapsed() > LINE_MAX => bail!("only {found} of {waiters} came to wait"),
            Err(fault) => bail!("cannot see who waits: {}", fault.0),
            Ok(_) => sleep(LOOK).await,
        }
    }
}
