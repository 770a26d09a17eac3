//! A session whose client does not read, with Redis: no hand-off waits for it, through its own server or another.

use crate::{
    redis_server::Redis,
    server_on,
    session_stream::Session,
    support::{Lock, Server, until, waiting_wish, wish},
};
use fencepost::domain::limits::CLAIM_WINDOW;
use fencepost_proto::v1::Lease;
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(55);
const CALLS: u64 = 5;
const LOCKS: [&str; 6] = ["a", "a", "a", "a", "a", "b"];

async fn waiters(server: &Server, lock: &str, count: u64) {
    until(async || u64::from(server.client().look(lock).await.waiters) == count).await;
}

/// A session that asks for each of these locks, and from which nothing is read.
async fn unread(server: &Server, locks: &[&str], wait: Duration) -> Session {
    Session::unread(server, locks.iter().map(|lock| waiting_wish(lock, TTL, wait)).collect()).await
}

/// Two hold a lock each, for which one waits that does not read, and others behind it.
struct Behind<'a> {
    server: &'a Server,
    session: Session,
    held: [Lease; 2],
    _unread: Session,
}

impl<'a> Behind<'a> {
    async fn new(server: &'a Server, others: &'a Server) -> Self {
        let mut client = others.client();
        let held = [client.take(wish("a", TTL)).await, client.take(wish("b", TTL)).await];
        let unread = unread(server, &LOCKS, WAIT).await;
        waiters(others, "a", CALLS).await;
        waiters(others, "b", 1).await;
        let session = Session::open(others.client()).await;
        for (number, lock) in (1..).zip(LOCKS) {
            session.acquire(number, waiting_wish(lock, TTL, WAIT)).await;
        }
        waiters(others, "a", 2 * CALLS).await;
        waiters(others, "b", 2).await;
        Self { server: others, session, held, _unread: unread }
    }

    /// All of them have the lock `a`, one after the other, in less time than an offer takes that lapses.
    async fn are_served(mut self) {
        let mut client = self.server.client();
        let [mut lease, first] = self.held;
        // It may not have been known yet that nobody reads. When this has been passed on, it is.
        client.give_back(&first).await;
        self.session.granted_at_last(CALLS + 1).await;
        let began = Instant::now();
        for number in 1..=CALLS {
            client.give_back(&lease).await;
            lease = self.session.granted_at_last(number).await;
        }
        assert!(began.elapsed() < CLAIM_WINDOW, "{:?} for {CALLS} hand-offs", began.elapsed());
        waiters(self.server, "a", 0).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_no_hand_off_of_its_own_server_up() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    Behind::new(&server, &server).await.are_served().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_no_hand_off_of_another_server_up() {
    let redis = Redis::start(&[]);
    let (server, others) = (server_on(&redis).await, server_on(&redis).await);
    Behind::new(&server, &others).await.are_served().await;
}

#[tokio::test]
async fn a_wait_ends_in_time_though_its_client_does_not_read() {
    const SHORT: Duration = Duration::from_secs(4);
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().take(wish("a", TTL)).await;
    let began = Instant::now();
    let _unread = unread(&server, &["a"; 5], SHORT).await;
    waiters(&server, "a", 0).await;
    assert!(began.elapsed() < SHORT * 3, "{:?}", began.elapsed());
}
