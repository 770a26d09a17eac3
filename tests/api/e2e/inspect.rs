//! Get, list, watch, check token, force release, and reflection.

use crate::support::{
    Lock, Server, acquire_request, assert_bad_field, only, read, span, until, waiting_request, within,
};
use fencepost::testing::domain::limits::METADATA_BYTES_MAX;
use fencepost_proto::v1::{self, LeaseEnd, check_token_response, force_release_response, watch_response::Kind};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio_stream::StreamExt;
use tonic_reflection::pb::{v1 as reflect, v1alpha as reflect_alpha};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_get_returns_the_holder_but_no_credentials() {
    let server = Server::start().await;
    let mut client = server.client();
    assert_eq!(client.lock_info("a").await, v1::LockInfo { lock_name: "a".into(), ..v1::LockInfo::default() });
    let request = v1::AcquireRequest { metadata: [("job".into(), "42".into())].into(), ..acquire_request("a", TTL) };
    let lease = client.acquire_lease(request.clone()).await;
    let info = client.lock_info("a").await;
    let current = only(info.holders.clone()).unwrap();
    assert_eq!(current.metadata, request.metadata);
    assert_eq!((current.fencing_token, read(current.ttl)), (lease.fencing_token, TTL));
    assert!(read(current.held_since) < TTL);
    assert_eq!(info.newest_token, lease.fencing_token);
    let shown = format!("{info:?}");
    assert!(!shown.contains(&lease.lease_id) && !shown.contains(&request.request_id), "no credentials");
    client.release_lease(&lease).await;
    let info = client.lock_info("a").await;
    assert_eq!((only(info.holders.clone()), info.newest_token), (None, lease.fencing_token));
    assert_eq!(info.previous_end(), LeaseEnd::Released);
}

#[tokio::test]
async fn a_listing_has_each_lock_of_the_prefix_once_in_pages() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut expected = HashSet::new();
    for number in 0..250 {
        expected.insert(client.acquire_lease(acquire_request(&format!("orders/{number}"), TTL)).await.lock_name);
        client.acquire_lease(acquire_request(&format!("users/{number}"), TTL)).await;
    }
    let freed = client.acquire_lease(acquire_request("orders/freed", TTL)).await;
    client.release_lease(&freed).await;
    let mut found = Vec::new();
    let mut request = v1::ListRequest { prefix: "orders/".into(), page_size: 7, page_token: String::new() };
    loop {
        let page = client.list(request.clone()).await.unwrap().into_inner();
        assert!(page.locks.len() <= 7);
        found.extend(page.locks.into_iter().map(|lock| lock.lock_name));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(found.into_iter().collect::<HashSet<_>>(), expected);
    for bad in ["x", "1.", ".1", "100.0", "0.-1", "0.0.0"] {
        let request = v1::ListRequest { page_token: bad.into(), ..v1::ListRequest::default() };
        assert_bad_field(client.list(request).await, "page_token");
    }
    let beyond = v1::ListRequest { page_token: "ff.ffffffffffffffff".into(), ..v1::ListRequest::default() };
    assert_eq!(client.list(beyond).await.unwrap().into_inner().locks, []);
}

#[tokio::test]
async fn a_page_of_large_locks_fits_into_a_message() {
    let server = Server::start().await;
    let mut client = server.client();
    let large: HashMap<_, _> = [("k".into(), "x".repeat(METADATA_BYTES_MAX - 1))].into();
    for number in 0..1_100 {
        client
            .acquire_lease(v1::AcquireRequest {
                metadata: large.clone(),
                ..acquire_request(&format!("a/{number}"), TTL)
            })
            .await;
    }
    let mut found = 0;
    let mut request = v1::ListRequest { page_size: 1_000, ..v1::ListRequest::default() };
    loop {
        // gRPC clients accept messages of 4 MiB by default.
        let page = client.list(request.clone()).await.unwrap().into_inner();
        found += page.locks.len();
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(found, 1_100);
}

#[tokio::test]
async fn watchers_receive_events_in_order() {
    let server = Server::start().await;
    let mut client = server.client();
    let watch = v1::WatchRequest { prefix: "a".into() };
    let mut events = within(client.watch(watch)).await.unwrap().into_inner();
    assert_eq!(events.next().await.unwrap().unwrap().kind(), Kind::Started);
    let released = client.acquire_lease(acquire_request("a/1", TTL)).await;
    client.acquire_lease(acquire_request("b/1", TTL)).await;
    client.release_lease(&released).await;
    let expired = client.acquire_lease(acquire_request("a/1", Duration::from_millis(60))).await;
    let seen: Vec<_> = within(events.take(4).map(Result::unwrap).collect()).await;
    let shown: Vec<_> =
        seen.iter().map(|event| (event.kind(), event.lock_name.as_str(), event.fencing_token)).collect();
    assert_eq!(
        shown,
        [
            (Kind::Granted, "a/1", released.fencing_token),
            (Kind::Released, "a/1", released.fencing_token),
            (Kind::Granted, "a/1", expired.fencing_token),
            (Kind::Expired, "a/1", expired.fencing_token),
        ]
    );
    assert_eq!((seen[0].holder.as_str(), &seen[0].grant_id), ("test", &released.grant_id));
}

#[tokio::test]
async fn a_lease_is_held_for_its_max_hold_and_watchers_see_why_it_ended() {
    const SHORT: Duration = Duration::from_millis(200);
    const MAX_HOLD: Duration = Duration::from_millis(300);
    let server = Server::start().await;
    let mut client = server.client();
    let mut events = within(client.watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    assert_eq!(events.next().await.unwrap().unwrap().kind(), Kind::Started);
    let request = v1::AcquireRequest { max_hold: span(MAX_HOLD), ..acquire_request("a", SHORT) };
    let lease = client.acquire_lease(request.clone()).await;
    let other = v1::AcquireRequest { max_hold: span(2 * MAX_HOLD), attempt: 2, ..request };
    assert_bad_field(client.acquire(other).await, "request_id");
    let renew = v1::RenewRequest { lock_name: "a".into(), lease_id: lease.lease_id, ttl: None };
    loop {
        let renewed = client.renew(renew.clone()).await.unwrap().into_inner();
        if renewed.outcome() != v1::renew_response::Outcome::Renewed {
            assert_eq!(renewed.end(), LeaseEnd::Expired);
            break;
        }
        assert!(read(renewed.ttl) <= SHORT, "{renewed:?}");
    }
    let seen: Vec<_> = within(events.take(2).map(Result::unwrap).collect()).await;
    assert_eq!((seen[1].kind(), seen[1].reason.as_str()), (Kind::Expired, "held for its max_hold of 300ms"));
}

#[tokio::test]
async fn force_release_revokes_the_lease_with_the_expected_token_and_notifies_all() {
    let server = Server::start().await;
    let (mut client, mut admin) = (server.client(), server.admin());
    let mut events = within(client.watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut other = server.client();
    let waiter = tokio::spawn(async move { other.acquire_response(waiting_request("a", TTL, TTL)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    let force = |expected_token| v1::ForceReleaseRequest {
        lock_name: "a".into(),
        expected_token,
        reason: "holder is stuck".into(),
    };
    let wrong = admin.force_release(force(lease.fencing_token + 1)).await.unwrap().into_inner();
    assert_eq!(wrong.outcome(), force_release_response::Outcome::TokenMismatch);
    assert_eq!(wrong.current_tokens, [lease.fencing_token]);
    let right = admin.force_release(force(lease.fencing_token)).await.unwrap().into_inner();
    assert_eq!((right.outcome(), right.holder.as_str()), (force_release_response::Outcome::Revoked, "test"));
    let next = within(waiter).await.unwrap();
    assert_eq!(next.previous_end(), LeaseEnd::Revoked);
    let repeat = admin.force_release(force(lease.fencing_token)).await.unwrap().into_inner();
    assert_eq!(repeat.outcome(), force_release_response::Outcome::TokenMismatch, "the successor is not revoked");
    let free = v1::ForceReleaseRequest { lock_name: "free".into(), ..force(1) };
    let free = admin.force_release(free).await.unwrap().into_inner();
    assert_eq!(free.outcome(), force_release_response::Outcome::NotHeld);
    let revoked = within(async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.kind() == Kind::Revoked {
                return event;
            }
        }
    })
    .await;
    assert_eq!((revoked.reason.as_str(), revoked.fencing_token), ("holder is stuck", lease.fencing_token));
    assert_eq!(client.release_lease(&lease).await, LeaseEnd::Revoked);
}

#[tokio::test]
async fn a_token_is_current_only_while_its_lease_holds_the_lock() {
    use check_token_response::Status;
    let server = Server::start().await;
    let mut client = server.client();
    let check = |fencing_token| {
        let mut client = server.client();
        async move {
            let request = v1::CheckTokenRequest { lock_name: "a".into(), fencing_token };
            client.check_token(request).await.unwrap().into_inner()
        }
    };
    assert_eq!(check(7).await.status(), Status::Unknown);
    let first = client.acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(check(first.fencing_token).await.status(), Status::Current);
    assert_eq!(check(first.fencing_token + 1).await.status(), Status::Unknown);
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: first.fencing_token, reason: "test".into() };
    server.admin().force_release(force).await.unwrap();
    assert_eq!(check(first.fencing_token).await.status(), Status::Ended, "ended at once");
    let second = client.acquire_lease(acquire_request("a", TTL)).await;
    let stale = check(first.fencing_token).await;
    assert_eq!((stale.status(), stale.newest_token), (Status::Stale, second.fencing_token));
    assert_eq!(check(second.fencing_token).await.status(), Status::Current);
}

#[tokio::test]
async fn reflection_describes_the_services_in_both_versions() {
    let server = Server::start().await;
    let services = ["fencepost.v1.LockService", "fencepost.v1.AdminService", "grpc.health.v1.Health"];
    let request = reflect::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflect::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = reflect::server_reflection_client::ServerReflectionClient::new(server.channel());
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = within(answers.next()).await.unwrap().unwrap().message_response.unwrap();
    let reflect::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(services.iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");

    let mut client = reflect_alpha::server_reflection_client::ServerReflectionClient::new(server.channel());
    // Error details are described as well, so that tools can decode them.
    for symbol in [services[0], "google.rpc.BadRequest", "google.rpc.ErrorInfo"] {
        let request = reflect_alpha::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(reflect_alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                symbol.into(),
            )),
        };
        let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
        let answer = within(answers.next()).await.unwrap().unwrap().message_response.unwrap();
        assert!(
            matches!(answer, reflect_alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_)),
            "{symbol}: {answer:?}"
        );
    }
}
