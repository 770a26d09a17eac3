//! The classic retry loop: without a queue, a client that does not get the lock retries after a random pause.

use super::{ClassicLock, TTL};
use crate::{
    figures::{Figures, Fold},
    load::{Client, Load, Measurement},
    meter::Grant,
    redis::Redis,
    testbed::Testbed,
    workloads::Run,
};
use anyhow::Result;
use deadpool_redis::redis::aio::MultiplexedConnection;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// The pause between two tries, in microseconds. Clients of the classic lock use 200 ms with jitter.
const PAUSE: std::ops::Range<u64> = 100_000..200_000;

/// A client that tries until it has the lock.
struct Retrier {
    client: Client,
    redis: MultiplexedConnection,
    classic: ClassicLock,
    name: String,
}

/// A lock that a retrier acquired.
struct Acquired {
    value: String,
    /// When it tried first, when that try failed or succeeded, and when it had the lock.
    sent: Instant,
    first_answer: Instant,
    at: Instant,
}

pub(crate) async fn handoff(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    let connection = redis.connection().await?;
    // The classic lock has no tokens. It has one holder at a time, so holders learn of their grants in the order of
    // grants.
    let order = Arc::new(AtomicU64::new(0));
    for index in 0..run.plan.clients {
        let (connection, name, order) = (connection.clone(), format!("{}one", run.prefix), order.clone());
        load.start(index, |client| async move {
            let mut retrier = Retrier::new(client, connection, name);
            while let Some(began) = retrier.client.next().await {
                let Some(taken) = retrier.take().await else { return };
                let order = order.fetch_add(1, SeqCst);
                let grant = Grant { order, client: index, sent: taken.sent, arrived: taken.first_answer };
                retrier.client.done(taken.at.duration_since(began), None, Some(grant));
                retrier.release(&taken.value).await;
            }
        });
    }
    let mut measured = load.measure(testbed).await?;
    let mut figures = measured.figures();
    measured.order(&mut figures);
    Ok((figures, measured))
}

pub(crate) async fn idle(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    let waiters = run.plan.waiters;
    let mut load = Load::closed(run.plan, run.label, waiters);
    let mut connection = redis.connection().await?;
    let (classic, name) = (ClassicLock::new(), format!("{}one", run.prefix));
    let ttl = run.plan.warmup + run.plan.duration + TTL;
    let held = classic.take(&mut connection, &name, ttl).await.ok().flatten();
    for index in 0..waiters {
        let (connection, name) = (connection.clone(), name.clone());
        load.start(index, |client| async move {
            let mut retrier = Retrier::new(client, connection, name);
            // Spreads the first tries, as with independent clients.
            retrier.pause().await;
            if retrier.take().await.is_some() {
                retrier.client.failed(super::Failure("a held lock was granted".to_owned())).await;
            }
        });
    }
    let measured = load.measure(testbed).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, waiters as f64);
    measured.background_cost(&mut figures, 1);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    if let Some(value) = held {
        // If this fails, the lock expires.
        let _ = classic.release(&mut connection, &name, &value).await;
    }
    Ok((figures, measured))
}

/// One holder, one retrier: from sending the release to the grant.
pub(crate) async fn wake(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    let mut load = Load::closed(run.plan, run.label, 1);
    let (connection, name) = (redis.connection().await?, format!("{}one", run.prefix));
    load.start(0, |client| async move {
        let mut holder = Retrier::new(client.clone(), connection.clone(), name.clone());
        while client.is_running() {
            let Some(held) = holder.take().await else { return };
            let mut waiter = Retrier::new(client.clone(), connection.clone(), name.clone());
            // The release comes at a random time between two tries.
            let wait = random_pause();
            let waiting = tokio::spawn(async move { waiter.take().await.map(|taken| (taken, waiter)) });
            sleep(wait).await;
            let began = Instant::now();
            holder.release(&held.value).await;
            let Ok(Some((taken, waiter))) = waiting.await else { return };
            client.done(taken.at.duration_since(began), None, None);
            waiter.release(&taken.value).await;
        }
    });
    let measured = load.measure(testbed).await?;
    Ok((measured.figures(), measured))
}

impl Retrier {
    fn new(client: Client, redis: MultiplexedConnection, name: String) -> Self {
        Self { client, redis, classic: ClassicLock::new(), name }
    }

    /// `None` when the run is over.
    async fn take(&mut self) -> Option<Acquired> {
        let sent = Instant::now();
        let mut first_answer = None;
        while self.client.is_running() {
            let taken = self.classic.take(&mut self.redis, &self.name, TTL).await;
            let at = Instant::now();
            let first_answer = *first_answer.get_or_insert(at);
            match taken {
                Ok(Some(value)) => return Some(Acquired { value, sent, first_answer, at }),
                Ok(None) => self.pause().await,
                Err(failure) => self.client.failed(failure).await,
            }
        }
        None
    }

    async fn release(&self, value: &str) {
        if let Err(failure) = self.classic.release(&mut self.redis.clone(), &self.name, value).await {
            self.client.failed(failure).await;
        }
    }

    async fn pause(&self) {
        sleep(random_pause()).await;
    }
}

fn random_pause() -> Duration {
    Duration::from_micros(fastrand::u64(PAUSE))
}
