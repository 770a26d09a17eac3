//! Waiting for a lock.

use crate::support::{Lock, Server, acquire_request, assert_refused, only, until, waiting_request, within};
use fencepost_proto::v1::{LeaseEnd, acquire_response::Outcome};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Code, Request};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

async fn waiters(server: &Server, name: &str) -> u32 {
    server.client().lock_info(name).await.waiters
}

#[tokio::test]
async fn a_waiter_is_served_when_the_lock_is_released() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut other = server.client();
    let waiter = tokio::spawn(async move { other.acquire_response(waiting_request("a", TTL, LONG)).await });
    until(|| async { waiters(&server, "a").await == 1 }).await;
    let waited = Duration::from_millis(50);
    tokio::time::sleep(waited).await;
    client.release_lease(&lease).await;
    let served = within(waiter).await.unwrap();
    assert_eq!((served.outcome(), served.previous_end()), (Outcome::Acquired, LeaseEnd::Released));
    let held_for: Duration = served.held_for.unwrap().try_into().unwrap();
    assert!(held_for >= waited, "held_for includes the wait, so that validity counts from the grant: {held_for:?}");
    assert!(served.lease.unwrap().fencing_token > lease.fencing_token);
}

#[tokio::test]
async fn a_waiter_is_served_when_the_lease_of_the_holder_expires() {
    let server = Server::start().await;
    let mut client = server.client();
    client.acquire_lease(acquire_request("a", Duration::from_millis(100))).await;
    let served = client.acquire_response(waiting_request("a", TTL, LONG)).await;
    assert_eq!((served.outcome(), served.previous_end()), (Outcome::Acquired, LeaseEnd::Expired));
}

#[tokio::test]
async fn a_wait_times_out_and_leaves_the_queue() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let wait = Duration::from_millis(80);
    let start = Instant::now();
    let request = waiting_request("a", TTL, wait);
    let answer = client.acquire_response(request.clone()).await;
    assert!(start.elapsed() >= wait);
    assert_eq!((answer.outcome(), answer.waiters), (Outcome::TimedOut, 0));
    assert_eq!(only(answer.holders).unwrap().fencing_token, lease.fencing_token);
    client.release_lease(&lease).await;
    assert_eq!(
        client.acquire_response(request).await.outcome(),
        Outcome::TimedOut,
        "a late duplicate is not granted the lock"
    );
    assert_eq!(client.holder("a").await, None);
}

#[tokio::test]
async fn a_wait_times_out_before_the_deadline_of_its_call() {
    let server = Server::start().await;
    let mut client = server.client();
    client.acquire_lease(acquire_request("a", TTL)).await;
    for _ in 0..20 {
        let mut request = Request::new(waiting_request("a", TTL, LONG));
        request.set_timeout(Duration::from_millis(300));
        let answer = within(client.acquire(request)).await;
        // On a busy machine the answer may miss the deadline, and the call is dropped.
        match answer {
            Ok(answer) => {
                assert_eq!(answer.into_inner().outcome(), Outcome::TimedOut);
                return;
            }
            Err(status) => assert!(matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded), "{status:?}"),
        }
    }
    panic!("none of twenty waits was answered before its deadline");
}

#[tokio::test]
async fn a_thousand_waiters_on_one_lock_are_served_in_order() {
    const WAITERS: u32 = 1_000;
    let server = Server::start().await;
    let mut client = server.client();
    let first = client.acquire_lease(acquire_request("a", TTL)).await;
    let served = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        let (mut other, served) = (client.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let lease = other.acquire_lease(waiting_request("a", TTL, LONG)).await;
            served.lock().unwrap().push((lease.fencing_token, number));
            other.release_lease(&lease).await;
        }));
        until(|| async { waiters(&server, "a").await == number + 1 }).await;
    }
    client.release_lease(&first).await;
    for task in tasks {
        within(task).await.unwrap();
    }
    let mut by_token = served.lock().unwrap().clone();
    by_token.sort_unstable();
    let order: Vec<_> = by_token.into_iter().map(|(_, number)| number).collect();
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>());
}

#[tokio::test]
async fn too_many_waiters_are_refused_with_a_retry_delay() {
    let server = Server::start_with(|config| {
        config.limits.waiters_per_lock = 2;
        config.limits.waiters_per_server = 3;
    })
    .await;
    let mut client = server.client();
    client.acquire_lease(acquire_request("a", TTL)).await;
    client.acquire_lease(acquire_request("b", TTL)).await;
    let mut tasks = Vec::new();
    for (name, count) in [("a", 1), ("a", 2), ("b", 1)] {
        if (name, count) == ("b", 1) {
            let full = client.acquire(waiting_request("a", TTL, LONG)).await;
            let status = assert_refused(full, Code::ResourceExhausted, "QUEUE_FULL");
            assert!(status.get_details_retry_info().unwrap().retry_delay.unwrap() > Duration::ZERO);
        }
        let mut other = client.clone();
        tasks.push(tokio::spawn(async move { other.acquire(waiting_request(name, TTL, LONG)).await }));
        until(|| async { waiters(&server, name).await == count }).await;
    }
    let full = client.acquire(waiting_request("b", TTL, LONG)).await;
    assert_refused(full, Code::ResourceExhausted, "SERVER_FULL");
    assert_eq!(
        client.acquire_response(acquire_request("b", TTL)).await.outcome(),
        Outcome::Contended,
        "a request that does not wait is answered"
    );
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}
