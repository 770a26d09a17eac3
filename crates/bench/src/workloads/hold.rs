//! `hold`: many leases are kept alive on a few streams.

use super::{Run, memory};
use crate::{
    caller::{Caller, Fault, connect},
    figures::{Figures, Fold},
    keeper::{Count, Keeper, Kept},
    load::{Load, Measured},
    meter::Meter,
    place::Place,
    plan::Via,
};
use anyhow::{Result, bail};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Acquires under way on each stream while the leases are taken.
const TAKERS: usize = 8;
/// Leases that are attached with one message: with names of any length that are used here, it stays within its bounds.
const BATCH: usize = 100;
const ATTACH_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// One stream, and what its leases are taken by.
#[derive(Clone)]
struct Stream {
    caller: Caller,
    /// Via session, the session keeps what it acquired.
    keeper: Option<Arc<Mutex<Keeper>>>,
    kept: Arc<Kept>,
}

pub(crate) async fn run(run: Run<'_>, place: &Place, via: Via) -> Result<(Figures, Measured)> {
    let leases = run.plan.leases;
    let streams = streams(place, run.plan.streams.clamp(1, leases), via).await?;
    let load = Load::closed(run.plan, run.label, 1);
    let alone = place.read().await?;
    eprintln!("{}: taking {leases} leases", run.label);
    take(&run, &streams, &load.meter).await?;
    let sum = |count: fn(&Kept) -> &Count| streams.iter().map(|stream| count(&stream.kept).get()).sum::<u64>();
    if streams[0].keeper.is_some() {
        let began = Instant::now();
        while sum(|kept| &kept.attached) < leases as u64 {
            if began.elapsed() > ATTACH_MAX {
                bail!("only {} of {leases} leases are kept", sum(|kept| &kept.attached));
            }
            sleep(LOOK).await;
        }
    }
    let (renewed, lost) = (sum(|kept| &kept.renewed), sum(|kept| &kept.lost));
    let began = Instant::now();
    let measured = load.measure(place).await?;
    let renewed = (sum(|kept| &kept.renewed) - renewed) as f64 / began.elapsed().as_secs_f64();
    let strange = sum(|kept| &kept.detached) + sum(|kept| &kept.ended) + sum(|kept| &kept.strays);
    let lost_in_all = sum(|kept| &kept.lost);
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, leases as f64 - lost_in_all as f64);
    figures.put("renewals_per_s", Fold::Median, renewed);
    figures.put("lost", Fold::Sum, (lost_in_all - lost) as f64);
    figures.put("at_risk", Fold::Sum, sum(|kept| &kept.at_risk) as f64);
    measured.standing(&mut figures, place.urls.len());
    memory(&mut figures, &alone, &measured.after, leases, ["server_bytes_per_lease", "redis_bytes_per_lease"]);
    figures.put("errors", Fold::Sum, (measured.errors() + strange + lost_in_all) as f64);
    Ok((figures, measured))
}

async fn streams(place: &Place, count: usize, via: Via) -> Result<Vec<Stream>> {
    let mut streams = Vec::with_capacity(count);
    for caller in connect(&place.urls, count, via).await? {
        let kept = caller.session().map_or_else(Arc::default, |session| session.kept().clone());
        let keeper = match via {
            Via::Session => None,
            Via::Unary => Some(Arc::new(Mutex::new(Keeper::open(caller.client(), kept.clone()).await?))),
        };
        streams.push(Stream { caller, keeper, kept });
    }
    Ok(streams)
}

/// Takes all leases, and attaches each soon after it was granted, so that none ends before the last one is taken.
async fn take(run: &Run<'_>, streams: &[Stream], meter: &Arc<Meter>) -> Result<()> {
    let takers = streams.len() * TAKERS;
    let mut tasks = JoinSet::new();
    for taker in 0..takers {
        let (stream, meter) = (streams[taker % streams.len()].clone(), meter.clone());
        let (prefix, ttl, leases) = (run.prefix.to_owned(), run.plan.ttl, run.plan.leases);
        tasks.spawn(async move {
            let numbers: Vec<usize> = (taker..leases).step_by(takers).collect();
            for batch in numbers.chunks(BATCH) {
                if let Err(fault) = take_batch(&stream, &prefix, ttl, batch).await {
                    meter.failed(fault);
                    return false;
                }
            }
            true
        });
    }
    while let Some(taken) = tasks.join_next().await {
        if !taken? {
            let why: Vec<String> = meter.take().errors.into_keys().collect();
            bail!("cannot take the leases: {}", why.join("; "));
        }
    }
    Ok(())
}

async fn take_batch(stream: &Stream, prefix: &str, ttl: Duration, numbers: &[usize]) -> Result<(), Fault> {
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
