//! Conversions that change nothing, of leases that a session keeps alive. A session itself has no conversions: its
//! client makes the unary call.

use crate::{
    session_stream::Session,
    support::{Lock as _, Server, acquire_request, assert_bad_field, assert_refused, span, within},
};
use fencepost_proto::v1::{
    AcquireRequest, ConvertRequest, ConvertResponse, DescribeRequest, ForceReleaseRequest, Lease, LeaseEnd, LockMode,
    convert_response::Outcome, describe_response, lock_service_client::LockServiceClient,
    session_response::Message as ServerMessage,
};
use std::time::Duration;
use tonic::{Code, transport::Channel};

const TTL: Duration = Duration::from_secs(30);

fn shared(name: &str) -> AcquireRequest {
    AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request(name, TTL) }
}

fn conversion(lease: &Lease, mode: LockMode) -> ConvertRequest {
    let Lease { lock_name, lease_id, fencing_token, .. } = lease.clone();
    ConvertRequest { lock_name, lease_id, fencing_token, mode: mode.into() }
}

fn description(lease: &Lease) -> DescribeRequest {
    let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
    DescribeRequest { lock_name, lease_id, number: 1, ..DescribeRequest::default() }
}

/// Asks for an upgrade that has to be refused, and checks that the lease stays as it is.
async fn assert_contended(client: &mut LockServiceClient<Channel>, lease: &Lease, holders: u32) -> ConvertResponse {
    let answer = within(client.convert(conversion(lease, LockMode::Exclusive))).await.unwrap().into_inner();
    assert_eq!((answer.outcome(), answer.holder_count), (Outcome::Contended, holders), "{answer:?}");
    let tokens: Vec<_> = answer.holders.iter().map(|holder| holder.fencing_token).collect();
    assert!(tokens.contains(&lease.fencing_token), "{answer:?}");
    let seen = client.lock_info(&lease.lock_name).await;
    let own = seen.holders.iter().find(|holder| holder.fencing_token == lease.fencing_token);
    assert_eq!(own.map(|holder| holder.mode()), Some(LockMode::Shared), "{seen:?}");
    answer
}

#[tokio::test]
async fn an_upgrade_beside_a_reader_or_its_delay_leaves_the_lease_as_it_is() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, shared("a")).await;
    let other = client.acquire_lease(AcquireRequest { min_hold: span(TTL), ..shared("a") }).await;
    assert_contended(&mut client, &lease, 2).await;
    client.release_lease(&other).await;
    let beside_delay = assert_contended(&mut client, &lease, 1).await;
    assert_eq!(beside_delay.holders.len(), 1, "a delay is no holder");
    let delay = client.lock_info("a").await.delay.unwrap();
    let force =
        ForceReleaseRequest { lock_name: "a".into(), expected_token: delay.fencing_token, reason: "test".into() };
    within(server.admin().force_release(force)).await.unwrap();
    let upgraded = client.convert(conversion(&lease, LockMode::Exclusive)).await.unwrap().into_inner();
    assert!(upgraded.fencing_token > other.fencing_token);
    session.release(2, &lease).await;
    assert_eq!(session.released(2).await, LeaseEnd::Released, "the session has had the lease all the time");
}

#[tokio::test]
async fn what_is_no_mode_of_a_conversion_is_refused() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, shared("a")).await;
    for mode in [0, LockMode::Semaphore.into(), 77] {
        let refused = client.convert(ConvertRequest { mode, ..conversion(&lease, LockMode::Shared) }).await;
        assert_bad_field(refused, "mode");
    }
    let permits = AcquireRequest { mode: LockMode::Semaphore.into(), permit_limit: 2, ..acquire_request("b", TTL) };
    let permit = session.acquire_lease(2, permits).await;
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        let refused = client.convert(conversion(&permit, mode)).await;
        assert_refused(refused, Code::FailedPrecondition, "NOT_CONVERTIBLE");
    }
    for (number, lease) in [(3, &lease), (4, &permit)] {
        session.release(number, lease).await;
        assert_eq!(session.released(number).await, LeaseEnd::Released, "a refusal changes nothing");
    }
}

#[tokio::test]
async fn a_lease_that_has_ended_is_lost_to_conversions_and_descriptions() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut session = Session::open(server.client()).await;
    let lease = session.acquire_lease(1, shared("a")).await;
    let (lock_name, expected_token) = (lease.lock_name.clone(), lease.fencing_token);
    let force = ForceReleaseRequest { lock_name, expected_token, reason: "a test".into() };
    within(server.admin().force_release(force)).await.unwrap();
    assert!(matches!(session.next_message().await, (0, ServerMessage::Lost(lost)) if lost.handle == 1));
    let next = session.acquire_lease(2, acquire_request("a", TTL)).await;
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        let lost = client.convert(conversion(&lease, mode)).await.unwrap().into_inner();
        let told = (lost.outcome(), lost.end(), lost.successor_token);
        assert_eq!(told, (Outcome::Lost, LeaseEnd::Revoked, next.fencing_token));
    }
    let lost = client.describe(description(&lease)).await.unwrap().into_inner();
    let told = (lost.outcome(), lost.end(), lost.successor_token);
    assert_eq!(told, (describe_response::Outcome::Lost, LeaseEnd::Revoked, next.fencing_token));
}

#[tokio::test]
async fn a_token_from_before_a_conversion_is_outdated() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut session = Session::open(server.client()).await;
    let reader = session.acquire_lease(1, shared("a")).await;
    let upgraded = client.convert(conversion(&reader, LockMode::Exclusive)).await.unwrap().into_inner();
    let late = client.convert(conversion(&reader, LockMode::Shared)).await;
    assert_refused(late, Code::Aborted, "TOKEN_OUTDATED");
    let held = client.holder("a").await.unwrap();
    assert_eq!((held.mode(), held.fencing_token), (LockMode::Exclusive, upgraded.fencing_token));
}
