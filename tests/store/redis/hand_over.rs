//! A release that claims for a call of its own server: the next one has the lock as soon as it is free.

use crate::{
    asks::{Asks, acquire, granted, new_request},
    places::{Hints, store_on},
    redis_server::Redis,
    server_on,
    support::{Lock, until, waiting_wish, wish, within},
};
use fencepost::{
    domain::{
        command::{Acquire, Command},
        ids::LeaseId,
        name::LockName,
        outcome::{AcquireOutcome, ReleaseOutcome},
    },
    store::{
        Store as _, StoreError, Timed,
        redis::{RedisStore, keys},
    },
};
use futures_util::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

/// A store, and a lock that somebody holds.
struct Held {
    store: Arc<RedisStore>,
    hints: Arc<Hints>,
    name: LockName,
    lease: LeaseId,
    running: JoinHandle<()>,
    redis: Redis,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Held {
    async fn new() -> Self {
        let redis = Redis::start(&[]);
        let hints = Arc::new(Hints::default());
        let (store, running) = store_on(&redis.url(), hints.clone()).await;
        let name = LockName::new("a".into()).unwrap();
        let lease = granted(store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id;
        Self { store, hints, name, lease, running, redis }
    }

    /// Somebody waits.
    async fn wait(&self) -> Acquire {
        let call = acquire(new_request(), TTL, true);
        assert_eq!(self.store.acquire(&self.name, call.clone()).await, Ok(AcquireOutcome::Queued));
        call
    }

    fn key(&self, kind: &str) -> String {
        format!("{}{kind}:{}", keys::base(keys::bucket(&self.name)), self.name.as_str())
    }

    /// The key of the line of those who wait here.
    fn line(&self) -> String {
        self.redis.command(&["KEYS", "*}:q:*"]).text()
    }

    fn is_told(&self, call: &Acquire) -> bool {
        self.hints.0.lock().unwrap().contains(&(call.call.request, call.call.attempt))
    }

    /// The outcome of a claim that the store made.
    fn claimed(&self) -> Timed<AcquireOutcome> {
        self.hints.1.lock().unwrap().remove(0)
    }

    async fn release(&self) {
        assert_eq!(self.store.release(&self.name, self.lease).await, Ok(ReleaseOutcome::Released));
    }

    async fn claim(&self, call: &Acquire) -> AcquireOutcome {
        self.store.claim(&self.name, call.call).await.unwrap().outcome
    }

    /// The lease that holds the lock, seen by who does not know it.
    async fn holder(&self) -> Option<Uuid> {
        self.store.view(&self.name).await.unwrap().current.map(|current| current.grant_id.0)
    }
}

#[tokio::test]
async fn the_next_has_the_lock_when_the_release_is_done() {
    let held = Held::new().await;
    let (first, second) = (held.wait().await, held.wait().await);
    held.release().await;
    assert_eq!(held.holder().await, Some(first.candidate.grant_id.0), "before it has asked");
    assert!(held.is_told(&first) && !held.is_told(&second));
    let grant = granted(held.claim(&first).await);
    assert_eq!((grant.lease_id, grant.grant_id), (first.candidate.lease_id, first.candidate.grant_id));
    assert_eq!(held.claim(&second).await, AcquireOutcome::Queued);
}

/// What is left counts from when the release was sent, however late the call asks.
#[tokio::test]
async fn the_lease_counts_from_the_release() {
    let held = Held::new().await;
    let next = held.wait().await;
    let before = Instant::now();
    held.release().await;
    let released = Instant::now();
    assert!(held.is_told(&next));
    let claimed = held.claimed();
    assert!((before..released).contains(&claimed.sent));
    assert_eq!(granted(claimed.outcome).left, TTL);
}

/// Whoever releases is gone before the answer is there: the next is told all the same, and asks Redis.
#[tokio::test]
async fn a_release_that_is_dropped_leaves_nobody_waiting() {
    let held = Held::new().await;
    let next = held.wait().await;
    assert_eq!(held.store.release(&held.name, held.lease).now_or_never(), None, "it is under way");
    assert!(held.is_told(&next));
    until(|| async { held.holder().await == Some(next.candidate.grant_id.0) }).await;
    granted(held.claim(&next).await);
}

/// The next one goes while the release is on its way: its lease is cut short, and then it is another's turn.
#[tokio::test]
async fn a_call_that_goes_meanwhile_does_not_keep_the_lock() {
    let held = Held::new().await;
    let (gone, next) = (held.wait().await, held.wait().await);
    let mut releasing = Box::pin(held.store.release(&held.name, held.lease));
    assert!(releasing.as_mut().now_or_never().is_none(), "it is under way");
    held.store.post(&held.name, Command::DropCall(gone.call));
    assert_eq!(releasing.await, Ok(ReleaseOutcome::Released));
    until(|| async { held.is_told(&next) }).await;
    granted(held.claim(&next).await);
}

/// Two calls of one attempt: which of them the release should claim for, nobody knows. Both are told of the offer.
#[tokio::test]
async fn calls_that_share_an_attempt_claim_by_themselves() {
    let held = Held::new().await;
    let next = held.wait().await;
    assert_eq!(held.store.acquire(&held.name, next.clone()).await, Ok(AcquireOutcome::Queued));
    held.release().await;
    assert_eq!(held.holder().await, None);
    assert!(held.is_told(&next));
    assert_eq!(granted(held.claim(&next).await).lease_id, granted(held.claim(&next).await).lease_id);
}

/// What somebody else wrote where the ends of requests belong stops a release before it has done anything.
#[tokio::test]
async fn a_hand_over_that_fails_has_done_nothing() {
    let held = Held::new().await;
    held.release().await;
    let lease = granted(held.store.acquire(&held.name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id;
    let line = [held.wait().await, held.wait().await];
    let ends = held.key("e");
    held.redis.command(&["SET", &ends, "x"]);
    let failed = held.store.release(&held.name, lease).await;
    assert!(matches!(&failed, Err(StoreError::Corrupt(why)) if why.contains("WRONGTYPE")), "{failed:?}");
    held.redis.command(&["DEL", &ends]);
    assert_eq!(held.store.release(&held.name, lease).await, Ok(ReleaseOutcome::Released));
    let first = granted(held.claim(&line[0]).await);
    assert_eq!(held.store.release(&held.name, first.lease_id).await, Ok(ReleaseOutcome::Released));
    granted(held.claim(&line[1]).await);
}

/// The same of the first one that would wait: what comes after it would stop half way.
#[tokio::test]
async fn nobody_stands_in_line_beside_what_is_not_ours() {
    let held = Held::new().await;
    // Redis has heard of this server, so that a quick path may be taken.
    let call = held.wait().await;
    let missed = held.line().replace(":q:", ":m:");
    assert!(matches!(held.store.give_up(&held.name, call.call).await, Ok(AcquireOutcome::TimedOut(_))));
    for other in [held.key("d"), missed] {
        held.redis.command(&["SET", &other, "x"]);
        let refused = held.store.acquire(&held.name, acquire(new_request(), TTL, true)).await;
        assert!(matches!(&refused, Err(StoreError::Corrupt(why)) if why.contains("WRONGTYPE")), "{other}: {refused:?}");
        held.redis.command(&["DEL", &other]);
    }
    held.release().await;
}

/// Who comes keeps what those before it left from being cleaned up, also where no poll does.
#[tokio::test]
async fn a_place_keeps_the_line() {
    const SOON_MS: i64 = 5_000;
    let held = Held::new().await;
    held.wait().await;
    let line = [held.key("w"), held.line()];
    for key in &line {
        held.redis.command(&["PEXPIRE", key, &SOON_MS.to_string()]);
    }
    held.wait().await;
    for key in line {
        let left: i64 = held.redis.command(&["PTTL", &key]).text().parse().unwrap();
        assert!(left > SOON_MS, "{key}: {left} ms");
    }
}

/// Every command that goes by the rules reads what its bucket remembers; a quick path does not.
#[tokio::test]
async fn in_the_plain_case_the_rules_are_not_run() {
    const CALLS: u64 = 100;
    let held = Held::new().await;
    let by_the_rules = || held.redis.calls("hmget");
    let first = held.wait().await;
    let before = by_the_rules();
    let mut line = vec![first];
    for _ in 1..CALLS {
        line.push(held.wait().await);
    }
    let mut lease = held.lease;
    for call in &line {
        assert_eq!(held.store.release(&held.name, lease).await, Ok(ReleaseOutcome::Released));
        lease = granted(held.claimed().outcome).lease_id;
        assert_eq!(lease, call.candidate.lease_id);
    }
    // Polls are run by them, one a second.
    let count = by_the_rules() - before;
    assert!(count <= CALLS / 4, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_one_server_are_served_for_a_script_each() {
    const WAITERS: u32 = 300;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut client = server.client();
    let first = client.take(wish("a", TTL)).await;
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let mut other = client.clone();
        tasks.push(tokio::spawn(async move {
            let lease = other.take(waiting_wish("a", TTL, TTL)).await;
            other.give_back(&lease).await;
            lease.fencing_token
        }));
        until(|| async { server.client().look("a").await.waiters == number + 1 }).await;
    }
    let before = redis.calls("evalsha");
    client.give_back(&first).await;
    let mut tokens = vec![first.fencing_token];
    for task in tasks {
        tokens.push(within(task).await.unwrap());
    }
    let scripts = redis.calls("evalsha") - before;
    assert!(tokens.is_sorted(), "in the order of their arrival");
    // Polls come on top, one a second.
    println!("{scripts} scripts for {WAITERS} hand-offs");
    assert!(scripts <= u64::from(WAITERS) * 5 / 4, "{scripts}");
}
