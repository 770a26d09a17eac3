//! What counts as the loss of a lease, and as a failed renewal.

use crate::{
    http::get,
    metrics::{Measured, sum},
    redis_server::Redis,
    scrape::scrape,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, until},
};
use fencepost_proto::v1::{
    self, LeaseEnd, admin_service_client::AdminServiceClient, keep_alive_response::Message as ServerMessage,
    lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tonic::transport::Channel;

/// Short, so that renewals come soon. Long enough that a busy machine does not lose a lease.
const TTL: Duration = Duration::from_secs(6);

/// A server on this Redis, once it is ready.
async fn on(redis: &Redis) -> (Measured, LockServiceClient<Channel>) {
    let it = Measured::start(&["--store", &redis.url()]);
    until(async || get(&it.admin, "/readyz").status == 200).await;
    let client = LockServiceClient::new(it.channel());
    (it, client)
}

/// A stream that keeps this lease.
async fn keeping(client: &LockServiceClient<Channel>, lease: &v1::Lease) -> Stream {
    let mut stream = Stream::open(client.clone()).await;
    stream.attach(vec![attachment(1, lease)]).await;
    let attached = stream.next_but_beats(true).await;
    assert!(matches!(attached, ServerMessage::Attached(_)), "{attached:?}");
    stream
}

/// Answers beats until the stream says that its lease is lost. Returns how it ended.
async fn lost(stream: &mut Stream) -> LeaseEnd {
    loop {
        match stream.next_but_beats(true).await {
            ServerMessage::Lost(lost) => return lost.end(),
            ServerMessage::Renewed(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Redis and its server lose all. A server that is started anew goes on.
async fn forget(redis: &mut Redis, it: Measured) -> (Measured, LockServiceClient<Channel>) {
    drop(it);
    redis.restart(false);
    on(redis).await
}

/// The losses by cause, and the renewals that found a lease lost and an unknown one.
fn counts(it: &Measured) -> [f64; 5] {
    let families = scrape(&it.admin);
    let losses = |cause| sum(&families, "fencepost_losses_total", &[("cause", cause)]);
    let renewals = |outcome| sum(&families, "fencepost_renewals_total", &[("outcome", outcome)]);
    let others = losses("expired") + losses("revoked");
    [losses("superseded"), losses("unknown"), others, renewals("lost"), renewals("unknown")]
}

/// The server counts after it has told the client.
async fn await_counts(it: &Measured, expected: [f64; 5]) {
    until(async || counts(it) == expected).await;
}

/// A stream that goes on with a lease that the store has forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_lease_that_the_store_has_forgotten_is_a_loss() {
    let mut redis = Redis::start(&[]);
    let (it, mut client) = on(&redis).await;
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let (it, mut client) = forget(&mut redis, it).await;
    let mut stream = Stream::open(client.clone()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert_eq!(lost(&mut stream).await, LeaseEnd::Unknown);
    await_counts(&it, [0.0, 0.0, 0.0, 0.0, 1.0]).await;
    // Somebody else has it by now.
    client.acquire_lease(acquire_request("a", Duration::from_secs(60))).await;
    let mut stream = Stream::open(client.clone()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert_eq!(lost(&mut stream).await, LeaseEnd::Superseded);
}

/// A stream keeps it; an operator takes it away.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_lease_that_is_revoked_is_a_loss() {
    let redis = Redis::start(&[]);
    let (it, mut client) = on(&redis).await;
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut stream = keeping(&client, &lease).await;
    let reason = "test".to_owned();
    let force = v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lease.fencing_token, reason };
    AdminServiceClient::new(it.channel()).force_release(force).await.unwrap();
    assert_eq!(lost(&mut stream).await, LeaseEnd::Revoked);
    until(async || counts(&it)[2] == 1.0).await;
    until(async || it.sum("fencepost_hold_seconds_count", &[]) == 1.0).await;
}

/// Anybody can ask for the renewal of a lease that never was.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_id_that_was_made_up_is_no_loss() {
    let it = Measured::start(&[]);
    let mut client = LockServiceClient::new(it.channel());
    let held = client.acquire_lease(acquire_request("held", TTL)).await;
    let made_up = |name: &str| v1::Lease {
        lock_name: name.to_owned(),
        lease_id: "2943fe55-ef15-4e32-bfa8-096c25b0bc90".to_owned(),
        ..held.clone()
    };
    for (name, end) in [("held", LeaseEnd::Superseded), ("free", LeaseEnd::Unknown)] {
        let v1::Lease { lock_name, lease_id, .. } = made_up(name);
        let renewed = client.renew(v1::RenewRequest { lock_name, lease_id, ttl: None }).await.unwrap().into_inner();
        assert_eq!(renewed.end(), end, "{renewed:?}");
        let mut stream = Stream::open(client.clone()).await;
        stream.attach(vec![attachment(1, &made_up(name))]).await;
        assert_eq!(lost(&mut stream).await, end);
    }
    await_counts(&it, [0.0, 0.0, 0.0, 0.0, 4.0]).await;
    assert_eq!(it.sum("fencepost_hold_seconds_count", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_the_store_does_not_answer_has_failed() {
    let redis = Redis::start(&[]);
    let (it, mut client) = on(&redis).await;
    let lease = client.acquire_lease(acquire_request("a", Duration::from_secs(60))).await;
    let mut stream = Stream::open(client.clone()).await;
    redis.pause();
    stream.attach(vec![attachment(1, &lease)]).await;
    let at_risk = stream.next_but_beats(true).await;
    assert!(matches!(at_risk, ServerMessage::AtRisk(_)), "{at_risk:?}");
    let v1::Lease { lock_name, lease_id, .. } = lease;
    client.renew(v1::RenewRequest { lock_name, lease_id, ttl: None }).await.unwrap_err();
    until(async || it.sum("fencepost_renewals_total", &[("outcome", "failed")]) >= 2.0).await;
    redis.resume();
    assert_eq!(counts(&it), [0.0; 5]);
}
