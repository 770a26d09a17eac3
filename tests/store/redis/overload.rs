//! Overload: more commands than Redis can answer in time. A slow proxy simulates a busy Redis.

use crate::{
    asks::{Asks, acquire, granted, new_request},
    notices::RecordingNotices,
    proxy::Proxy,
    redis_server::Redis,
    store_on,
    support::within,
};
use fencepost::{
    domain::{
        command::Command,
        ids::{AttachmentId, LeaseId},
        limits::DROP_GRACE,
        name::LockName,
        outcome::{AcquireOutcome, Grant, ReleaseOutcome, RenewOutcome},
    },
    node::{CONNECTIONS_PER_NODE, IN_FLIGHT_MAX, QUEUE_TIME_MAX, RESPONSE_TIMEOUT},
    store::{
        Store as _, StoreError, Timed,
        redis::{RedisStore, keys, scripts},
    },
};
use futures_util::{FutureExt, StreamExt, future::join_all, stream::FuturesUnordered};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinHandle, time::Instant};
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);
/// To Redis and back: a fraction of the response timeout.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Less than the TTL.
const SOON: Duration = Duration::from_secs(30);

struct Bench {
    store: Arc<RedisStore>,
    maintenance: JoinHandle<()>,
    redis: Redis,
    proxy: Proxy,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.maintenance.abort();
    }
}

impl Bench {
    /// A store behind a slow proxy.
    async fn new() -> Self {
        Self::with_round_trip(ROUND_TRIP).await
    }

    async fn with_round_trip(round_trip: Duration) -> Self {
        let redis = Redis::start(&[]);
        let proxy = Proxy::slow(round_trip, redis.port).await;
        Self::over(redis, proxy).await
    }

    async fn over(redis: Redis, proxy: Proxy) -> Self {
        let (store, maintenance) = store_on(&proxy.url(), Arc::new(RecordingNotices::default())).await;
        Self { store, maintenance, redis, proxy }
    }

    async fn acquire(&self, name: &LockName) -> Result<Timed<AcquireOutcome>, StoreError> {
        self.store.ask(name, Command::Acquire(acquire(new_request(), TTL, false))).await
    }

    async fn grant(&self, name: &LockName) -> Grant {
        granted(self.acquire(name).await.unwrap().outcome)
    }

    /// Whether Redis has state of a lock.
    fn is_known(&self, name: &LockName) -> bool {
        let key = format!("{}l:{}", keys::base(keys::bucket(name)), name.as_str());
        self.redis.command(&["EXISTS", &key]).text() == "1"
    }

    /// Waits until Redis has state of a lock.
    async fn wait_until_known(&self, name: &LockName) {
        while !self.is_known(name) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn sent_and_granted(answer: Result<Timed<AcquireOutcome>, StoreError>) -> (Instant, Grant) {
    match answer {
        Ok(Timed { sent, outcome: AcquireOutcome::Granted(grant) }) => (sent, grant),
        other => panic!("{other:?}"),
    }
}

/// The names of locks that share one connection.
fn names() -> impl Iterator<Item = LockName> {
    let one_connection = usize::from(keys::BUCKETS) / CONNECTIONS_PER_NODE;
    let all = (0..).map(|number| LockName::new(format!("a/{number}")).unwrap());
    all.filter(move |name| usize::from(keys::bucket(name)) < one_connection)
}

/// Redis does not answer, until the store finds out.
#[tokio::test(flavor = "multi_thread")]
async fn commands_in_flight_are_limited() {
    // Three rounds on each connection: a round times out in half a second, and two show that the connection is dead.
    const SENT_MAX: usize = 3 * CONNECTIONS_PER_NODE * IN_FLIGHT_MAX;
    let redis = Redis::start(&[]);
    redis.command(&["SCRIPT", "LOAD", &scripts::source(scripts::flags(scripts::ACQUIRE), scripts::PRESENT, None)]);
    let proxy = Proxy::dropping_replies_from(scripts::ACQUIRE, redis.port).await;
    let bench = Bench::over(redis, proxy).await;
    let names: Vec<_> = (0..3 * SENT_MAX).map(|number| LockName::new(format!("a/{number}")).unwrap()).collect();
    let answers = within(join_all(names.iter().map(|name| bench.acquire(name)))).await;
    let unknown = answers.iter().filter(|answer| matches!(answer, Err(StoreError::OutcomeUnknown(_)))).count();
    let is_nothing_done = |answer: &&Result<_, StoreError>| answer.as_ref().is_err_and(StoreError::is_nothing_done);
    let refused = answers.iter().filter(is_nothing_done).count();
    assert_eq!(unknown + refused, names.len());
    assert_eq!(unknown, bench.proxy.seen(), "only commands that were sent have an unknown outcome");
    assert!((IN_FLIGHT_MAX..=SENT_MAX).contains(&unknown), "{unknown}");
}

/// More commands than can be sent within the longest wait for sending. The first are served, and the validity of their
/// leases counts from when they were sent. The rest are refused without effect.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_wait_too_long_to_be_sent_are_refused_without_effect() {
    let bench = Bench::new().await;
    let rounds = QUEUE_TIME_MAX.as_millis() / ROUND_TRIP.as_millis();
    let names: Vec<_> = names().take(IN_FLIGHT_MAX * rounds as usize * 3 / 2).collect();
    let start = Instant::now();
    let all = join_all(names.iter().map(|name| async { (bench.acquire(name).await, start.elapsed()) }));
    let mut sent = Vec::new();
    for ((answer, after), name) in all.await.into_iter().zip(&names) {
        if answer == Err(StoreError::Overloaded) {
            assert!(after > QUEUE_TIME_MAX && !bench.is_known(name), "{after:?}");
        } else {
            sent.push(sent_and_granted(answer).0);
        }
    }
    let served = sent.len();
    println!("{served} of {}, within {:?}", names.len(), start.elapsed());
    assert!((2 * IN_FLIGHT_MAX..names.len()).contains(&served), "{served}");
    let in_order = |index: usize| sent[index] < sent[index + IN_FLIGHT_MAX];
    assert!((0..served - IN_FLIGHT_MAX).all(in_order), "first come, first served");
    assert!(sent[served - 1] - sent[0] > QUEUE_TIME_MAX / 2);
}

/// It leaves no state, and does not drop another call of the same attempt (a proxy's repeat).
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_before_it_is_sent_has_no_effect() {
    let bench = Bench::new().await;
    let mut names = names();
    let (alone, repeated) = (names.next().unwrap(), names.next().unwrap());
    for wait in [false, true] {
        let names: Vec<_> = names.by_ref().take(IN_FLIGHT_MAX).collect();
        let mut before: FuturesUnordered<_> = names.iter().map(|name| bench.acquire(name)).collect();
        assert!(before.next().now_or_never().is_none());
        assert!(bench.store.acquire(&alone, acquire(new_request(), TTL, wait)).now_or_never().is_none());
        let twice = acquire(new_request(), TTL, wait);
        let mut second = pin!({
            let first = bench.store.acquire(&repeated, twice.clone());
            let mut first = Box::pin(first);
            assert!(first.as_mut().now_or_never().is_none());
            let second = bench.store.acquire(&repeated, twice.clone());
            let mut second = Box::pin(second);
            assert!(second.as_mut().now_or_never().is_none());
            drop(first);
            second
        });
        while let Some(answer) = before.next().await {
            sent_and_granted(answer);
        }
        let grant = granted(second.as_mut().await.unwrap());
        bench.store.chores_done().await;
        assert!(!bench.is_known(&alone));
        let current = bench.store.view(&repeated).await.unwrap().current.unwrap();
        assert!(current.token == grant.token && current.left > DROP_GRACE, "{current:?}");
        assert_eq!(bench.store.release(&repeated, grant.lease_id).await, Ok(ReleaseOutcome::Released));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_in_flight_is_cleaned_up() {
    let bench = Bench::with_round_trip(RESPONSE_TIMEOUT * 4 / 5).await;
    let name = names().next().unwrap();
    {
        let mut call = pin!(bench.acquire(&name));
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = within(bench.wait_until_known(&name)) => {}
        }
    }
    bench.store.chores_done().await;
    let left = bench.store.view(&name).await.unwrap().current.unwrap().left;
    assert!(left <= DROP_GRACE, "{left:?}");
}

/// A client may release its lock and disconnect.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_release_is_still_sent() {
    let bench = Bench::new().await;
    let mut names = names();
    let held = names.next().unwrap();
    let lease = bench.grant(&held).await.lease_id;
    let names: Vec<_> = names.take(IN_FLIGHT_MAX).collect();
    let renewals = names.iter().map(|name| bench.store.renew(name, LeaseId(Uuid::new_v4())));
    let mut before: FuturesUnordered<_> = renewals.collect();
    assert!(before.next().now_or_never().is_none());
    assert!(bench.store.release(&held, lease).now_or_never().is_none());
    while let Some(answer) = before.next().await {
        answer.unwrap();
    }
    let free = async { while bench.store.view(&held).await.unwrap().current.is_some() {} };
    tokio::time::timeout(SOON, free).await.expect("the lease is released and not expired");
}

/// A caller does not wait beyond its deadline for a command to be sent. Once the command is sent, it gets the outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_sent_before_its_deadline_is_refused() {
    let bench = Bench::new().await;
    let mut names = names();
    let (refused, sent) = (names.next().unwrap(), names.next().unwrap());
    let command = || Command::Acquire(acquire(new_request(), TTL, true));
    sent_and_granted(
        bench
            .store
            .run_unless(&sent, command(), bench.wait_until_known(&sent))
            .await
            .map(|answer| answer.of().unwrap()),
    );
    let names: Vec<_> = names.take(4 * IN_FLIGHT_MAX).collect();
    let served = AtomicUsize::new(0);
    let overload = join_all(names.iter().map(|name| async {
        sent_and_granted(bench.acquire(name).await);
        served.fetch_add(1, Ordering::Relaxed);
    }));
    let stopped = async {
        let stop = tokio::time::sleep(ROUND_TRIP / 10);
        let answer = bench.store.run_unless(&refused, command(), stop).await;
        assert_eq!(answer, Err(StoreError::Overloaded));
        assert!(served.load(Ordering::Relaxed) < names.len());
    };
    tokio::join!(overload, stopped);
    bench.store.chores_done().await;
    assert!(!bench.is_known(&refused));
}

/// Claims, attachments, releases and heartbeats do not wait behind new acquires.
#[tokio::test(flavor = "multi_thread")]
async fn commands_on_leases_and_waiters_precede_new_acquires() {
    let bench = Bench::new().await;
    let mut names = names();
    let (held, kept) = (names.next().unwrap(), names.next().unwrap());
    let (lease, grant) = (bench.grant(&held).await.lease_id, bench.grant(&kept).await);
    let waiter = acquire(new_request(), TTL, true);
    assert_eq!(bench.store.acquire(&held, waiter.clone()).await, Ok(AcquireOutcome::Queued));
    let names: Vec<_> = names.take(12 * IN_FLIGHT_MAX).collect();
    let served = AtomicUsize::new(0);
    let overload = join_all(names.iter().map(|name| async {
        sent_and_granted(bench.acquire(name).await);
        served.fetch_add(1, Ordering::Relaxed);
    }));
    let others = async {
        bench.store.poll_now().await;
        let attach = Command::Attach { lease_id: grant.lease_id, attempt: 1, attachment: AttachmentId(Uuid::new_v4()) };
        bench.store.ask::<RenewOutcome>(&kept, attach).await.unwrap();
        let claim = async || bench.store.claim(&held, waiter.call).await;
        assert_eq!(claim().await.unwrap().outcome, AcquireOutcome::Queued);
        bench.store.release(&held, lease).await.unwrap();
        sent_and_granted(claim().await);
        let served = served.load(Ordering::Relaxed);
        assert!((1..names.len()).contains(&served), "{served}");
    };
    tokio::join!(overload, others);
}
