//! Direct watchdogs: each lease is renewed by a timer of its own, with a script call of its own, every third of its
//! TTL.

use super::Recipe;
use crate::{
    figures::{Figures, Fold},
    load::{Client, Load, Measured},
    place::Place,
    redis::Redis,
    workloads::Run,
};
use anyhow::Result;
use deadpool_redis::redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::{
    sync::Barrier,
    time::{Instant, sleep_until},
};

/// Calls that are under way at once, at most: on a connection that is shared, more would only stand in line.
const TASKS: usize = 64;

pub(crate) async fn hold(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    let leases = run.plan.leases;
    let tasks = TASKS.min(leases).max(1);
    let mut load = Load::closed(run.plan, run.label, tasks);
    let connection = redis.connection().await?;
    let alone = place.read().await?;
    eprintln!("{}: taking {leases} leases", run.label);
    let all_taken = std::sync::Arc::new(Barrier::new(tasks + 1));
    for task in 0..tasks {
        let names: Vec<String> =
            (task..leases).step_by(tasks).map(|number| format!("{}{number}", run.prefix)).collect();
        let (connection, all_taken, ttl) = (connection.clone(), all_taken.clone(), run.plan.ttl);
        load.start(task, |client| watch(client, connection, names, ttl, all_taken));
    }
    all_taken.wait().await;
    let measured = load.measure(place).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, leases as f64);
    figures.put("renewals_per_s", Fold::Median, measured.tally.whole.len() as f64 / measured.seconds);
    measured.standing(&mut figures, 1);
    crate::workloads::memory(&mut figures, &alone, &measured.after, leases, ["", "redis_bytes_per_lease"]);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    Ok((figures, measured))
}

/// Takes its share, and renews each lease a third of its TTL after the last time; later, if it does not come to it.
async fn watch(
    client: Client,
    mut redis: MultiplexedConnection,
    names: Vec<String>,
    ttl: Duration,
    all_taken: std::sync::Arc<Barrier>,
) {
    let recipe = Recipe::new();
    let mut leases = Vec::with_capacity(names.len());
    for name in names {
        match recipe.take(&mut redis, &name, ttl).await {
            Ok(Some(value)) => leases.push((name, value, Instant::now() + ttl / 3)),
            Ok(None) => client.failed(super::Fault("a lock that nobody else wants was held".to_owned())).await,
            Err(fault) => client.failed(fault).await,
        }
    }
    all_taken.wait().await;
    while client.goes_on() && !leases.is_empty() {
        for (name, value, due) in &mut leases {
            // Not past the end of the run.
            while *due > Instant::now() {
                sleep_until((*due).min(Instant::now() + Duration::from_millis(100))).await;
                if !client.goes_on() {
                    return;
                }
            }
            let began = Instant::now();
            *due = began + ttl / 3;
            match recipe.renew(&mut redis, name, value, ttl).await {
                Ok(()) => client.done(began.elapsed(), None, None),
                Err(fault) => client.failed(fault).await,
            }
            if !client.goes_on() {
                return;
            }
        }
    }
}
