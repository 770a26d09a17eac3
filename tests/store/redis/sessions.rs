//! Sessions with several servers on one Redis.

use crate::{
    redis_server::Redis,
    server_on,
    session_stream::Session,
    support::{Lock, Server, waiting_wish, wish, within},
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome, renew_response::Outcome as RenewOutcome,
    session_request::Message as Say, session_response::Message as Hear,
};
use std::{collections::HashMap, time::Duration};
use tokio::time::{Instant, timeout};
use tonic::Code;

/// Long enough that no renewal comes by within [`SOON`].
const TTL: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(55);
/// A few polls; the rest is for a busy machine.
const SOON: Duration = Duration::from_secs(5);

async fn waits(session: &mut Session, operation: u64) -> u32 {
    match timeout(SOON, session.heard()).await.expect("it is told soon") {
        (waiting, Hear::Waiting(place)) if waiting == operation => place.ahead,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_waits_here_moves_up_and_is_served_when_the_lock_is_given_back_there() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let (mut here, mut there) = (Session::open(one.client()).await, Session::open(two.client()).await);
    let first = there.take(1, wish("a", TTL)).await;
    there.acquire(2, waiting_wish("a", TTL, LONG)).await;
    assert_eq!(waits(&mut there, 2).await, 0);
    here.acquire(1, waiting_wish("a", TTL, LONG)).await;
    assert_eq!(waits(&mut here, 1).await, 1);
    there.release(3, &first).await;
    let second = released_and_granted(&mut there).await;
    assert_eq!(waits(&mut here, 1).await, 0, "told by the next poll or the one after it");
    there.release(4, &second).await;
    let given_back = Instant::now();
    let third = here.granted(1).await;
    assert!(third.fencing_token > second.fencing_token && second.fencing_token > first.fencing_token);
    assert!(given_back.elapsed() < SOON, "{:?}", given_back.elapsed());
}

/// What the one gives back the other gets, in whatever order they hear of it.
async fn released_and_granted(session: &mut Session) -> v1::Lease {
    let (mut released, mut granted) = (false, None);
    loop {
        match session.answer().await {
            (_, Hear::Release(answer)) => released = answer.end() == LeaseEnd::Released,
            (_, Hear::Acquire(answer)) => granted = answer.lease,
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
async fn a_session_is_told_when_its_lease_is_given_back_through_another_server() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let mut session = Session::open(one.client()).await;
    let lease = session.take(7, wish("a", TTL)).await;
    assert_eq!(two.client().give_back(&lease).await, LeaseEnd::Released);
    match timeout(SOON, session.heard()).await.expect("it is told soon") {
        (0, Hear::Lost(lost)) => assert_eq!((lost.handle, lost.end()), (7, LeaseEnd::Released)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_acquired_is_attached_from_its_grant_on() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let mut session = Session::open(one.client()).await;
    // At once, and after a wait.
    let free = session.take(1, wish("a", TTL)).await;
    let held = two.client().take(wish("b", TTL)).await;
    session.acquire(2, waiting_wish("b", TTL, LONG)).await;
    assert_eq!(waits(&mut session, 2).await, 0);
    two.client().give_back(&held).await;
    let waited_for = session.granted(2).await;
    for (handle, lease) in [(1, free), (2, waited_for)] {
        revoke(&two, &lease).await;
        let told = timeout(SOON, session.heard()).await.expect("it is told at once, and not by a renewal");
        let (0, Hear::Lost(lost)) = told else { panic!("{told:?}") };
        assert_eq!((lost.handle, lost.end()), (handle, LeaseEnd::Revoked));
    }
}

/// An operation of the test below, from which its next one follows.
enum Does {
    Take(v1::AcquireRequest),
    Renew(v1::Lease),
    GiveBack(v1::Lease),
}

async fn begin(session: &Session, operation: u64, does: &Does) {
    match does {
        Does::Take(wanted) => session.acquire(operation, wanted.clone()).await,
        Does::GiveBack(lease) => session.release(operation, lease).await,
        Does::Renew(lease) => {
            let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
            session.say(operation, Say::Renew(v1::RenewRequest { lock_name, lease_id, ttl: None })).await;
        }
    }
}

/// Each lock is wanted twice, so that one waits for the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_operations_at_once_are_all_answered() {
    const OPERATIONS: u64 = 1_000;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut session = Session::open(server.client()).await;
    let mut under_way = HashMap::new();
    for number in 1..=OPERATIONS {
        let does = Does::Take(waiting_wish(&format!("lock/{}", number % (OPERATIONS / 2)), TTL, LONG));
        begin(&session, number, &does).await;
        under_way.insert(number, does);
    }
    let (mut number, mut grants, mut repeats) = (OPERATIONS, 0, 0);
    while !under_way.is_empty() {
        let (answered, answer) = session.answer().await;
        let next = match (under_way.remove(&answered).expect("it is under way"), answer) {
            (Does::Take(_), Hear::Acquire(answer)) => {
                assert_eq!(answer.outcome(), Outcome::Acquired, "{answered}: {answer:?}");
                grants += 1;
                Does::Renew(answer.lease.unwrap())
            }
            (Does::Renew(lease), Hear::Renew(answer)) => {
                assert_eq!(answer.outcome(), RenewOutcome::Renewed);
                Does::GiveBack(lease)
            }
            (Does::GiveBack(_), Hear::Release(answer)) => {
                assert_eq!(answer.end(), LeaseEnd::Released);
                continue;
            }
            // A busy machine's Redis may take longer for all of them than it is given: then it is repeated, as a client
            // would.
            (does, Hear::Error(error)) => {
                assert_eq!(error.code, i32::from(Code::Unavailable), "{error:?}");
                repeats += 1;
                match does {
                    Does::Take(wanted) => Does::Take(v1::AcquireRequest { attempt: wanted.attempt + 1, ..wanted }),
                    does => does,
                }
            }
            (_, other) => panic!("no answer for {answered}: {other:?}"),
        };
        number += 1;
        begin(&session, number, &next).await;
        under_way.insert(number, next);
    }
    println!("{repeats} repeats");
    assert_eq!(grants, OPERATIONS);
}
