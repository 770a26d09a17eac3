//! Semaphores over the API, unary and by the Rust client.

use crate::support::{Lock as _, Server, acquire_request, until, within};
use fencepost_client::{AcquireError, Client};
use fencepost_proto::v1::{self, AcquireRequest, LockMode, Semaphore, acquire_response::Outcome};
use std::time::Duration;
use tonic::Code;
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

fn permits(name: &str, permits: u32, permit_limit: u32) -> AcquireRequest {
    AcquireRequest { mode: LockMode::Semaphore.into(), permits, permit_limit, ..acquire_request(name, TTL) }
}

#[tokio::test]
async fn answers_show_permits_slots_and_the_limit() {
    let server = Server::start().await;
    let mut client = server.client();
    let one = client.acquire_lease(permits("a", 0, 4)).await;
    let two = client.acquire_lease(permits("a", 2, 4)).await;
    assert_eq!((one.slot, two.slot), (1, 0));
    let refused = client.acquire_response(permits("a", 2, 4)).await;
    let semaphore = Some(Semaphore { permits_used: 3, permit_limit: 4, permit_limit_version: 0 });
    assert_eq!((refused.outcome(), refused.holder_count), (Outcome::Contended, 2));
    let info = client.lock_info("a").await;
    assert_eq!((refused.semaphore, info.semaphore), (semaphore, semaphore));
    for holders in [refused.holders, info.holders] {
        let shown = holders.iter().map(|holder| (holder.mode(), holder.permits, holder.slot)).collect::<Vec<_>>();
        assert_eq!(shown, [(LockMode::Semaphore, 1, 1), (LockMode::Semaphore, 2, 0)]);
    }
    let listed = client.list(v1::ListRequest::default()).await.unwrap().into_inner().locks;
    assert_eq!(listed.iter().map(|lock| lock.semaphore).collect::<Vec<_>>(), [semaphore]);
    client.release_lease(&one).await;
    client.release_lease(&two).await;
    let alone = client.acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!((alone.slot, client.lock_info("a").await.semaphore), (0, None));
}

#[tokio::test]
async fn programs_that_disagree_are_told_why() {
    let server = Server::start().await;
    let mut client = server.client();
    client.acquire_lease(permits("a", 1, 4)).await;
    let mismatch = client.acquire(permits("a", 1, 5)).await.unwrap_err();
    let reason = mismatch.get_details_error_info().unwrap();
    assert_eq!((mismatch.code(), reason.reason.as_str()), (Code::FailedPrecondition, "PERMIT_LIMIT_MISMATCH"));
    let metadata = ["permit_limit", "permit_limit_version"].map(|name| reason.metadata[name].as_str());
    assert_eq!(metadata, ["4", "0"]);
    assert!(mismatch.message().contains("limit 4 of version 0 is in force"), "{mismatch}");
    let shared = AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request("a", TTL) };
    let other_mode = client.acquire(shared).await.unwrap_err();
    let reason = other_mode.get_details_error_info().unwrap().reason;
    assert_eq!((other_mode.code(), reason.as_str()), (Code::FailedPrecondition, "MODE_MISMATCH"));
    assert_eq!(client.lock_info("a").await.holder_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_slot_that_comes_free_and_a_higher_version_raises_the_limit() {
    let server = Server::start().await;
    let client = Client::new(format!("http://{}", server.addr)).unwrap();
    let permit = || client.acquire("pool").ttl(TTL).semaphore(2);
    let first = within(async { permit().await }).await.unwrap();
    let second = within(async { permit().await }).await.unwrap();
    assert_eq!([first.slot(), second.slot()], [Some(1), Some(2)]);
    let Err(AcquireError::Contended { holders, .. }) = permit().await else { panic!("a third permit of two") };
    assert_eq!(holders.iter().map(|it| (it.permits, it.slot)).collect::<Vec<_>>(), [(1, Some(1)), (1, Some(2))]);
    let waits = |acquire: fencepost_client::Acquire| tokio::spawn(async move { acquire.wait(LONG).await });
    let waiter = waits(permit());
    until(|| async { server.client().lock_info("pool").await.waiters == 1 }).await;
    within(first.release()).await.unwrap();
    let third = within(waiter).await.unwrap().unwrap();
    assert_eq!(third.slot(), Some(1));
    let waiter = waits(permit());
    until(|| async { server.client().lock_info("pool").await.waiters == 1 }).await;
    let wide = waits(client.acquire("pool").ttl(TTL).semaphore(5).permits(2).permit_limit_version(1));
    assert_eq!(within(waiter).await.unwrap().unwrap().slot(), Some(3));
    assert_eq!(within(wide).await.unwrap().unwrap().slot(), None);
    drop((second, third));
}
