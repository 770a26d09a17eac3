//! Every limit of the API, exactly at the limit and beyond it.

use crate::support::{Lock, Server, acquire_request, assert_bad_field, span};
use fencepost::testing::domain::limits;
use fencepost_proto::v1::{self, AcquireRequest, acquire_response::Outcome};
use std::time::Duration;
use tonic::Code;
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const BELOW_ZERO: prost_types::Duration = prost_types::Duration { seconds: 0, nanos: -1 };

fn bytes(count: usize) -> String {
    "x".repeat(count)
}

/// Requests with one field that is refused, and its name.
pub(crate) fn beyond_limits() -> Vec<(&'static str, AcquireRequest)> {
    let (day, tick) = (Duration::from_secs(24 * 60 * 60), Duration::from_nanos(1));
    vec![
        ("lock_name", AcquireRequest { lock_name: String::new(), ..acquire_request("", TTL) }),
        ("lock_name", AcquireRequest { lock_name: bytes(limits::LOCK_NAME_BYTES_MAX + 1), ..acquire_request("", TTL) }),
        ("lock_name", AcquireRequest { lock_name: "a\nb".into(), ..acquire_request("", TTL) }),
        ("holder", AcquireRequest { holder: bytes(limits::HOLDER_BYTES_MAX + 1), ..acquire_request("a", TTL) }),
        ("holder", AcquireRequest { holder: "\0".into(), ..acquire_request("a", TTL) }),
        ("ttl", AcquireRequest { ttl: span(Duration::from_secs(1) - tick), ..acquire_request("a", TTL) }),
        ("ttl", AcquireRequest { ttl: span(day + tick), ..acquire_request("a", TTL) }),
        (
            "ttl",
            AcquireRequest { ttl: Some(prost_types::Duration { seconds: -5, nanos: 0 }), ..acquire_request("a", TTL) },
        ),
        (
            "ttl",
            AcquireRequest {
                ttl: Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN }),
                ..acquire_request("a", TTL)
            },
        ),
        (
            "ttl",
            AcquireRequest {
                ttl: Some(prost_types::Duration { seconds: i64::MAX, nanos: i32::MAX }),
                ..acquire_request("a", TTL)
            },
        ),
        (
            "wait_timeout",
            AcquireRequest { wait_timeout: span(Duration::from_secs(3_600) + tick), ..acquire_request("a", TTL) },
        ),
        (
            "wait_timeout",
            AcquireRequest {
                wait_timeout: Some(prost_types::Duration { seconds: 0, nanos: -1 }),
                ..acquire_request("a", TTL)
            },
        ),
        (
            "metadata",
            AcquireRequest {
                metadata: [("k".into(), bytes(limits::METADATA_BYTES_MAX))].into(),
                ..acquire_request("a", TTL)
            },
        ),
        ("request_id", AcquireRequest { request_id: "42".into(), ..acquire_request("a", TTL) }),
        ("request_id", AcquireRequest { request_id: uuid::Uuid::nil().to_string(), ..acquire_request("a", TTL) }),
        (
            "request_id",
            AcquireRequest { request_id: uuid::Uuid::nil().simple().to_string(), ..acquire_request("a", TTL) },
        ),
        ("min_token", AcquireRequest { min_token: u64::MAX, ..acquire_request("a", TTL) }),
        ("mode", AcquireRequest { mode: 77, ..acquire_request("a", TTL) }),
        ("owner", AcquireRequest { owner: bytes(limits::OWNER_BYTES_MAX + 1), ..acquire_request("a", TTL) }),
        ("owner", AcquireRequest { owner: "a\nb".into(), ..acquire_request("a", TTL) }),
    ]
}

/// Of semaphores.
pub(crate) fn beyond_permits() -> Vec<(&'static str, AcquireRequest)> {
    vec![
        ("permit_limit", permits("a", 0, 0)),
        ("permit_limit", permits("a", 1, limits::PERMITS_MAX + 1)),
        ("permits", permits("a", 4, 3)),
        ("permits", permits("a", u32::MAX, limits::PERMITS_MAX)),
        ("permits", AcquireRequest { permits: 1, ..acquire_request("a", TTL) }),
        ("permit_limit", AcquireRequest { permit_limit: 1, ..shared_request("a") }),
        ("permit_limit_version", AcquireRequest { permit_limit_version: 1, ..acquire_request("a", TTL) }),
    ]
}

/// Of the spans for which a lock is held or unavailable.
pub(crate) fn beyond_spans() -> Vec<(&'static str, AcquireRequest)> {
    let tick = Duration::from_nanos(1);
    vec![
        ("lock_delay", AcquireRequest { lock_delay: span(limits::LOCK_DELAY_MAX + tick), ..acquire_request("a", TTL) }),
        ("lock_delay", AcquireRequest { lock_delay: Some(BELOW_ZERO), ..acquire_request("a", TTL) }),
        ("min_hold", AcquireRequest { min_hold: span(limits::MIN_HOLD_MAX + tick), ..acquire_request("a", TTL) }),
        ("min_hold", AcquireRequest { min_hold: Some(BELOW_ZERO), ..acquire_request("a", TTL) }),
        ("max_hold", AcquireRequest { max_hold: span(TTL - tick), ..acquire_request("a", TTL) }),
        ("max_hold", AcquireRequest { max_hold: span(TTL - tick), ttl: None, ..acquire_request("a", TTL) }),
        ("max_hold", AcquireRequest { max_hold: span(limits::MAX_HOLD_MAX + tick), ..acquire_request("a", TTL) }),
        (
            "max_hold",
            AcquireRequest {
                max_hold: Some(prost_types::Duration { seconds: i64::MIN, nanos: 1 }),
                ..acquire_request("a", TTL)
            },
        ),
    ]
}

fn permits(name: &str, permits: u32, permit_limit: u32) -> AcquireRequest {
    AcquireRequest { mode: v1::LockMode::Semaphore.into(), permits, permit_limit, ..acquire_request(name, TTL) }
}

fn shared_request(name: &str) -> AcquireRequest {
    AcquireRequest { mode: v1::LockMode::Shared.into(), ..acquire_request(name, TTL) }
}

#[tokio::test]
async fn each_field_is_accepted_at_its_limit_and_refused_beyond() {
    let server = Server::start_with(|config| config.limits = limits::Limits::default()).await;
    let mut client = server.client();
    let day = Duration::from_secs(24 * 60 * 60);
    let good = [
        AcquireRequest { lock_name: bytes(1), ..acquire_request("", TTL) },
        AcquireRequest { lock_name: bytes(limits::LOCK_NAME_BYTES_MAX), ..acquire_request("", TTL) },
        AcquireRequest { holder: bytes(limits::HOLDER_BYTES_MAX), ..acquire_request("holder", TTL) },
        AcquireRequest { holder: String::new(), ..acquire_request("no holder", TTL) },
        AcquireRequest { owner: bytes(limits::OWNER_BYTES_MAX), ..acquire_request("owner", TTL) },
        AcquireRequest { max_waiters: u32::MAX, tell_when_wanted: true, ..acquire_request("waiting", TTL) },
        AcquireRequest { ttl: span(Duration::from_secs(1)), ..acquire_request("short", TTL) },
        AcquireRequest { ttl: span(day), ..acquire_request("long", TTL) },
        AcquireRequest { ttl: None, ..acquire_request("default", TTL) },
        AcquireRequest { wait_timeout: span(Duration::from_secs(3_600)), ..acquire_request("wait", TTL) },
        AcquireRequest {
            metadata: [("k".into(), bytes(limits::METADATA_BYTES_MAX - 1))].into(),
            ..acquire_request("metadata", TTL)
        },
        AcquireRequest { mode: v1::LockMode::Exclusive.into(), ..acquire_request("mode", TTL) },
        AcquireRequest { max_hold: span(TTL), min_hold: span(TTL), ..shared_request("shared") },
        AcquireRequest { lock_delay: span(TTL), ..permits("permits", 1, 2) },
        AcquireRequest { max_hold: span(Duration::ZERO), ..acquire_request("no bound", TTL) },
        AcquireRequest { max_hold: span(TTL), ..acquire_request("shortest hold", TTL) },
        AcquireRequest { max_hold: span(limits::MAX_HOLD_MAX), ..acquire_request("longest hold", TTL) },
        AcquireRequest {
            min_hold: span(Duration::ZERO),
            lock_delay: span(Duration::ZERO),
            ..acquire_request("no delay", TTL)
        },
        AcquireRequest { min_hold: span(limits::MIN_HOLD_MAX), ..acquire_request("longest min_hold", TTL) },
        AcquireRequest { lock_delay: span(limits::LOCK_DELAY_MAX), ..acquire_request("longest lock_delay", TTL) },
    ];
    for request in good {
        let lease = client.acquire_response(request.clone()).await;
        assert_eq!(lease.outcome(), Outcome::Acquired, "{request:?}");
    }
    for (field, request) in beyond_limits().into_iter().chain(beyond_spans()).chain(beyond_permits()) {
        assert_bad_field(client.acquire(request).await, field);
    }
    assert_eq!(client.holder("a").await, None, "a refused request has no effect");
}

#[tokio::test]
async fn all_invalid_fields_of_a_request_are_reported_together() {
    let server = Server::start().await;
    let request = AcquireRequest {
        lock_name: String::new(),
        holder: bytes(1_000),
        ttl: span(Duration::ZERO),
        request_id: "x".into(),
        permits: 3,
        ..AcquireRequest::default()
    };
    let status = server.client().acquire(request).await.unwrap_err();
    let mut fields: Vec<_> =
        status.get_details_bad_request().unwrap().field_violations.into_iter().map(|it| it.field).collect();
    fields.sort();
    assert_eq!(fields, ["holder", "lock_name", "permits", "request_id", "ttl"]);
}

#[tokio::test]
async fn the_other_methods_check_their_fields_too() {
    let server = Server::start().await;
    let (mut client, mut admin) = (server.client(), server.admin());
    let id = uuid::Uuid::new_v4().to_string();
    let release =
        |lock_name: &str, lease_id: &str| v1::ReleaseRequest { lock_name: lock_name.into(), lease_id: lease_id.into() };
    assert_bad_field(client.release(release("", &id)).await, "lock_name");
    assert_bad_field(client.release(release("a", "")).await, "lease_id");
    let describe = |metadata: usize, holder: usize| v1::DescribeRequest {
        lock_name: "a".into(),
        lease_id: id.clone(),
        metadata: [("k".into(), bytes(metadata))].into(),
        holder: Some(bytes(holder)),
        number: u64::MAX,
    };
    assert!(client.describe(describe(limits::METADATA_BYTES_MAX - 1, limits::HOLDER_BYTES_MAX)).await.is_ok());
    assert_bad_field(client.describe(describe(limits::METADATA_BYTES_MAX, 0)).await, "metadata");
    assert_bad_field(client.describe(describe(0, limits::HOLDER_BYTES_MAX + 1)).await, "holder");
    assert_bad_field(client.observe(v1::ObserveRequest::default()).await.map(|_| ()), "lock_name");
    let waiters = |page_size, page_token: &str| v1::ListWaitersRequest {
        lock_name: "a".into(),
        page_size,
        page_token: page_token.into(),
    };
    assert!(client.list_waiters(waiters(limits::WAITERS_PAGE_MAX, "")).await.is_ok());
    assert_bad_field(client.list_waiters(waiters(limits::WAITERS_PAGE_MAX + 1, "")).await, "page_size");
    for bad in ["-1", "+1", "1 ", "0x1"] {
        assert_bad_field(client.list_waiters(waiters(0, bad)).await, "page_token");
    }
    let renew = |ttl| v1::RenewRequest { lock_name: "a".into(), lease_id: id.clone(), ttl };
    assert_bad_field(client.renew(renew(span(Duration::from_millis(49)))).await, "ttl");
    assert!(client.renew(renew(span(Duration::from_millis(50)))).await.is_ok());
    assert_bad_field(client.get(v1::GetRequest::default()).await, "lock_name");
    let list = |page_size, prefix| v1::ListRequest { prefix, page_size, page_token: String::new() };
    assert!(client.list(list(limits::PAGE_SIZE_MAX, bytes(limits::LOCK_NAME_BYTES_MAX))).await.is_ok());
    assert_bad_field(client.list(list(limits::PAGE_SIZE_MAX + 1, String::new())).await, "page_size");
    assert_bad_field(client.list(list(1, bytes(limits::LOCK_NAME_BYTES_MAX + 1))).await, "prefix");
    let watch = v1::WatchRequest { prefix: bytes(limits::LOCK_NAME_BYTES_MAX + 1) };
    assert_bad_field(client.watch(watch).await.map(|_| ()), "prefix");
    for fencing_token in [0, limits::TOKEN_END] {
        let check = v1::CheckTokenRequest { lock_name: "a".into(), fencing_token };
        assert_bad_field(client.check_token(check).await, "fencing_token");
    }
    let force =
        |reason: String, expected_token| v1::ForceReleaseRequest { lock_name: "a".into(), expected_token, reason };
    assert!(admin.force_release(force(bytes(limits::REASON_BYTES_MAX), limits::TOKEN_END - 1)).await.is_ok());
    assert_bad_field(admin.force_release(force(bytes(limits::REASON_BYTES_MAX + 1), 1)).await, "reason");
    assert_bad_field(admin.force_release(force(String::new(), 1)).await, "reason");
    assert_bad_field(admin.force_release(force("stuck".into(), 0)).await, "expected_token");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_without_decoding() {
    let server = Server::start().await;
    let mut client = server.client();
    let fits = AcquireRequest { holder: bytes(limits::REQUEST_BYTES_MAX - 200), ..acquire_request("a", TTL) };
    assert_bad_field(client.acquire(fits).await, "holder");
    let too_large = AcquireRequest { holder: bytes(limits::REQUEST_BYTES_MAX), ..acquire_request("a", TTL) };
    assert_eq!(client.acquire(too_large).await.unwrap_err().code(), Code::OutOfRange);
    client.acquire_lease(acquire_request("a", TTL)).await;
}
