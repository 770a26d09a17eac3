//! Tokens rise, whatever happens to the Redis that counts them.

use crate::{
    redis_server::Redis,
    server_on, serving,
    support::{Lock, Server, until, wish},
};
use fencepost_proto::v1;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// Takes the lock and gives it back; each token must be above the one before.
#[derive(Default)]
pub(crate) struct Ladder {
    highest: u64,
}

impl Ladder {
    pub(crate) async fn climb(&mut self, server: &Server, count: usize) {
        for _ in 0..count {
            let lease = server.client().take(wish("ladder", TTL)).await;
            assert!(lease.fencing_token > self.highest, "{} after {}", lease.fencing_token, self.highest);
            self.highest = lease.fencing_token;
            server.client().give_back(&lease).await;
        }
    }
}

#[tokio::test]
async fn over_flushes_restarts_and_losses_of_data() {
    let mut redis = Redis::start(&["--appendonly", "yes"]);
    let server = server_on(&redis).await;
    let mut ladder = Ladder { highest: 0 };
    ladder.climb(&server, 20).await;
    redis.command(&["FLUSHALL"]);
    ladder.climb(&server, 20).await;
    for keep in [true, false, true, false] {
        redis.kill();
        redis.restart(keep);
        serving(&server, true).await;
        until(|| async { server.client().acquire(wish("probe", Duration::from_secs(1))).await.is_ok() }).await;
        ladder.climb(&server, 20).await;
    }
    redis.command(&["FLUSHALL"]);
    ladder.climb(&server, 20).await;
    // A server that has seen nothing goes by Redis alone.
    let fresh = server_on(&redis).await;
    ladder.climb(&fresh, 20).await;
}

#[tokio::test]
async fn over_a_restart_from_an_older_dump_and_one_that_keeps_the_data_and_is_flushed() {
    let redis = Redis::start(&["--appendonly", "no"]);
    let mut ladder = Ladder::default();
    ladder.climb(&server_on(&redis).await, 10).await;
    redis.command(&["SAVE"]);
    let dump = std::fs::read(redis.folder().join("dump.rdb")).unwrap();
    // What the dump knows nothing of, and no server remembers.
    let held = {
        let server = server_on(&redis).await;
        ladder.climb(&server, 200).await;
        server.client().take(wish("ladder", TTL)).await
    };
    drop(redis);
    let mut redis = Redis::start_with_files(&["--appendonly", "no"], &[("dump.rdb", &dump)]);
    let server = server_on(&redis).await;
    ladder.highest = held.fencing_token;
    ladder.climb(&server, 10).await;
    assert_ne!(server.client().give_back(&held).await, v1::LeaseEnd::Released, "what is forgotten is not given back");
    drop(server);
    redis.command(&["SAVE"]);
    // A restart adds a second to what its counter says, which a wipe within that second would not know of: left over,
    // as published.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    redis.restart(true);
    redis.command(&["FLUSHALL"]);
    ladder.climb(&server_on(&redis).await, 10).await;
    // And the other way round: flushed by the life that then ends.
    redis.command(&["FLUSHALL"]);
    redis.restart(true);
    ladder.climb(&server_on(&redis).await, 10).await;
}

#[tokio::test]
async fn over_servers_that_are_connected_to_different_lives_of_one_redis() {
    let redis = Redis::start(&[]);
    let (old, new) = (server_on(&redis).await, server_on(&redis).await);
    let mut ladder = Ladder::default();
    ladder.climb(&old, 10).await;
    ladder.climb(&new, 10).await;
    // A promotion that closes no connection: the next handshake finds another incarnation, and the old connections know
    // nothing of it.
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    ladder.climb(&old, 5).await;
    let newest = server_on(&redis).await;
    ladder.climb(&newest, 5).await;
    // The bucket has left the life that these were connected to: refused once, they connect anew, and grant higher
    // ones.
    for server in [&old, &new, &newest, &old] {
        until(|| async {
            server.client().acquire(wish("ladder", TTL)).await.is_ok_and(|it| {
                let lease = it.into_inner().lease.unwrap();
                assert!(lease.fencing_token > ladder.highest);
                true
            })
        })
        .await;
        let current = server.client().holder("ladder").await.unwrap();
        let force = v1::ForceReleaseRequest {
            lock_name: "ladder".into(),
            expected_token: current.fencing_token,
            reason: "test".into(),
        };
        server.admin().force_release(force).await.unwrap();
        ladder.highest = current.fencing_token;
        ladder.climb(server, 5).await;
    }
}

#[tokio::test]
async fn over_a_loss_of_data_that_no_server_remembers() {
    let mut redis = Redis::start(&[]);
    let mut ladder = Ladder { highest: 0 };
    for _ in 0..3 {
        // A second apart: what k losses within k seconds forget is left over, as published.
        let apart = tokio::time::sleep(Duration::from_millis(1_100));
        let server = server_on(&redis).await;
        ladder.climb(&server, 20).await;
        drop(server);
        apart.await;
        redis.kill();
        redis.restart(false);
    }
}

#[tokio::test]
async fn over_a_hostile_floor_and_a_force_release() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut ladder = Ladder { highest: 0 };
    ladder.climb(&server, 1).await;
    let far = v1::AcquireRequest { min_token: ladder.highest + 3_600_000_000, ..wish("ladder", TTL) };
    let lease = server.client().take(far).await;
    assert_eq!(lease.fencing_token, ladder.highest + 3_600_000_000);
    ladder.highest = lease.fencing_token;
    let force = v1::ForceReleaseRequest {
        lock_name: "ladder".into(),
        expected_token: lease.fencing_token,
        reason: "test".into(),
    };
    server.admin().force_release(force).await.unwrap();
    ladder.climb(&server, 5).await;
    for min_token in [u64::MAX, 1 << 53, ladder.highest + 2 * 86_400_000_000] {
        let hostile = v1::AcquireRequest { min_token, ..wish("ladder", TTL) };
        assert_eq!(server.client().acquire(hostile).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
    ladder.climb(&server, 5).await;
}

#[tokio::test]
async fn over_the_promotion_of_a_replica_that_lags() {
    let (primary, replica) = (Redis::start(&[]), Redis::start(&[]));
    let server = server_on(&primary).await;
    let mut ladder = Ladder { highest: 0 };
    ladder.climb(&server, 10).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    until(|| async { replica.info("replication", "master_link_status") == "up" }).await;
    // The replica is cut off: what is granted from here on it never hears of.
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    ladder.climb(&server, 50).await;
    drop(server);
    let server = server_on(&replica).await;
    ladder.climb(&server, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_names_leave_nothing_behind_but_sequencers() {
    const NAMES: usize = 5_000;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let tasks: Vec<_> = (0..8)
        .map(|worker| {
            let mut client = server.client();
            tokio::spawn(async move {
                for number in (worker..NAMES).step_by(8) {
                    let lease = client.take(wish(&format!("name/{number}"), Duration::from_secs(1))).await;
                    client.give_back(&lease).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // The memory of ended requests lasts 10 s, and keys are kept a few seconds longer.
    until(|| async {
        let left = redis.command(&["KEYS", "fp:{*}:[^bn]*"]).text();
        left.trim().is_empty() || left == "[]"
    })
    .await;
}
