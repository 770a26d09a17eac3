//! A full disk of Redis: what happens until there is room again.

use crate::{
    redis_server::Redis,
    server_on, serving, start_on,
    support::{Lock, Server, acquire_request, until, waiting_request, within},
};
use fencepost_proto::v1::{self, LeaseEnd};
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// Calls until one is refused.
async fn refused(server: &Server) -> tonic::Status {
    within(async {
        loop {
            match server.client().acquire(acquire_request("b", TTL)).await {
                Ok(_) => tokio::time::sleep(PAUSE).await,
                Err(status) => return status,
            }
        }
    })
    .await
}

/// Waits until Redis has exited. Returns its exit code.
async fn exit_of(redis: &mut Redis) -> i32 {
    within(async {
        loop {
            match redis.exit_code() {
                None => tokio::time::sleep(PAUSE).await,
                Some(code) => return code,
            }
        }
    })
    .await
}

/// With appendfsync always Redis cannot take back what it could not write, so it exits. Nothing that was answered is
/// lost by that: it was on the disk.
#[tokio::test]
async fn a_full_disk_ends_a_redis_that_writes_always_and_nothing_is_lost() {
    let mut redis = Redis::start_with_small_disk(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    redis.fill_disk();
    assert_eq!(exit_of(&mut redis).await, 1, "{}", redis.log());
    serving(&server, false).await;
    let status = refused(&server).await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("nothing listens there"), "{status}");
    // The disk has room again, and Redis is started.
    redis.restart(true);
    serving(&server, true).await;
    let current = server.client().lock_info("a").await;
    assert_eq!((current.holders[0].fencing_token, current.waiters), (lease.fencing_token, 1));
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Released);
    let next = within(waiter).await.unwrap();
    assert!(next.fencing_token > lease.fencing_token);
    // The call that failed may have been carried out since: then the server gives its lock back.
    until(|| async { server.client().holder("b").await.is_none() }).await;

    // Now its only server dies meanwhile: what Redis wrote is what there is.
    redis.fill_disk();
    assert_eq!(exit_of(&mut redis).await, 1);
    drop(server);
    redis.restart(true);
    let server = start_on(&redis).await;
    serving(&server, true).await;
    let holder = server.client().holder("a").await.expect("the lease was on the disk");
    assert_eq!(holder.fencing_token, next.fencing_token);
    assert!(server.client().acquire_lease(acquire_request("d", TTL)).await.fencing_token > 0);
}

/// With any other appendfsync Redis goes on, and refuses writes until one of its own succeeds.
#[tokio::test]
async fn a_full_disk_makes_a_redis_that_writes_each_second_refuse_writes() {
    let mut redis = Redis::start_with_small_disk(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.fill_disk();
    serving(&server, false).await;
    let status = refused(&server).await;
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("Redis cannot save to disk and refuses writes"), "{status}");
    assert_eq!(redis.exit_code(), None, "{}", redis.log());
    redis.empty_disk();
    serving(&server, true).await;
    let holder = server.client().holder("a").await.unwrap();
    assert_eq!(holder.fencing_token, lease.fencing_token);
    let release = v1::ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id };
    assert_eq!(server.client().release(release).await.unwrap().into_inner().end(), LeaseEnd::Released);
}
