//! The quorum store, with one node and with three: with nodes in this process, which are the twins of the scripts, and
//! with Redis servers. The test moves its clock.

use crate::{
    asks::candidate,
    bench::{Harness, limits, name},
    notices::{NoNotices, RecordingNotices},
    redis_server::Redis,
    twins::Twins,
};
use fencepost::testing::{
    clock::{Clock, ManualClock},
    domain::{command::Command, time::StoreTime},
    node::{Pushes, RedisUrl},
    store::{
        Store, StoreError,
        quorum::{
            QuorumStore,
            config::bootstrap::create,
            nodes::{
                client::{Answers, Lost, NodeClient},
                connections::RedisNodes,
            },
            paxos::{
                ballot::ServerId,
                node::{ClusterId, Mark, NodeRequest},
            },
        },
    },
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

const PARTITIONS: u16 = 4;
const START: StoreTime = StoreTime::from_micros(1_800_000_000_000_000);

/// So many nodes of one kind.
pub(crate) trait Nodes: NodeClient + Sized {
    const COUNT: usize;

    fn start() -> Arc<Self>;
}

impl<const COUNT: usize> Nodes for Twins<COUNT> {
    const COUNT: usize = COUNT;

    fn start() -> Arc<Self> {
        Arc::new(Self::new())
    }
}

/// Redis servers.
pub(crate) struct Servers<const COUNT: usize> {
    nodes: RedisNodes,
    /// Dropped with it.
    _servers: Vec<Redis>,
}

impl<const COUNT: usize> Nodes for Servers<COUNT> {
    const COUNT: usize = COUNT;

    fn start() -> Arc<Self> {
        let servers: Vec<_> = (0..COUNT).map(|_| Redis::start(&[])).collect();
        let urls: Vec<_> = servers.iter().map(|server| RedisUrl::parse(&server.url()).unwrap()).collect();
        let started = Arc::new(Self { nodes: RedisNodes::new(&urls), _servers: servers });
        // Ends with the runtime of the test.
        let runs = Arc::clone(&started);
        tokio::spawn(async move { runs.nodes.run().await });
        started
    }
}

impl<const COUNT: usize> NodeClient for Servers<COUNT> {
    fn send(&self, node: usize, requests: Vec<NodeRequest>) -> impl Future<Output = Result<Answers, Lost>> + Send {
        self.nodes.send(node, requests)
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        self.nodes.up(node)
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        self.nodes.wall_clock(node)
    }

    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send {
        self.nodes.publish(node, to, parcel)
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.nodes.listen(node, me)
    }
}

/// So many servers. The last one is tested: others lead most partitions. They may share their locks with classic
/// clients, of which there are none.
pub(crate) struct QuorumHarness<N: Nodes, const SERVERS: usize = 1, const SHARES: bool = false> {
    clock: Arc<ManualClock>,
    servers: Vec<Server<N>>,
}

struct Server<N: Nodes> {
    store: Arc<QuorumStore<Arc<N>>>,
    notices: Arc<RecordingNotices>,
    running: JoinHandle<()>,
}

/// A server that is silent for longer counts as stopped, and its waiters are skipped.
const STEP_MAX: Duration = Duration::from_secs(1);
/// A server that starts has answers from all nodes long before.
const SETTLE_MAX: Duration = Duration::from_secs(5);

impl<N: Nodes> Server<N> {
    fn start(nodes: &Arc<N>, mark: &Mark, clock: &Arc<ManualClock>, shares: bool) -> Self {
        let notices = Arc::new(RecordingNotices::default());
        let clock: Arc<dyn Clock> = clock.clone();
        let store = QuorumStore::new(Arc::clone(nodes), mark.clone(), clock, &limits(), notices.clone());
        let store = Arc::new(if shares { store.beside_classic("lock:") } else { store });
        let runs = Arc::clone(&store);
        Self { store, notices, running: tokio::spawn(async move { runs.run().await }) }
    }

    /// Resolves when a majority has all that was done before, and this server has heard of it.
    async fn settle(&self) {
        while let Err(StoreError::Unavailable(_)) = self.store.list("", None, usize::MAX).await {
            self.store.tend_once();
            tokio::task::yield_now().await;
        }
    }
}

impl<N: Nodes> Drop for Server<N> {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl<N: Nodes, const SERVERS: usize, const SHARES: bool> QuorumHarness<N, SERVERS, SHARES> {
    fn tested(&self) -> &Server<N> {
        &self.servers[SERVERS - 1]
    }
}

impl<N: Nodes, const SERVERS: usize, const SHARES: bool> Harness for QuorumHarness<N, SERVERS, SHARES> {
    type Store = QuorumStore<Arc<N>>;

    const IS_SHARED: bool = SHARES;

    async fn start() -> Self {
        let nodes = N::start();
        let members = (0..N::COUNT).map(|node| format!("node {node}").into()).collect();
        let mark = Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members, rebuild: None };
        for node in 0..N::COUNT {
            nodes.up(node).await;
        }
        create(&nodes, &mark, START.as_micros()).await.unwrap();
        let clock = Arc::new(ManualClock::at(START));
        let mut servers = Vec::new();
        for _ in 0..SERVERS {
            let server = Server::start(&nodes, &mark, &clock, SHARES);
            // An answer that comes too late, on a machine that is very busy, is lost, and by a clock that stands still
            // nobody asks again.
            while timeout(SETTLE_MAX, server.settle()).await.is_err() {
                clock.advance(STEP_MAX);
            }
            servers.push(server);
        }
        Self { clock, servers }
    }

    fn store(&self) -> &Self::Store {
        &self.tested().store
    }

    fn notices(&self) -> &Arc<RecordingNotices> {
        &self.tested().notices
    }

    async fn done(&self) {
        self.tested().store.chores_done().await;
    }

    async fn pass(&self, span: Duration) {
        let mut left = span;
        while !left.is_zero() {
            let step = if SERVERS == 1 { left } else { left.min(STEP_MAX) };
            left -= step;
            self.clock.advance(step);
            for Server { store, .. } in &self.servers {
                if SERVERS > 1 {
                    store.heartbeat_at_all().await;
                }
                while store.tend_once() {}
            }
        }
        self.tested().settle().await;
    }
}

/// Notes when it is read first, and shows an old time then: a thread may be stopped at any place.
struct NotingClock(Mutex<Option<Instant>>);

impl Clock for NotingClock {
    fn now(&self) -> StoreTime {
        let mut read = self.0.lock().unwrap();
        if read.is_none() {
            *read = Some(Instant::now());
            std::thread::sleep(Duration::from_millis(1));
        }
        START
    }
}

#[tokio::test]
async fn what_a_lease_has_left_counts_from_before_its_turn() {
    let nodes = Twins::<1>::start();
    let mark =
        Mark { cluster: ClusterId(7), partitions: 1, list: 1, members: [Arc::from("node")].into(), rebuild: None };
    create(&nodes, &mark, START.as_micros()).await.unwrap();
    let clock = Arc::new(NotingClock(Mutex::new(None)));
    let as_clock: Arc<dyn Clock> = clock.clone();
    let store = Arc::new(QuorumStore::new(nodes, mark, as_clock, &limits(), Arc::new(NoNotices)));
    let runs = Arc::clone(&store);
    let running = tokio::spawn(async move { runs.run().await });
    while store.list("", None, usize::MAX).await.is_err() {
        tokio::task::yield_now().await;
    }
    *clock.0.lock().unwrap() = None;
    let renewal = Command::Renew { lease_id: candidate().lease_id, ttl: None };
    let answer = Store::run(&*store, &name("lock"), renewal).await.unwrap();
    let read = clock.0.lock().unwrap().expect("the turn has a time");
    assert!(answer.sent <= read, "{:?} too late", answer.sent - read);
    running.abort();
}
