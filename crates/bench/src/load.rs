//! One run: clients that work until they are stopped, a warm-up, a measured time, and resource counters before and
//! after it.

use super::{
    caller::Failure,
    figures::{Figures, Fold, inversions, jain},
    meter::{Grant, Meter, Tally},
    pace::Pace,
    plan::Plan,
    testbed::Testbed,
    usage::Reading,
};
use anyhow::Result;
use hdrhistogram::Histogram;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout},
};

/// How long clients may take to finish their operations.
const END_MAX: Duration = Duration::from_secs(10);
/// The pause after a failure, so that a server that refuses everything is not called in a tight loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// Running clients.
pub(super) struct Load<'a> {
    plan: &'a Plan,
    label: &'a str,
    pub meter: Arc<Meter>,
    pace: Pace,
    tasks: JoinSet<()>,
}

/// One client.
#[derive(Clone)]
pub(super) struct Client {
    pub index: usize,
    meter: Arc<Meter>,
    pace: Pace,
}

/// The result of a run.
pub(super) struct Measurement {
    pub tally: Tally,
    pub seconds: f64,
    pub before: Reading,
    pub after: Reading,
}

impl<'a> Load<'a> {
    /// At the rate of the plan, if it has one.
    pub(super) fn paced(plan: &'a Plan, label: &'a str, clients: usize) -> Self {
        Self { pace: Pace::new(plan.rate), ..Self::closed(plan, label, clients) }
    }

    /// Closed loop: each client starts an operation when its last one has ended.
    pub(super) fn closed(plan: &'a Plan, label: &'a str, clients: usize) -> Self {
        Self { plan, label, meter: Arc::new(Meter::new(clients)), pace: Pace::Closed, tasks: JoinSet::new() }
    }

    /// Starts a client.
    pub(super) fn start<F>(&mut self, index: usize, work: impl FnOnce(Client) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(work(Client { index, meter: self.meter.clone(), pace: self.pace.clone() }));
    }

    /// Measures, then stops the clients.
    pub(super) async fn measure(mut self, testbed: &Testbed) -> Result<Measurement> {
        sleep(self.plan.warmup).await;
        let before = testbed.read().await?;
        self.meter.open();
        let began = Instant::now();
        self.watch(began).await;
        self.meter.close();
        let seconds = began.elapsed().as_secs_f64();
        let after = testbed.read().await?;
        self.meter.end();
        self.pace.end();
        let ended = timeout(END_MAX, async { while self.tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            self.meter.failed(Failure(format!("clients did not end within {} s", END_MAX.as_secs())));
        }
        Ok(Measurement { tally: self.meter.take(), seconds, before, after })
    }

    /// Waits for the measured time, and reports progress every second.
    async fn watch(&self, began: Instant) {
        let second = Duration::from_secs(1);
        let mut seconds = interval_at(began + second, second);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let end = sleep_until(began + self.plan.duration);
        tokio::pin!(end);
        let (mut last, mut last_at) = (0, began);
        loop {
            tokio::select! {
                () = &mut end => return,
                now = seconds.tick() => {
                    let (operations, errors) = self.meter.progress();
                    let rate = (operations - last) as f64 / now.duration_since(last_at).as_secs_f64();
                    (last, last_at) = (operations, now);
                    let passed = now.duration_since(began).as_secs();
                    eprintln!("{}: {passed} s, {rate:.0}/s, {errors} errors", self.label);
                }
            }
        }
    }
}

impl Client {
    /// Waits for the next operation and returns its intended start; `None` when the run is over.
    pub(super) async fn next(&self) -> Option<Instant> {
        if self.meter.is_over() { None } else { self.pace.next().await }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.meter.is_over()
    }

    pub(super) fn done(&self, whole: Duration, part: Option<Duration>, grant: Option<Grant>) {
        self.meter.done(self.index, whole, part, grant);
    }

    /// Counts a failure, unless the end of the run caused it.
    pub(super) async fn failed(&self, failure: Failure) {
        if self.is_running() {
            self.meter.failed(failure);
            sleep(FAILURE_PAUSE).await;
        }
    }
}

impl Measurement {
    /// Figures of every workload: throughput, latency, cost, errors.
    pub(super) fn figures(&self) -> Figures {
        let operations = self.tally.whole.len() as f64;
        let mut figures = Figures::default();
        figures.put("operations", Fold::Sum, operations);
        figures.put("rate_per_s", Fold::Median, operations / self.seconds);
        latencies(&mut figures, &self.tally.whole, ["p50_us", "p99_us", "p999_us", "max_us"]);
        let part = ["acquire_p50_us", "acquire_p99_us", "acquire_p999_us", "acquire_max_us"];
        latencies(&mut figures, &self.tally.part, part);
        let per = |used: Option<f64>, operations: f64| used.map(|used| used / operations);
        let redis = self.redis();
        figures.put_known(
            "server_cpu_s_per_100k",
            Fold::Median,
            per(self.used(|read| read.server_cpu), operations / 1e5),
        );
        figures.put_known("redis_cpu_s_per_100k", Fold::Median, per(redis.map(|used| used.cpu), operations / 1e5));
        figures.put_known("evalsha_per_operation", Fold::Median, per(redis.map(|used| used.evalsha), operations));
        figures.put_known("bench_cpu_s_per_100k", Fold::Median, per(self.used(|read| read.own_cpu), operations / 1e5));
        figures.put("errors", Fold::Sum, self.errors() as f64);
        figures
    }

    /// Figures of contended workloads.
    pub(super) fn order(&mut self, figures: &mut Figures) {
        self.fairness(figures);
        let (count, most) = inversions(&mut self.tally.grants);
        // The grants are sorted by now. A client that gets the lock twice in a row did not hand it off.
        let passed_on = self.tally.grants.windows(2).filter(|pair| pair[0].client != pair[1].client).count();
        figures.put("passed_on_per_s", Fold::Median, passed_on as f64 / self.seconds);
        figures.put("inversions", Fold::Sum, count as f64);
        figures.put("inversion_max_us", Fold::Max, most.as_secs_f64() * 1e6);
    }

    /// How equal the shares of the clients are.
    pub(super) fn fairness(&self, figures: &mut Figures) {
        figures.put_known("jain_fairness", Fold::Median, jain(&self.tally.shares));
    }

    /// The cost of background work: CPU in percent of a core, and commands per second.
    pub(super) fn background_cost(&self, figures: &mut Figures, replicas: usize) {
        let percent = |used: Option<f64>| used.map(|used| 100.0 * used / self.seconds);
        let redis = self.redis();
        let per_replica = |count: f64| count / self.seconds / replicas as f64;
        figures.put_known("server_cpu_percent", Fold::Median, percent(self.used(|read| read.server_cpu)));
        figures.put_known("redis_cpu_percent", Fold::Median, percent(redis.map(|used| used.cpu)));
        figures.put_known("evalsha_per_s", Fold::Median, redis.map(|used| per_replica(used.evalsha)));
        figures.put_known("commands_per_s", Fold::Median, redis.map(|used| per_replica(used.commands)));
        figures.put_known("bench_cpu_percent", Fold::Median, percent(self.used(|read| read.own_cpu)));
    }

    pub(super) fn errors(&self) -> u64 {
        self.tally.errors.values().sum()
    }

    fn used(&self, of: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        Some(of(&self.after)? - of(&self.before)?)
    }

    fn redis(&self) -> Option<super::usage::RedisReading> {
        Some(self.after.redis?.since(&self.before.redis?))
    }
}

fn latencies(figures: &mut Figures, histogram: &Histogram<u64>, names: [&'static str; 4]) {
    if histogram.is_empty() {
        return;
    }
    let micros = |nanos: u64| nanos as f64 / 1e3;
    figures.put(names[0], Fold::Median, micros(histogram.value_at_quantile(0.5)));
    figures.put(names[1], Fold::Median, micros(histogram.value_at_quantile(0.99)));
    figures.put(names[2], Fold::Median, micros(histogram.value_at_quantile(0.999)));
    figures.put(names[3], Fold::Max, micros(histogram.max()));
}
