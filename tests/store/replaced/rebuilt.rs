//! A majority of the nodes loses its memory at once, and the store goes on with what the rest has.

use crate::{
    asks::{Asks, acquire, new_request},
    cluster::{Cluster, LOCKS, PARTITIONS, PATIENCE, Server, TTL, addresses, assert_held, lock, take},
    redis::Redis,
};
use fencepost::testing::store::quorum::{
    config::{
        disaster_recovery::{Rebuild, RebuildError, partition::Rebuilt},
        discovery::FindError,
        search::Search,
    },
    nodes::{addresses::Connected, client::NodeClient},
    paxos::{
        ballot::{Ballot, Stamp},
        message::Request,
        node::{Mark, NodeAnswer, NodeRequest},
    },
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Higher than any token before it.
const TOKEN: u64 = 1 << 50;

impl Cluster {
    async fn plan(&self) -> Result<Rebuild, RebuildError> {
        let addresses = addresses(&self.redis[..3]);
        let mut search = Search::new(&addresses, &addresses.members());
        let sight = search.look().await?;
        Rebuild::plan(search.nodes().unwrap(), &sight, &addresses.members()).await
    }

    async fn rebuild(&self) -> Result<(Mark, Vec<Rebuilt>), RebuildError> {
        let plan = self.plan().await?;
        self.run(&plan).await
    }

    async fn run(&self, plan: &Rebuild) -> Result<(Mark, Vec<Rebuilt>), RebuildError> {
        let (connected, mut rebuilt) = (self.connected().await, Vec::new());
        let mark = plan.run(&connected, TOKEN, |_, partition| rebuilt.push(partition)).await?;
        Ok((mark, rebuilt))
    }

    async fn connected(&self) -> Connected<impl NodeClient + use<>> {
        let addresses = addresses(&self.redis[..3]);
        let connected = Connected::to(&addresses, &addresses.members()).unwrap();
        for node in 0..3 {
            connected.nodes.up(node).await;
        }
        connected
    }

    /// Waits until each node has the records of so many locks. What only two of three have is gone when these two
    /// forget it.
    async fn until_each_has(&self, locks: u32) {
        let count = format!(
            "local n = 0 for p = 0, {} do n = n + redis.call('HLEN', '{{fp}}:q' .. p .. ':c') end return n",
            PARTITIONS - 1
        );
        let has_all = || {
            let records = |node: &Redis| node.command(&["EVAL", &count, "0"]).text().parse::<u32>().unwrap();
            self.redis[..3].iter().all(|node| records(node) >= locks)
        };
        timeout(PATIENCE, async {
            while !has_all() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }

    /// The last two nodes restart without anything, when the first one has so many locks.
    async fn two_forget(&mut self, locks: u32) {
        self.until_each_has(locks).await;
        self.redis[1].restart(false);
        self.redis[2].restart(false);
    }
}

/// Nobody gets an answer for as long as a majority of servers would need to elect a leader, twice.
async fn assert_down(server: &Server) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let refused = server.store.acquire(&lock(99), acquire(new_request(), TTL, false)).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn what_the_third_node_has_lives_on() {
    let mut cluster = Cluster::start().await;
    let servers = [cluster.server(&[0, 1, 2]).await, cluster.server(&[0, 1, 2]).await];
    let held = servers[0].hold(0..LOCKS).await;
    let before = take(&servers[1].store, &lock(50)).await;
    assert!(matches!(cluster.plan().await, Err(RebuildError::NothingLacks)));
    cluster.two_forget(LOCKS + 1).await;
    assert_down(&servers[0]).await;
    let plan = cluster.plan().await.unwrap();
    assert_eq!((&*plan.votes, plan.lacking), (&[PARTITIONS.into(), 0, 0][..], PARTITIONS.into()));
    let (mark, rebuilt) = cluster.run(&plan).await.unwrap();
    assert_eq!((mark.list, &mark.members, mark.rebuild), (3, &cluster.mark.members, None));
    assert_eq!(rebuilt.len(), usize::from(PARTITIONS));
    assert!(rebuilt.iter().all(|it| it.from == 0 && it.token == TOKEN), "{rebuilt:?}");
    for server in &servers {
        server.until_list(3).await;
        assert_held(server, &held).await;
    }
    // (What was asked for meanwhile has an unknown outcome: the third node may have it.)
    let again = take(&servers[0].store, &lock(98)).await;
    assert!(again.token.get() > TOKEN && again.token > before.token, "{again:?}");
    assert!(matches!(cluster.rebuild().await, Err(RebuildError::NothingLacks)));
    // All three have all: the one that had it before is not needed.
    cluster.redis[0].kill();
    for server in &servers {
        assert_held(server, &held).await;
    }
    drop(servers);
    assert_held(&cluster.server(&[0, 1, 2]).await, &held).await;
}

#[tokio::test]
async fn nobody_serves_until_a_rebuild_is_done_and_any_node_may_fail_it() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    cluster.two_forget(LOCKS).await;
    // One forgets again, while the rebuild is about to ask it.
    let plan = cluster.plan().await.unwrap();
    cluster.redis[2].kill();
    let lost = timeout(PATIENCE, cluster.plan()).await.unwrap();
    assert!(matches!(lost, Err(RebuildError::Lost { .. })), "{lost:?}");
    cluster.redis[2].restart(false);
    // A rebuild that is broken off when it has all nodes.
    let own = Mark { list: plan.from.list + 1, rebuild: Some(7), ..plan.from.clone() };
    for node in 0..3 {
        cluster.give(node, &own).await;
    }
    assert_down(&server).await;
    assert_eq!(server.store.list_number(), Some(1), "it does not go by the list of a rebuild");
    // One that was planned before gets no node.
    let late = cluster.run(&plan).await;
    assert!(matches!(late, Err(RebuildError::Underway { list: 2, .. })), "{late:?}");
    let (mark, _) = cluster.rebuild().await.unwrap();
    assert_eq!(mark.list, 4);
    server.until_list(4).await;
    assert_held(&server, &held).await;
    // What the one before may still have on its way has no effect.
    let connected = cluster.connected().await;
    let (cluster_id, fresh, request) = (own.cluster, Stamp(1), Request::Promise(Ballot::default()));
    let request = NodeRequest::OfPartition { cluster: cluster_id, list: own.list, partition: 0, fresh, request };
    for node in 0..3 {
        assert_eq!(
            connected.nodes.send(node, vec![request.clone()]).await.unwrap(),
            [Ok(NodeAnswer::List(mark.clone()))]
        );
    }
}

#[tokio::test]
async fn of_two_rebuilds_at_a_time_none_or_one_comes_through() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    cluster.two_forget(LOCKS).await;
    let (one, other) = (cluster.plan().await.unwrap(), cluster.plan().await.unwrap());
    let (one, other) = tokio::join!(cluster.run(&one), cluster.run(&other));
    let through = [&one, &other].into_iter().filter(|it| it.is_ok()).count();
    assert!(through <= 1, "{one:?}, {other:?}");
    let list = if through == 1 { 3 } else { cluster.rebuild().await.unwrap().0.list };
    server.until_list(list).await;
    assert_held(&server, &held).await;
}

#[tokio::test]
async fn the_best_copy_is_taken_also_from_a_node_that_does_not_vote() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..4).await;
    // The first one has less than the two others, which keep on disk what they had, but another one at their places.
    cluster.redis[0].pause();
    let later = server.hold(4..LOCKS).await;
    for node in 1..3 {
        cluster.redis[node].command(&["SAVE"]);
    }
    drop(server);
    cluster.redis[1].restart(true);
    cluster.redis[2].restart(true);
    cluster.redis[0].resume();
    let (_, rebuilt) = cluster.rebuild().await.unwrap();
    assert!(rebuilt.iter().any(|it| it.from == 1), "{rebuilt:?}");
    let server = cluster.server(&[0, 1, 2]).await;
    assert_held(&server, &held).await;
    assert_held(&server, &later).await;
}

#[tokio::test]
async fn nodes_without_a_mark_get_one_and_three_of_them_are_made_anew() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    cluster.until_each_has(LOCKS).await;
    // No server is there to tell them their cluster again.
    drop(server);
    cluster.redis[0].command(&["FLUSHALL"]);
    cluster.redis[2].command(&["FLUSHALL"]);
    let sight = cluster.sight(&[0, 1, 2]).await;
    assert!(matches!(sight.agreed(&cluster.mark.members), Err(FindError::NoMajority(_))));
    cluster.rebuild().await.unwrap();
    let server = cluster.server(&[0, 1, 2]).await;
    assert_held(&server, &held).await;
    drop(server);
    for node in &cluster.redis[..3] {
        node.command(&["FLUSHALL"]);
    }
    assert_eq!(cluster.rebuild().await.unwrap_err(), RebuildError::AllForgot);
    cluster.redis[2].kill();
    let lost = cluster.rebuild().await;
    assert!(matches!(lost, Err(RebuildError::Lost { .. })), "{lost:?}: the third may know it");
}

#[tokio::test]
async fn a_partition_with_a_majority_is_left_alone() {
    let cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    for node in &cluster.redis[1..3] {
        // In the same script, so that no leader comes between.
        let forget = "return redis.call('DEL', '{fp}:q0:h', '{fp}:q0:s', '{fp}:q0:c')";
        assert!(!node.command(&["EVAL", forget, "0"]).text().is_empty());
    }
    let plan = cluster.plan().await.unwrap();
    let but_one = usize::from(PARTITIONS) - 1;
    assert_eq!((&*plan.votes, plan.lacking), (&[but_one + 1, but_one, but_one][..], 1));
    let (_, rebuilt) = cluster.run(&plan).await.unwrap();
    assert_eq!(rebuilt.len(), 1, "{rebuilt:?}");
    server.until_list(3).await;
    assert_held(&server, &held).await;
}
