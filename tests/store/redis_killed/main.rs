//! Server processes on one Redis that are killed, or stand still, at each step of a hand-off while others wait.
#![allow(clippy::unwrap_used)] // also in what the tests share

#[path = "../../support/binary.rs"]
mod binary;
#[path = "../../support/proxy.rs"]
mod proxy;
#[path = "../../support/redis.rs"]
mod redis_server;
mod replies;
#[path = "../../support/session_stream.rs"]
mod session_stream;
mod sessions;
#[path = "../../support/server.rs"]
mod support;

use fencepost_proto::v1::{self, LeaseEnd, acquire_response::Outcome, lock_service_client::LockServiceClient};
use nix::sys::signal::Signal;
use redis_server::Redis;
use std::time::Duration;
use support::{Lock, acquire_request, channel, only, until, waiting_request, within};
use tokio::{task::JoinHandle, time::Instant};
use tonic::{Response, Status, transport::Channel};

const TTL: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(120);
/// An offer lapses after 3 s, a server is skipped after 3 s of silence, and one that dies is replaced within 2.5 s in
/// what it led; the rest is for a busy machine.
const HELD_UP_MAX: Duration = Duration::from_secs(15);

type Waiter = JoinHandle<Result<Response<v1::AcquireResponse>, Status>>;

/// A server process.
struct Replica(binary::Server);

impl Replica {
    async fn start(redis: &Redis) -> Self {
        let replica = Self::start_on(&redis.url());
        until(|| async {
            replica.client().acquire(acquire_request("probe", Duration::from_millis(100))).await.is_ok()
        })
        .await;
        replica
    }

    fn start_on(url: &str) -> Self {
        Self(binary::Server::start_with(&["--store", url]))
    }

    fn client(&self) -> LockServiceClient<Channel> {
        let address = self.0.url.trim_start_matches("http://");
        LockServiceClient::new(channel(address.parse().unwrap()))
    }

    /// Has a call wait here for the lock "a", as the `number`th in line.
    async fn waiter(&self, number: u32) -> Waiter {
        self.waiter_of("a", number).await
    }

    async fn waiter_of(&self, lock: &str, number: u32) -> Waiter {
        let (mut client, request) = (self.client(), waiting_request(lock, TTL, LONG));
        let waiter = tokio::spawn(async move { client.acquire(request).await });
        until(|| async { self.client().lock_info(lock).await.waiters == number }).await;
        waiter
    }

    /// A lock that this server leads, once all have their shares.
    async fn leads(&self, redis: &Redis) -> String {
        // A server that was started gets its share after 2 s.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut number = 0;
        loop {
            let name = format!("led/{number}");
            if self.answers_alone(&name, redis).await && self.answers_alone(&name, redis).await {
                return name;
            }
            number += 1;
        }
    }

    /// Whether it asks no other server about a lock: it sends no message, nor does another.
    async fn answers_alone(&self, lock: &str, redis: &Redis) -> bool {
        let before = redis.calls("publish");
        self.client().lock_info(lock).await;
        redis.calls("publish") == before
    }

    fn kill(self) {
        self.0.process.signal(Signal::SIGKILL);
        self.0.process.ended().expect(-(Signal::SIGKILL as i32));
    }
}

async fn served(waiter: Waiter) -> v1::AcquireResponse {
    let served = within(waiter).await.unwrap().unwrap().into_inner();
    assert_eq!(served.outcome(), Outcome::Acquired);
    served
}

async fn served_lease(waiter: Waiter) -> v1::Lease {
    served(waiter).await.lease.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_with_waiters_holds_up_those_behind_them_for_seconds_only() {
    let redis = Redis::start(&[]);
    let (one, doomed, three) =
        (Replica::start(&redis).await, Replica::start(&redis).await, Replica::start(&redis).await);
    let first = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let lost = [doomed.waiter(1).await, doomed.waiter(2).await];
    let (next, last) = (three.waiter(3).await, one.waiter(4).await);
    doomed.kill();
    let freed = Instant::now();
    one.client().release_lease(&first).await;
    let lease = served_lease(next).await;
    assert!(freed.elapsed() < HELD_UP_MAX, "{:?}", freed.elapsed());
    assert!(!last.is_finished());
    three.client().release_lease(&lease).await;
    assert!(served_lease(last).await.fencing_token > lease.fencing_token);
    for waiter in lost {
        within(waiter).await.unwrap().unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_to_a_server_that_is_killed_lapses() {
    let redis = Redis::start(&[]);
    let (one, doomed) = (Replica::start(&redis).await, Replica::start(&redis).await);
    let lock = one.leads(&redis).await;
    let first = one.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let lost = doomed.waiter_of(&lock, 1).await;
    let next = one.waiter_of(&lock, 2).await;
    // It stands still, so it cannot claim; it was heard of lately, so the lock is offered to it.
    doomed.0.process.pause();
    one.client().release_lease(&first).await;
    let freed = Instant::now();
    let open = one.client().lock_info(&lock).await;
    assert_eq!((only(open.holders), open.waiters), (None, 2), "on offer: nobody's yet");
    doomed.kill();
    let lease = served(next).await;
    assert!(freed.elapsed() < HELD_UP_MAX, "{:?}", freed.elapsed());
    assert_eq!(lease.previous_end(), LeaseEnd::Released, "an offer leaves no trace");
    within(lost).await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_dies_with_its_server_frees_the_lock_after_its_ttl() {
    let redis = Redis::start(&[]);
    let (one, doomed) = (Replica::start(&redis).await, Replica::start(&redis).await);
    let first = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut client = doomed.client();
    let short = Duration::from_secs(4);
    let claimed = tokio::spawn(async move { client.acquire(waiting_request("a", short, LONG)).await });
    until(|| async { one.client().lock_info("a").await.waiters == 1 }).await;
    let next = one.waiter(2).await;
    one.client().release_lease(&first).await;
    let held = served_lease(claimed).await;
    doomed.kill();
    let lease = served(next).await;
    assert_eq!(lease.previous_end(), LeaseEnd::Expired);
    assert!(lease.lease.unwrap().fencing_token > held.fencing_token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_for_four_seconds_is_skipped_and_keeps_its_places() {
    let redis = Redis::start(&[]);
    let (one, still) = (Replica::start(&redis).await, Replica::start(&redis).await);
    let lock = one.leads(&redis).await;
    let first = one.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let skipped = still.waiter_of(&lock, 1).await;
    let (next, last) = (one.waiter_of(&lock, 2).await, one.waiter_of(&lock, 3).await);
    still.0.process.pause();
    let paused = Instant::now();
    one.client().release_lease(&first).await;
    let lease = served_lease(next).await;
    tokio::time::sleep_until(paused + Duration::from_secs(4)).await;
    still.0.process.signal(Signal::SIGCONT);
    // Its next beat puts its waiter in line again, at its old place.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!skipped.is_finished() && !last.is_finished());
    one.client().release_lease(&lease).await;
    let lease = served_lease(skipped).await;
    assert!(!last.is_finished());
    still.client().release_lease(&lease).await;
    assert!(served_lease(last).await.fencing_token > lease.fencing_token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_for_half_a_minute_loses_its_places_and_its_waiters_are_served_last() {
    let redis = Redis::start(&[]);
    let (one, still) = (Replica::start(&redis).await, Replica::start(&redis).await);
    let lock = one.leads(&redis).await;
    let first = one.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let lost = still.waiter_of(&lock, 1).await;
    let next = one.waiter_of(&lock, 2).await;
    still.0.process.pause();
    tokio::time::sleep(Duration::from_secs(31)).await;
    // Its places are given up.
    until(|| async { one.client().lock_info(&lock).await.waiters == 1 }).await;
    still.0.process.signal(Signal::SIGCONT);
    // It asks again for its calls that still wait.
    until(|| async { one.client().lock_info(&lock).await.waiters == 2 }).await;
    one.client().release_lease(&first).await;
    let lease = served_lease(next).await;
    assert!(!lost.is_finished());
    one.client().release_lease(&lease).await;
    assert!(served_lease(lost).await.fencing_token > lease.fencing_token);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_keep_one_line() {
    let redis = Redis::start(&[]);
    let servers = [Replica::start(&redis).await, Replica::start(&redis).await, Replica::start(&redis).await];
    let first = servers[0].client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiters = Vec::new();
    for number in 1..=30 {
        waiters.push(servers[usize::try_from(number).unwrap() % 3].waiter(number).await);
    }
    servers[1].client().release_lease(&first).await;
    let mut highest = first.fencing_token;
    for (number, waiter) in (1_usize..).zip(waiters) {
        let lease = served_lease(waiter).await;
        assert!(lease.fencing_token > highest, "number {number} was overtaken");
        highest = lease.fencing_token;
        // Given back by another server than the one that granted it.
        assert_eq!(servers[(number + 1) % 3].client().release_lease(&lease).await, LeaseEnd::Released);
    }
}
