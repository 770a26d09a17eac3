//! Classic clients: they acquire with `SET lock:NAME value NX PX ttl`, and release with a script that deletes the key
//! if the value is still theirs.

use crate::{
    redis_server::{Answer, Redis},
    server_on, serving,
    support::{Lock, Server, acquire_request, assert_refused, only, read, span, until, waiting_request, within},
};
use fencepost::config::StoreUrl;
use fencepost_proto::v1::{self, LeaseEnd, acquire_response::Outcome, renew_response};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

async fn start_sharing(redis: &Redis, prefix: &str) -> Server {
    let url = redis.url();
    Server::start_with(|config| {
        config.store = StoreUrl::Redis(vec![url]);
        config.classic_prefix = prefix.to_owned();
    })
    .await
}

async fn sharing(redis: &Redis) -> Server {
    let server = start_sharing(redis, "lock:").await;
    serving(&server, true).await;
    server
}

/// Acquires as a classic client.
fn classic_acquire(redis: &Redis, value: &str, ttl_ms: u64) -> bool {
    redis.command(&["SET", "lock:a", value, "NX", "PX", &ttl_ms.to_string()]) != Answer::Nil
}

fn pttl(redis: &Redis) -> Duration {
    Duration::from_millis(redis.command(&["PTTL", "lock:a"]).text().parse().unwrap())
}

async fn renew(server: &Server, lease: &v1::Lease, ttl: Option<Duration>) -> v1::RenewResponse {
    let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
    let request = v1::RenewRequest { lock_name, lease_id, ttl: ttl.and_then(span) };
    within(server.client().renew(request)).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_lease_holds_the_classic_lock_until_it_ends() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(redis.command(&["GET", "lock:a"]).text(), lease.grant_id, "the value is the grant id");
    assert!(!classic_acquire(&redis, "other", 1_000));
    assert!(pttl(&redis) > TTL / 2 && pttl(&redis) <= TTL + Duration::from_millis(2), "{:?}", pttl(&redis));
    assert_eq!(renew(&server, &lease, Some(TTL * 2)).await.outcome(), renew_response::Outcome::Renewed);
    assert!(pttl(&redis) > TTL, "the renewal extends the classic lock");
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Released);
    assert!(classic_acquire(&redis, "other", 1_000), "the release deletes the classic lock");
    redis.command(&["DEL", "lock:a"]);

    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let force = v1::ForceReleaseRequest {
        lock_name: "a".into(),
        expected_token: lease.fencing_token,
        reason: "because".into(),
    };
    within(server.admin().force_release(force)).await.unwrap();
    assert!(classic_acquire(&redis, "other", 1_000), "the revocation deletes the classic lock");
    redis.command(&["DEL", "lock:a"]);

    server.client().acquire_lease(acquire_request("a", Duration::from_millis(100))).await;
    until(|| async { classic_acquire(&redis, "other", 1_000) }).await;
}

#[tokio::test]
async fn a_lock_held_by_a_classic_client_is_contended_and_passes_to_waiters() {
    let redis = Redis::start(&[]);
    let (one, two) = (sharing(&redis).await, sharing(&redis).await);
    assert!(classic_acquire(&redis, "mine", 60_000));
    let refused = one.client().acquire_response(acquire_request("a", TTL)).await;
    assert_eq!(refused.outcome(), Outcome::Contended);
    let current = only(refused.holders).unwrap();
    assert_eq!((current.holder.as_str(), current.grant_id.as_str(), current.fencing_token), ("classic client", "", 0));
    assert!(read(current.expires_in) > Duration::from_secs(30));
    assert_eq!(two.client().holder("a").await.unwrap().holder, "classic client");
    for (server, end) in [(&one, "released"), (&two, "expired")] {
        let mut waiting = server.client();
        let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, LONG)).await });
        until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
        match end {
            "expired" => redis.command(&["PEXPIRE", "lock:a", "50"]),
            _ => redis.command(&["EVAL", RELEASE, "1", "lock:a", "mine"]),
        };
        let lease = within(waiter).await.unwrap();
        assert_eq!(redis.command(&["GET", "lock:a"]).text(), lease.grant_id, "{end}");
        server.client().release_lease(&lease).await;
        assert!(classic_acquire(&redis, "mine", 60_000));
    }
    redis.command(&["PERSIST", "lock:a"]);
    assert_eq!(one.client().holder("a").await.unwrap().expires_in, None, "the classic lock has no TTL");
}

/// Redisson's locks are hashes.
#[tokio::test]
async fn a_classic_key_of_any_type_holds_the_lock() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    redis.command(&["HSET", "lock:a", "client:1", "1"]);
    let refused = server.client().acquire_response(acquire_request("a", TTL)).await;
    assert_eq!(
        (refused.outcome(), only(refused.holders).unwrap().holder.as_str()),
        (Outcome::Contended, "classic client")
    );
    redis.command(&["DEL", "lock:a"]);
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

#[tokio::test]
async fn a_renewal_restores_a_missing_classic_key_and_a_replaced_one_ends_the_lease() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["DEL", "lock:a"]);
    assert_eq!(renew(&server, &lease, None).await.outcome(), renew_response::Outcome::Renewed);
    assert_eq!(redis.command(&["GET", "lock:a"]).text(), lease.grant_id);
    redis.command(&["DEL", "lock:a"]);
    assert!(classic_acquire(&redis, "thief", 60_000));
    let lost = renew(&server, &lease, None).await;
    assert_eq!((lost.outcome(), lost.end()), (renew_response::Outcome::Lost, LeaseEnd::Revoked));
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Revoked);
    assert_eq!(redis.command(&["GET", "lock:a"]).text(), "thief", "the server does not delete another client's key");
}

/// Both kinds of clients at once, through two servers. Both make progress.
#[tokio::test(flavor = "multi_thread")]
async fn classic_clients_and_ours_exclude_each_other() {
    const ROUNDS: u32 = 10;
    let redis = Arc::new(Redis::start(&[]));
    let servers = [sharing(&redis).await, sharing(&redis).await];
    let (inside, ours, theirs) = (Arc::new(AtomicU32::new(0)), Arc::default(), Arc::new(AtomicU32::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let work = |inside: Arc<AtomicU32>, count: Arc<AtomicU32>| async move {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        tokio::time::sleep(Duration::from_millis(2)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
    };
    let mut waiters = Vec::new();
    for number in 0..6 {
        let (mut client, inside, ours) = (servers[number % 2].client(), inside.clone(), Arc::clone(&ours));
        waiters.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let lease = client.acquire_lease(waiting_request("a", TTL, LONG)).await;
                work(inside.clone(), Arc::clone(&ours)).await;
                assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
                // Without waiters for a while, so that classic clients acquire the lock too.
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        }));
    }
    let mut classics = Vec::new();
    for number in 0..3 {
        let (redis, inside, theirs, done) = (redis.clone(), inside.clone(), theirs.clone(), done.clone());
        classics.push(tokio::spawn(async move {
            let value = format!("classic {number}");
            while !done.load(Ordering::SeqCst) {
                if classic_acquire(&redis, &value, 60_000) {
                    work(inside.clone(), theirs.clone()).await;
                    assert_eq!(redis.command(&["EVAL", RELEASE, "1", "lock:a", &value]).text(), "1");
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }));
    }
    for waiter in waiters {
        tokio::time::timeout(LONG, waiter).await.expect("waiters are served").unwrap();
    }
    // Our last client has released, so classic clients acquire the lock.
    let before = theirs.load(Ordering::SeqCst);
    until(|| async { theirs.load(Ordering::SeqCst) > before }).await;
    done.store(true, Ordering::SeqCst);
    for classic in classics {
        within(classic).await.unwrap();
    }
    assert_eq!(ours.load(Ordering::SeqCst), 6 * ROUNDS);
}

#[tokio::test]
async fn a_server_with_another_classic_prefix_refuses_the_redis() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    for (prefix, other) in [("", start_sharing(&redis, "").await), ("other:", start_sharing(&redis, "other:").await)] {
        until(|| async {
            let refused = other.client().acquire(acquire_request("a", TTL)).await;
            let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
            status.message().contains("the classic prefix \"lock:\"")
                && status.message().contains("HDEL fp:meta classic")
        })
        .await;
        serving(&other, false).await;
        assert_eq!(redis.command(&["EXISTS", "lock:a", "other:a"]).text(), "0", "{prefix:?}");
    }
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    // The prefix can be changed while no server runs.
    drop(server);
    redis.command(&["HDEL", "fp:meta", "classic"]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("b", TTL)).await;
    assert_eq!(redis.command(&["EXISTS", "lock:b"]).text(), "0");
    let late = start_sharing(&redis, "lock:").await;
    until(|| async {
        let refused = late.client().acquire(acquire_request("b", TTL)).await;
        assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE").message().contains("the classic prefix \"\"")
    })
    .await;
    server.client().acquire_lease(acquire_request("c", TTL)).await;
}

/// The prefix is not the one that the user of Redis has rights for: a typing error, say.
#[tokio::test]
async fn a_prefix_that_redis_does_not_permit_is_refused_before_anything_is_done() {
    let redis = Redis::start(&[]);
    let rights = "reset on >pw +@scripting +@pubsub +@read +@write +@connection +info +time ~fp:* &fp:c:* ~lock:*";
    let user: Vec<&str> = ["ACL", "SETUSER", "fp"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    let start = async |prefix: &str| {
        let (url, prefix) = (redis.url().replace("redis://", "redis://fp:pw@"), prefix.to_owned());
        Server::start_with(|config| (config.store, config.classic_prefix) = (StoreUrl::Redis(vec![url]), prefix)).await
    };
    let wrong = start("locks:").await;
    let refused = || async {
        let refused = wrong.client().acquire(acquire_request("a", TTL)).await;
        assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE").message().to_owned()
    };
    until(|| async { refused().await.contains("the classic prefix \"locks:\"") }).await;
    let message = refused().await;
    for part in ["nothing was done", "correct --classic-prefix", "~locks:*"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    serving(&wrong, false).await;
    assert_eq!(redis.command(&["EXISTS", "fp:meta"]).text(), "0", "the wrong prefix is not fixed for others");
    let right = start("lock:").await;
    serving(&right, true).await;
    let lease = right.client().acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(redis.command(&["GET", "lock:a"]).text(), lease.grant_id);
}

/// The scripts write the classic key, so it needs no round trip.
#[tokio::test]
async fn an_acquire_and_release_with_a_classic_key_runs_two_scripts() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let warm_up = server.client().acquire_lease(acquire_request("a", TTL)).await;
    server.client().release_lease(&warm_up).await;
    let before = redis.calls("evalsha");
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    server.client().release_lease(&lease).await;
    assert_eq!(redis.calls("evalsha") - before, 2);
}
