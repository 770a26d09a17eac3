//! What a server and Redis remember of those who wait, seen from the store.

use crate::{
    asks::{Asks, acquire, granted},
    proxy::Proxy,
    redis_server::Redis,
    server_on, serving, start_on_url,
    support::{Lock, assert_refused, until, waiting_wish, wish, within},
};
use fencepost::{
    domain::{
        command::Command,
        ids::{AttachmentId, Call, RequestId},
        lease::LeaseEnd,
        limits::{DROP_GRACE, Limits, REPLICA_GONE},
        name::LockName,
        outcome::{AcquireOutcome, ReleaseOutcome},
        time::micros,
    },
    node::RedisUrl,
    store::{
        Event, Notices, Store as _, Timed,
        redis::{RedisStore, keys, scripts},
    },
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinHandle;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

/// Notes which calls were woken, and the claims that the store made for them.
#[derive(Default)]
pub(crate) struct Hints(pub(crate) Mutex<Vec<(RequestId, u32)>>, pub(crate) Mutex<Vec<Timed<AcquireOutcome>>>);

impl Notices for Hints {
    fn look_again(&self, request: RequestId, attempt: u32) {
        self.0.lock().unwrap().push((request, attempt));
    }
    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool {
        self.look_again(call.request, call.attempt);
        self.1.lock().unwrap().push(outcome);
        true
    }
    fn is_alive(&self, _: RequestId, _: u32) -> bool {
        true
    }
    fn lease_ended(&self, _: AttachmentId, _: LeaseEnd) {}
    fn detached(&self, _: AttachmentId) {}
    fn is_watched(&self) -> bool {
        false
    }
    fn event(&self, _: Event) {}

    fn hints_lost(&self) {}

    fn events_lost(&self) {}
}

/// A store that goes on until its task is aborted.
pub(crate) async fn store_on(url: &str, hints: Arc<Hints>) -> (Arc<RedisStore>, JoinHandle<()>) {
    let store = Arc::new(RedisStore::new(&RedisUrl::parse(url).unwrap(), &Limits::default(), hints));
    let running = store.clone();
    let running = tokio::spawn(async move { running.maintain().await });
    within(store.up().wait_for(|up| *up)).await.unwrap();
    (store, running)
}

/// Two calls of one attempt wait. The claim of one is refused and it is dropped: the other stands in line as before, is
/// polled for, and told of its offer.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_claim_was_left_behind_takes_no_other_with_it() {
    let redis = Redis::start(&[]);
    let hints = Arc::new(Hints::default());
    let (store, running) = store_on(&redis.url(), hints.clone()).await;
    let name = LockName::new("a".into()).unwrap();
    let bucket = format!("{}b", keys::base(keys::bucket(&name)));
    let (holder, waiter) = (RequestId(Uuid::new_v4()), RequestId(Uuid::new_v4()));
    let grant = granted(store.acquire(&name, acquire(holder, TTL, false)).await.unwrap());
    let calls = [acquire(waiter, TTL, true), acquire(waiter, TTL, true)];
    for call in calls.clone() {
        assert_eq!(store.acquire(&name, call).await, Ok(AcquireOutcome::Queued));
    }
    let [dropped, alive] = calls.map(|it| it.call);
    // As if a server that knows of its newer life had drawn a token.
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    redis.command(&["HSET", &bucket, "inc", "a newer one"]);
    assert_eq!(store.claim(&name, dropped).await.map(|it| it.outcome), Ok(AcquireOutcome::LeftBehind));
    store.post(&name, Command::DropCall(dropped));
    within(store.chores_done()).await;
    until(|| async { store.view(&name).await.is_ok() }).await;
    hints.0.lock().unwrap().clear();
    assert_eq!(store.release(&name, grant.lease_id).await, Ok(ReleaseOutcome::Released));
    until(|| async { hints.0.lock().unwrap().contains(&(waiter, 1)) }).await;
    let claimed = store.claim(&name, alive).await.map(|it| it.outcome);
    assert!(matches!(claimed, Ok(AcquireOutcome::Granted(_))), "{claimed:?}");
    running.abort();
}

#[tokio::test]
async fn servers_that_are_gone_are_forgotten_by_those_that_live() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().take(wish("a", TTL)).await;
    let bucket = keys::bucket(&LockName::new("a".into()).unwrap());
    let replicas = format!("{}r", keys::base(bucket));
    let now = redis.command(&["TIME"]).text();
    let (seconds, rest) = now.split_once(' ').unwrap();
    let now: u64 = seconds.parse::<u64>().unwrap() * 1_000_000 + rest.parse::<u64>().unwrap();
    let id = || Uuid::new_v4().simple().to_string();
    let (gone, silent) = (id(), id());
    redis.command(&["HSET", &replicas, &gone, &(now - micros(REPLICA_GONE)).to_string()]);
    redis.command(&["HSET", &replicas, &silent, &(now - micros(REPLICA_GONE) / 3).to_string()]);
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_wish("a", TTL, TTL)).await });
    until(|| async { server.client().look("a").await.waiters == 1 }).await;
    let is_known = |replica: &str| redis.command(&["HEXISTS", &replicas, replica]).text() == "1";
    assert!(!is_known(&gone));
    assert!(is_known(&silent), "it may come back, and its places are kept");
    assert_eq!(redis.command(&["HLEN", &replicas]).text(), "2", "and the server's own");
    waiter.abort();
}

/// A proxy repeats a call through a second server, under the same number, and the repeat is dropped. The offer goes to
/// where the request was heard of last, and is declined there: the call that is left is served, and not told that
/// another has overtaken it. Found by the torture.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_served_though_its_repeat_elsewhere_is_gone() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let held = one.client().take(wish("a", TTL)).await;
    let request = waiting_wish("a", TTL, TTL);
    let (mut first, mut repeated) = (one.client(), two.client());
    let (asked, again) = (request.clone(), request);
    let first = tokio::spawn(async move { first.take(asked).await });
    until(|| async { one.client().look("a").await.waiters == 1 }).await;
    let waiters = format!("{}w:a", keys::base(keys::bucket(&LockName::new("a".to_owned()).unwrap())));
    let bound =
        || redis.command(&["EVAL", "return redis.sha1hex(redis.call('HVALS', KEYS[1])[1])", "1", &waiters]).text();
    let before = bound();
    let repeat = tokio::spawn(async move { repeated.acquire(again).await });
    until(|| async { bound() != before }).await;
    let both = bound();
    repeat.abort();
    until(|| async { bound() != both }).await;
    one.client().give_back(&held).await;
    let lease = within(first).await.unwrap();
    assert!(lease.fencing_token > held.fencing_token);
}

/// A proxy repeats a call through another server, under the same number. The first is dropped, and the answer to its
/// cleanup is lost: tried again, that would take away the other call as well.
#[tokio::test]
async fn a_clean_up_whose_answer_was_lost_leaves_the_other_call_its_place() {
    let redis = Redis::start(&[]);
    let source = scripts::source(scripts::flags(scripts::DROP_CALL), scripts::PRESENT, None);
    redis.command(&["SCRIPT", "LOAD", &source]);
    let proxy = Proxy::dropping_replies_from(scripts::DROP_CALL, redis.port).await;
    let (one, two) = (start_on_url(proxy.url()).await, server_on(&redis).await);
    until(|| async { one.client().acquire(wish("probe", TTL)).await.is_ok() }).await;
    let held = two.client().take(wish("a", TTL)).await;
    let request = waiting_wish("a", TTL, TTL);
    let (mut dropped, mut other) = (one.client(), two.client());
    let (asked, again) = (request.clone(), request);
    let first = tokio::spawn(async move { dropped.acquire(asked).await });
    until(|| async { two.client().look("a").await.waiters == 1 }).await;
    let waiters = format!("{}w:a", keys::base(keys::bucket(&LockName::new("a".to_owned()).unwrap())));
    let bound =
        || redis.command(&["EVAL", "return redis.sha1hex(redis.call('HVALS', KEYS[1])[1])", "1", &waiters]).text();
    let before = bound();
    let second = tokio::spawn(async move { other.take(again).await });
    until(|| async { bound() != before }).await;
    first.abort();
    until(|| async { proxy.seen() > 0 }).await;
    // Longer than a cleanup is tried again and again: each answer is waited for half a second, and a pause follows.
    tokio::time::sleep(Duration::from_secs(5)).await;
    two.client().give_back(&held).await;
    let lease = within(second).await.unwrap();
    assert!(lease.fencing_token > held.fencing_token);
}

/// Connections to Redis break with an acquire under way, and the client, or gRPC's own retry policy, sends it again
/// under the same number through the same server. The cleanup after the first call, tried until Redis is back, must not
/// cut the lease of the second: that was answered with its whole TTL, and somebody else would get in.
#[tokio::test(flavor = "multi_thread")]
async fn the_cleanup_of_a_broken_call_leaves_the_lease_of_its_repeat() {
    let redis = Redis::start(&[]);
    let source = scripts::source(scripts::flags(scripts::ACQUIRE), scripts::PRESENT, None);
    redis.command(&["SCRIPT", "LOAD", &source]);
    // Which of the cleanup and the repeat is first is decided anew each time.
    for round in 0..6 {
        let proxy = Proxy::dropping_replies_from(scripts::ACQUIRE, redis.port).await;
        let server = start_on_url(proxy.url()).await;
        serving(&server, true).await;
        let request = wish(&format!("lock {round}"), TTL);
        let (mut client, asked) = (server.client(), request.clone());
        let first = tokio::spawn(async move { client.acquire(asked).await });
        until(|| async { proxy.seen() > 0 }).await;
        proxy.break_off();
        assert_refused(within(first).await.unwrap(), tonic::Code::Unavailable, "OUTCOME_UNKNOWN");
        // As if the call had been lost on its way.
        redis.command(&["FLUSHALL"]);
        proxy.open();
        let lease = within(async {
            loop {
                if let Ok(answer) = server.client().acquire(request.clone()).await {
                    break answer.into_inner().lease.unwrap();
                }
            }
        })
        .await;
        // Longer than the cleanup is tried for.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let current = server.client().holder(&request.lock_name).await.unwrap();
        assert_eq!(current.fencing_token, lease.fencing_token);
        let left = Duration::try_from(current.expires_in.unwrap()).unwrap();
        assert!(left > TTL - Duration::from_secs(10), "round {round}: only {left:?} of the lease is left");
    }
}

/// A server that Redis refused has nothing to clean up: the same attempt, which a proxy sends through another server,
/// is served there, and its lease lasts. Found by the torture.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_refused_at_one_server_is_served_by_another() {
    const SHORT: Duration = Duration::from_secs(5);
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let request = wish("a", SHORT);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = one.client().acquire(request.clone()).await;
    assert_refused(refused, tonic::Code::Unavailable, "STORE_UNAVAILABLE");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let lease = two.client().take(request).await;
    // Longer than a lease lasts whose last call was dropped.
    tokio::time::sleep(DROP_GRACE + SHORT / 10).await;
    assert_eq!(two.client().holder("a").await.map(|it| it.fencing_token), Some(lease.fencing_token));
}
