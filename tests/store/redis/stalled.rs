//! A session whose client does not read must not delay hand-offs, neither of its own server nor of another.

use crate::{
    redis_server::Redis,
    server_on,
    session_stream::Session,
    support::{Lock, Server, acquire_request, until, waiting_request},
};
use fencepost::testing::domain::limits::CLAIM_WINDOW;
use fencepost_proto::v1::Lease;
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(55);
const CALLS: u64 = 5;
const LOCKS: [&str; 6] = ["a", "a", "a", "a", "a", "b"];

async fn waiters(server: &Server, lock: &str, count: u64) {
    until(async || u64::from(server.client().lock_info(lock).await.waiters) == count).await;
}

/// A session that waits for each of these locks and is not read.
async fn unread(server: &Server, locks: &[&str], wait: Duration) -> Session {
    Session::unread(server, locks.iter().map(|lock| waiting_request(lock, TTL, wait)).collect()).await
}

/// Two locks that are held. A session that is not read waits for them, and another session behind it.
struct Behind<'a> {
    server: &'a Server,
    session: Session,
    held: [Lease; 2],
    _unread: Session,
}

impl<'a> Behind<'a> {
    async fn new(server: &'a Server, others: &'a Server) -> Self {
        let mut client = others.client();
        let held = [
            client.acquire_lease(acquire_request("a", TTL)).await,
            client.acquire_lease(acquire_request("b", TTL)).await,
        ];
        let unread = unread(server, &LOCKS, WAIT).await;
        waiters(others, "a", CALLS).await;
        waiters(others, "b", 1).await;
        let session = Session::open(others.client()).await;
        for (number, lock) in (1..).zip(LOCKS) {
            session.acquire(number, waiting_request(lock, TTL, WAIT)).await;
        }
        waiters(others, "a", 2 * CALLS).await;
        waiters(others, "b", 2).await;
        Self { server: others, session, held, _unread: unread }
    }

    /// Serves all waiters of the lock `a` in less time than a claim window.
    async fn are_served(mut self) {
        let mut client = self.server.client();
        let [mut lease, first] = self.held;
        // The server may learn only from the first hand-off that the session is not read.
        client.release_lease(&first).await;
        self.session.granted_at_last(CALLS + 1).await;
        let start = Instant::now();
        for number in 1..=CALLS {
            client.release_lease(&lease).await;
            lease = self.session.granted_at_last(number).await;
        }
        assert!(start.elapsed() < CLAIM_WINDOW, "{:?} for {CALLS} hand-offs", start.elapsed());
        waiters(self.server, "a", 0).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_hand_offs_of_its_own_server() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    Behind::new(&server, &server).await.are_served().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_hand_offs_of_another_server() {
    let redis = Redis::start(&[]);
    let (server, others) = (server_on(&redis).await, server_on(&redis).await);
    Behind::new(&server, &others).await.are_served().await;
}

#[tokio::test]
async fn a_wait_times_out_even_if_its_client_does_not_read() {
    const SHORT: Duration = Duration::from_secs(4);
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    let start = Instant::now();
    let _unread = unread(&server, &["a"; 5], SHORT).await;
    waiters(&server, "a", 0).await;
    assert!(start.elapsed() < SHORT * 3, "{:?}", start.elapsed());
}
