//! Hand-over: a release claims the lock for the next waiter of its own server.

use crate::{
    asks::{Asks, acquire, granted, new_request},
    notices::RecordingNotices,
    redis_server::Redis,
    server_on, store_on,
    support::{Lock, acquire_request, until, waiting_request, within},
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
use tokio::task::JoinHandle;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

/// A store, and a lease of a lock.
struct Held {
    store: Arc<RedisStore>,
    notices: Arc<RecordingNotices>,
    name: LockName,
    lease: LeaseId,
    maintenance: JoinHandle<()>,
    redis: Redis,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.maintenance.abort();
    }
}

impl Held {
    async fn new() -> Self {
        let redis = Redis::start(&[]);
        let notices = Arc::new(RecordingNotices::default());
        let (store, maintenance) = store_on(&redis.url(), notices.clone()).await;
        let name = LockName::new("a".into()).unwrap();
        let lease = granted(store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id;
        Self { store, notices, name, lease, maintenance, redis }
    }

    /// Queues a request.
    async fn wait(&self) -> Acquire {
        let call = acquire(new_request(), TTL, true);
        assert_eq!(self.store.acquire(&self.name, call.clone()).await, Ok(AcquireOutcome::Queued));
        call
    }

    fn key(&self, kind: &str) -> String {
        format!("{}{kind}:{}", keys::base(keys::bucket(&self.name)), self.name.as_str())
    }

    /// The key of this server's part of the queue.
    fn queue_key(&self) -> String {
        self.redis.command(&["KEYS", "*}:q:*"]).text()
    }

    fn is_woken(&self, call: &Acquire) -> bool {
        self.notices.is_woken(call.call.request, call.call.attempt)
    }

    /// Takes the outcome of a claim that the store made.
    fn claimed(&self) -> Timed<AcquireOutcome> {
        self.notices.claimed.lock().unwrap().remove(0).1
    }

    async fn release(&self) {
        assert_eq!(self.store.release(&self.name, self.lease).await, Ok(ReleaseOutcome::Released));
    }

    async fn claim(&self, call: &Acquire) -> AcquireOutcome {
        self.store.claim(&self.name, call.call).await.unwrap().outcome
    }

    /// The grant id of the current lease.
    async fn holder(&self) -> Option<Uuid> {
        self.store.view(&self.name).await.unwrap().current.map(|current| current.grant_id.0)
    }
}

#[tokio::test]
async fn a_release_hands_the_lock_over_to_the_next_waiter() {
    let held = Held::new().await;
    let (first, second) = (held.wait().await, held.wait().await);
    held.release().await;
    assert_eq!(held.holder().await, Some(first.candidate.grant_id.0), "granted before its claim");
    assert!(held.is_woken(&first) && !held.is_woken(&second));
    let grant = granted(held.claim(&first).await);
    assert_eq!((grant.lease_id, grant.grant_id), (first.candidate.lease_id, first.candidate.grant_id));
    assert_eq!(held.claim(&second).await, AcquireOutcome::Queued);
}

#[tokio::test]
async fn the_validity_of_the_lease_counts_from_the_sending_of_the_release() {
    let held = Held::new().await;
    let next = held.wait().await;
    let released = held.store.run(&held.name, Command::Release(held.lease)).await.unwrap();
    assert!(held.is_woken(&next));
    let claimed = held.claimed();
    assert_eq!(claimed.sent, released.sent);
    assert_eq!(granted(claimed.outcome).left, TTL);
}

/// The call of the release is dropped before its answer. The next waiter is woken and claims.
#[tokio::test]
async fn a_dropped_release_still_wakes_the_next_waiter() {
    let held = Held::new().await;
    let next = held.wait().await;
    assert_eq!(held.store.release(&held.name, held.lease).now_or_never(), None, "the release is in flight");
    assert!(held.is_woken(&next));
    until(|| async { held.holder().await == Some(next.candidate.grant_id.0) }).await;
    granted(held.claim(&next).await);
}

/// The next waiter is dropped while the release is in flight. Its lease is cut short, and the one behind it is served.
#[tokio::test]
async fn a_call_that_is_dropped_during_the_release_does_not_keep_the_lock() {
    let held = Held::new().await;
    let (dropped, next) = (held.wait().await, held.wait().await);
    let mut releasing = Box::pin(held.store.release(&held.name, held.lease));
    assert!(releasing.as_mut().now_or_never().is_none(), "the release is in flight");
    held.store.post(&held.name, Command::DropCall(dropped.call));
    assert_eq!(releasing.await, Ok(ReleaseOutcome::Released));
    until(|| async { held.is_woken(&next) }).await;
    granted(held.claim(&next).await);
}

/// A release cannot choose between two calls of one attempt. Both are woken by the offer.
#[tokio::test]
async fn calls_of_one_attempt_are_offered_the_lock_and_claim() {
    let held = Held::new().await;
    let next = held.wait().await;
    assert_eq!(held.store.acquire(&held.name, next.clone()).await, Ok(AcquireOutcome::Queued));
    held.release().await;
    assert_eq!(held.holder().await, None);
    assert!(held.is_woken(&next));
    assert_eq!(granted(held.claim(&next).await).lease_id, granted(held.claim(&next).await).lease_id);
}

/// A foreign key in place of the ended requests stops a release before its first write.
#[tokio::test]
async fn a_hand_over_that_fails_has_no_effect() {
    let held = Held::new().await;
    held.release().await;
    let lease = granted(held.store.acquire(&held.name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id;
    let waiters = [held.wait().await, held.wait().await];
    let ends = held.key("e");
    held.redis.command(&["SET", &ends, "x"]);
    let failed = held.store.release(&held.name, lease).await;
    assert!(matches!(&failed, Err(StoreError::Corrupt(why)) if why.contains("WRONGTYPE")), "{failed:?}");
    held.redis.command(&["DEL", &ends]);
    assert_eq!(held.store.release(&held.name, lease).await, Ok(ReleaseOutcome::Released));
    let first = granted(held.claim(&waiters[0]).await);
    assert_eq!(held.store.release(&held.name, first.lease_id).await, Ok(ReleaseOutcome::Released));
    granted(held.claim(&waiters[1]).await);
}

/// The same for the first waiter. Otherwise, later commands would stop halfway.
#[tokio::test]
async fn a_request_is_not_queued_among_foreign_keys() {
    let held = Held::new().await;
    // Redis knows this server, so that the fast path may run.
    let call = held.wait().await;
    let missed = held.queue_key().replace(":q:", ":m:");
    assert!(matches!(held.store.give_up(&held.name, call.call).await, Ok(AcquireOutcome::TimedOut(_))));
    for other in [held.key("d"), missed] {
        held.redis.command(&["SET", &other, "x"]);
        let refused = held.store.acquire(&held.name, acquire(new_request(), TTL, true)).await;
        assert!(matches!(&refused, Err(StoreError::Corrupt(why)) if why.contains("WRONGTYPE")), "{other}: {refused:?}");
        held.redis.command(&["DEL", &other]);
    }
    held.release().await;
}

/// A new waiter extends the expiry of the queue's keys, even without polls.
#[tokio::test]
async fn a_queued_request_keeps_the_keys_of_the_queue_alive() {
    const SOON_MS: i64 = 5_000;
    let held = Held::new().await;
    held.wait().await;
    let keys = [held.key("w"), held.queue_key()];
    for key in &keys {
        held.redis.command(&["PEXPIRE", key, &SOON_MS.to_string()]);
    }
    held.wait().await;
    for key in keys {
        let left: i64 = held.redis.command(&["PTTL", &key]).text().parse().unwrap();
        assert!(left > SOON_MS, "{key}: {left} ms");
    }
}

/// Every command that runs the rules reads the memory of its bucket; the fast path does not.
#[tokio::test]
async fn waits_and_hand_overs_take_the_fast_path() {
    const CALLS: u64 = 100;
    let held = Held::new().await;
    let full_path_calls = || held.redis.calls("hmget");
    let first = held.wait().await;
    let before = full_path_calls();
    let mut waiters = vec![first];
    for _ in 1..CALLS {
        waiters.push(held.wait().await);
    }
    let mut lease = held.lease;
    for call in &waiters {
        assert_eq!(held.store.release(&held.name, lease).await, Ok(ReleaseOutcome::Released));
        lease = granted(held.claimed().outcome).lease_id;
        assert_eq!(lease, call.candidate.lease_id);
    }
    // Polls run the rules, once a second.
    let count = full_path_calls() - before;
    assert!(count <= CALLS / 4, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waiters_of_one_server_cost_one_script_each() {
    const WAITERS: u32 = 300;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut client = server.client();
    let first = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let mut other = client.clone();
        tasks.push(tokio::spawn(async move {
            let lease = other.acquire_lease(waiting_request("a", TTL, TTL)).await;
            other.release_lease(&lease).await;
            lease.fencing_token
        }));
        until(|| async { server.client().lock_info("a").await.waiters == number + 1 }).await;
    }
    let before = redis.calls("evalsha");
    client.release_lease(&first).await;
    let mut tokens = vec![first.fencing_token];
    for task in tasks {
        tokens.push(within(task).await.unwrap());
    }
    let scripts = redis.calls("evalsha") - before;
    assert!(tokens.is_sorted(), "served in the order of arrival");
    // And one poll a second.
    println!("{scripts} scripts for {WAITERS} hand-offs");
    assert!(scripts <= u64::from(WAITERS) * 5 / 4, "{scripts}");
}
