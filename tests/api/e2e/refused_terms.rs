//! Requests for a lock that do not go together: of one id, of one semaphore, of two modes. Each is refused by the unary
//! call and on a session.

use crate::{
    session_stream::Session,
    support::{Lock as _, Server, acquire_request, assert_bad_field, assert_refused, span, waiting_request, within},
};
use fencepost_proto::v1::{
    AcquireRequest, LockMode, acquire_response::Outcome, session_response::Message as ServerMessage,
};
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(60);

fn shared(name: &str) -> AcquireRequest {
    AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request(name, TTL) }
}

/// Permits of a limit of this version.
fn permits(name: &str, permits: u32, (permit_limit, permit_limit_version): (u32, u64)) -> AcquireRequest {
    let mode = LockMode::Semaphore.into();
    AcquireRequest { mode, permits, permit_limit, permit_limit_version, ..acquire_request(name, TTL) }
}

/// What the server says of a request by the unary call and on a session, which continues.
async fn refusals(server: &Server, session: &mut Session, request: &AcquireRequest) -> [Status; 2] {
    let unary = within(server.client().acquire(request.clone())).await.unwrap_err();
    session.acquire(1, request.clone()).await;
    [unary, session.failed(1).await]
}

async fn assert_refused_by_both(server: &Server, session: &mut Session, request: &AcquireRequest, reason: &str) {
    for refusal in refusals(server, session, request).await {
        assert_refused(Err::<(), _>(refusal), Code::FailedPrecondition, reason);
    }
}

/// The limit in force that a refusal tells: in its details, and in its text.
#[track_caller]
fn assert_in_force(refusal: Status, limit: &str, version: &str) {
    let refusal = assert_refused(Err::<(), _>(refusal), Code::FailedPrecondition, "PERMIT_LIMIT_MISMATCH");
    let told = refusal.get_details_error_info().unwrap().metadata;
    assert_eq!((told["permit_limit"].as_str(), told["permit_limit_version"].as_str()), (limit, version));
    assert!(refusal.message().starts_with(&format!("limit {limit} of version {version} is in force")), "{refusal}");
}

/// The request with one of its terms changed.
fn with_other_terms(request: &AcquireRequest) -> Vec<(&'static str, AcquireRequest)> {
    let request = || AcquireRequest { attempt: 9, ..request.clone() };
    let longer = span(2 * TTL);
    vec![
        ("mode", AcquireRequest { permits: 0, permit_limit: 0, permit_limit_version: 0, ..shared_of(request()) }),
        ("permits", AcquireRequest { permits: 2, ..request() }),
        ("limit", AcquireRequest { permit_limit: 5, ..request() }),
        ("version", AcquireRequest { permit_limit_version: 8, ..request() }),
        ("min_hold", AcquireRequest { min_hold: longer, ..request() }),
        ("lock_delay", AcquireRequest { lock_delay: longer, ..request() }),
        ("max_hold", AcquireRequest { max_hold: longer, ..request() }),
        ("owner", AcquireRequest { owner: "job-9".into(), ..request() }),
        ("no owner", AcquireRequest { owner: String::new(), ..request() }),
        ("max_waiters", AcquireRequest { max_waiters: 3, ..request() }),
        ("tell_when_wanted", AcquireRequest { tell_when_wanted: true, ..request() }),
        ("holder", AcquireRequest { holder: "other".into(), ..request() }),
        ("ttl", AcquireRequest { ttl: longer, ..request() }),
    ]
}

fn shared_of(request: AcquireRequest) -> AcquireRequest {
    AcquireRequest { mode: LockMode::Shared.into(), ..request }
}

#[tokio::test]
async fn a_request_id_is_refused_with_any_other_term() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let held = AcquireRequest { owner: "job-7".into(), ..permits("a", 1, (4, 7)) };
    let lease = server.client().acquire_lease(held.clone()).await;
    // The same of one that waits, behind a writer.
    server.client().acquire_lease(acquire_request("b", TTL)).await;
    let waits = AcquireRequest { owner: "job-7".into(), wait_timeout: span(WAIT), ..permits("b", 1, (4, 7)) };
    let mut waiting = Session::open(server.client()).await;
    waiting.acquire(1, waits.clone()).await;
    assert!(matches!(waiting.next_message().await, (1, ServerMessage::Waiting(_))));
    for request in [&held, &waits] {
        for (term, other) in with_other_terms(request) {
            for refusal in refusals(&server, &mut session, &other).await {
                assert!(refusal.message().ends_with("use a new one for a new request"), "{term}: {refusal}");
                assert_bad_field(Err::<(), _>(refusal), "request_id");
            }
        }
    }
    let again = server.client().acquire_lease(AcquireRequest { attempt: 2, ..held }).await;
    assert_eq!((again.lease_id, again.slot), (lease.lease_id, lease.slot), "nothing was changed");
    assert_eq!(server.client().lock_info("b").await.waiters, 1);
}

#[tokio::test]
async fn another_limit_of_the_same_version_is_refused_and_so_is_more_than_the_limit_in_force() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    server.client().acquire_lease(permits("a", 1, (4, 1))).await;
    for other in [
        permits("a", 1, (5, 1)),
        permits("a", 1, (3, 1)),
        // Within its own limit, which is of a lower version.
        permits("a", 5, (9, 0)),
        AcquireRequest { wait_timeout: span(WAIT), ..permits("a", 5, (9, 0)) },
    ] {
        for refusal in refusals(&server, &mut session, &other).await {
            assert_in_force(refusal, "4", "1");
        }
    }
    let held = server.client().lock_info("a").await;
    assert_eq!((held.holder_count, held.waiters), (1, 0));
    session.acquire_lease(1, permits("a", 3, (9, 0))).await;
}

#[tokio::test]
async fn a_waiter_that_asks_for_more_than_a_lower_limit_is_told_so() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(permits("a", 4, (4, 1))).await;
    let mut session = Session::open(server.client()).await;
    session.acquire(1, AcquireRequest { wait_timeout: span(WAIT), ..permits("a", 3, (4, 1)) }).await;
    assert!(matches!(session.next_message().await, (1, ServerMessage::Waiting(_))));
    let mut unary = server.client();
    let waits = AcquireRequest { wait_timeout: span(WAIT), ..permits("a", 4, (4, 1)) };
    let waits = tokio::spawn(async move { unary.acquire(waits).await });
    crate::support::until(|| async { server.client().lock_info("a").await.waiters == 2 }).await;
    assert_eq!(client.acquire_response(permits("a", 1, (2, 2))).await.outcome(), Outcome::Contended);
    client.release_lease(&lease).await;
    assert_in_force(session.failed(1).await, "2", "2");
    assert_in_force(within(waits).await.unwrap().unwrap_err(), "2", "2");
}

#[tokio::test]
async fn readers_and_a_semaphore_exclude_each_other() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let (mut client, reason) = (server.client(), "MODE_MISMATCH");
    let semaphore = |name| permits(name, 1, (4, 0));
    client.acquire_lease(semaphore("held")).await;
    client.acquire_lease(shared("read")).await;
    for waits in [false, true] {
        let wait_timeout = span(if waits { WAIT } else { Duration::ZERO });
        for request in [shared("held"), semaphore("read")] {
            let request = AcquireRequest { wait_timeout, ..request };
            assert_refused_by_both(&server, &mut session, &request, reason).await;
        }
    }
    // It is in use as what is waited for, too.
    client.acquire_lease(acquire_request("written", TTL)).await;
    let mut waiting = Session::open(server.client()).await;
    waiting.acquire(1, AcquireRequest { mode: LockMode::Shared.into(), ..waiting_request("written", TTL, WAIT) }).await;
    assert!(matches!(waiting.next_message().await, (1, ServerMessage::Waiting(_))));
    assert_refused_by_both(&server, &mut session, &semaphore("written"), reason).await;
    for name in ["held", "read", "written"] {
        assert_eq!(client.lock_info(name).await.holder_count, 1, "{name}");
    }
}
