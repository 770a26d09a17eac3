//! Acquire, repeat, renew and release.

use crate::support::{Lock, Server, acquire_request, assert_bad_field, assert_refused, only, read, span, until};
use fencepost_proto::v1::{self, LeaseEnd, acquire_response::Outcome, renew_response};
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_held_lock_is_refused_to_others_and_tokens_rise_after_a_release() {
    let server = Server::start().await;
    let mut client = server.client();
    let first =
        client.acquire_response(v1::AcquireRequest { holder: "one".into(), ..acquire_request("orders", TTL) }).await;
    assert_eq!(first.outcome(), Outcome::Acquired);
    assert_eq!(first.previous_end(), LeaseEnd::Unspecified);
    assert!(read(first.held_for) < Duration::from_secs(1));
    let first = first.lease.unwrap();
    assert_eq!((first.lock_name.as_str(), read(first.ttl)), ("orders", TTL));

    let second = client.acquire_response(acquire_request("orders", TTL)).await;
    assert_eq!(second.outcome(), Outcome::Contended);
    assert_eq!(second.lease, None);
    let current = only(second.holders).unwrap();
    assert_eq!((current.holder.as_str(), current.fencing_token), ("one", first.fencing_token));
    assert_eq!(current.grant_id, first.grant_id);
    assert!(read(current.expires_in) <= TTL && read(current.expires_in) > TTL / 2);

    assert_eq!(client.release_lease(&first).await, LeaseEnd::Released);
    let third = client.acquire_response(acquire_request("orders", TTL)).await;
    assert_eq!(third.previous_end(), LeaseEnd::Released);
    let third = third.lease.unwrap();
    assert!(third.fencing_token > first.fencing_token && third.fencing_token < 1 << 53);
    assert!(third.lease_id != first.lease_id && third.grant_id != first.grant_id);
}

#[tokio::test]
async fn a_repeated_acquire_returns_the_same_lease_and_a_changed_one_is_refused() {
    let server = Server::start().await;
    let mut client = server.client();
    let request = acquire_request("a", TTL);
    let lease = client.acquire_lease(request.clone()).await;
    let repeat = client.acquire_lease(v1::AcquireRequest { attempt: 2, ..request.clone() }).await;
    assert_eq!((&repeat.lease_id, repeat.fencing_token), (&lease.lease_id, lease.fencing_token));
    assert!(read(repeat.ttl) <= TTL);
    assert_refused(client.acquire(request.clone()).await, Code::Aborted, "OVERTAKEN");
    assert_bad_field(
        client.acquire(v1::AcquireRequest { ttl: span(TTL * 2), attempt: 3, ..request.clone() }).await,
        "request_id",
    );
    assert_bad_field(
        client.acquire(v1::AcquireRequest { holder: "other".into(), attempt: 3, ..request.clone() }).await,
        "request_id",
    );
    let elsewhere = client.acquire_lease(v1::AcquireRequest { lock_name: "b".into(), ..request.clone() }).await;
    assert_ne!(elsewhere.lease_id, lease.lease_id, "the same id is another request for another lock");
    assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
    for attempt in 1..4 {
        let late = v1::AcquireRequest { attempt, ..request.clone() };
        assert_refused(client.acquire(late).await, Code::Aborted, "REQUEST_ENDED");
    }
    assert_eq!(client.holder("a").await, None, "a late duplicate is not granted the lock");
}

#[tokio::test]
async fn a_repeated_release_returns_the_same_end_and_releases_no_other_lease() {
    let server = Server::start().await;
    let mut client = server.client();
    let old = client.acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(client.release_lease(&old).await, LeaseEnd::Released);
    let new = client.acquire_lease(acquire_request("a", TTL)).await;
    for _ in 0..3 {
        assert_eq!(client.release_lease(&old).await, LeaseEnd::Released);
    }
    assert_eq!(client.holder("a").await.unwrap().fencing_token, new.fencing_token);
    let stranger = v1::Lease { lease_id: uuid::Uuid::new_v4().to_string(), ..new.clone() };
    assert_eq!(client.release_lease(&stranger).await, LeaseEnd::Superseded, "a wrong lease id releases nothing");
    let unknown = v1::Lease { lock_name: "never".into(), ..new.clone() };
    assert_eq!(client.release_lease(&unknown).await, LeaseEnd::Unknown);
    assert_eq!(client.release_lease(&new).await, LeaseEnd::Released);
}

#[tokio::test]
async fn an_expired_lease_is_never_revived() {
    let server = Server::start().await;
    let mut client = server.client();
    let request = acquire_request("a", SHORT);
    let lease = client.acquire_lease(request.clone()).await;
    until(|| async { server.client().holder("a").await.is_none() }).await;
    let renew = v1::RenewRequest { lock_name: "a".into(), lease_id: lease.lease_id.clone(), ttl: None };
    let renewed = client.renew(renew.clone()).await.unwrap().into_inner();
    assert_eq!((renewed.outcome(), renewed.end()), (renew_response::Outcome::Lost, LeaseEnd::Expired));
    assert_refused(client.acquire(v1::AcquireRequest { attempt: 2, ..request }).await, Code::Aborted, "REQUEST_ENDED");
    assert_eq!(client.release_lease(&lease).await, LeaseEnd::Expired);
    let next = client.acquire_response(acquire_request("a", TTL)).await;
    assert_eq!(next.previous_end(), LeaseEnd::Expired);
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert_eq!(renewed.successor_token, next.lease.unwrap().fencing_token);
}

#[tokio::test]
async fn a_renewal_sets_the_time_left_and_never_shortens_it() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let renew = |ttl: Option<Duration>| v1::RenewRequest {
        lock_name: "a".into(),
        lease_id: lease.lease_id.clone(),
        ttl: ttl.and_then(span),
    };
    let longer = client.renew(renew(Some(TTL * 2))).await.unwrap().into_inner();
    assert_eq!(longer.outcome(), renew_response::Outcome::Renewed);
    assert_eq!((read(longer.ttl), longer.fencing_token), (TTL * 2, lease.fencing_token));
    let shorter = client.renew(renew(Some(SHORT))).await.unwrap().into_inner();
    assert!(read(shorter.ttl) > TTL, "never shortens");
    let same = client.renew(renew(None)).await.unwrap().into_inner();
    assert_eq!(read(same.ttl), TTL * 2, "a lease keeps the TTL last set");
}

#[tokio::test]
async fn a_min_token_raises_the_token() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    client.release_lease(&lease).await;
    let min_token = lease.fencing_token + 3_600_000_000;
    let raised = client.acquire_lease(v1::AcquireRequest { min_token, ..acquire_request("a", TTL) }).await;
    assert_eq!(raised.fencing_token, min_token);
    client.release_lease(&raised).await;
    assert_eq!(client.acquire_lease(acquire_request("a", TTL)).await.fencing_token, min_token + 1);
    let day = 24 * 3_600_000_000;
    let hostile = v1::AcquireRequest { min_token: lease.fencing_token + 2 * day, ..acquire_request("b", TTL) };
    assert_bad_field(client.acquire(hostile).await, "min_token");
}

#[tokio::test]
async fn each_call_without_a_request_id_is_a_new_request() {
    let server = Server::start().await;
    let mut client = server.client();
    let anonymous = v1::AcquireRequest { request_id: String::new(), ..acquire_request("a", TTL) };
    client.acquire_lease(anonymous.clone()).await;
    assert_eq!(client.acquire_response(anonymous).await.outcome(), Outcome::Contended);
}
