//! The classic retry loop: who does not get the lock tries again after a random pause, for want of a line to stand in.

use super::{Recipe, TTL};
use crate::{
    figures::{Figures, Fold},
    load::{Client, Load, Measured},
    meter::Grant,
    place::Place,
    redis::Redis,
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

/// The pause between two tries, in milliseconds, as clients of the recipe have it: 200 ms, made to vary so that they do
/// not meet.
const PAUSE: std::ops::Range<u64> = 100..200;

/// A client that tries until it has the lock.
struct Retrier {
    client: Client,
    redis: MultiplexedConnection,
    recipe: Recipe,
    name: String,
    random: u64,
}

/// What it got.
struct Taken {
    value: String,
    /// When it first tried, when it knew that it had to wait, and when it had it.
    sent: Instant,
    first_answer: Instant,
    at: Instant,
}

pub(crate) async fn handoff(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    let connection = redis.connection().await?;
    // There are no tokens. One holder at a time: so the order in which they know of their grants is that of the grants.
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
    let mut measured = load.measure(place).await?;
    let mut figures = measured.figures();
    measured.order(&mut figures);
    Ok((figures, measured))
}

pub(crate) async fn idle(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    let waiters = run.plan.waiters;
    let mut load = Load::closed(run.plan, run.label, waiters);
    let mut connection = redis.connection().await?;
    let (recipe, name) = (Recipe::new(), format!("{}one", run.prefix));
    let ttl = run.plan.warmup + run.plan.duration + TTL;
    let held = recipe.take(&mut connection, &name, ttl).await.ok().flatten();
    for index in 0..waiters {
        let (connection, name) = (connection.clone(), name.clone());
        load.start(index, |client| async move {
            let mut retrier = Retrier::new(client, connection, name);
            // So that they do not all begin at once, as they would not.
            retrier.pause().await;
            if retrier.take().await.is_some() {
                retrier.client.failed(super::Fault("the lock was granted though it was held".to_owned())).await;
            }
        });
    }
    let measured = load.measure(place).await?;
    let mut figures = Figures::default();
    figures.put("operations", Fold::Sum, waiters as f64);
    measured.standing(&mut figures, 1);
    figures.put("errors", Fold::Sum, measured.errors() as f64);
    if let Some(value) = held {
        // Left behind, it ends by itself.
        let _ = recipe.release(&mut connection, &name, &value).await;
    }
    Ok((figures, measured))
}

/// One holder, one who tries: from the sending of the release to its grant.
pub(crate) async fn wake(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    let mut load = Load::closed(run.plan, run.label, 1);
    let (connection, name) = (redis.connection().await?, format!("{}one", run.prefix));
    load.start(0, |client| async move {
        let mut holder = Retrier::new(client.clone(), connection.clone(), name.clone());
        while client.goes_on() {
            let Some(held) = holder.take().await else { return };
            let mut waiter = Retrier::new(client.clone(), connection.clone(), name.clone());
            // The release comes at any time between two tries.
            let wait = waiter.random_pause();
            let waiting = tokio::spawn(async move { waiter.take().await.map(|taken| (taken, waiter)) });
            sleep(wait).await;
            let began = Instant::now();
            holder.release(&held.value).await;
            let Ok(Some((taken, waiter))) = waiting.await else { return };
            client.done(taken.at.duration_since(began), None, None);
            waiter.release(&taken.value).await;
        }
    });
    let measured = load.measure(place).await?;
    Ok((measured.figures(), measured))
}

impl Retrier {
    fn new(client: Client, redis: MultiplexedConnection, name: String) -> Self {
        // Other pauses in each run: few wake-ups fit into one, and they would be the same ones.
        let random = uuid::Uuid::new_v4().as_u64_pair().0;
        Self { client, redis, recipe: Recipe::new(), name, random }
    }

    /// Nothing, when it is over.
    async fn take(&mut self) -> Option<Taken> {
        let sent = Instant::now();
        let mut first_answer = None;
        while self.client.goes_on() {
            let taken = self.recipe.take(&mut self.redis, &self.name, TTL).await;
            let at = Instant::now();
            let first_answer = *first_answer.get_or_insert(at);
            match taken {
                Ok(Some(value)) => return Some(Taken { value, sent, first_answer, at }),
                Ok(None) => self.pause().await,
                Err(fault) => self.client.failed(fault).await,
            }
        }
        None
    }

    async fn release(&self, value: &str) {
        if let Err(fault) = self.recipe.release(&mut self.redis.clone(), &self.name, value).await {
            self.client.failed(fault).await;
        }
    }

    async fn pause(&mut self) {
        sleep(self.random_pause()).await;
    }

    /// Splitmix64: good enough to keep clients apart.
    fn random_pause(&mut self) -> Duration {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let micros = (PAUSE.end - PAUSE.start) * 1_000;
        Duration::from_micros(PAUSE.start * 1_000 + (mixed ^ (mixed >> 31)) % micros)
    }
}
