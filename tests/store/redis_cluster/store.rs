//! The whole store on a Redis Cluster: two servers under load, while the primary of the slot changes in every way.

use crate::{
    RedisCluster,
    cluster::{OTHER, PRIMARY, REPLICA},
    support::{Lock, PATIENCE, Server, acquire_request, until as until_async, waiting_request},
};
use fencepost::testing::config::StoreUrl;
use fencepost_proto::v1::{self, acquire_response::Outcome};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::sleep};
use tonic::Code;

/// Longer than any failover here, so a second holder is always wrong.
const TTL: Duration = Duration::from_secs(60);
const LOCKS: usize = 4;

/// A lock, as its holders see it.
#[derive(Default)]
struct Seen {
    is_held: AtomicBool,
    newest: AtomicU64,
    grants: AtomicU64,
}

impl Seen {
    /// Holds it for a moment.
    async fn hold(&self, lease: &v1::Lease) {
        let before = self.newest.swap(lease.fencing_token, Ordering::SeqCst);
        assert!(!self.is_held.swap(true, Ordering::SeqCst), "{} has a second holder", lease.lock_name);
        assert!(lease.fencing_token > before, "{}: {before} then {}", lease.lock_name, lease.fencing_token);
        sleep(Duration::from_millis(5)).await;
        self.is_held.store(false, Ordering::SeqCst);
        self.grants.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two callers for each lock, one at each server.
struct Load {
    seen: Vec<Arc<Seen>>,
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Load {
    fn on(servers: &[Server; 2]) -> Self {
        let (seen, stop) =
            ((0..LOCKS).map(|_| Arc::<Seen>::default()).collect::<Vec<_>>(), Arc::<AtomicBool>::default());
        let mut callers = JoinSet::new();
        for (number, seen) in seen.iter().enumerate() {
            for server in servers {
                let (mut client, seen, stop) = (server.client(), Arc::clone(seen), Arc::clone(&stop));
                callers.spawn(async move {
                    while !stop.load(Ordering::SeqCst) {
                        let request = waiting_request(&format!("hot-{number}"), TTL, PATIENCE);
                        let lease = client.acquire_lease(request).await;
                        seen.hold(&lease).await;
                        client.release_lease(&lease).await;
                    }
                });
            }
        }
        Self { seen, stop, callers }
    }

    /// Waits until each lock was granted some more times.
    async fn goes_on(&mut self) {
        let before: Vec<u64> = self.seen.iter().map(|seen| seen.grants.load(Ordering::SeqCst)).collect();
        let more =
            || self.seen.iter().zip(&before).all(|(seen, before)| seen.grants.load(Ordering::SeqCst) >= before + 10);
        until_async(|| std::future::ready(more())).await;
        while let Some(ended) = self.callers.try_join_next() {
            ended.unwrap();
        }
    }

    async fn ends(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.callers.join_next().await {
            ended.unwrap();
        }
    }
}

/// The lease is still there, as both servers see it, and no second one is granted.
async fn is_still_held(servers: &[Server; 2], lease: &v1::Lease) {
    for server in servers {
        let mut client = server.client();
        let holder = client.holder(&lease.lock_name).await.unwrap();
        assert_eq!(holder.fencing_token, lease.fencing_token);
        let refused = Mutex::new(None);
        until_async(|| async {
            let answer = server.client().acquire(acquire_request(&lease.lock_name, TTL)).await;
            match answer {
                Err(status) if status.code() == Code::Unavailable => return false,
                answer => *refused.lock().unwrap() = Some(answer.unwrap().into_inner().outcome()),
            }
            true
        })
        .await;
        assert_ne!(*refused.lock().unwrap(), Some(Outcome::Acquired));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_stay_and_tokens_rise_over_failovers_and_moves_of_the_slot() {
    let mut cluster = RedisCluster::start();
    let url = cluster.url();
    let start = || Server::start_with(|config| config.store = StoreUrl::Redis(vec![url.clone()]));
    let servers = [start().await, start().await];
    let lease = servers[0].client().acquire_lease(acquire_request("kept", TTL)).await;
    let mut load = Load::on(&servers);
    load.goes_on().await;

    cluster.fail_over_to(REPLICA);
    load.goes_on().await;
    is_still_held(&servers, &lease).await;

    cluster.begin_to_move(REPLICA, OTHER);
    sleep(Duration::from_millis(300)).await;
    cluster.end_to_move(REPLICA, OTHER);
    load.goes_on().await;
    is_still_held(&servers, &lease).await;
    assert!(cluster.has_the_slot(OTHER) && !cluster.has_the_slot(PRIMARY));

    // Its replica has to have followed, or there is none to promote.
    cluster.until("the replica of the other primary follows", |it| {
        it.members[OTHER + 3].replicates(&[("role", "slave"), ("master_link_status", "up")])
    });
    cluster.members[OTHER].kill();
    cluster.until("its replica is promoted", |it| it.has_the_slot(OTHER + 3));
    load.goes_on().await;
    is_still_held(&servers, &lease).await;
    load.ends().await;
    let before = lease.fencing_token;
    servers[1].client().release_lease(&lease).await;
    assert!(servers[1].client().acquire_lease(acquire_request("kept", TTL)).await.fencing_token > before);
}
