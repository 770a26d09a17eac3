//! Sessions of several servers on one Redis.

use crate::{
    redis_server::Redis,
    server_on,
    session_stream::Session,
    support::{Lock, Server, acquire_request, waiting_request, within},
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome, renew_response::Outcome as RenewOutcome,
    session_request::Message as ClientMessage, session_response::Message as ServerMessage,
};
use std::{collections::HashMap, time::Duration};
use tokio::time::{Instant, timeout};
use tonic::Code;

/// Long enough that no renewal happens within [`SOON`].
const TTL: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(55);
/// A few beats, and slack for a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// The queue position that the session receives for an operation.
async fn position(session: &mut Session, operation: u64) -> u32 {
    match timeout(SOON, session.next_message()).await.expect("a message") {
        (waiting, ServerMessage::Waiting(position)) if waiting == operation => position.ahead,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiter_moves_up_and_is_served_when_the_lock_is_released_through_another_server() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let (mut here, mut there) = (Session::open(one.client()).await, Session::open(two.client()).await);
    let first = there.acquire_lease(1, acquire_request("a", TTL)).await;
    there.acquire(2, waiting_request("a", TTL, LONG)).await;
    assert_eq!(position(&mut there, 2).await, 0);
    here.acquire(1, waiting_request("a", TTL, LONG)).await;
    assert_eq!(position(&mut here, 1).await, 1);
    there.release(3, &first).await;
    let second = released_and_granted(&mut there).await;
    assert_eq!(position(&mut here, 1).await, 0, "reported with one of the next beats");
    there.release(4, &second).await;
    let released = Instant::now();
    let third = here.granted(1).await;
    assert!(third.fencing_token > second.fencing_token && second.fencing_token > first.fencing_token);
    assert!(released.elapsed() < SOON, "{:?}", released.elapsed());
}

/// Waits for the release of one operation and the grant of another, in any order.
async fn released_and_granted(session: &mut Session) -> v1::Lease {
    let (mut released, mut granted) = (false, None);
    loop {
        match session.answer().await {
            (_, ServerMessage::Release(answer)) => released = answer.end() == LeaseEnd::Released,
            (_, ServerMessage::Acquire(answer)) => granted = answer.lease,
            other => panic!("{other:?}"),
        }
        if let Some(lease) = granted.take_if(|_| released) {
            return lease;
        }
    }
}

async fn revoke(server: &Server, lease: &v1::Lease) {
    let (lock_name, expected_token) = (lease.lock_name.clone(), lease.fencing_token);
    let force = v1::ForceReleaseRequest { lock_name, expected_token, reason: "a test".into() };
    within(server.admin().force_release(force)).await.unwrap();
}

#[tokio::test]
async fn a_session_is_notified_if_its_lease_is_released_through_another_server() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let mut session = Session::open(one.client()).await;
    let lease = session.acquire_lease(7, acquire_request("a", TTL)).await;
    assert_eq!(two.client().release_lease(&lease).await, LeaseEnd::Released);
    match timeout(SOON, session.next_message()).await.expect("a message") {
        (0, ServerMessage::Lost(lost)) => assert_eq!((lost.handle, lost.end()), (7, LeaseEnd::Released)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn leases_that_a_session_acquires_are_attached_by_their_grant() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let mut session = Session::open(one.client()).await;
    // A lease that is granted at once, and one after a wait.
    let free = session.acquire_lease(1, acquire_request("a", TTL)).await;
    let held = two.client().acquire_lease(acquire_request("b", TTL)).await;
    session.acquire(2, waiting_request("b", TTL, LONG)).await;
    assert_eq!(position(&mut session, 2).await, 0);
    two.client().release_lease(&held).await;
    let queued = session.granted(2).await;
    for (handle, lease) in [(1, free), (2, queued)] {
        revoke(&two, &lease).await;
        let message = timeout(SOON, session.next_message()).await.expect("a notification before the next renewal");
        let (0, ServerMessage::Lost(lost)) = message else { panic!("{message:?}") };
        assert_eq!((lost.handle, lost.end()), (handle, LeaseEnd::Revoked));
    }
}

/// An operation of the test below. Each acquire is followed by a renewal and a release.
enum Step {
    Acquire(v1::AcquireRequest),
    Renew(v1::Lease),
    Release(v1::Lease),
}

async fn begin(session: &Session, operation: u64, step: &Step) {
    match step {
        Step::Acquire(request) => session.acquire(operation, request.clone()).await,
        Step::Release(lease) => session.release(operation, lease).await,
        Step::Renew(lease) => {
            let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
            session.send(operation, ClientMessage::Renew(v1::RenewRequest { lock_name, lease_id, ttl: None })).await;
        }
    }
}

/// Two operations for each lock, so that one waits for the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_operations_at_once_are_all_answered() {
    const OPERATIONS: u64 = 1_000;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut session = Session::open(server.client()).await;
    let mut in_flight = HashMap::new();
    for number in 1..=OPERATIONS {
        let step = Step::Acquire(waiting_request(&format!("lock/{}", number % (OPERATIONS / 2)), TTL, LONG));
        begin(&session, number, &step).await;
        in_flight.insert(number, step);
    }
    let (mut number, mut grants, mut repeats) = (OPERATIONS, 0, 0);
    while !in_flight.is_empty() {
        let (answered, answer) = session.answer().await;
        let next = match (in_flight.remove(&answered).expect("an operation in flight"), answer) {
            (Step::Acquire(_), ServerMessage::Acquire(answer)) => {
                assert_eq!(answer.outcome(), Outcome::Acquired, "{answered}: {answer:?}");
                grants += 1;
                Step::Renew(answer.lease.unwrap())
            }
            (Step::Renew(lease), ServerMessage::Renew(answer)) => {
                assert_eq!(answer.outcome(), RenewOutcome::Renewed);
                Step::Release(lease)
            }
            (Step::Release(_), ServerMessage::Release(answer)) => {
                assert_eq!(answer.end(), LeaseEnd::Released);
                continue;
            }
            // Redis on a busy machine may exceed its timeout. The operation is repeated, as a client would.
            (step, ServerMessage::Error(error)) => {
                assert_eq!(error.code, i32::from(Code::Unavailable), "{error:?}");
                repeats += 1;
                match step {
                    Step::Acquire(request) => {
                        Step::Acquire(v1::AcquireRequest { attempt: request.attempt + 1, ..request })
                    }
                    step => step,
                }
            }
            (_, other) => panic!("no answer for {answered}: {other:?}"),
        };
        number += 1;
        begin(&session, number, &next).await;
        in_flight.insert(number, next);
    }
    println!("{repeats} repeats");
    assert_eq!(grants, OPERATIONS);
}
