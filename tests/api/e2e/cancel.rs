//! Dropped calls (cancelled, reset, or past their deadline), and their retries.

use crate::support::{Lock, Server, acquire_request, channel, only, until, waiting_request, within};
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
/// How long the queue position or the lease of a dropped call is kept, according to the API.
const GRACE: Duration = Duration::from_secs(3);

async fn waiters(server: &Server, name: &str) -> u32 {
    server.client().lock_info(name).await.waiters
}

/// Starts a waiting call, and returns when the server has queued it.
async fn queue(server: &Server, request: &v1::AcquireRequest) -> JoinHandle<v1::AcquireResponse> {
    let before = waiters(server, &request.lock_name).await;
    let (mut client, request) = (server.client(), request.clone());
    let name = request.lock_name.clone();
    let task = tokio::spawn(async move { client.acquire(request).await.unwrap().into_inner() });
    until(|| async { waiters(server, &name).await == before + 1 }).await;
    task
}

#[tokio::test]
async fn the_retry_of_a_cancelled_waiter_keeps_its_queue_position() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    let first = waiting_request("a", TTL, LONG);
    queue(&server, &first).await.abort();
    let second = queue(&server, &waiting_request("a", TTL, LONG)).await;
    let third = queue(&server, &waiting_request("a", TTL, LONG)).await;
    // The retry arrives within the grace period, so it is served before the later waiters.
    let retry = v1::AcquireRequest { attempt: 2, ..first };
    let (mut other, again) = (server.client(), retry.clone());
    let retried = tokio::spawn(async move { other.acquire_response(again).await });
    // The retry is bound once a repeat of attempt 1 is refused.
    until(|| async {
        let stale = v1::AcquireRequest { attempt: 1, ..retry.clone() };
        server.client().acquire(stale).await.is_err_and(|status| status.code() == tonic::Code::Aborted)
    })
    .await;
    client.release_lease(&holder).await;
    let lease = within(retried).await.unwrap().lease.unwrap();
    assert!(!second.is_finished() && !third.is_finished());
    client.release_lease(&lease).await;
    let lease = within(second).await.unwrap().lease.unwrap();
    client.release_lease(&lease).await;
    assert_eq!(within(third).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test]
async fn a_cancelled_waiter_does_not_delay_those_behind_it() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    let cancelled = queue(&server, &waiting_request("a", TTL, LONG)).await;
    let next = queue(&server, &waiting_request("a", TTL, LONG)).await;
    cancelled.abort();
    client.release_lease(&holder).await;
    let released = Instant::now();
    assert_eq!(within(next).await.unwrap().outcome(), Outcome::Acquired);
    assert!(released.elapsed() < GRACE, "the next waiter does not wait for the grace period");
    until(|| async { waiters(&server, "a").await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_past_its_deadline_leaves_the_queue() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    // Deadlines so short that the call is dropped before, during or after its timeout.
    for micros in (0..4_000).step_by(97) {
        let mut request = Request::new(waiting_request("a", TTL, LONG));
        request.set_timeout(Duration::from_micros(micros));
        let _ = within(client.acquire(request)).await;
    }
    // None of them is served before a live call, and none is left after the grace period.
    let mut other = server.client();
    let live = tokio::spawn(async move { other.acquire_response(waiting_request("a", TTL, LONG)).await });
    // Calls past their deadline count as well during the grace period.
    until(|| async { waiters(&server, "a").await >= 1 }).await;
    client.release_lease(&holder).await;
    assert_eq!(within(live).await.unwrap().outcome(), Outcome::Acquired);
    until(|| async { waiters(&server, "a").await == 0 }).await;
}

#[tokio::test]
async fn the_waiters_of_a_connection_that_is_reset_leave_the_queue() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (via, target) = (listener.local_addr().unwrap(), server.addr);
    let link = tokio::spawn(async move {
        let (mut inward, _) = listener.accept().await.unwrap();
        let mut outward = TcpStream::connect(target).await.unwrap();
        // With SO_LINGER 0, both ends are reset when dropped.
        socket2::SockRef::from(&outward).set_linger(Some(Duration::ZERO)).unwrap();
        socket2::SockRef::from(&inward).set_linger(Some(Duration::ZERO)).unwrap();
        let _ = copy_bidirectional(&mut inward, &mut outward).await;
    });
    let mut behind = LockServiceClient::new(channel(via));
    let lost = tokio::spawn(async move { behind.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { waiters(&server, "a").await == 1 }).await;
    let next = queue(&server, &waiting_request("a", TTL, LONG)).await;
    link.abort();
    assert!(within(lost).await.unwrap().is_err());
    client.release_lease(&holder).await;
    assert_eq!(within(next).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_races_its_own_dropped_attempt_is_granted_one_lease() {
    let server = Server::start().await;
    let mut client = server.client();
    for round in 0..300_u64 {
        let name = format!("race/{round}");
        let holder = client.acquire_lease(acquire_request(&name, TTL)).await;
        let request = waiting_request(&name, TTL, LONG);
        let (mut other, first) = (client.clone(), request.clone());
        let dropped = tokio::spawn(async move { other.acquire(first).await });
        // The release, the cancellation and the retry interleave differently in each round.
        let (mut releasing, released) = (client.clone(), holder.clone());
        let release = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(round * 7 % 900)).await;
            releasing.release_lease(&released).await
        });
        tokio::time::sleep(Duration::from_micros(round * 13 % 1_100)).await;
        dropped.abort();
        let lease = client.acquire_lease(v1::AcquireRequest { attempt: 2, ..request.clone() }).await;
        within(release).await.unwrap();
        let info = client.lock_info(&name).await;
        assert_eq!(only(info.holders).unwrap().grant_id, lease.grant_id);
        assert_eq!(info.waiters, 0, "round {round}: the request is not queued as well");
        let left: Duration =
            client.acquire_lease(v1::AcquireRequest { attempt: 3, ..request }).await.ttl.unwrap().try_into().unwrap();
        assert!(left > GRACE, "round {round}: the lease of the retry is not cut short");
    }
}

#[tokio::test]
async fn a_newer_attempt_overtakes_the_older_call() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, LONG);
    let (mut other, first) = (client.clone(), request.clone());
    let older = tokio::spawn(async move { other.acquire(first).await });
    until(|| async { waiters(&server, "a").await == 1 }).await;
    let newer = v1::AcquireRequest { attempt: 2, ..request };
    let (mut other, second) = (client.clone(), newer);
    let newer = tokio::spawn(async move { other.acquire_response(second).await });
    crate::support::assert_refused(within(older).await.unwrap(), tonic::Code::Aborted, "OVERTAKEN");
    assert_eq!(waiters(&server, "a").await, 1);
    client.release_lease(&holder).await;
    assert_eq!(within(newer).await.unwrap().outcome(), Outcome::Acquired);
}
