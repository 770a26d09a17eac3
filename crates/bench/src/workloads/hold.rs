//! `hold`: many leases are kept alive on a few streams.

use super::{Run, memory};
use crate::{
    caller::{Caller, Failure, connect},
    figures::{Figures, Fold},
    keeper::{Count, Keeper, LeaseEvents},
    load::{Load, Measurement},
    meter::Meter,
    plan::Via,
    testbed::Testbed,
};
use anyhow::{Result, bail};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Acquires in flight on each stream while the leases are acquired.
const ACQUIRERS: usize = 8;
/// Leases per attach message, which stays within its size limit with the names used here.
const BATCH: usize = 100;
const ATTACH_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One stream and the caller that acquires its leases.
#[derive(Clone)]
struct Stream {
    caller: Caller,
    /// `None` for a session, which keeps its leases itself.
    keeper: Option<Arc<Mutex<Keeper>>>,
    events: Arc<LeaseEvents>,
}

pub(crate) async fn run(run: Run<'_>, testbed: &Testbed, via: Via) -> Result<(Figures, Measurement)> {
    let leases = run.plan.leases;
    let streams = streams(testbed, run.plan.streams.clamp(1, leases), via).await?;
    let load = Load::closed(run.plan, run.label, 1);
    let alone = testbed.read().await?;
    eprintln!("{}: acquiring {leases} leases", run.label);
    acquire_all(&run, &streams, &load.meter).await?;
    let sum = |count: fn(&LeaseEvents) -> &Count| streams.iter().map(|stream| count(&stream.events).get()).sum::<u64>();
    if streams[0].keeper.is_some() {
        let began = Instant::now();
        while sum(|events| &events.attached) < leases as u64 {
            if began.elapsed() > ATTACH_MAX {
                bail!("only {} of {leases} leases are kept", sum(|events| &events.attached));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    let (renewed, lost) = (sum(|events| &events.renewed), sum(|events| &events.lost));
    let began = Instant::now();
    let measured = load.measure(testbed).await?;
    let renewed = (sum(|events| &events.renewed) - renewed) as f64 / began.elapsed().as_secs_f64();
    let unexpected =
        sum(|events| &events.detached) + sum(|events| &events.ended) + sum(|events| &events.unexpected_answers);
    let lost_in_all = sum(|events| &events.lost);
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, leases as f64 - lost_in_all as f64);
    figures.put("renewals_per_s", Fold::Median, renewed);
    figures.put("lost", Fold::Sum, (lost_in_all - lost) as f64);
    figures.put("at_risk", Fold::Sum, sum(|events| &events.at_risk) as f64);
    measured.background_cost(&mut figures, testbed.servers.len());
    memory(&mut figures, &alone, &measured.after, leases, ["server_bytes_per_lease", "redis_bytes_per_lease"]);
    figures.put("errors", Fold::Sum, (measured.errors() + unexpected + lost_in_all) as f64);
    Ok((figures, measured))
}

async fn streams(testbed: &Testbed, count: usize, via: Via) -> Result<Vec<Stream>> {
    let mut streams = Vec::with_capacity(count);
    for caller in connect(&testbed.servers, count, via).await? {
        let events = caller.session().map_or_else(Arc::default, |session| session.events().clone());
        let keeper = match via {
            Via::Session => None,
            Via::Unary => Some(Arc::new(Mutex::new(Keeper::open(caller.client(), events.clone()).await?))),
        };
        streams.push(Stream { caller, keeper, events });
    }
    Ok(streams)
}

/// Acquires all leases, and attaches each soon after its grant, so that none ends before the last one is acquired.
async fn acquire_all(run: &Run<'_>, streams: &[Stream], meter: &Arc<Meter>) -> Result<()> {
    let acquirers = streams.len() * ACQUIRERS;
    let mut tasks = JoinSet::new();
    for acquirer in 0..acquirers {
        let (stream, meter) = (streams[acquirer % streams.len()].clone(), meter.clone());
        let (prefix, ttl, leases) = (run.prefix.to_owned(), run.plan.ttl, run.plan.leases);
        tasks.spawn(async move {
            let numbers: Vec<usize> = (acquirer..leases).step_by(acquirers).collect();
            for batch in numbers.chunks(BATCH) {
                if let Err(failure) = acquire_batch(&stream, &prefix, ttl, batch).await {
                    meter.failed(failure);
                    return false;
                }
            }
            true
        });
    }
    while let Some(taken) = tasks.join_next().await {
        if !taken? {
            let why: Vec<String> = meter.take().errors.into_keys().collect();
            bail!("cannot acquire the leases: {}", why.join("; "));
        }
    }
    Ok(())
}

async fn acquire_batch(stream: &Stream, prefix: &str, ttl: Duration, numbers: &[usize]) -> Result<(), Failure> {
    let mut caller = stream.caller.clone();
    let mut leases = Vec::with_capacity(numbers.len());
    for number in numbers {
        leases.push(caller.acquire(&format!("{prefix}{number}"), ttl, Duration::ZERO).await?.lease);
    }
    if let Some(keeper) = &stream.keeper {
        keeper.lock().attach(leases);
    }
    Ok(())
}
