//! Convert over the API, and by the Rust client.

use crate::support::{Lock as _, Server, acquire_request, assert_bad_field, read, until, within};
use fencepost_client::{Client, ConvertError, LossCause};
use fencepost_proto::v1::{
    self, AcquireRequest, ConvertRequest, Lease, LockMode, convert_response::Outcome, watch_response::Kind,
};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

fn request(lease: &Lease, mode: LockMode) -> ConvertRequest {
    ConvertRequest {
        lock_name: lease.lock_name.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        mode: mode.into(),
    }
}

fn shared(name: &str) -> AcquireRequest {
    AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request(name, TTL) }
}

#[tokio::test]
async fn a_conversion_answers_the_token_and_the_time_left_and_watchers_are_told() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut events = client.watch(v1::WatchRequest { prefix: "a".into() }).await.unwrap().into_inner();
    let mut next = async || events.next().await.unwrap().unwrap();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!([next().await.kind(), next().await.kind()], [Kind::Started, Kind::Granted]);
    let answer = client.convert(request(&lease, LockMode::Shared)).await.unwrap().into_inner();
    assert_eq!((answer.outcome(), answer.fencing_token), (Outcome::Converted, lease.fencing_token));
    assert!(read(answer.ttl) <= TTL && read(answer.held_for) < TTL);
    let told = next().await;
    assert_eq!((told.kind(), told.mode(), told.fencing_token), (Kind::Changed, LockMode::Shared, lease.fencing_token));
    let other = client.acquire_lease(shared("a")).await;
    assert_eq!(next().await.kind(), Kind::Granted);
    let refused = client.convert(request(&lease, LockMode::Exclusive)).await.unwrap().into_inner();
    assert_eq!((refused.outcome(), refused.holder_count, refused.holders.len()), (Outcome::Contended, 2, 2));
    client.release_lease(&other).await;
    assert_eq!(next().await.kind(), Kind::Released);
    let answer = client.convert(request(&lease, LockMode::Exclusive)).await.unwrap().into_inner();
    assert!(answer.fencing_token > other.fencing_token);
    let told = next().await;
    assert_eq!((told.mode(), told.fencing_token), (LockMode::Exclusive, answer.fencing_token));
    let late = client.convert(request(&lease, LockMode::Shared)).await.unwrap_err();
    assert_eq!(late.get_details_error_info().unwrap().reason, "TOKEN_OUTDATED");
    assert_eq!(late.code(), Code::Aborted);
    client.release_lease(&lease).await;
    let lost = client.convert(request(&lease, LockMode::Shared)).await.unwrap().into_inner();
    assert_eq!((lost.outcome(), lost.end()), (Outcome::Lost, v1::LeaseEnd::Released));
}

#[tokio::test]
async fn what_cannot_be_converted_is_refused() {
    let server = Server::start().await;
    let mut client = server.client();
    let semaphore =
        AcquireRequest { mode: LockMode::Semaphore.into(), permit_limit: 2, ..acquire_request("semaphore", TTL) };
    let lease = client.acquire_lease(semaphore).await;
    let refused = client.convert(request(&lease, LockMode::Exclusive)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.get_details_error_info().unwrap().reason, "NOT_CONVERTIBLE");
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    for mode in [LockMode::Unspecified, LockMode::Semaphore] {
        assert_bad_field(client.convert(request(&lease, mode)).await, "mode");
    }
    let no_token = ConvertRequest { fencing_token: 0, ..request(&lease, LockMode::Shared) };
    assert_bad_field(client.convert(no_token).await, "fencing_token");
    let no_lease = ConvertRequest { lease_id: "x".into(), ..request(&lease, LockMode::Shared) };
    assert_bad_field(client.convert(no_lease).await, "lease_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_is_downgraded_and_upgraded_and_its_handles_tell_the_token() {
    let server = Server::start().await;
    let client = Client::new(format!("http://{}", server.addr)).unwrap();
    let mut lock = within(async { client.acquire("a").ttl(TTL).await }).await.unwrap();
    let (held, first) = (lock.held(), lock.token());
    let reader = client.acquire("a").ttl(TTL).shared().wait(LONG);
    let reader = tokio::spawn(async move { reader.await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    within(lock.downgrade()).await.unwrap();
    assert_eq!((lock.token(), lock.is_valid()), (first, true));
    let reader = within(reader).await.unwrap().unwrap();
    assert!(!within(lock.try_upgrade()).await.unwrap());
    assert_eq!(held.token(), first);
    let token_of_reader = reader.token();
    within(reader.release()).await.unwrap();
    assert!(within(lock.try_upgrade()).await.unwrap());
    assert!(held.token() > token_of_reader, "a handle that is older than the conversion tells the token");
    assert!(within(lock.release()).await.unwrap().was_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_of_a_lock_that_is_lost_says_so() {
    let server = Server::start().await;
    let client = Client::new(format!("http://{}", server.addr)).unwrap();
    let mut lock = within(async { client.acquire("a").ttl(TTL).await }).await.unwrap();
    let revoke =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lock.token(), reason: "a test".into() };
    server.admin().force_release(revoke).await.unwrap();
    let Err(ConvertError::Lost(lost)) = within(lock.downgrade()).await else { panic!("a revoked lease was converted") };
    assert_eq!(lost.cause, LossCause::Revoked);
    assert!(!lock.is_valid());
}
