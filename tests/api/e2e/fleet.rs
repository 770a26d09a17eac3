//! What a lock cannot be asked for because of others that share its store: a server of an earlier version, or clients
//! that use Redis directly. Refused by the unary call and on a session.

use crate::{
    old_server::OldServer,
    redis::Redis,
    session_stream::Session,
    support::{Lock as _, Server, acquire_request, assert_refused, span, until, within},
};
use fencepost::testing::config::StoreUrl;
use fencepost_proto::v1::{
    AcquireRequest, ConvertRequest, DescribeRequest, Lease, LockMode, acquire_response::Outcome,
};
use std::time::Duration;
use tonic::{Code, Status};

const TTL: Duration = Duration::from_secs(30);

async fn start(redis: &Redis, classic_prefix: &str) -> Server {
    let url = redis.url();
    Server::start_with(|config| {
        config.store = StoreUrl::Redis(vec![url]);
        config.classic_prefix = classic_prefix.to_owned();
    })
    .await
}

/// Requests that not all can understand, and what a refusal says of each.
fn requests() -> Vec<(AcquireRequest, &'static str)> {
    let mode = |mode: LockMode| AcquireRequest { mode: mode.into(), ..acquire_request("a", TTL) };
    vec![
        (mode(LockMode::Shared), "mode SHARED"),
        (AcquireRequest { permit_limit: 2, ..mode(LockMode::Semaphore) }, "mode SEMAPHORE"),
        (AcquireRequest { min_hold: span(TTL), ..acquire_request("a", TTL) }, "min_hold"),
        (AcquireRequest { lock_delay: span(TTL), ..acquire_request("a", TTL) }, "lock_delay"),
        (AcquireRequest { max_hold: span(2 * TTL), ..acquire_request("a", TTL) }, "max_hold"),
        (AcquireRequest { owner: "job-7".into(), ..acquire_request("a", TTL) }, "owner"),
    ]
}

/// What the server says of a request by the unary call and on a session, which continues.
async fn refusals(server: &Server, session: &mut Session, request: AcquireRequest) -> [Status; 2] {
    let unary = within(server.client().acquire(request.clone())).await.unwrap_err();
    session.acquire(1, request).await;
    [unary, session.failed(1).await]
}

#[track_caller]
fn assert_says(refusal: Status, reason: &str, parts: &[&str]) {
    let refusal = assert_refused(Err::<(), _>(refusal), Code::FailedPrecondition, reason);
    for part in parts {
        assert!(refusal.message().contains(part), "{part:?} is not in {refusal:?}");
    }
}

fn conversion(lease: &Lease) -> ConvertRequest {
    let Lease { lock_name, lease_id, fencing_token, .. } = lease.clone();
    ConvertRequest { lock_name, lease_id, fencing_token, mode: LockMode::Shared.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_of_an_earlier_version_does_not_know_is_refused() {
    let redis = Redis::start(&[]);
    let server = start(&redis, "").await;
    let lease = server.client().acquire_lease(acquire_request("held", TTL)).await;
    let old = OldServer::start(&redis);
    until(|| async {
        let (answer, _) = &requests()[0];
        server.client().acquire(answer.clone()).await.is_err_and(|status| status.code() == Code::FailedPrecondition)
    })
    .await;
    let mut session = Session::open(server.client()).await;
    for (request, field) in requests() {
        for refusal in refusals(&server, &mut session, request).await {
            assert_says(refusal, "NOT_ALL_SERVERS", &["1 of the 2 servers", field, "upgrade all servers, or leave"]);
        }
    }
    let refused = server.client().convert(conversion(&lease)).await.unwrap_err();
    assert_says(refused, "NOT_ALL_SERVERS", &["Convert"]);
    let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
    let describe = DescribeRequest { lock_name, lease_id, number: 1, ..DescribeRequest::default() };
    assert_says(server.client().describe(describe).await.unwrap_err(), "NOT_ALL_SERVERS", &["Describe"]);
    session.acquire_lease(1, acquire_request("b", TTL)).await;
    // Once it is gone, all is granted.
    drop(old);
    let (request, _) = requests().swap_remove(0);
    until(|| async {
        let answer = server.client().acquire(request.clone()).await;
        answer.is_ok_and(|answer| answer.into_inner().outcome() == Outcome::Acquired)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_classic_clients_do_not_see_is_refused() {
    let redis = Redis::start(&[]);
    let server = start(&redis, "lock:").await;
    let lease = server.client().acquire_lease(acquire_request("held", TTL)).await;
    let mut session = Session::open(server.client()).await;
    for (request, field) in requests() {
        if ["max_hold", "owner"].contains(&field) {
            // The server sees to these alone.
            let lock_name = field.to_owned();
            server.client().acquire_lease(AcquireRequest { lock_name, ..request }).await;
            continue;
        }
        let field = field.trim_start_matches("mode ");
        for refusal in refusals(&server, &mut session, request).await {
            assert_says(refusal, "BESIDE_CLASSIC", &["--classic-prefix", field, "leave them out"]);
        }
    }
    let refused = server.client().convert(conversion(&lease)).await.unwrap_err();
    assert_says(refused, "BESIDE_CLASSIC", &["--classic-prefix"]);
    assert_eq!(server.client().holder("a").await, None, "a refused request has no effect");
}
