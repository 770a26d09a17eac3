//! The most holders that one lock can have: the next one waits, or is told how many there are. Over the API, on a
//! session, and on the command line.

use crate::{
    binary::{Process, fencepost},
    session_stream::Session,
    support::{Lock as _, Server, acquire_request, span, within},
};
use fencepost::testing::domain::limits::HOLDERS_MAX;
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, Lease, LockMode, acquire_response::Outcome,
    session_response::Message as ServerMessage,
};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(600);
const WAIT: Duration = Duration::from_secs(60);
/// Operations in flight at a time, so that the client reads what it asked for.
const AT_ONCE: usize = 500;

fn reader() -> AcquireRequest {
    AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request("a", TTL) }
}

/// One permit, of more than there can be holders.
fn permit() -> AcquireRequest {
    let (mode, permit_limit) = (LockMode::Semaphore.into(), 1_000_000);
    AcquireRequest { mode, permit_limit, ..acquire_request("a", TTL) }
}

/// Acquires the lock as often as it can be held. The operations, and so the handles, are numbered from 1 on.
async fn fill(session: &mut Session, request: fn() -> AcquireRequest) -> Vec<Lease> {
    let mut leases = Vec::with_capacity(HOLDERS_MAX);
    while leases.len() < HOLDERS_MAX {
        let first = leases.len() as u64 + 1;
        for number in first..first + AT_ONCE as u64 {
            session.acquire(number, request()).await;
        }
        for _ in 0..AT_ONCE {
            match session.answer().await {
                (_, ServerMessage::Acquire(answer)) if answer.outcome() == Outcome::Acquired => {
                    leases.push(answer.lease.unwrap());
                }
                other => panic!("not granted: {other:?}"),
            }
        }
    }
    leases
}

#[track_caller]
fn assert_full(answer: &AcquireResponse, outcome: Outcome) {
    assert_eq!((answer.outcome(), answer.holders.len()), (outcome, 8), "{answer:?}");
    assert_eq!(answer.holder_count as usize, HOLDERS_MAX);
}

async fn one_more_waits_or_is_told_how_many_there_are(request: fn() -> AcquireRequest, options: &[&str]) {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let leases = fill(&mut session, request).await;
    let next = HOLDERS_MAX as u64 + 1;
    assert_full(&server.client().acquire_response(request()).await, Outcome::Contended);
    session.acquire(next, request()).await;
    let (_, ServerMessage::Acquire(answer)) = session.answer().await else { panic!("no answer to an acquire") };
    assert_full(&answer, Outcome::Contended);
    let short = AcquireRequest { wait_timeout: span(Duration::from_millis(50)), ..request() };
    assert_full(&server.client().acquire_response(short).await, Outcome::TimedOut);

    let url = format!("http://{}", server.addr);
    let words = [&["acquire", "a", "--server", &url], options].concat();
    let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
    let run = move || Process::start(&mut fencepost(&words.iter().map(String::as_str).collect::<Vec<_>>())).ended();
    let refused = tokio::task::spawn_blocking(run).await.unwrap().expect(75);
    refused.says(&format!(" and {} more", HOLDERS_MAX - 8));

    // It waits until somebody leaves.
    let mut waiting = Session::open(server.client()).await;
    waiting.acquire(1, AcquireRequest { wait_timeout: span(WAIT), ..request() }).await;
    assert!(matches!(waiting.next_message().await, (1, ServerMessage::Waiting(_))));
    within(server.client().release_lease(&leases[77])).await;
    waiting.granted(1).await;
    assert_eq!(server.client().lock_info("a").await.holder_count as usize, HOLDERS_MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reader_more_than_a_lock_can_have_waits_or_is_told_how_many_there_are() {
    one_more_waits_or_is_told_how_many_there_are(reader, &["--shared"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_permit_more_than_a_lock_can_have_holders_waits_or_is_told_how_many_there_are() {
    one_more_waits_or_is_told_how_many_there_are(permit, &["--limit", "1000000"]).await;
}
