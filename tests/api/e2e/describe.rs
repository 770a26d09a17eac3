//! What others see of holders and waiters: descriptions, observers, the queue, and what a holder is told of it.

use crate::support::{Lock as _, Server, acquire_request, assert_bad_field, within};
use fencepost_proto::v1::{
    self, AcquireRequest, DescribeRequest, Lease, ListWaitersRequest, LockInfo, LockMode, ObserveRequest,
    acquire_response, describe_response::Outcome, lock_service_client::LockServiceClient, watch_response::Kind,
};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::{Streaming, transport::Channel};

const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(20);

fn description(lease: &Lease, text: &str, number: u64) -> DescribeRequest {
    DescribeRequest {
        lock_name: lease.lock_name.clone(),
        lease_id: lease.lease_id.clone(),
        metadata: [("at".to_owned(), text.to_owned())].into(),
        holder: None,
        number,
    }
}

async fn describe(client: &mut LockServiceClient<Channel>, request: DescribeRequest) -> (Outcome, u64) {
    let answer = client.describe(request).await.unwrap().into_inner();
    (answer.outcome(), answer.number)
}

async fn observe(client: &mut LockServiceClient<Channel>, name: &str) -> Streaming<v1::ObserveResponse> {
    client.observe(ObserveRequest { lock_name: name.into() }).await.unwrap().into_inner()
}

async fn state(states: &mut Streaming<v1::ObserveResponse>) -> LockInfo {
    within(states.next()).await.unwrap().unwrap().lock.unwrap()
}

fn text_of(state: &LockInfo) -> Option<&str> {
    state.holders.first()?.metadata.get("at").map(String::as_str)
}

#[tokio::test]
async fn the_description_with_the_highest_number_is_seen_until_the_lease_ends() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut events = client.watch(v1::WatchRequest { prefix: "a".into() }).await.unwrap().into_inner();
    assert_eq!(events.next().await.unwrap().unwrap().kind(), Kind::Started);
    assert_eq!(describe(&mut client, description(&lease, "first", 0)).await, (Outcome::Described, 1));
    let told = events.next().await.unwrap().unwrap();
    assert_eq!((told.kind(), told.mode()), (Kind::Changed, LockMode::Exclusive));
    let renamed = DescribeRequest { holder: Some("leader".into()), ..description(&lease, "third", 3) };
    assert_eq!(describe(&mut client, renamed.clone()).await, (Outcome::Described, 3));
    assert_eq!(describe(&mut client, description(&lease, "late", 2)).await, (Outcome::Outdated, 3));
    assert_eq!(describe(&mut client, renamed).await, (Outcome::Described, 3), "a repeat");
    let lock = client.get(v1::GetRequest { lock_name: "a".into() }).await.unwrap().into_inner().lock.unwrap();
    assert_eq!((text_of(&lock), &*lock.holders[0].holder), (Some("third"), "leader"));
    assert_eq!((lock.holders[0].description, lock.holders[0].fencing_token), (3, lease.fencing_token));
    client.release_lease(&lease).await;
    let lost = client.describe(description(&lease, "late", 9)).await.unwrap().into_inner();
    assert_eq!((lost.outcome(), lost.end()), (Outcome::Lost, v1::LeaseEnd::Released));
    let refused = client.describe(DescribeRequest { lease_id: "x".into(), ..description(&lease, "", 1) }).await;
    assert_bad_field(refused, "lease_id");
}

#[tokio::test]
async fn observers_see_the_present_state_and_each_newest_one_after_it() {
    let server = Server::start().await;
    let mut client = server.client();
    let mut first = observe(&mut client, "a").await;
    assert_eq!(state(&mut first).await.holder_count, 0, "nobody has it, and that is a state");
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(state(&mut first).await.holders[0].fencing_token, lease.fencing_token);
    let held = async |client: &mut LockServiceClient<Channel>| {
        let get = v1::GetRequest { lock_name: "a".into() };
        client.get(get).await.unwrap().into_inner().lock.unwrap().holders[0].held_since.unwrap()
    };
    let before = held(&mut client).await;
    let mut second = observe(&mut client, "a").await;
    let LockInfo { holders, .. } = state(&mut second).await;
    assert_eq!(holders[0].fencing_token, lease.fencing_token);
    let seen = holders[0].held_since.unwrap();
    assert!((seen.seconds, seen.nanos) >= (before.seconds, before.nanos), "what another observer was told is older");
    // Another lock whose name begins the same is none of theirs.
    client.acquire_lease(acquire_request("a/b", TTL)).await;
    describe(&mut client, description(&lease, "here", 1)).await;
    for states in [&mut first, &mut second] {
        assert_eq!(text_of(&state(states).await), Some("here"));
    }
    drop(first);
    client.release_lease(&lease).await;
    assert_eq!(state(&mut second).await.holder_count, 0);
    drop(second);
    let mut third = observe(&mut client, "a").await;
    assert_eq!(state(&mut third).await.holder_count, 0, "one that comes after all have left begins anew");
}

#[tokio::test]
async fn waiters_are_listed_in_order_in_pages_and_max_waiters_bounds_them() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(AcquireRequest { owner: "job-0".into(), ..acquire_request("a", TTL) }).await;
    let page = |token: &str| ListWaitersRequest { lock_name: "a".into(), page_size: 2, page_token: token.into() };
    let mut waits = Vec::new();
    for number in 1..=3_u32 {
        let wait_timeout = Some(prost_types::Duration { seconds: 20, nanos: 0 });
        let owner = format!("job-{number}");
        let request = AcquireRequest { wait_timeout, owner, ..acquire_request("a", TTL) };
        let mut waiting = server.client();
        waits.push(tokio::spawn(async move { waiting.acquire(request).await }));
        let queued = async {
            loop {
                let answer = client.list_waiters(page("")).await.unwrap().into_inner();
                if answer.lock.unwrap().waiters == number {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT, queued).await.unwrap();
    }
    let first = client.list_waiters(page("")).await.unwrap().into_inner();
    let second = client.list_waiters(page(&first.next_page_token)).await.unwrap().into_inner();
    let owners: Vec<_> = first.waiters.iter().chain(&second.waiters).map(|waiter| waiter.owner.as_str()).collect();
    assert_eq!((owners, &*second.next_page_token), (vec!["job-1", "job-2", "job-3"], ""));
    assert_eq!(first.lock.unwrap().holders[0].owner, "job-0");
    let waiter = &first.waiters[0];
    assert_eq!((waiter.mode(), waiter.skipped, waiter.waiter_id.len()), (LockMode::Exclusive, false, 32));
    assert_ne!(waiter.waiter_id, first.waiters[1].waiter_id);
    let wait_timeout = Some(prost_types::Duration { seconds: 20, nanos: 0 });
    let bounded = AcquireRequest { wait_timeout, max_waiters: 3, ..acquire_request("a", TTL) };
    let answer = within(client.acquire(bounded)).await.unwrap().into_inner();
    assert_eq!((answer.outcome(), answer.waiters), (acquire_response::Outcome::Contended, 3));
    let bad = client.list_waiters(ListWaitersRequest { page_size: 101, ..page("") }).await;
    assert_bad_field(bad, "page_size");
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    client.release_lease(&lease).await;
}
