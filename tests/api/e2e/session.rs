//! Sessions: many operations on one stream.

use crate::{
    session_stream::Session,
    stream::{Stream, attachment},
    support::{
        Lock, Server, acquire_request, assert_bad_field, assert_refused, read, span, until, waiting_request, within,
    },
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome, session_request::Message as ClientMessage,
    session_response::Message as ServerMessage,
};
use std::{collections::BTreeSet, time::Duration};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(60);
/// Long enough for answers that are more than a second late on a busy machine.
const SHORT: Duration = Duration::from_secs(3);
/// The same for a lease that must not expire. It is renewed after a third of its TTL.
const KEPT: Duration = Duration::from_secs(6);

#[tokio::test]
async fn each_of_many_operations_in_flight_is_answered_once() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    for number in 1..=500 {
        session.acquire(number, acquire_request(&format!("lock/{number}"), TTL)).await;
    }
    let mut open: BTreeSet<u64> = (1..=500).collect();
    let mut leases = Vec::new();
    while !open.is_empty() {
        let (number, ServerMessage::Acquire(answer)) = session.answer().await else {
            panic!("no answer to an acquire")
        };
        assert!(open.remove(&number), "answered once");
        let lease = answer.lease.unwrap();
        assert_eq!(lease.lock_name, format!("lock/{number}"));
        leases.push((number, lease));
    }
    for (number, lease) in &leases {
        session.release(number + 500, lease).await;
    }
    for _ in &leases {
        let (number, ServerMessage::Release(answer)) = session.answer().await else { panic!("no answer to a release") };
        assert!(number > 500);
        assert_eq!(answer.end(), LeaseEnd::Released);
    }
}

#[tokio::test]
async fn answered_beats_renew_the_leases_that_the_session_acquired() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, acquire_request("a", KEPT)).await;
    let mut renewed = 0;
    let end = tokio::time::Instant::now() + KEPT * 5 / 2;
    while tokio::time::Instant::now() < end {
        match session.next_message().await {
            (0, ServerMessage::Renewed(message)) => {
                assert_eq!(message.leases.iter().flat_map(|it| &it.handles).collect::<Vec<_>>(), [&1]);
                renewed += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((2..=8).contains(&renewed), "{renewed} times in 2.5 TTLs");
    let current = server.client().holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
}

#[tokio::test]
async fn unanswered_beats_renew_nothing_and_the_loss_is_reported() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    session.acquire_lease(7, acquire_request("a", SHORT)).await;
    loop {
        match session.next().await.unwrap() {
            (0, ServerMessage::Beat(_)) => {}
            (0, ServerMessage::Lost(lost)) => {
                assert_eq!((lost.handle, lost.end()), (7, LeaseEnd::Expired));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_session_is_notified_at_once_if_its_lease_is_revoked() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(3, acquire_request("a", TTL)).await;
    let (lock_name, expected_token) = (lease.lock_name, lease.fencing_token);
    let force = v1::ForceReleaseRequest { lock_name, expected_token, reason: "a test".into() };
    within(server.admin().force_release(force)).await.unwrap();
    let (0, ServerMessage::Lost(lost)) = session.next_message().await else { panic!("not lost") };
    assert_eq!((lost.handle, lost.end()), (3, LeaseEnd::Revoked));
}

#[tokio::test]
async fn waiters_learn_their_queue_position_and_are_served_in_order() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let mut holder = session.acquire_lease(1, acquire_request("a", TTL)).await;
    for (ahead, number) in (2..=4).enumerate() {
        session.acquire(number, waiting_request("a", TTL, WAIT)).await;
        let (answered, ServerMessage::Waiting(waiting)) = session.next_message().await else {
            panic!("no queue position")
        };
        assert_eq!((answered, waiting.ahead), (number, u32::try_from(ahead).unwrap()));
    }
    for number in 2..=4 {
        session.release(100 + number, &holder).await;
        let mut seen = BTreeSet::new();
        while seen.len() < 2 {
            match session.answer().await {
                (answered, ServerMessage::Release(_)) => assert!(seen.insert(answered)),
                (answered, ServerMessage::Acquire(answer)) => {
                    assert_eq!(answered, number, "first come, first served");
                    let next = answer.lease.unwrap();
                    assert!(next.fencing_token > holder.fencing_token);
                    holder = next;
                    assert!(seen.insert(answered));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_waiter_is_notified_when_it_moves_up() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let mut others = Session::open(server.client()).await;
    let holder = others.acquire_lease(1, acquire_request("a", TTL)).await;
    others.acquire(2, waiting_request("a", TTL, WAIT)).await;
    assert!(matches!(others.next_message().await, (2, ServerMessage::Waiting(_))));
    session.acquire(3, waiting_request("a", TTL, WAIT)).await;
    assert!(matches!(session.next_message().await, (3, ServerMessage::Waiting(v1::Waiting { ahead: 1 }))));
    others.release(4, &holder).await;
    assert!(matches!(session.next_message().await, (3, ServerMessage::Waiting(v1::Waiting { ahead: 0 }))));
}

#[tokio::test]
async fn a_cancelled_acquire_leaves_the_queue_and_is_answered() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let holder = session.acquire_lease(1, acquire_request("a", TTL)).await;
    session.acquire(2, waiting_request("a", TTL, WAIT)).await;
    assert!(matches!(session.next_message().await, (2, ServerMessage::Waiting(_))));
    session.cancel(2).await;
    let (2, ServerMessage::Acquire(answer)) = session.answer().await else { panic!("not answered") };
    assert_eq!(answer.outcome(), Outcome::TimedOut);
    assert_eq!(server.client().lock_info("a").await.waiters, 0, "at once, and not after the grace period");
    session.cancel(2).await;
    session.cancel(99).await;
    session.release(3, &holder).await;
    assert_eq!(session.released(3).await, LeaseEnd::Released, "cancelling an unknown operation does nothing");
}

#[tokio::test]
async fn a_released_lease_is_not_renewed_and_its_handle_is_free() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, acquire_request("a", SHORT)).await;
    session.release(2, &lease).await;
    assert_eq!(session.released(2).await, LeaseEnd::Released);
    session.release(3, &lease).await;
    assert_eq!(session.released(3).await, LeaseEnd::Released, "a repeat returns the same end");
    let again = session.acquire_lease(1, acquire_request("a", SHORT)).await;
    assert!(again.fencing_token > lease.fencing_token);
}

#[tokio::test]
async fn the_leases_of_an_ended_session_live_on_and_can_be_attached_to_another() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, acquire_request("a", SHORT)).await;
    drop(session);
    let mut second = Session::open(server.client()).await;
    let leases = vec![v1::LeaseAttachment { attempt: 2, ..attachment(5, &lease) }];
    second.send(0, ClientMessage::Attach(v1::AttachLeases { leases: leases.clone() })).await;
    let (0, ServerMessage::Attached(attached)) = second.next_message().await else { panic!("not attached") };
    assert_eq!(attached.leases[0].handles, [5]);
    let third = Stream::open(server.client()).await;
    third.attach(vec![v1::LeaseAttachment { attempt: 3, ..leases[0].clone() }]).await;
    let (0, ServerMessage::Detached(detached)) = second.next_message().await else { panic!("not detached") };
    assert_eq!((detached.handle, detached.reason()), (5, v1::detached::Reason::AttachedElsewhere));
}

#[tokio::test]
async fn a_session_that_ends_revokes_leases_that_opted_in() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    let acquire =
        v1::SessionAcquire { request: Some(acquire_request("a", TTL)), handle: 9, release_on_disconnect: true };
    session.send(1, ClientMessage::Acquire(acquire)).await;
    session.granted(1).await;
    drop(session);
    let mut client = server.client();
    until(async || client.clone().holder("a").await.is_none()).await;
    assert_eq!(client.lock_info("a").await.previous_end(), LeaseEnd::Revoked);
}

#[tokio::test]
async fn the_waiters_of_an_ended_session_keep_their_queue_positions_for_a_retry() {
    let server = Server::start().await;
    let mut client = server.client();
    let holder = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut session = Session::open(server.client()).await;
    let request = waiting_request("a", TTL, WAIT);
    session.acquire(1, request.clone()).await;
    assert!(matches!(session.next_message().await, (1, ServerMessage::Waiting(_))));
    let mut other = Session::open(server.client()).await;
    other.acquire(1, waiting_request("a", TTL, WAIT)).await;
    assert!(matches!(other.next_message().await, (1, ServerMessage::Waiting(_))));
    drop(session);
    let mut session = Session::open(server.client()).await;
    session.acquire(1, v1::AcquireRequest { attempt: 2, ..request }).await;
    let (1, ServerMessage::Waiting(waiting)) = session.next_message().await else { panic!("no queue position") };
    assert_eq!(waiting.ahead, 0);
    client.release_lease(&holder).await;
    session.granted(1).await;
}

#[tokio::test]
async fn a_repeat_on_another_session_returns_the_same_lease_and_attaches_it() {
    let server = Server::start().await;
    let mut first = Session::open(server.client()).await;
    let request = acquire_request("a", SHORT);
    let lease = first.acquire_lease(1, request.clone()).await;
    let mut second = Session::open(server.client()).await;
    second.acquire(4, v1::AcquireRequest { attempt: 2, ..request }).await;
    let again = second.granted(4).await;
    assert_eq!((again.lease_id, again.fencing_token), (lease.lease_id, lease.fencing_token));
    let (0, ServerMessage::Attached(attached)) = second.next_message().await else {
        panic!("not attached to the second session")
    };
    assert_eq!((attached.leases[0].handles.as_slice(), read(attached.leases[0].ttl)), ([4].as_slice(), SHORT));
    let (0, ServerMessage::Detached(detached)) = first.next_message().await else {
        panic!("not detached from the first session")
    };
    assert_eq!(detached.handle, 1);
}

#[tokio::test]
async fn a_failed_operation_is_answered_and_the_stream_continues() {
    let server = Server::start().await;
    let mut session = Session::open(server.client()).await;
    session.acquire(1, acquire_request("", TTL)).await;
    assert_bad_field(Err::<(), _>(session.failed(1).await), "lock_name");
    let nil = v1::AcquireRequest { request_id: uuid::Uuid::nil().to_string(), ..acquire_request("a", TTL) };
    session.acquire(6, nil).await;
    assert_bad_field(Err::<(), _>(session.failed(6).await), "request_id");
    let holder = session.acquire_lease(2, acquire_request("a", TTL)).await;
    session.acquire(3, acquire_request("a", TTL)).await;
    let (3, ServerMessage::Acquire(answer)) = session.answer().await else { panic!("contended is an outcome") };
    assert_eq!(answer.outcome(), Outcome::Contended);
    let renew = |ttl| v1::RenewRequest { lock_name: "a".into(), lease_id: holder.lease_id.clone(), ttl: span(ttl) };
    session.send(4, ClientMessage::Renew(renew(TTL * 2))).await;
    let (4, ServerMessage::Renew(renewed)) = session.answer().await else { panic!("not renewed") };
    assert_eq!(read(renewed.ttl), TTL * 2);
    session.send(5, ClientMessage::Renew(renew(Duration::ZERO))).await;
    assert_bad_field(Err::<(), _>(session.failed(5).await), "ttl");
}

#[tokio::test]
async fn an_invalid_operation_number_ends_the_stream() {
    let server = Server::start().await;
    for (operations, field) in [([0, 1], "operation"), ([7, 7], "operation")] {
        let mut session = Session::open(server.client()).await;
        server.client().acquire_response(acquire_request("held", TTL)).await;
        for operation in operations {
            session.acquire(operation, waiting_request("held", TTL, WAIT)).await;
        }
        let error = loop {
            match session.next().await {
                Ok(_) => {}
                Err(status) => break status,
            }
        };
        assert_bad_field(Err::<(), _>(error), field);
    }
}

#[tokio::test]
async fn operations_beyond_the_limit_are_refused_and_the_others_continue() {
    let server = Server::start_with(|config| config.limits.leases_per_stream = 2).await;
    let mut session = Session::open(server.client()).await;
    session.acquire_lease(1, acquire_request("a", TTL)).await;
    let second = session.acquire_lease(2, acquire_request("b", TTL)).await;
    session.acquire(3, acquire_request("c", TTL)).await;
    assert_refused(Err::<(), _>(session.failed(3).await), Code::ResourceExhausted, "SESSION_FULL");
    session.release(4, &second).await;
    assert_eq!(session.released(4).await, LeaseEnd::Released);
    session.acquire_lease(5, acquire_request("c", TTL)).await;
}

#[tokio::test]
async fn a_drain_refuses_waiters_and_keeps_the_leases() {
    let mut server = Server::start_with(|config| config.drain_timeout = Duration::from_secs(30)).await;
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, acquire_request("a", TTL)).await;
    session.acquire(2, waiting_request("a", TTL, WAIT)).await;
    assert!(matches!(session.next_message().await, (2, ServerMessage::Waiting(_))));
    server.shut_down();
    let (mut notified, mut refused) = (false, false);
    while !(notified && refused) {
        match session.answer().await {
            (0, ServerMessage::Draining(_)) => notified = true,
            (2, ServerMessage::Error(error)) => {
                assert_eq!(error.code, i32::from(Code::Unavailable));
                refused = true;
            }
            other => panic!("{other:?}"),
        }
    }
    session.acquire(3, acquire_request("b", TTL)).await;
    assert_refused(Err::<(), _>(session.failed(3).await), Code::Unavailable, "DRAINING");
    session.release(4, &lease).await;
    assert_eq!(session.released(4).await, LeaseEnd::Released, "leases can be released");
    drop(session);
    within(&mut server.task).await.unwrap();
}

#[tokio::test]
async fn the_headers_of_streams_have_the_id_of_the_store() {
    let (server, other) = (Server::start().await, Server::start().await);
    let id = |server: &Server| {
        let (mut client, mut health) = (server.client(), HealthClient::new(server.channel()));
        async move {
            let session = within(client.session(tokio_stream::pending())).await.unwrap();
            let kept = within(client.keep_alive(tokio_stream::pending())).await.unwrap();
            let checked = health.check(HealthCheckRequest::default()).await.unwrap();
            let ids = [session.metadata(), kept.metadata(), checked.metadata()]
                .map(|metadata| metadata.get("fencepost-store-id").unwrap().to_str().unwrap().to_owned());
            assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 32), "{ids:?}");
            ids[0].clone()
        }
    };
    assert_ne!(id(&server).await, id(&other).await, "memory is not shared");
}
