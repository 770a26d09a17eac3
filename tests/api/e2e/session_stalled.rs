//! A session whose client does not read, over real sockets: it delays no other client, and its own waits time out.

use crate::{
    session_stream::Session,
    support::{Lock, Server, acquire_request, until, waiting_request, within},
};
use fencepost::testing::domain::limits::CLAIM_WINDOW;
use fencepost_proto::v1::{acquire_response::Outcome, session_response::Message as ServerMessage};
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(55);
/// The calls of each session.
const CALLS: u64 = 5;

/// A session with this many waiting calls for the lock, which is not read.
async fn unread(server: &Server, calls: u64, wait: Duration) -> Session {
    Session::unread(server, (0..calls).map(|_| waiting_request("a", TTL, wait)).collect()).await
}

async fn waiters(server: &Server, count: u64) {
    until(async || u64::from(server.client().lock_info("a").await.waiters) == count).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_hand_offs() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let _unread = unread(&server, CALLS, WAIT).await;
    waiters(&server, CALLS).await;
    let mut behind = Session::open(server.client()).await;
    for number in 1..=CALLS {
        behind.acquire(number, waiting_request("a", TTL, WAIT)).await;
    }
    waiters(&server, 2 * CALLS).await;
    let start = Instant::now();
    for number in 1..=CALLS {
        client.release_lease(&lease).await;
        lease = behind.granted_at_last(number).await;
    }
    // A single offer that lapses takes longer.
    assert!(start.elapsed() < CLAIM_WINDOW, "{:?} for {CALLS} hand-offs", start.elapsed());
    waiters(&server, 0).await;
}

#[tokio::test]
async fn a_wait_times_out_even_if_its_client_does_not_read() {
    const SHORT: Duration = Duration::from_secs(4);
    let server = Server::start().await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    let start = Instant::now();
    let mut unread = unread(&server, CALLS, SHORT).await;
    waiters(&server, 0).await;
    assert!((SHORT..SHORT * 3).contains(&start.elapsed()), "{:?}", start.elapsed());
    let mut ended = 0;
    while ended < CALLS {
        match unread.answer().await {
            (1..=CALLS, ServerMessage::Acquire(answer)) => {
                assert_eq!(answer.outcome(), Outcome::TimedOut);
                ended += 1;
            }
            (1_001 | 1_002, ServerMessage::Acquire(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_drain_ends_even_if_a_client_does_not_read() {
    const DRAIN: Duration = Duration::from_secs(2);
    let mut server = Server::start_with(|config| config.drain_timeout = DRAIN).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    let _unread = unread(&server, CALLS, WAIT).await;
    waiters(&server, CALLS).await;
    let start = Instant::now();
    server.shut_down();
    within(&mut server.task).await.unwrap();
    assert!(start.elapsed() < DRAIN * 3, "{:?}", start.elapsed());
}
