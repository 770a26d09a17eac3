//! Locks that one Redis keeps, or a majority of three: nodes that die and forget, servers that stop and take over.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/asks.rs"]
mod asks;
#[path = "../support/notices.rs"]
mod notices;
#[path = "../support/redis.rs"]
mod redis;

use asks::{Asks, acquire, granted, new_request};
use fencepost::{
    clock::ProcessClock,
    domain::{
        command::Acquire,
        lease::LeaseEnd,
        limits::{Limits, METADATA_BYTES_MAX},
        name::{LockName, Metadata},
        outcome::{AcquireOutcome, Fate, Gone, Grant, ReleaseOutcome, RenewOutcome},
    },
    node::{Pushes, RedisUrl},
    store::{
        Store, StoreError,
        quorum::{
            QuorumStore,
            ballot::ServerId,
            create::{CreateError, create},
            leader::STAGED_BYTES_MAX,
            node::{Ask, ClusterId, Mark},
            nodes::{Answers, Carrier, Lost, SEND_FULL_FROM_BYTES},
            redis_nodes::RedisNodes,
        },
    },
};
use futures_util::future::join_all;
use notices::NoNotices;
use redis::{Answer, Redis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

const PARTITIONS: u16 = 4;
const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
const LOCKS: u32 = 100;

struct Cluster {
    redis: Vec<Redis>,
    mark: Mark,
}

/// A server of a cluster. It stops when it is dropped.
struct Server {
    store: Arc<QuorumStore<Arc<RedisNodes>>>,
    nodes: Arc<RedisNodes>,
    running: Vec<JoinHandle<()>>,
}

impl Cluster {
    async fn of(nodes: usize) -> Self {
        let redis: Vec<_> = (0..nodes).map(|_| Redis::start(&[])).collect();
        let members = redis.iter().map(|redis| redis.url().into()).collect();
        let cluster = Self { redis, mark: Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members } };
        let mut server = cluster.idle_server();
        server.connect();
        for node in 0..nodes {
            timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
        }
        create(&server.nodes, &cluster.mark, 1_000).await.unwrap();
        cluster
    }

    /// A server without connections, which does nothing.
    fn idle_server(&self) -> Server {
        let urls: Vec<_> = self.redis.iter().map(|redis| RedisUrl::parse(&redis.url()).unwrap()).collect();
        let nodes = Arc::new(RedisNodes::new(&urls));
        let (clock, notices) = (Arc::new(ProcessClock::start()), Arc::new(NoNotices));
        let store = QuorumStore::new(Arc::clone(&nodes), self.mark.clone(), clock, &Limits::default(), notices);
        Server { store: Arc::new(store), nodes, running: Vec::new() }
    }

    /// A server that leads all partitions.
    async fn server(&self) -> Server {
        let mut server = self.idle_server();
        server.connect();
        server.serve();
        server.until_it_leads().await;
        server
    }

    /// Whether this node has a header for each partition.
    fn has_headers(&self, node: usize) -> bool {
        let has =
            |partition| self.redis[node].command(&["EXISTS", &format!("fp:{{q{partition}}}:h")]) == Answer::Int(1);
        (0..PARTITIONS).all(has)
    }
}

impl Server {
    fn connect(&mut self) {
        let nodes = Arc::clone(&self.nodes);
        self.running.push(tokio::spawn(async move { nodes.run().await }));
    }

    fn serve(&mut self) {
        let store = Arc::clone(&self.store);
        self.running.push(tokio::spawn(async move { store.run().await }));
    }

    async fn until_it_leads(&self) {
        let led = async {
            while self.store.list("", None, usize::MAX).await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, led).await.unwrap();
    }

    /// Stops its work, but it does not notice: it goes on with [`Self::serve`].
    fn pause(&mut self) {
        self.running.pop().unwrap().abort();
    }

    async fn acquire(&self, name: &LockName, request: &Acquire) -> Grant {
        granted(self.store.acquire(name, request.clone()).await.unwrap())
    }

    async fn acquire_all(&self) -> Vec<(LockName, Acquire, Grant)> {
        let mut held = Vec::new();
        for number in 0..LOCKS {
            let (name, request) = (lock(number), acquire(new_request(), TTL, false));
            let grant = self.acquire(&name, &request).await;
            held.push((name, request, grant));
        }
        held
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

fn lock(number: u32) -> LockName {
    LockName::new(format!("orders/{number}")).unwrap()
}

/// Each lease is held as it was granted: its holder renews it, and a repeat of its request finds it.
async fn assert_held(server: &Server, held: &[(LockName, Acquire, Grant)]) {
    for (name, request, grant) in held {
        let again = server.acquire(name, request).await;
        assert_eq!((again.token, again.lease_id, again.grant_id), (grant.token, grant.lease_id, grant.grant_id));
        let RenewOutcome::Renewed(renewed) = server.store.renew(name, grant.lease_id).await.unwrap() else {
            panic!("{name:?} is lost");
        };
        assert_eq!(renewed.token, grant.token);
        let other = server.store.acquire(name, acquire(new_request(), TTL, false)).await.unwrap();
        assert!(matches!(other, AcquireOutcome::Contended(_)), "{other:?}");
    }
}

#[tokio::test]
async fn a_server_that_takes_over_finds_leases_ended_requests_and_tokens() {
    for nodes in [1, 3] {
        let cluster = Cluster::of(nodes).await;
        let first = cluster.server().await;
        let mut held = first.acquire_all().await;
        let (name, request, ended) = held.pop().unwrap();
        assert_eq!(first.store.release(&name, ended.lease_id).await.unwrap(), ReleaseOutcome::Released);
        drop(first);
        let second = cluster.server().await;
        assert_held(&second, &held).await;
        let repeated = second.store.acquire(&name, request).await.unwrap();
        assert_eq!(repeated, AcquireOutcome::Ended, "a late repeat does not lock again");
        let released = second.store.release(&name, ended.lease_id).await.unwrap();
        let gone = Gone { fate: Fate::Ended(LeaseEnd::Released), successor: None };
        assert_eq!(released, ReleaseOutcome::Gone(gone));
        let next = second.acquire(&name, &acquire(new_request(), TTL, false)).await;
        assert!(next.token > ended.token);
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_answers_nothing_that_its_successor_did_not_see() {
    for nodes in [1, 3] {
        let cluster = Cluster::of(nodes).await;
        let mut first = cluster.server().await;
        let held = first.acquire_all().await;
        first.pause();
        let second = cluster.server().await;
        let (name, _, grant) = &held[0];
        assert_eq!(second.store.release(name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        let next = second.acquire(name, &acquire(new_request(), TTL, false)).await;
        // The first server still thinks that it leads, and that the lease is held.
        let (renewing, viewing) = (first.store.renew(name, grant.lease_id), first.store.view(name));
        let asked = async { tokio::join!(renewing, viewing) };
        // It runs on while it is asked.
        let (renewed, viewed) = tokio::select! {
            biased;
            answers = asked => answers,
            () = first.store.run() => unreachable!("it never ends"),
        };
        assert!(matches!(renewed, Err(StoreError::OutcomeUnknown(_))), "{renewed:?}");
        assert!(matches!(viewed, Err(StoreError::OutcomeUnknown(_))), "{viewed:?}");
        drop(first);
        second.until_it_leads().await;
        let RenewOutcome::Renewed(renewed) = second.store.renew(name, next.lease_id).await.unwrap() else {
            panic!("the successor's lease is lost");
        };
        assert_eq!(renewed.token, next.token);
    }
}

#[tokio::test]
async fn a_node_that_forgets_is_admitted_with_all_that_the_others_have() {
    let mut cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    for node in 0..3 {
        cluster.redis[node].kill();
        let (name, request) = (lock(LOCKS + u32::try_from(node).unwrap()), acquire(new_request(), TTL, false));
        let alone = server.acquire(&name, &request).await;
        assert_held(&server, &held[..5]).await;
        cluster.redis[node].restart(false);
        let admitted = async {
            while !cluster.has_headers(node) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, admitted).await.expect("the node is admitted");
        assert_held(&server, &[(name, request, alone)]).await;
    }
    // By now no node has the memory that it began with.
    drop(server);
    let successor = cluster.server().await;
    assert_held(&successor, &held).await;
}

#[tokio::test]
async fn without_a_majority_there_is_no_answer_and_nothing_is_granted() {
    let mut cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    cluster.redis[0].kill();
    cluster.redis[1].kill();
    let free = lock(LOCKS);
    let refused = server.store.acquire(&free, acquire(new_request(), TTL, false)).await;
    assert!(matches!(refused, Err(StoreError::OutcomeUnknown(_))), "{refused:?}");
    let refused = server.store.view(&held[0].0).await;
    assert!(refused.is_err(), "what one node of three says may be old: {refused:?}");
    // Two of three have forgotten: what is left is no majority, and may lack what the two had.
    cluster.redis[0].restart(false);
    cluster.redis[1].restart(false);
    let mut successor = cluster.idle_server();
    successor.connect();
    successor.serve();
    sleep(Duration::from_secs(3)).await;
    for store in [&server.store, &successor.store] {
        let refused = store.acquire(&free, acquire(new_request(), TTL, false)).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_cluster_is_made_of_nodes_that_serve_no_other() {
    let cluster = Cluster::of(3).await;
    let mut server = cluster.idle_server();
    server.connect();
    for node in 0..3 {
        timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
    }
    create(&server.nodes, &cluster.mark, 1_000).await.expect("it may be repeated");
    let other = Mark { cluster: ClusterId(8), ..cluster.mark.clone() };
    let refused = create(&server.nodes, &other, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
}

#[tokio::test]
async fn a_cluster_is_not_made_again_over_a_node_that_forgot() {
    let mut cluster = Cluster::of(3).await;
    drop(cluster.server().await);
    cluster.redis[0].kill();
    cluster.redis[0].restart(false);
    let mut server = cluster.idle_server();
    server.connect();
    for node in 0..3 {
        timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
    }
    let refused = create(&server.nodes, &cluster.mark, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
    assert!(!cluster.has_headers(0), "an empty member would count as one that has all");
}

#[tokio::test]
async fn a_cluster_is_not_made_again_over_what_restarted_nodes_kept() {
    let mut cluster = Cluster::of(1).await;
    let server = cluster.server().await;
    server.acquire_all().await;
    drop(server);
    let kept = |cluster: &Cluster| {
        (0..PARTITIONS)
            .map(|partition| cluster.redis[0].command(&["HLEN", &format!("fp:{{q{partition}}}:c")]))
            .collect::<Vec<_>>()
    };
    let before = kept(&cluster);
    cluster.redis[0].command(&["SAVE"]);
    cluster.redis[0].restart(true);
    let mut server = cluster.idle_server();
    server.connect();
    timeout(PATIENCE, server.nodes.up(0)).await.unwrap();
    let refused = create(&server.nodes, &cluster.mark, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
    assert_eq!(kept(&cluster), before);
}

/// Notes the bytes of the largest send.
struct Weighed {
    nodes: Arc<RedisNodes>,
    most: AtomicUsize,
}

impl Carrier for Weighed {
    async fn carry(&self, node: usize, asks: Vec<Ask>) -> Result<Answers, Lost> {
        let bytes = |ask: &Ask| if let Ask::OfPartition { request, .. } = ask { request.bytes() } else { 0 };
        self.most.fetch_max(asks.iter().map(bytes).sum(), Ordering::Relaxed);
        self.nodes.carry(node, asks).await
    }

    async fn up(&self, node: usize) {
        self.nodes.up(node).await;
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        self.nodes.publish(node, to, parcel).await
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.nodes.listen(node, me)
    }
}

#[tokio::test]
async fn a_large_snapshot_goes_in_many_sends() {
    let mut cluster = Cluster::of(3).await;
    let mut server = cluster.idle_server();
    server.connect();
    let weighed = Arc::new(Weighed { nodes: Arc::clone(&server.nodes), most: AtomicUsize::new(0) });
    let (clock, notices) = (Arc::new(ProcessClock::start()), Arc::new(NoNotices));
    let carrier = Arc::clone(&weighed);
    let store = Arc::new(QuorumStore::new(carrier, cluster.mark.clone(), clock, &Limits::default(), notices));
    let runs = Arc::clone(&store);
    server.running.push(tokio::spawn(async move { runs.run().await }));
    let led = async {
        while store.list("", None, usize::MAX).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, led).await.unwrap();
    cluster.redis[2].kill();
    let metadata = Metadata::new([("k".to_owned(), "v".repeat(METADATA_BYTES_MAX - 1))]).unwrap();
    // Three times what one send may have.
    let locks = u32::try_from(3 * SEND_FULL_FROM_BYTES / METADATA_BYTES_MAX).unwrap();
    for first in (0..locks).step_by(50) {
        let each = (first..first + 50).map(async |number| {
            let mut request = acquire(new_request(), TTL, false);
            request.terms.metadata = metadata.clone();
            granted(store.acquire(&lock(number), request).await.unwrap());
        });
        join_all(each).await;
    }
    cluster.redis[2].restart(false);
    let admitted = async {
        while !cluster.has_headers(2) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, admitted).await.expect("the node is admitted");
    let most = weighed.most.load(Ordering::Relaxed);
    assert!(most < SEND_FULL_FROM_BYTES + STAGED_BYTES_MAX, "{most}");
}

#[tokio::test]
async fn a_node_whose_data_is_damaged_holds_up_nobody_and_is_used_again_once_it_is_mended() {
    let cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    // Of another type, as if somebody had used the key for something else.
    let header = "fp:{q0}:h";
    cluster.redis[2].command(&["DEL", header]);
    cluster.redis[2].command(&["LPUSH", header, "x"]);
    assert_held(&server, &held).await;
    cluster.redis[2].command(&["DEL", header]);
    let admitted = async {
        while !cluster.has_headers(2) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, admitted).await.expect("the node is admitted to the partition that an operator emptied");
    assert_held(&server, &held).await;
}

#[tokio::test]
async fn nodes_that_are_demoted_and_promoted_in_place_repeat_no_token_and_forget_no_lease() {
    let cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    let (name, mut last) = (lock(LOCKS), 0);
    for round in 0..6 {
        let redis = &cluster.redis[round % 3];
        let id = || {
            let Answer::Text(info) = redis.command(&["INFO", "replication"]) else { panic!("no text") };
            info.lines().find_map(|line| line.strip_prefix("master_replid:").map(str::to_owned)).unwrap()
        };
        let before = id();
        redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
        redis.command(&["REPLICAOF", "NO", "ONE"]);
        assert_ne!(id(), before, "it is another incarnation");
        for _ in 0..3 {
            let grant = server.acquire(&name, &acquire(new_request(), TTL, false)).await;
            assert!(grant.token.get() > last, "round {round}");
            last = grant.token.get();
            assert_eq!(server.store.release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        }
        // It votes again, or the next one would be the second of three that forgot.
        let votes_in = |partition: u16| {
            let of = redis.command(&["GETRANGE", &format!("fp:{{q{partition}}}:h"), "40", "79"]);
            matches!(of, Answer::Text(of) if of == id())
        };
        let votes = async {
            while !(0..PARTITIONS).all(votes_in) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, votes).await.expect("the node is admitted");
    }
    assert_held(&server, &held).await;
}
