//! Calls that are dropped: cancelled, reset, or past their deadline, and their retries.

use crate::support::{Lock, Server, channel, only, until, waiting_wish, wish, within};
use fencepost_proto::v1::{self, acquire_response::Outcome, lock_service_client::LockServiceClient};
use std::time::Duration;
use tokio::time::Instant;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tonic::Request;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);
/// How long a dropped call's place, or its lease, is kept, as the API promises.
const GRACE: Duration = Duration::from_secs(3);

async fn waiters(server: &Server, name: &str) -> u32 {
    server.client().look(name).await.waiters
}

/// Starts a call that waits, and returns when the server has queued it.
async fn queue(server: &Server, request: &v1::AcquireRequest) -> JoinHandle<v1::AcquireResponse> {
    let before = waiters(server, &request.lock_name).await;
    let (mut client, request) = (server.client(), request.clone());
    let name = request.lock_name.clone();
    let task = tokio::spawn(async move { client.acquire(request).await.unwrap().into_inner() });
    until(|| async { waiters(server, &name).await == before + 1 }).await;
    task
}

#[tokio::test]
async fn a_cancelled_waiter_is_skipped_and_its_retry_finds_its_old_place() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.take(wish("a", TTL)).await;
    let first = waiting_wish("a", TTL, LONG);
    queue(&server, &first).await.abort();
    let second = queue(&server, &waiting_wish("a", TTL, LONG)).await;
    let third = queue(&server, &waiting_wish("a", TTL, LONG)).await;
    // The retry comes back before the grace is over: it is served before those who came after its first attempt.
    let retry = v1::AcquireRequest { attempt: 2, ..first };
    let (mut other, again) = (server.client(), retry.clone());
    let retried = tokio::spawn(async move { other.ask(again).await });
    // It is bound when a repeat of the attempt before it is refused.
    until(|| async {
        let stale = v1::AcquireRequest { attempt: 1, ..retry.clone() };
        server.client().acquire(stale).await.is_err_and(|status| status.code() == tonic::Code::Aborted)
    })
    .await;
    client.give_back(&holder).await;
    let lease = within(retried).await.unwrap().lease.unwrap();
    assert!(!second.is_finished() && !third.is_finished());
    client.give_back(&lease).await;
    let lease = within(second).await.unwrap().lease.unwrap();
    client.give_back(&lease).await;
    assert_eq!(within(third).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test]
async fn a_cancelled_waiter_does_not_hold_up_those_behind_it() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.take(wish("a", TTL)).await;
    let cancelled = queue(&server, &waiting_wish("a", TTL, LONG)).await;
    let next = queue(&server, &waiting_wish("a", TTL, LONG)).await;
    cancelled.abort();
    client.give_back(&holder).await;
    let served = Instant::now();
    assert_eq!(within(next).await.unwrap().outcome(), Outcome::Acquired);
    assert!(served.elapsed() < GRACE, "nobody waits for the grace of a dropped call");
    until(|| async { waiters(&server, "a").await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_past_its_deadline_is_out_of_the_line() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.take(wish("a", TTL)).await;
    // A deadline so short that the call is dropped before, while or after its wait is ended in order.
    for micros in (0..4_000).step_by(97) {
        let mut request = Request::new(waiting_wish("a", TTL, LONG));
        request.set_timeout(Duration::from_micros(micros));
        let _ = within(client.acquire(request)).await;
    }
    // Whatever came of each, none is served before the one that is alive, and none is left after their grace.
    let mut other = server.client();
    let alive = tokio::spawn(async move { other.ask(waiting_wish("a", TTL, LONG)).await });
    // One at least: those whose deadline is over count as well, until their grace is over too.
    until(|| async { waiters(&server, "a").await >= 1 }).await;
    client.give_back(&holder).await;
    assert_eq!(within(alive).await.unwrap().outcome(), Outcome::Acquired);
    until(|| async { waiters(&server, "a").await == 0 }).await;
}

#[tokio::test]
async fn a_connection_that_is_reset_takes_its_waiters_out_of_the_line() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.take(wish("a", TTL)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (via, target) = (listener.local_addr().unwrap(), server.addr);
    let link = tokio::spawn(async move {
        let (mut inward, _) = listener.accept().await.unwrap();
        let mut outward = TcpStream::connect(target).await.unwrap();
        // Dropped with lingering off, both ends are reset instead of closed.
        socket2::SockRef::from(&outward).set_linger(Some(Duration::ZERO)).unwrap();
        socket2::SockRef::from(&inward).set_linger(Some(Duration::ZERO)).unwrap();
        let _ = copy_bidirectional(&mut inward, &mut outward).await;
    });
    let mut behind = LockServiceClient::new(channel(via));
    let lost = tokio::spawn(async move { behind.acquire(waiting_wish("a", TTL, LONG)).await });
    until(|| async { waiters(&server, "a").await == 1 }).await;
    let next = queue(&server, &waiting_wish("a", TTL, LONG)).await;
    link.abort();
    assert!(within(lost).await.unwrap().is_err());
    client.give_back(&holder).await;
    assert_eq!(within(next).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_races_its_own_dropped_attempt_gets_one_lease() {
    let server = Server::start().await;
    let mut client = server.client();
    for round in 0..300_u64 {
        let name = format!("race/{round}");
        let holder = client.take(wish(&name, TTL)).await;
        let request = waiting_wish(&name, TTL, LONG);
        let (mut other, first) = (client.clone(), request.clone());
        let dropped = tokio::spawn(async move { other.acquire(first).await });
        // The release, the cancellation and the retry meet at a different point in each round.
        let (mut releasing, giving) = (client.clone(), holder.clone());
        let release = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(round * 7 % 900)).await;
            releasing.give_back(&giving).await
        });
        tokio::time::sleep(Duration::from_micros(round * 13 % 1_100)).await;
        dropped.abort();
        let lease = client.take(v1::AcquireRequest { attempt: 2, ..request.clone() }).await;
        within(release).await.unwrap();
        let info = client.look(&name).await;
        assert_eq!(only(info.holders).unwrap().grant_id, lease.grant_id);
        assert_eq!(info.waiters, 0, "round {round}: the request is not also in line");
        let left: Duration =
            client.take(v1::AcquireRequest { attempt: 3, ..request }).await.ttl.unwrap().try_into().unwrap();
        assert!(left > GRACE, "round {round}: the dropped attempt did not cut the lease of its retry");
    }
}

#[tokio::test]
async fn a_newer_attempt_sends_the_older_call_home() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.take(wish("a", TTL)).await;
    let request = waiting_wish("a", TTL, LONG);
    let (mut other, first) = (client.clone(), request.clone());
    let older = tokio::spawn(async move { other.acquire(first).await });
    until(|| async { waiters(&server, "a").await == 1 }).await;
    let newer = v1::AcquireRequest { attempt: 2, ..request };
    let (mut other, second) = (client.clone(), newer);
    let newer = tokio::spawn(async move { other.ask(second).await });
    crate::support::assert_refused(within(older).await.unwrap(), tonic::Code::Aborted, "OVERTAKEN");
    assert_eq!(waiters(&server, "a").await, 1);
    client.give_back(&holder).await;
    assert_eq!(within(newer).await.unwrap().outcome(), Outcome::Acquired);
}
