//! Waiting calls: their queue positions, and the cleanup after dropped ones.

use crate::{
    led_by,
    proxy::Proxy,
    redis_server::Redis,
    server_on, serving,
    session_stream::Session,
    start_on_url,
    support::{Lock, Server, acquire_request, until, waiting_request, within},
};
use fencepost::testing::domain::limits::{CLAIM_WINDOW, DROP_GRACE};
use fencepost_proto::v1::session_response::Message as ServerMessage;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);
const LOCKS: usize = 8;

/// A session in which this request waits.
async fn waiting(server: &Server, request: &fencepost_proto::v1::AcquireRequest) -> Session {
    let mut session = Session::open(server.client()).await;
    session.acquire(1, request.clone()).await;
    let message = session.next_message().await;
    assert!(matches!(message, (1, ServerMessage::Waiting(_))), "{message:?}");
    session
}

/// Ends a session with another server than the one that leads the lock, which hears of that by a message and replies.
async fn drop_and_tell(session: Session, redis: &Redis) {
    let before = redis.calls("publish");
    drop(session);
    until(|| async { redis.calls("publish") >= before + 2 }).await;
}

/// A proxy repeats a call through a second server, and the repeat is dropped. The offer goes to the server of the
/// repeat, where nobody claims it. The other call must be served when it has lapsed. Found by the torture test.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_served_after_its_repeat_through_another_server_is_dropped() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let name = led_by(&one, &redis).await;
    for _ in 0..2 {
        let held = one.client().acquire_lease(acquire_request(&name, TTL)).await;
        let request = waiting_request(&name, TTL, TTL);
        let mut first = waiting(&one, &request).await;
        let repeat = waiting(&two, &request).await;
        drop_and_tell(repeat, &redis).await;
        let released = tokio::time::Instant::now();
        one.client().release_lease(&held).await;
        let lease = first.granted(1).await;
        assert!(lease.fencing_token > held.fencing_token);
        assert!(released.elapsed() < CLAIM_WINDOW * 2, "{:?}", released.elapsed());
        one.client().release_lease(&lease).await;
    }
}

/// A waiter whose call was dropped is skipped, and whoever is next has the lock at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_waiter_is_skipped() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let name = led_by(&one, &redis).await;
    for _ in 0..LOCKS {
        let held = one.client().acquire_lease(acquire_request(&name, TTL)).await;
        let dropped = waiting(&two, &waiting_request(&name, TTL, TTL)).await;
        let mut next = waiting(&one, &waiting_request(&name, TTL, TTL)).await;
        drop_and_tell(dropped, &redis).await;
        let released = tokio::time::Instant::now();
        one.client().release_lease(&held).await;
        let lease = next.granted(1).await;
        assert!(released.elapsed() < DROP_GRACE, "{:?}", released.elapsed());
        one.client().release_lease(&lease).await;
    }
}

/// Connections to Redis break with an acquire in flight. The client, or gRPC's own retry policy, repeats the call with
/// the same attempt through the same server. The cleanup of the first call is retried until Redis is back. It must not
/// cut short the lease of the second call, which was granted with its full TTL: the lock would have two holders.
#[tokio::test(flavor = "multi_thread")]
async fn the_cleanup_of_a_failed_call_does_not_cut_the_lease_of_its_repeat() {
    let redis = Redis::start(&[]);
    // The cleanup and the repeat race in each round.
    for round in 0..6 {
        let name = format!("lock {round}");
        let proxy = Proxy::dropping_replies_from("EVALSHA", redis.port).await;
        proxy.open();
        let server = start_on_url(proxy.url()).await;
        serving(&server, true).await;
        let request = acquire_request(&name, TTL);
        let (mut client, sent) = (server.client(), request.clone());
        proxy.drop_replies_from_next();
        let first = tokio::spawn(async move { client.acquire(sent).await });
        until(|| async { proxy.seen() > 0 }).await;
        proxy.break_off();
        let failed = within(first).await.unwrap().unwrap_err();
        assert_eq!(failed.code(), tonic::Code::Unavailable, "{failed}");
        proxy.open();
        let lease = within(async {
            loop {
                if let Ok(answer) = server.client().acquire(request.clone()).await {
                    break answer.into_inner().lease.unwrap();
                }
            }
        })
        .await;
        // Longer than all attempts of the cleanup.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let current = server.client().holder(&request.lock_name).await.unwrap();
        assert_eq!(current.fencing_token, lease.fencing_token);
        let left = Duration::try_from(current.expires_in.unwrap()).unwrap();
        assert!(left > TTL - Duration::from_secs(20), "round {round}: only {left:?} of the lease is left");
    }
}

/// The same attempt of a call that failed at one server, which a proxy sends through another server, must be granted
/// the lock and keep it. Found by the torture test.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_failed_at_one_server_is_served_by_another() {
    const SHORT: Duration = Duration::from_secs(8);
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    for number in 0..LOCKS / 2 {
        let request = acquire_request(&format!("a/{number}"), SHORT);
        redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let failed = one.client().acquire(request.clone()).await.unwrap_err();
        assert_eq!(failed.code(), tonic::Code::Unavailable, "{failed}");
        redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
        let lease = within(async {
            loop {
                if let Ok(answer) = two.client().acquire(request.clone()).await {
                    break answer.into_inner().lease.unwrap();
                }
            }
        })
        .await;
        // Longer than the lease of a dropped call lasts.
        tokio::time::sleep(DROP_GRACE + SHORT / 10).await;
        let current = two.client().holder(&request.lock_name).await;
        assert_eq!(current.map(|it| it.fencing_token), Some(lease.fencing_token));
    }
}

/// Two servers drain, one right after the other: where calls that waited through the first one stood is known to the
/// second one only, which leads some of the locks for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn places_are_kept_over_two_changes_of_the_leader() {
    let redis = Redis::start(&[]);
    let (mut one, mut two, three) = (server_on(&redis).await, server_on(&redis).await, server_on(&redis).await);
    let mut locks = Vec::new();
    for number in 0..2 * LOCKS {
        let name = format!("a/{number}");
        let held = three.client().acquire_lease(acquire_request(&name, TTL)).await;
        let request = waiting_request(&name, TTL, TTL);
        let first = waiting(&one, &request).await;
        let behind = waiting(&three, &waiting_request(&name, TTL, TTL)).await;
        locks.push((held, request, first, behind));
    }
    let end = |(held, request, first, behind)| {
        drop::<Session>(first);
        (held, request, behind)
    };
    let locks: Vec<_> = locks.into_iter().map(end).collect();
    for server in [&mut one, &mut two] {
        server.shut_down();
        within(&mut server.task).await.unwrap();
    }
    let mut repeated = Vec::new();
    for (held, mut request, behind) in locks {
        request.attempt += 1;
        repeated.push((held, waiting(&three, &request).await, behind));
    }
    for (held, mut first, mut behind) in repeated {
        three.client().release_lease(&held).await;
        let lease = first.granted(1).await;
        three.client().release_lease(&lease).await;
        assert!(behind.granted(1).await.fencing_token > lease.fencing_token);
    }
}

/// A proxy repeats a call through another server: both wait, and both get the lease.
#[tokio::test(flavor = "multi_thread")]
async fn all_calls_of_an_attempt_get_the_lease() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let name = led_by(&one, &redis).await;
    for servers in [[&one, &two], [&two, &one], [&one, &one], [&two, &two]] {
        let held = one.client().acquire_lease(acquire_request(&name, TTL)).await;
        let request = waiting_request(&name, TTL, TTL);
        let mut calls = Vec::new();
        for server in servers {
            calls.push(waiting(server, &request).await);
        }
        one.client().release_lease(&held).await;
        let mut leases = Vec::new();
        for mut call in calls {
            leases.push(call.granted(1).await);
        }
        assert_eq!(leases[0].lease_id, leases[1].lease_id);
        one.client().release_lease(&leases[0]).await;
    }
}
