//! Watchdogs: each lease has its own timer, which renews it with its own script call every third of the TTL.

use super::ClassicLock;
use crate::{
    figures::{Figures, Fold},
    load::{Client, Load, Measurement},
    redis::Redis,
    testbed::Testbed,
    workloads::Run,
};
use anyhow::Result;
use deadpool_redis::redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::{
    sync::Barrier,
    time::{Instant, sleep_until},
};

/// The maximum number of calls in flight: on a shared connection more would only queue.
const TASKS: usize = 64;

pub(crate) async fn hold(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    let leases = run.plan.leases;
    let tasks = TASKS.min(leases).max(1);
    let mut load = Load::closed(run.plan, run.label, tasks);
    let connection = redis.connection().await?;
    let alone = testbed.read().await?;
    eprintln!("{}: acquiring {leases} leases", run.label);
    let all_taken = std::sync::Arc::new(Barrier::new(tasks + 1));
    for task in 0..tasks {
        let names: Vec<String> =
            (task..leases).step_by(tasks).map(|number| format!("{}{number}", run.prefix)).collect();
        let (connection, all_taken, ttl) = (connection.clone(), all_taken.clone(), run.plan.ttl);
        load.start(task, |client| watch(client, connection, names, ttl, all_taken));
    }
    all_taken.wait().await;
    let measured = load.measure(testbed).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, leases as f64);
    figures.put("renewals_per_s", Fold::Median, measured.tally.whole.len() as f64 / measured.seconds);
    measured.background_cost(&mut figures, 1);
    crate::workloads::memory(&mut figures, &alone, &measured.after, leases, ["", "redis_bytes_per_lease"]);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    Ok((figures, measured))
}

/// Acquires its share of the leases, and renews each lease a third of its TTL after the last renewal, or later under
/// load.
async fn watch(
    client: Client,
    mut redis: MultiplexedConnection,
    names: Vec<String>,
    ttl: Duration,
    all_taken: std::sync::Arc<Barrier>,
) {
    let classic = ClassicLock::new();
    let mut leases = Vec::with_capacity(names.len());
    for name in names {
        match classic.take(&mut redis, &name, ttl).await {
            Ok(Some(value)) => leases.push((name, value, Instant::now() + ttl / 3)),
            Ok(None) => client.failed(super::Failure("an uncontended lock was held".to_owned())).await,
            Err(failure) => client.failed(failure).await,
        }
    }
    all_taken.wait().await;
    while client.is_running() && !leases.is_empty() {
        for (name, value, due) in &mut leases {
            // Checks for the end of the run while it waits.
            while *due > Instant::now() {
                sleep_until((*due).min(Instant::now() + Duration::from_millis(100))).await;
                if !client.is_running() {
                    return;
                }
            }
            let began = Instant::now();
            *due = began + ttl / 3;
            match classic.renew(&mut redis, name, value, ttl).await {
                Ok(()) => client.done(began.elapsed(), None, None),
                Err(failure) => client.failed(failure).await,
            }
            if !client.is_running() {
                return;
            }
        }
    }
}
