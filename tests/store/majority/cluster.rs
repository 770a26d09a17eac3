//! A cluster of real Redis servers, and servers that lead in it.

pub(crate) use crate::asks::{Asks, acquire, granted, new_request};
pub(crate) use crate::notices::NoNotices;
pub(crate) use crate::redis::{Answer, Redis};
pub(crate) use fencepost::testing::{
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
            config::bootstrap::{CreateError, create},
            nodes::{
                client::{Answers, Lost, NodeClient, SEND_FULL_FROM_BYTES},
                connections::RedisNodes,
            },
            paxos::{
                ballot::ServerId,
                leader::STAGED_BYTES_MAX,
                node::{ClusterId, Mark, NodeRequest},
            },
        },
    },
};
pub(crate) use futures_util::future::join_all;
pub(crate) use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
pub(crate) use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

pub(crate) const PARTITIONS: u16 = 4;
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const LOCKS: u32 = 100;

pub(crate) struct Cluster {
    pub(crate) redis: Vec<Redis>,
    pub(crate) mark: Mark,
}

/// A server of a cluster. It stops when it is dropped.
pub(crate) struct Server {
    pub(crate) store: Arc<QuorumStore<Arc<RedisNodes>>>,
    pub(crate) nodes: Arc<RedisNodes>,
    pub(crate) running: Vec<JoinHandle<()>>,
}

impl Cluster {
    pub(crate) async fn of(nodes: usize) -> Self {
        let redis: Vec<_> = (0..nodes).map(|_| Redis::start(&[])).collect();
        let members = redis.iter().map(|redis| redis.url().into()).collect();
        // A server of another test may still call an address that this one has now.
        let id = ClusterId(uuid::Uuid::new_v4().as_u128());
        let cluster =
            Self { redis, mark: Mark { cluster: id, partitions: PARTITIONS, list: 1, members, rebuild: None } };
        let mut server = cluster.idle_server();
        server.connect();
        for node in 0..nodes {
            timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
        }
        create(&server.nodes, &cluster.mark, 1_000).await.unwrap();
        cluster
    }

    /// A server without connections, which does nothing.
    pub(crate) fn idle_server(&self) -> Server {
        let urls: Vec<_> = self.redis.iter().map(|redis| RedisUrl::parse(&redis.url()).unwrap()).collect();
        let nodes = Arc::new(RedisNodes::new(&urls));
        let (clock, notices) = (Arc::new(ProcessClock::start()), Arc::new(NoNotices));
        let store = QuorumStore::new(Arc::clone(&nodes), self.mark.clone(), clock, &Limits::default(), notices);
        Server { store: Arc::new(store), nodes, running: Vec::new() }
    }

    /// A server that leads all partitions.
    pub(crate) async fn server(&self) -> Server {
        let mut server = self.idle_server();
        server.connect();
        server.serve();
        server.until_it_leads().await;
        server
    }

    /// Whether this node has a header for each partition.
    pub(crate) fn has_headers(&self, node: usize) -> bool {
        let has =
            |partition| self.redis[node].command(&["EXISTS", &format!("{{fp}}:q{partition}:h")]) == Answer::Int(1);
        (0..PARTITIONS).all(has)
    }
}

impl Server {
    pub(crate) fn connect(&mut self) {
        let nodes = Arc::clone(&self.nodes);
        self.running.push(tokio::spawn(async move { nodes.run().await }));
    }

    pub(crate) fn serve(&mut self) {
        let store = Arc::clone(&self.store);
        self.running.push(tokio::spawn(async move { store.run().await }));
    }

    pub(crate) async fn until_it_leads(&self) {
        let led = async {
            while self.store.list("", None, usize::MAX).await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, led).await.unwrap();
    }

    /// Stops its work, but it does not notice: it goes on with [`Self::serve`].
    pub(crate) fn pause(&mut self) {
        self.running.pop().unwrap().abort();
    }

    pub(crate) async fn acquire(&self, name: &LockName, request: &Acquire) -> Grant {
        granted(self.store.acquire(name, request.clone()).await.unwrap())
    }

    pub(crate) async fn acquire_all(&self) -> Vec<(LockName, Acquire, Grant)> {
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

pub(crate) fn lock(number: u32) -> LockName {
    LockName::new(format!("orders/{number}")).unwrap()
}

/// Each lease is held as it was granted: its holder renews it, and a repeat of its request finds it.
pub(crate) async fn assert_held(server: &Server, held: &[(LockName, Acquire, Grant)]) {
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
