//! What each server does, the real one and the fake one. The tests of the command line run it with the real one.

use fencepost_client::{AcquireError, Client, Lock, raw::v1};
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use v1::check_token_response::Status as TokenStatus;
use v1::keep_alive_request::Message as KeepAliveRequest;
use v1::keep_alive_response::Message as KeepAlive;
use v1::lock_service_client::LockServiceClient;
use v1::watch_response::Kind;

/// The bound of every wait.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) fn client(address: &str) -> Client {
    Client::builder().server(address).holder("a test").build().unwrap()
}

async fn raw(address: &str) -> LockServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    LockServiceClient::new(endpoint.connect().await.unwrap())
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("the future resolves in time")
}

pub(crate) async fn info(client: &Client, name: &str) -> v1::LockInfo {
    client.calls().get(v1::GetRequest { lock_name: name.to_owned() }).await.unwrap().lock.unwrap()
}

/// Waits until the public state of a lock is as wanted.
async fn until(client: &Client, name: &str, wanted: impl Fn(&v1::LockInfo) -> bool) {
    within(async {
        while !wanted(&info(client, name).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) async fn waiters(client: &Client, name: &str, count: u32) {
    until(client, name, |lock| lock.waiters == count).await;
}

/// Waits until a lock has been held for that long, or is free.
pub(crate) async fn held_for(client: &Client, name: &str, long: Duration) {
    let since = |holder: &v1::LockHolder| Duration::try_from(holder.held_since.unwrap()).unwrap();
    until(client, name, |lock| lock.holders.iter().all(|holder| since(holder) > long)).await;
}

/// A waiting acquire in its own task.
pub(crate) fn wait(client: &Client, name: &str) -> JoinHandle<Result<Lock, AcquireError>> {
    tokio::spawn(client.acquire(name).wait(BOUND).into_future())
}

pub(crate) async fn it_grants_in_order_and_renews(address: &str) {
    let client = client(address);
    let ttl = Duration::from_millis(1_500);
    let lock = client.acquire("orders/42").ttl(ttl).metadata("job", "7").await.unwrap();
    let error = client.acquire("orders/42").await.unwrap_err();
    let AcquireError::Contended { holders, waiters: 0, .. } = error else { panic!("{error:?}") };
    assert_eq!((holders[0].label.as_str(), holders[0].token), ("a test", Some(lock.token())));
    assert_eq!(holders[0].metadata["job"], "7");
    let error = client.acquire("orders/42").wait(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    held_for(&client, "orders/42", ttl * 4 / 3).await;
    assert!(lock.is_valid());

    let mut waits = Vec::new();
    for count in 1..4 {
        waits.push(wait(&client, "orders/42"));
        waiters(&client, "orders/42", count).await;
    }
    let mut newest = lock.token();
    assert!(lock.release().await.unwrap().was_held());
    for wait in waits {
        let lock = within(wait).await.unwrap().unwrap();
        assert!(lock.token() > newest);
        assert_eq!(lock.previous_end(), Some(fencepost_client::LeaseEnd::Released));
        newest = lock.token();
        lock.release().await.unwrap();
    }
    let lowest = newest + 1_000_000;
    assert!(client.acquire("orders/42").min_token(lowest).await.unwrap().token() >= lowest);
}

pub(crate) async fn it_answers_questions(address: &str) {
    let (client, mut raw) = (client(address), raw(address).await);
    let mut events = raw.watch(v1::WatchRequest { prefix: "orders/".to_owned() }).await.unwrap().into_inner();
    let first = client.acquire("orders/42").await.unwrap();
    let _other = client.acquire("other").await.unwrap();
    let old = first.token();
    first.release().await.unwrap();
    let lock = client.acquire("orders/42").await.unwrap();
    let newest = lock.token();
    for expected in [(Kind::Started, 0), (Kind::Granted, old), (Kind::Released, old), (Kind::Granted, newest)] {
        let event = within(events.message()).await.unwrap().unwrap();
        assert_eq!((event.kind(), event.fencing_token), expected);
    }
    let listed = raw.list(v1::ListRequest { prefix: "orders/".to_owned(), ..Default::default() }).await.unwrap();
    let [listed] = listed.into_inner().locks.try_into().unwrap();
    assert_eq!((listed.lock_name.as_str(), listed.newest_token), ("orders/42", newest));
    let check = |fencing_token| {
        let calls = client.calls();
        let request = v1::CheckTokenRequest { lock_name: "orders/42".to_owned(), fencing_token };
        async move { calls.check_token(request).await.unwrap().status() }
    };
    assert_eq!(check(old).await, TokenStatus::Stale);
    assert_eq!(check(newest).await, TokenStatus::Current);
    assert_eq!(check(newest + 1).await, TokenStatus::Unknown);
    lock.release().await.unwrap();
    assert_eq!(check(newest).await, TokenStatus::Ended);
}

pub(crate) async fn it_has_the_same_locks_for_unary_calls_and_keep_alive_streams(address: &str) {
    let (client, mut raw) = (client(address), raw(address).await);
    let calls = client.calls();
    let request = v1::AcquireRequest {
        lock_name: "orders/42".to_owned(),
        ttl: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        wait_timeout: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
        ..Default::default()
    };
    // Without request ids, each is a request of its own.
    let v1::Lease { lock_name, lease_id, fencing_token, .. } =
        raw.acquire(request.clone()).await.unwrap().into_inner().lease.unwrap();
    let waiting = tokio::spawn({
        let mut raw = raw.clone();
        async move { raw.acquire(request).await.unwrap().into_inner().lease.unwrap() }
    });
    waiters(&client, "orders/42", 1).await;

    let (to_server, requests) = tokio::sync::mpsc::channel(1);
    let send = |message| to_server.send(v1::KeepAliveRequest { message: Some(message) });
    let mut answers = raw.keep_alive(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let lease = v1::RenewRequest { lock_name: lock_name.clone(), lease_id: lease_id.clone(), ttl: None };
    let attachment = v1::LeaseAttachment { handle: 7, lock_name, lease_id, ..Default::default() };
    send(KeepAliveRequest::Attach(v1::AttachLeases { leases: vec![attachment] })).await.unwrap();
    let mut renewals = 0;
    while renewals < 3 {
        let groups = match within(answers.message()).await.unwrap().unwrap().message.unwrap() {
            KeepAlive::Beat(v1::Beat { beat, .. }) => {
                send(KeepAliveRequest::Answer(v1::BeatAnswer { beat })).await.unwrap();
                continue;
            }
            KeepAlive::Attached(attached) => attached.leases,
            KeepAlive::Renewed(renewed) => renewed.leases,
            other => panic!("{other:?}"),
        };
        assert_eq!(groups[0].handles, [7]);
        renewals += 1;
    }
    send(KeepAliveRequest::Detach(v1::DetachLeases { handles: vec![7] })).await.unwrap();

    let ttl = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let renewed = calls.renew(v1::RenewRequest { ttl, ..lease.clone() }).await.unwrap();
    assert_eq!(renewed.fencing_token, fencing_token);
    assert!((59..=60).contains(&renewed.ttl.unwrap().seconds));
    let lease = v1::ReleaseRequest { lock_name: lease.lock_name, lease_id: lease.lease_id };
    assert_eq!(calls.release(lease.clone()).await.unwrap().end(), v1::LeaseEnd::Released);
    assert!(within(waiting).await.unwrap().fencing_token > fencing_token);
    assert_eq!(calls.release(lease).await.unwrap().end(), v1::LeaseEnd::Released, "a repeat has the same answer");
}
