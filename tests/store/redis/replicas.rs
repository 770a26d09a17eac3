//! Several server replicas on one Redis.

use crate::{
    redis_server::Redis,
    server_on,
    stream::{Stream, attachment},
    support::{Lock, Server, acquire_request, assert_refused, only, until, waiting_request, within},
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome, keep_alive_response::Message as ServerMessage, watch_response::Kind,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(55);

async fn waiters(server: &Server, name: &str) -> u32 {
    server.client().lock_info(name).await.waiters
}

#[tokio::test]
async fn a_lease_granted_by_one_server_is_known_to_the_others() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let request = acquire_request("a", TTL);
    let lease = one.client().acquire_lease(request.clone()).await;
    let refused = two.client().acquire_response(acquire_request("a", TTL)).await;
    assert_eq!(refused.outcome(), Outcome::Contended);
    assert_eq!(only(refused.holders).unwrap().fencing_token, lease.fencing_token);
    let repeat = two.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request.clone() }).await;
    assert_eq!((&repeat.lease_id, repeat.fencing_token), (&lease.lease_id, lease.fencing_token));
    assert_eq!(two.client().release_lease(&lease).await, LeaseEnd::Released);
    assert_eq!(one.client().release_lease(&lease).await, LeaseEnd::Released);
    let next = one.client().acquire_lease(acquire_request("a", TTL)).await;
    assert!(next.fencing_token > lease.fencing_token);
    // Also after the end of the next lease, by request id and by lease id.
    assert_eq!(two.client().release_lease(&next).await, LeaseEnd::Released);
    for attempt in 1..4 {
        let late = v1::AcquireRequest { attempt, ..request.clone() };
        assert_refused(two.client().acquire(late).await, Code::Aborted, "REQUEST_ENDED");
    }
    assert_eq!(one.client().release_lease(&lease).await, LeaseEnd::Released);
}

/// The replication id of Redis changes under its connections when its first replica connects. To servers that connected
/// before and after it is the same Redis.
#[tokio::test]
async fn tokens_rise_when_the_replication_id_changes() {
    // No server lives when Redis is killed, so Redis has to keep what it has answered: with appendfsync everysec, it
    // answers before it has passed it on to the kernel if the disk is busy.
    let keeps_all = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut redis = Redis::start(&[&keeps_all[..], &["--enable-debug-command", "yes"]].concat());
    {
        let server = server_on(&redis).await;
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        server.client().release_lease(&lease).await;
    }
    redis.kill();
    redis.restart(true);
    let before = server_on(&redis).await;
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    let after = server_on(&redis).await;
    let mut highest = 0;
    for server in [&after, &before, &after, &before] {
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        assert!(lease.fencing_token > highest);
        highest = lease.fencing_token;
        server.client().release_lease(&lease).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_of_two_servers_are_served_in_order_with_few_scripts() {
    const WAITERS: u32 = 1_000;
    let redis = Redis::start(&[]);
    let servers = [server_on(&redis).await, server_on(&redis).await];
    let mut client = servers[0].client();
    let first = client.acquire_lease(acquire_request("a", TTL)).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let clients = [servers[0].client(), servers[1].client()];
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let (mut other, served) = (clients[usize::try_from(number % 2).unwrap()].clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let lease = other.acquire_lease(waiting_request("a", TTL, LONG)).await;
            served.lock().unwrap().push((lease.fencing_token, number));
            other.release_lease(&lease).await;
        }));
        until(|| async { waiters(&servers[0], "a").await == number + 1 }).await;
    }
    let before = redis.calls("evalsha");
    client.release_lease(&first).await;
    for task in tasks {
        within(task).await.unwrap();
    }
    let scripts = redis.calls("evalsha") - before;
    let mut by_token = served.lock().unwrap().clone();
    by_token.sort_unstable();
    assert_eq!(by_token.into_iter().map(|(_, number)| number).collect::<Vec<_>>(), (0..WAITERS).collect::<Vec<_>>());
    // A claim and a release each, at most; batches share scripts, and beats come three times a second.
    println!("{scripts} scripts for {WAITERS} hand-offs");
    assert!(scripts <= u64::from(WAITERS) * 3, "{scripts}");
}

/// The scripts of an idle server in a second, at most: a heartbeat has the empty batches of all partitions with it.
const IDLE_SCRIPTS: f64 = 3.0;

#[tokio::test]
async fn waiters_that_wait_cost_redis_nothing() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    let in_five_seconds = async || {
        let (before, since) = (redis.calls("evalsha"), Instant::now());
        tokio::time::sleep(Duration::from_secs(5)).await;
        (redis.calls("evalsha") - before, since.elapsed())
    };
    let (without, elapsed) = in_five_seconds().await;
    // One more where the first is at the very beginning.
    assert!(without as f64 <= IDLE_SCRIPTS * elapsed.as_secs_f64() + 1.0, "{without} scripts in {elapsed:?}");
    let client = server.client();
    let tasks: Vec<_> = (0..300)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.acquire(waiting_request("a", TTL, LONG)).await })
        })
        .collect();
    until(|| async { waiters(&server, "a").await == 300 }).await;
    let (with, _) = in_five_seconds().await;
    println!("{without} scripts in 5 s without waiters, {with} with them");
    // What is confirmed of the last ones, and a beat or two more.
    assert!(with <= without + 10, "{with} scripts in 5 s, {without} without waiters");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_waiters_of_a_dead_server_do_not_block_those_behind_them() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let lease = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut doomed = two.client();
    let lost = tokio::spawn(async move { doomed.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { waiters(&one, "a").await == 1 }).await;
    let mut other = one.client();
    let next = tokio::spawn(async move { other.acquire_response(waiting_request("a", TTL, LONG)).await });
    until(|| async { waiters(&one, "a").await == 2 }).await;
    // The server of the first waiter dies.
    two.task.abort();
    one.client().release_lease(&lease).await;
    let served = within(next).await.unwrap();
    assert_eq!(
        served.outcome(),
        Outcome::Acquired,
        "after the silence for which a replica is skipped, or a claim window"
    );
    lost.abort();
}

#[tokio::test]
async fn a_waiter_is_served_when_the_lease_of_the_holder_expires() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", Duration::from_millis(200))).await;
    let served = server.client().acquire_response(waiting_request("a", TTL, LONG)).await;
    assert_eq!((served.outcome(), served.previous_end()), (Outcome::Acquired, LeaseEnd::Expired));
}

#[tokio::test]
async fn a_retry_through_another_server_keeps_its_queue_position() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let lease = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, LONG);
    let (mut first, sent) = (one.client(), request.clone());
    let first = tokio::spawn(async move { first.acquire(sent).await });
    until(|| async { waiters(&one, "a").await == 1 }).await;
    let mut behind = one.client();
    let behind = tokio::spawn(async move { behind.acquire_response(waiting_request("a", TTL, LONG)).await });
    until(|| async { waiters(&one, "a").await == 2 }).await;
    let mut retry = two.client();
    let retry = tokio::spawn(async move { retry.acquire_response(v1::AcquireRequest { attempt: 2, ..request }).await });
    crate::support::assert_refused(within(first).await.unwrap(), tonic::Code::Aborted, "OVERTAKEN");
    one.client().release_lease(&lease).await;
    let retried = within(retry).await.unwrap().lease.unwrap();
    assert!(!behind.is_finished());
    two.client().release_lease(&retried).await;
    assert!(within(behind).await.unwrap().lease.unwrap().fencing_token > retried.fencing_token);
}

#[tokio::test]
async fn streams_are_notified_of_commands_through_other_servers() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let mut events = within(one.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let revoked = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let moved = one.client().acquire_lease(acquire_request("b", TTL)).await;
    let mut stream = Stream::open(one.client()).await;
    stream.attach(vec![attachment(1, &revoked), attachment(2, &moved)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    let mut elsewhere = Stream::open(two.client()).await;
    elsewhere.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(1, &moved) }]).await;
    assert!(matches!(elsewhere.next_but_beats(true).await, ServerMessage::Attached(_)));
    let ServerMessage::Detached(detached) = stream.next_but_beats(true).await else { panic!("not detached") };
    assert_eq!((detached.handle, detached.reason()), (2, v1::detached::Reason::AttachedElsewhere));
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: revoked.fencing_token, reason: "test".into() };
    two.admin().force_release(force).await.unwrap();
    let ServerMessage::Lost(lost) = stream.next_but_beats(true).await else { panic!("not lost") };
    assert_eq!((lost.handle, lost.end()), (1, LeaseEnd::Revoked));
    let seen = within(async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.kind() == Kind::Revoked {
                return event;
            }
        }
    })
    .await;
    assert_eq!((seen.lock_name.as_str(), seen.reason.as_str()), ("a", "test"));
}

#[tokio::test]
async fn streams_keep_leases_alive_for_many_ttls() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let ttl = Duration::from_secs(3);
    let mut stream = Stream::open(server.client()).await;
    let mut leases = Vec::new();
    for handle in 0..50 {
        let lease = server.client().acquire_lease(acquire_request(&format!("a/{handle}"), ttl)).await;
        stream.attach(vec![attachment(handle, &lease)]).await;
        leases.push(lease);
        // Renewals of the leases before it may come first.
        loop {
            match stream.next_but_beats(true).await {
                ServerMessage::Attached(_) => break,
                ServerMessage::Renewed(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let renewed = stream.answer_for(ttl * 3, |_| true).await;
    assert!(renewed >= 50 * 6, "{renewed}");
    for lease in leases {
        let current = server.client().holder(&lease.lock_name).await.unwrap();
        assert_eq!(current.fencing_token, lease.fencing_token);
    }
}
