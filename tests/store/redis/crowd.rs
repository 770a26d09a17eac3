//! More is asked for at once than Redis can answer in time. A way to it that is long stands for a Redis that has much
//! to do.

use crate::{
    asks::{Asks, acquire, granted, new_request},
    places::{Hints, store_on},
    proxy::Proxy,
    redis_server::Redis,
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
/// To Redis and back: a fraction of the time that an answer is waited for.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Before any lease runs out here.
const SOON: Duration = Duration::from_secs(30);

struct Bench {
    store: Arc<RedisStore>,
    running: JoinHandle<()>,
    redis: Redis,
    proxy: Proxy,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Bench {
    /// A long way to Redis.
    async fn new() -> Self {
        Self::as_far_as(ROUND_TRIP).await
    }

    async fn as_far_as(round_trip: Duration) -> Self {
        let redis = Redis::start(&[]);
        let proxy = Proxy::slow(round_trip, redis.port).await;
        Self::over(redis, proxy).await
    }

    async fn over(redis: Redis, proxy: Proxy) -> Self {
        let (store, running) = store_on(&proxy.url(), Arc::new(Hints::default())).await;
        Self { store, running, redis, proxy }
    }

    async fn acquire(&self, name: &LockName) -> Result<Timed<AcquireOutcome>, StoreError> {
        self.store.ask(name, Command::Acquire(acquire(new_request(), TTL, false))).await
    }

    async fn take(&self, name: &LockName) -> Grant {
        granted(self.acquire(name).await.unwrap().outcome)
    }

    /// Whether Redis knows anything of a lock.
    fn is_known(&self, name: &LockName) -> bool {
        let key = format!("{}l:{}", keys::base(keys::bucket(name)), name.as_str());
        self.redis.command(&["EXISTS", &key]).text() == "1"
    }

    /// Resolves when it does.
    async fn known(&self, name: &LockName) {
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

/// Locks whose commands go over one connection.
fn names() -> impl Iterator<Item = LockName> {
    let one_connection = usize::from(keys::BUCKETS) / CONNECTIONS_PER_NODE;
    let all = (0..).map(|number| LockName::new(format!("a/{number}")).unwrap());
    all.filter(move |name| usize::from(keys::bucket(name)) < one_connection)
}

/// A Redis that does not answer has so many commands to do, and no more, before it is found out.
#[tokio::test(flavor = "multi_thread")]
async fn so_many_commands_are_under_way_and_no_more() {
    // Three rounds on each connection: one times out in half a second, and it takes two of them to find it dead.
    const SENT_MAX: usize = 3 * CONNECTIONS_PER_NODE * IN_FLIGHT_MAX;
    let redis = Redis::start(&[]);
    redis.command(&["SCRIPT", "LOAD", &scripts::source(scripts::flags(scripts::ACQUIRE), scripts::PRESENT, None)]);
    let proxy = Proxy::dropping_replies_from(scripts::ACQUIRE, redis.port).await;
    let bench = Bench::over(redis, proxy).await;
    let names: Vec<_> = (0..3 * SENT_MAX).map(|number| LockName::new(format!("a/{number}")).unwrap()).collect();
    let answers = within(join_all(names.iter().map(|name| bench.acquire(name)))).await;
    let unknown = answers.iter().filter(|answer| matches!(answer, Err(StoreError::OutcomeUnknown(_)))).count();
    let nothing_done = |answer: &&Result<_, StoreError>| answer.as_ref().is_err_and(StoreError::is_nothing_done);
    let refused = answers.iter().filter(nothing_done).count();
    assert_eq!(unknown + refused, names.len());
    assert_eq!(unknown, bench.proxy.seen(), "what was sent, and nothing else, may have been done");
    assert!((IN_FLIGHT_MAX..=SENT_MAX).contains(&unknown), "{unknown}");
}

/// A line that is longer than is served within the time that one may stand in it: the first are served, each with what
/// its lease has left counted from when it was sent, and the others told that nothing was done.
#[tokio::test(flavor = "multi_thread")]
async fn who_stands_in_line_for_too_long_is_sent_away_and_nothing_was_done() {
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
    let in_turn = |place: usize| sent[place] < sent[place + IN_FLIGHT_MAX];
    assert!((0..served - IN_FLIGHT_MAX).all(in_turn), "first come, first served");
    assert!(sent[served - 1] - sent[0] > QUEUE_TIME_MAX / 2);
}

/// Whoever is gone before its turn comes leaves nothing, and takes nothing: not another call of the same attempt (a
/// proxy's repeat).
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_in_line_is_as_if_it_had_not_been() {
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

/// It is dropped when it has left: what came of it is cleaned up.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_when_it_has_left_is_cleaned_up_after() {
    let bench = Bench::as_far_as(RESPONSE_TIMEOUT * 4 / 5).await;
    let name = names().next().unwrap();
    {
        let mut call = pin!(bench.acquire(&name));
        tokio::select! {
            answer = &mut call => panic!("{answer:?}"),
            () = within(bench.known(&name)) => {}
        }
    }
    bench.store.chores_done().await;
    let left = bench.store.view(&name).await.unwrap().current.unwrap().left;
    assert!(left <= DROP_GRACE, "{left:?}");
}

/// A client may give back its lock and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_sent_though_nobody_waits_for_it_any_more() {
    let bench = Bench::new().await;
    let mut names = names();
    let held = names.next().unwrap();
    let lease = bench.take(&held).await.lease_id;
    let names: Vec<_> = names.take(IN_FLIGHT_MAX).collect();
    let renewals = names.iter().map(|name| bench.store.renew(name, LeaseId(Uuid::new_v4())));
    let mut before: FuturesUnordered<_> = renewals.collect();
    assert!(before.next().now_or_never().is_none());
    assert!(bench.store.release(&held, lease).now_or_never().is_none());
    while let Some(answer) = before.next().await {
        answer.unwrap();
    }
    let free = async { while bench.store.view(&held).await.unwrap().current.is_some() {} };
    tokio::time::timeout(SOON, free).await.expect("it was given back, and has not run out");
}

/// Whoever waits for a lock waits no longer than it says, wherever it stands; and once its command has left, it hears
/// what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_stop_is_not_kept_in_line() {
    let bench = Bench::new().await;
    let mut names = names();
    let (waited_for, sent) = (names.next().unwrap(), names.next().unwrap());
    let wanted = || Command::Acquire(acquire(new_request(), TTL, true));
    sent_and_granted(
        bench.store.run_unless(&sent, wanted(), bench.known(&sent)).await.map(|answer| answer.of().unwrap()),
    );
    let names: Vec<_> = names.take(4 * IN_FLIGHT_MAX).collect();
    let served = AtomicUsize::new(0);
    let crowd = join_all(names.iter().map(|name| async {
        sent_and_granted(bench.acquire(name).await);
        served.fetch_add(1, Ordering::Relaxed);
    }));
    let stopped = async {
        let stop = tokio::time::sleep(ROUND_TRIP / 10);
        let answer = bench.store.run_unless(&waited_for, wanted(), stop).await;
        assert_eq!(answer, Err(StoreError::Overloaded));
        assert!(served.load(Ordering::Relaxed) < names.len());
    };
    tokio::join!(crowd, stopped);
    bench.store.chores_done().await;
    assert!(!bench.is_known(&waited_for));
}

/// Whoever is served already does not stand behind those who come, nor does the heartbeat of the server.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_does_not_stand_behind_what_begins() {
    let bench = Bench::new().await;
    let mut names = names();
    let (held, kept) = (names.next().unwrap(), names.next().unwrap());
    let (lease, grant) = (bench.take(&held).await.lease_id, bench.take(&kept).await);
    let waiter = acquire(new_request(), TTL, true);
    assert_eq!(bench.store.acquire(&held, waiter.clone()).await, Ok(AcquireOutcome::Queued));
    let names: Vec<_> = names.take(12 * IN_FLIGHT_MAX).collect();
    let served = AtomicUsize::new(0);
    let crowd = join_all(names.iter().map(|name| async {
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
    tokio::join!(crowd, others);
}
