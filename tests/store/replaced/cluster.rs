//! Three nodes of a cluster and two to replace some, servers that use them, and clients.

use crate::{
    asks::{Asks, acquire, granted, new_request},
    redis::Redis,
};
use fencepost::testing::{
    clock::ProcessClock,
    domain::{
        command::Acquire,
        limits::Limits,
        name::LockName,
        outcome::{AcquireOutcome, Grant, ReleaseOutcome, RenewOutcome},
    },
    locks::{Hub, Locks},
    node::RedisUrl,
    store::{
        StoreError,
        quorum::{
            ClusterStore,
            config::{
                bootstrap::create,
                discovery,
                replace_node::{Plan, ReplaceError, Replacement},
                search::{Search, Sight},
            },
            nodes::{
                addresses::{Addresses, Connected},
                client::NodeClient,
            },
            paxos::node::{ClusterId, Mark, NodeAnswer, NodeRequest},
        },
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

pub(crate) const PARTITIONS: u16 = 4;
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const LOCKS: u32 = 24;

/// Three nodes of a cluster, and two that it does not use.
pub(crate) struct Cluster {
    pub(crate) redis: Vec<Redis>,
    pub(crate) mark: Mark,
}

pub(crate) struct Server {
    pub(crate) store: Arc<ClusterStore<Addresses>>,
    pub(crate) locks: Arc<Locks<ClusterStore<Addresses>>>,
    runs: JoinHandle<()>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let redis: Vec<_> = (0..5).map(|_| Redis::start(&["--requirepass", "s3cret"])).collect();
        let addresses = addresses(&redis[..3]);
        let members = addresses.members();
        // A server of another test may still call an address that this one has now.
        let (cluster, list) = (ClusterId(uuid::Uuid::new_v4().as_u128()), members.clone().into());
        let mark = Mark { cluster, partitions: PARTITIONS, list: 1, members: list, rebuild: None };
        let connected = Connected::to(&addresses, &members).unwrap();
        assert_eq!(discovery::marks(&connected.nodes, 3).await, [Ok(None), Ok(None), Ok(None)]);
        create(&connected.nodes, &mark, 1_000).await.unwrap();
        Self { redis, mark }
    }

    /// A server whose operator named these nodes.
    pub(crate) async fn server(&self, named: &[usize]) -> Server {
        let named: Vec<_> = named.iter().map(|node| url(&self.redis[*node])).collect();
        let (addresses, hub) = (Addresses::new(named), Arc::new(Hub::new()));
        let (members, clock, limits) = (addresses.members(), Arc::new(ProcessClock::start()), Limits::default());
        let store = Arc::new(ClusterStore::new(addresses, members, clock, &limits, hub.clone()));
        let locks = Arc::new(Locks::new(Arc::clone(&store), hub, limits));
        let running = Arc::clone(&store);
        let runs = tokio::spawn(async move { running.run().await });
        let server = Server { store, locks, runs };
        server.until_ready().await;
        server
    }

    pub(crate) fn name(&self, node: usize) -> Arc<str> {
        url(&self.redis[node]).address().into()
    }

    pub(crate) fn replacement(&self, old: usize, new: usize) -> Replacement {
        Replacement { old: self.name(old), new: self.name(new) }
    }

    pub(crate) async fn sight(&self, named: &[usize]) -> Sight {
        let addresses = Addresses::new(named.iter().map(|node| url(&self.redis[*node])));
        Search::new(&addresses, &addresses.members()).look().await.unwrap()
    }

    /// Gives a node a list, as a try does that is broken off after it.
    pub(crate) async fn give(&self, node: usize, mark: &Mark) {
        let addresses = addresses(&self.redis[node..=node]);
        let connected = Connected::to(&addresses, &addresses.members()).unwrap();
        connected.nodes.up(0).await;
        assert_eq!(
            connected.nodes.send(0, vec![NodeRequest::Mark(mark.clone())]).await.unwrap(),
            [Ok(NodeAnswer::Marked)]
        );
    }

    /// Replaces a node. The operator names these.
    pub(crate) async fn replace(&self, named: &[usize], replacement: &Replacement) -> Result<Mark, ReplaceError> {
        let addresses = Addresses::new(named.iter().map(|node| url(&self.redis[*node])));
        let members = addresses.members();
        let mut search = Search::new(&addresses, &members);
        let plan = replacement.plan(&search.look().await.unwrap(), &members)?;
        search.also(&replacement.new);
        let sight = search.look().await.unwrap();
        let nodes = search.nodes().unwrap();
        let to = match plan {
            Plan::Decided(mark) => mark,
            Plan::Begin { from, to } => {
                replacement.check(nodes, &from, &to, &sight).await?;
                to
            }
        };
        replacement.write(nodes, &to).await?;
        Ok(to)
    }

    /// The same, and waits until the new node has all.
    pub(crate) async fn replace_wholly(&self, named: &[usize], (old, new): (usize, usize)) -> Mark {
        let replacement = self.replacement(old, new);
        let to = self.replace(named, &replacement).await.unwrap();
        let addresses = addresses(&self.redis[new..=new]);
        let connected = Connected::to(&addresses, &addresses.members()).unwrap();
        let all = async {
            while replacement.votes(&connected, &to).await != Ok(usize::from(PARTITIONS)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, all).await.expect("the new node is brought up to date");
        to
    }
}

impl Server {
    pub(crate) async fn until_ready(&self) {
        let mut up = self.store.up();
        timeout(PATIENCE, up.wait_for(|up| *up)).await.expect("the server is ready").unwrap();
    }

    pub(crate) async fn until_list(&self, list: u64) {
        let follows = async {
            while self.store.list_number() != Some(list) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, follows).await.expect("the server goes on with the list");
        self.until_ready().await;
    }

    pub(crate) async fn hold(&self, numbers: std::ops::Range<u32>) -> Vec<(LockName, Acquire, Grant)> {
        let mut held = Vec::new();
        for number in numbers {
            let (name, request) = (lock(number), acquire(new_request(), TTL, false));
            let grant = persist(|| self.store.acquire(&name, request.clone())).await;
            held.push((name, request, granted(grant)));
        }
        held
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

pub(crate) fn url(redis: &Redis) -> RedisUrl {
    RedisUrl::parse(&redis.url()).unwrap()
}

pub(crate) fn addresses(redis: &[Redis]) -> Addresses {
    Addresses::new(redis.iter().map(url))
}

pub(crate) fn lock(number: u32) -> LockName {
    LockName::new(format!("orders/{number}")).unwrap()
}

/// Repeats what was certainly not done, and, as clients do, what may have been.
pub(crate) async fn persist<T, F: Future<Output = Result<T, StoreError>>>(mut act: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Each lease is held as it was granted: its holder renews it, a repeat of its request finds it, and nobody else gets
/// it.
pub(crate) async fn assert_held(server: &Server, held: &[(LockName, Acquire, Grant)]) {
    for (name, request, grant) in held {
        let again = granted(persist(|| server.store.acquire(name, request.clone())).await);
        assert_eq!((again.token, again.lease_id), (grant.token, grant.lease_id));
        let renewed = persist(|| server.store.renew(name, grant.lease_id)).await;
        assert!(matches!(&renewed, RenewOutcome::Renewed(it) if it.token == grant.token), "{name:?}: {renewed:?}");
        let other = acquire(new_request(), TTL, false);
        let other = persist(|| server.store.acquire(name, other.clone())).await;
        assert!(matches!(other, AcquireOutcome::Contended(_)), "{other:?}");
    }
}

/// Acquires as clients do: after an unknown outcome with the next attempt, or anew if the one before was cleaned up.
pub(crate) async fn take(store: &ClusterStore<Addresses>, name: &LockName) -> Grant {
    let (begun, mut request) = (Instant::now(), acquire(new_request(), TTL, false));
    loop {
        match store.acquire(name, request.clone()).await {
            Ok(AcquireOutcome::Granted(grant)) => return grant,
            Ok(AcquireOutcome::Ended) => request = acquire(new_request(), TTL, false),
            Ok(other) => panic!("not granted: {other:?}"),
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(10)).await;
        request.call.attempt += 1;
    }
}

/// Clients that take a lock each, and give it back, again and again. Its tokens rise.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    pairs: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Duration>>,
}

impl Load {
    pub(crate) fn on(servers: &[Server]) -> Self {
        let (ends, pairs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |number: u32| {
            let store = Arc::clone(&servers[usize::try_from(number).unwrap() % servers.len()].store);
            let (ends, pairs) = (Arc::clone(&ends), Arc::clone(&pairs));
            tokio::spawn(async move {
                let (name, mut last, mut longest) = (lock(1_000 + number), None, Duration::ZERO);
                while !ends.load(Ordering::SeqCst) {
                    let begun = Instant::now();
                    let grant = take(&store, &name).await;
                    assert!(last.is_none_or(|last| last < grant.token), "{last:?}, {:?}", grant.token);
                    last = Some(grant.token);
                    let released = persist(|| store.release(&name, grant.lease_id)).await;
                    assert!(matches!(released, ReleaseOutcome::Released | ReleaseOutcome::Gone(_)), "{released:?}");
                    pairs.fetch_add(1, Ordering::SeqCst);
                    longest = longest.max(begun.elapsed());
                }
                longest
            })
        };
        let clients = (0..8).map(client).collect();
        Self { ends, pairs, clients }
    }

    pub(crate) async fn goes_on(&self) {
        let before = self.pairs.load(Ordering::SeqCst);
        let more = async {
            while self.pairs.load(Ordering::SeqCst) < before + 50 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, more).await.expect("locks are granted");
    }

    /// The longest time of a pair.
    pub(crate) async fn end(self) -> Duration {
        self.ends.store(true, Ordering::SeqCst);
        let mut longest = Duration::ZERO;
        for client in self.clients {
            longest = longest.max(client.await.unwrap());
        }
        longest
    }
}
