//! `idle`: many wait for a lock that is never released. Measures the cost of waiting.

use super::{Run, TTL, memory};
use crate::{
    caller::{Caller, Failure, connect},
    figures::{Figures, Fold},
    load::{Load, Measurement},
    meter::Meter,
    plan::Via,
    testbed::Testbed,
};
use anyhow::{Result, bail};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The maximum wait, longer than any run.
const WAIT: Duration = Duration::from_secs(3600);
/// How long it may take until all of them are queued.
const QUEUE_MAX: Duration = Duration::from_secs(60);
/// How long the server has to notice that the waiters have left.
const LEAVE: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let waiters = run.plan.waiters;
    let callers = connect(&testbed.servers, run.plan.connections(waiters, testbed.servers.len()), via).await?;
    let name = format!("{}one", run.prefix);
    // A separate connection: the waiters' sessions must end before the lock is released.
    let mut monitor = connect(&testbed.servers, 1, Via::Unary).await?.remove(0);
    let held = monitor.acquire(&name, WAIT + run.plan.duration, Duration::ZERO).await;
    let held = held.map_err(|failure| anyhow::anyhow!("cannot hold the lock: {}", failure.0))?;
    let alone = testbed.read().await?;
    let load = Load::closed(run.plan, run.label, 1);
    let tasks: Vec<_> = (0..waiters)
        .map(|index| {
            let (mut caller, name, meter) = (callers[index % callers.len()].clone(), name.clone(), load.meter.clone());
            tokio::spawn(async move {
                let why = match caller.acquire(&name, TTL, WAIT).await {
                    Ok(_) => Failure("a waiter was granted a held lock".to_owned()),
                    Err(failure) => failure,
                };
                meter.failed(why);
            })
        })
        .collect();
    wait_until_queued(&mut monitor, &name, waiters, &load.meter).await?;
    // No client is started: only waiting is measured.
    let measured = load.measure(testbed).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, tasks.iter().filter(|task| !task.is_finished()).count() as f64);
    measured.background_cost(&mut figures, testbed.servers.len());
    memory(&mut figures, &alone, &measured.after, waiters, ["server_bytes_per_waiter", "redis_bytes_per_waiter"]);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(callers);
    // Do not leave the lock on a server that keeps running, nor let it be granted to departing waiters.
    sleep(LEAVE).await;
    let _ = monitor.release(held).await;
    Ok((figures, measured))
}

async fn wait_until_queued(monitor: &mut Caller, name: &str, waiters: usize, meter: &Meter) -> Result<()> {
    let began = Instant::now();
    loop {
        // A waiter that failed is not queued any more.
        let failures: Vec<String> = meter.take().errors.into_keys().collect();
        if !failures.is_empty() {
            bail!("a waiter failed before all were queued: {}", failures.join("; "));
        }
        match monitor.waiters(name).await {
            Ok(found) if found as usize >= waiters => return Ok(()),
            Ok(found) if began.elapsed() > QUEUE_MAX => bail!("only {found} of {waiters} are queued"),
            Err(failure) => bail!("cannot read the number of waiters: {}", failure.0),
            Ok(_) => sleep(POLL_INTERVAL).await,
        }
    }
}
