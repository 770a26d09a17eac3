//! Servers, nodes between which parcels are lost or late, and calls that wait.

pub(crate) use crate::asks::{Asks, acquire, acquire_call, granted, new_request};
pub(crate) use crate::twins::{Twins, wall_clock};
pub(crate) use fencepost::testing::{
    clock::{Clock, ManualClock},
    domain::{
        command::Acquire,
        features::Features,
        limits::{CLAIM_WINDOW, Limits},
        name::LockName,
        outcome::{AcquireOutcome, Grant, ReleaseOutcome, RenewOutcome},
        time::StoreTime,
    },
    locks::{AcquireAnswer, AcquireCall, Hub, Locks, LocksError, WatchItem},
    node::Pushes,
    store::{
        EventKind, Store, StoreError,
        quorum::{
            QuorumStore,
            config::bootstrap::create,
            nodes::client::{Answers, Lost, NodeClient},
            paxos::{
                ballot::ServerId,
                message::Request,
                node::{ClusterId, Mark, Node, NodeRequest},
            },
            rpc::messages::{Frame, Heartbeat, Parcel, Work},
        },
    },
};
pub(crate) use futures_util::future::select_all;
pub(crate) use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
pub(crate) use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
pub(crate) use uuid::Uuid;

/// As many as a store on Redis has.
pub(crate) const PARTITIONS: u16 = 8;
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long calls wait for a lock.
pub(crate) const WAIT: Duration = Duration::from_secs(300);
pub(crate) const LOCKS: u32 = 40;

/// What becomes of a parcel.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Comes,
    Lost,
    Late(Duration),
}

/// The nodes, with ways that can be cut.
pub(crate) struct Ways {
    pub(crate) twins: Arc<Twins<3>>,
    /// What becomes of a parcel with such a frame.
    pub(crate) fate: Mutex<fn(&Frame) -> Fate>,
    /// Of so many parcels one is lost; none if it is zero.
    pub(crate) loses_each: AtomicUsize,
    pub(crate) parcels: AtomicUsize,
    /// Whether parcels through the first node are lost.
    pub(crate) first_is_deaf: AtomicBool,
    /// Whether the first batch of each leader is late.
    pub(crate) delays_first_batches: AtomicBool,
    /// Whether servers that start now tell nothing of what they understand.
    pub(crate) tells_nothing: AtomicBool,
    /// Whether each server tells nothing.
    pub(crate) silent: Mutex<BTreeMap<ServerId, bool>>,
    /// Frames to such a server with something that needs a feature.
    pub(crate) new_to_silent: AtomicUsize,
}

impl NodeClient for Ways {
    async fn send(&self, node: usize, mut requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        for request in &mut requests {
            if let NodeRequest::Heartbeat { server, payload, .. } = request
                && self.is_silent(*server)
            {
                let told = Heartbeat::decode(payload).unwrap();
                *payload = Heartbeat { features: Features::NONE, ..told }.encode().into();
            }
        }
        let is_first = |request: &NodeRequest| match request {
            NodeRequest::OfPartition { request: Request::Write { before, position, .. }, .. } => {
                before.ballot != position.ballot
            }
            _ => false,
        };
        if self.delays_first_batches.load(Ordering::Relaxed) && requests.iter().any(is_first) {
            sleep(Duration::from_millis(600)).await;
        }
        self.twins.send(node, requests).await
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        self.twins.up(node)
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        self.twins.wall_clock(node)
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        let each = self.loses_each.load(Ordering::Relaxed);
        let number = self.parcels.fetch_add(1, Ordering::Relaxed);
        let is_lost = each > 0 && number.is_multiple_of(each);
        if is_lost || (node == 0 && self.first_is_deaf.load(Ordering::Relaxed)) {
            return Ok(true);
        }
        let fate = *self.fate.lock().unwrap();
        let frames = Parcel::decode(&parcel).unwrap().frames;
        if self.is_silent(to) {
            self.new_to_silent.fetch_add(frames.iter().filter(|frame| is_new(frame)).count(), Ordering::Relaxed);
        }
        let fates = frames.into_iter().map(|frame| fate(&frame));
        match fates.into_iter().find(|fate| !matches!(fate, Fate::Comes)) {
            None | Some(Fate::Comes) => self.twins.publish(node, to, parcel).await,
            Some(Fate::Lost) => Ok(true),
            Some(Fate::Late(late)) => {
                let twins = Arc::clone(&self.twins);
                tokio::spawn(async move {
                    sleep(late).await;
                    twins.publish(node, to, parcel).await
                });
                Ok(true)
            }
        }
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.twins.listen(node, me)
    }
}

/// Whether it has something that needs a feature.
fn is_new(frame: &Frame) -> bool {
    match frame {
        Frame::Forward { work: Work::Run(_, command), .. } => !Features::of(command).is_none(),
        Frame::Waiters { waiters, .. } => {
            waiters.iter().any(|waiter| !Features::of_terms(&waiter.acquire.terms).is_none())
        }
        _ => false,
    }
}

/// A clock that goes on with the time of the runtime.
pub(crate) struct RuntimeClock(StoreTime, Instant);

impl RuntimeClock {
    /// Each shows another time.
    pub(crate) fn start() -> Self {
        Self(StoreTime::from_micros(Uuid::new_v4().as_u64_pair().0 >> 16), Instant::now())
    }

    /// So far ahead of the right time, or behind it.
    pub(crate) fn ahead(seconds: i64) -> Self {
        Self(
            StoreTime::from_micros(wall_clock().as_micros().saturating_add_signed(seconds * 1_000_000)),
            Instant::now(),
        )
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> StoreTime {
        self.0.after(self.1.elapsed())
    }
}

impl Ways {
    fn is_silent(&self, server: ServerId) -> bool {
        let is_silent = || self.tells_nothing.load(Ordering::Relaxed);
        *self.silent.lock().unwrap().entry(server).or_insert_with(is_silent)
    }

    pub(crate) fn to_all(&self, fate: fn(&Frame) -> Fate) {
        *self.fate.lock().unwrap() = fate;
    }
}

pub(crate) type Servers = Vec<Server>;

/// A server. It dies when it is dropped.
pub(crate) struct Server {
    pub(crate) store: Arc<QuorumStore<Arc<Ways>>>,
    pub(crate) locks: Arc<Locks<QuorumStore<Arc<Ways>>>>,
    pub(crate) runs: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(ways: &Arc<Ways>, mark: &Mark) -> Self {
        // Where one node may lose its memory, wall clocks decide about tokens.
        let clock = if mark.members.len() == 1 { RuntimeClock::ahead(0) } else { RuntimeClock::start() };
        Self::with_clock(ways, mark, Arc::new(clock))
    }

    pub(crate) fn with_clock(ways: &Arc<Ways>, mark: &Mark, clock: Arc<dyn Clock>) -> Self {
        let (hub, limits) = (Arc::new(Hub::new()), Limits::default());
        let store = Arc::new(QuorumStore::new(Arc::clone(ways), mark.clone(), clock, &limits, hub.clone()));
        let locks = Arc::new(Locks::new(Arc::clone(&store), hub, limits));
        let runs = Self::run(&store);
        Self { store, locks, runs }
    }

    pub(crate) fn run(store: &Arc<QuorumStore<Arc<Ways>>>) -> JoinHandle<()> {
        let runs = Arc::clone(store);
        tokio::spawn(async move { runs.run().await })
    }

    /// Does nothing for so long.
    pub(crate) async fn pause(&mut self, pause: Duration) {
        self.runs.abort();
        sleep(pause).await;
        self.runs = Self::run(&self.store);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("{what} takes too long"));
}

/// A cluster of three nodes with so many servers, which lead all partitions.
pub(crate) async fn cluster(servers: usize) -> (Arc<Ways>, Mark, Servers) {
    cluster_of(3, servers).await
}

/// Nodes that were never asked anything, and what makes a cluster of so many of them.
pub(crate) fn empty(nodes: usize) -> (Arc<Ways>, Mark) {
    let ways = Arc::new(Ways {
        twins: Arc::new(Twins::new()),
        fate: Mutex::new(|_| Fate::Comes),
        loses_each: AtomicUsize::new(0),
        parcels: AtomicUsize::new(1),
        first_is_deaf: AtomicBool::new(false),
        delays_first_batches: AtomicBool::new(false),
        tells_nothing: AtomicBool::new(false),
        silent: Mutex::default(),
        new_to_silent: AtomicUsize::new(0),
    });
    let members = (0..nodes).map(|node| format!("node {node}").into()).collect();
    (ways, Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members, rebuild: None })
}

pub(crate) async fn cluster_of(nodes: usize, servers: usize) -> (Arc<Ways>, Mark, Servers) {
    let (ways, mark) = empty(nodes);
    create(&ways, &mark, 1_000).await.unwrap();
    let servers: Servers = (0..servers).map(|_| Server::start(&ways, &mark)).collect();
    settled(&servers).await;
    (ways, mark, servers)
}

/// All partitions are led, each once, and all servers know by whom.
pub(crate) async fn settled(servers: &[Server]) {
    let leads = || servers.iter().map(|server| server.store.leads()).sum::<usize>();
    until("a leader for each partition", || {
        leads() == usize::from(PARTITIONS) && servers.iter().all(|server| server.store.is_ready())
    })
    .await;
}

/// Each server leads as many partitions as any other, or one more, so that none is handed over any more.
pub(crate) async fn level(servers: &[Server]) {
    let (all, count) = (usize::from(PARTITIONS), servers.len());
    let shares = (all / count)..=all.div_ceil(count);
    let leads = || servers.iter().map(|server| server.store.leads());
    until("equal shares", || leads().sum::<usize>() == all && leads().all(|leads| shares.contains(&leads))).await;
    settled(servers).await;
}

pub(crate) fn lock(number: u32) -> LockName {
    LockName::new(format!("orders/{number}")).unwrap()
}

/// Repeats what was certainly not done, and, as clients do, what may have been.
pub(crate) async fn persist<T>(mut act: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let begun = Instant::now();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn take(server: &Server, name: &LockName) -> (Acquire, Grant) {
    let request = acquire(new_request(), TTL, false);
    (request.clone(), granted(server.store.acquire(name, request).await.unwrap()))
}

/// Waits for a lock through a server.
pub(crate) fn waits(server: &Server, name: &LockName) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    waits_as(server, name, acquire_call(new_request(), 1, TTL, WAIT))
}

pub(crate) fn waits_as(
    server: &Server,
    name: &LockName,
    call: AcquireCall,
) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    let (locks, name) = (Arc::clone(&server.locks), name.clone());
    tokio::spawn(async move { locks.acquire(&name, call).await })
}

pub(crate) async fn queued(server: &Server, name: &LockName, count: usize) {
    let begun = Instant::now();
    while persist(async || server.store.view(name).await).await.waiters < count {
        assert!(begun.elapsed() < PATIENCE, "{count} waiters are never queued");
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn served(waiting: JoinHandle<Result<AcquireAnswer, LocksError>>) -> Grant {
    match timeout(PATIENCE, waiting).await.expect("the waiter is served").unwrap() {
        Ok(AcquireAnswer::Acquired(acquired)) => acquired.grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// Acquires through the service until it is granted, with the next attempt after an unknown outcome, as clients do.
pub(crate) async fn take_with_retries(locks: Arc<Locks<QuorumStore<Arc<Ways>>>>, name: LockName) -> Grant {
    let request = new_request();
    for attempt in 1.. {
        match locks.acquire(&name, acquire_call(request, attempt, TTL, PATIENCE)).await {
            Ok(AcquireAnswer::Acquired(acquired)) => return acquired.grant,
            Ok(other) => panic!("{other:?}"),
            Err(LocksError::Store(_) | LocksError::Forgotten) => sleep(Duration::from_millis(50)).await,
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!("it goes on");
}

/// Holds locks through the second of three servers, of which the first leads most partitions.
pub(crate) async fn with_held_locks() -> (Arc<Ways>, Servers, Vec<(LockName, Grant)>) {
    let (ways, _, mut servers) = cluster(3).await;
    level(&servers).await;
    servers.sort_by_key(|server| Reverse(server.store.leads()));
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(&servers[1], &lock(number)).await.1));
    }
    (ways, servers, held)
}

pub(crate) async fn release(server: &Server, (name, grant): &(LockName, Grant)) {
    let released = persist(async || server.store.release(name, grant.lease_id).await).await;
    assert_eq!(released, ReleaseOutcome::Released);
}

pub(crate) async fn all_are_free(server: &Server) {
    for number in 0..LOCKS {
        let view = persist(async || server.store.view(&lock(number)).await).await;
        assert_eq!((view.current, view.waiters), (None, 0), "nobody asks for it any more");
    }
}

pub(crate) fn delays_waiters(frame: &Frame) -> Fate {
    if matches!(frame, Frame::Waiters { .. }) { Fate::Late(Duration::from_secs(4)) } else { Fate::Comes }
}

pub(crate) fn loses_waiters(frame: &Frame) -> Fate {
    if matches!(frame, Frame::Waiters { .. }) { Fate::Lost } else { Fate::Comes }
}

pub(crate) fn loses_hand_overs(frame: &Frame) -> Fate {
    if matches!(frame, Frame::HandOver { .. }) { Fate::Lost } else { Fate::Comes }
}
