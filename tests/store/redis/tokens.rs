//! Tokens rise, whatever happens to Redis.

use crate::{
    redis_server::Redis,
    server_on, serving,
    support::{Lock, Server, acquire_request, until},
};
use fencepost::testing::store::quorum::config::bootstrap::PARTITIONS;
use fencepost_proto::v1;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// Checks that each token is above the one before.
#[derive(Default)]
pub(crate) struct RisingTokens {
    highest: u64,
}

impl RisingTokens {
    /// Acquires and releases the lock `count` times.
    pub(crate) async fn check(&mut self, server: &Server, count: usize) {
        for _ in 0..count {
            let lease = server.client().acquire_lease(acquire_request("tokens", TTL)).await;
            assert!(lease.fencing_token > self.highest, "{} after {}", lease.fencing_token, self.highest);
            self.highest = lease.fencing_token;
            server.client().release_lease(&lease).await;
        }
    }
}

#[tokio::test]
async fn tokens_rise_after_flushes_restarts_and_losses_of_data() {
    let mut redis = Redis::start(&["--appendonly", "yes"]);
    let server = server_on(&redis).await;
    let mut tokens = RisingTokens { highest: 0 };
    tokens.check(&server, 20).await;
    redis.command(&["FLUSHALL"]);
    tokens.check(&server, 20).await;
    for keep in [true, false, true, false] {
        redis.kill();
        redis.restart(keep);
        serving(&server, true).await;
        until(|| async { server.client().acquire(acquire_request("probe", Duration::from_secs(1))).await.is_ok() })
            .await;
        tokens.check(&server, 20).await;
    }
    redis.command(&["FLUSHALL"]);
    tokens.check(&server, 20).await;
    // A new server knows no token.
    let fresh = server_on(&redis).await;
    tokens.check(&fresh, 20).await;
}

#[tokio::test]
async fn tokens_rise_after_a_restart_from_an_older_dump_and_a_flush_around_a_restart() {
    let redis = Redis::start(&["--appendonly", "no"]);
    let mut tokens = RisingTokens::default();
    tokens.check(&server_on(&redis).await, 10).await;
    redis.command(&["SAVE"]);
    let dump = std::fs::read(redis.folder().join("dump.rdb")).unwrap();
    // Tokens that are not in the dump, and that no server remembers.
    let held = {
        let server = server_on(&redis).await;
        tokens.check(&server, 200).await;
        server.client().acquire_lease(acquire_request("tokens", TTL)).await
    };
    drop(redis);
    let mut redis = Redis::start_with_files(&["--appendonly", "no"], &[("dump.rdb", &dump)]);
    let server = server_on(&redis).await;
    tokens.highest = held.fencing_token;
    tokens.check(&server, 10).await;
    assert_ne!(server.client().release_lease(&held).await, v1::LeaseEnd::Released, "the lease is forgotten");
    drop(server);
    redis.command(&["SAVE"]);
    // A restart moves the counter ahead by a second, which a flush within that second would forget. This is a
    // documented limit.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    redis.restart(true);
    redis.command(&["FLUSHALL"]);
    tokens.check(&server_on(&redis).await, 10).await;
    // A flush, and then a restart.
    redis.command(&["FLUSHALL"]);
    redis.restart(true);
    tokens.check(&server_on(&redis).await, 10).await;
}

#[tokio::test]
async fn tokens_rise_over_servers_connected_to_different_incarnations_of_one_redis() {
    let redis = Redis::start(&[]);
    let (old, new) = (server_on(&redis).await, server_on(&redis).await);
    let mut tokens = RisingTokens::default();
    tokens.check(&old, 10).await;
    tokens.check(&new, 10).await;
    // As after a promotion that keeps connections: only the next handshake learns of the new incarnation.
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    tokens.check(&old, 5).await;
    let newest = server_on(&redis).await;
    tokens.check(&newest, 5).await;
    // The partitions have left the incarnation that these servers are connected to.
    for server in [&old, &new, &newest, &old] {
        until(|| async {
            server.client().acquire(acquire_request("tokens", TTL)).await.is_ok_and(|it| {
                let lease = it.into_inner().lease.unwrap();
                assert!(lease.fencing_token > tokens.highest);
                true
            })
        })
        .await;
        let current = server.client().holder("tokens").await.unwrap();
        let force = v1::ForceReleaseRequest {
            lock_name: "tokens".into(),
            expected_token: current.fencing_token,
            reason: "test".into(),
        };
        server.admin().force_release(force).await.unwrap();
        tokens.highest = current.fencing_token;
        tokens.check(server, 5).await;
    }
}

#[tokio::test]
async fn tokens_rise_after_a_loss_of_data_that_no_server_remembers() {
    let mut redis = Redis::start(&[]);
    let mut tokens = RisingTokens { highest: 0 };
    for _ in 0..3 {
        // A second apart: several losses of data within a second are a documented limit.
        let apart = tokio::time::sleep(Duration::from_millis(1_100));
        let server = server_on(&redis).await;
        tokens.check(&server, 20).await;
        drop(server);
        apart.await;
        redis.kill();
        redis.restart(false);
    }
}

#[tokio::test]
async fn tokens_rise_after_a_high_min_token_and_a_force_release() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut tokens = RisingTokens { highest: 0 };
    tokens.check(&server, 1).await;
    let far = v1::AcquireRequest { min_token: tokens.highest + 3_600_000_000, ..acquire_request("tokens", TTL) };
    let lease = server.client().acquire_lease(far).await;
    assert_eq!(lease.fencing_token, tokens.highest + 3_600_000_000);
    tokens.highest = lease.fencing_token;
    let force = v1::ForceReleaseRequest {
        lock_name: "tokens".into(),
        expected_token: lease.fencing_token,
        reason: "test".into(),
    };
    server.admin().force_release(force).await.unwrap();
    tokens.check(&server, 5).await;
    for min_token in [u64::MAX, 1 << 53, tokens.highest + 2 * 86_400_000_000] {
        let hostile = v1::AcquireRequest { min_token, ..acquire_request("tokens", TTL) };
        assert_eq!(server.client().acquire(hostile).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
    tokens.check(&server, 5).await;
}

#[tokio::test]
async fn tokens_rise_after_the_promotion_of_a_replica_that_lags() {
    let (primary, replica) = (Redis::start(&[]), Redis::start(&[]));
    let server = server_on(&primary).await;
    let mut tokens = RisingTokens { highest: 0 };
    tokens.check(&server, 10).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    until(|| async { replica.info("replication", "master_link_status") == "up" }).await;
    // The replica is cut off, so it misses the following grants.
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    tokens.check(&server, 50).await;
    drop(server);
    let server = server_on(&replica).await;
    tokens.check(&server, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_names_leave_no_keys() {
    const NAMES: usize = 5_000;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let tasks: Vec<_> = (0..8)
        .map(|worker| {
            let mut client = server.client();
            tokio::spawn(async move {
                for number in (worker..NAMES).step_by(8) {
                    let lease =
                        client.acquire_lease(acquire_request(&format!("name/{number}"), Duration::from_secs(1))).await;
                    client.release_lease(&lease).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Ended requests are remembered for 10 s. A header and a sequencer stay for each partition.
    until(|| async {
        let left = redis.command(&["KEYS", "{fp}:q*:[^hs]*"]).text();
        left.trim().is_empty() || left == "[]"
    })
    .await;
    // And the cluster, its servers, the prefix of classic clients, and the key that keeps earlier versions away.
    let left: u16 = redis.command(&["DBSIZE"]).text().parse().unwrap();
    assert!(left <= 2 * PARTITIONS + 4, "{left}");
}
