//! Several servers on one cluster: each answers for any lock, whoever leads its partition.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/asks.rs"]
mod asks;
#[path = "../support/twins.rs"]
mod twins;

use asks::{Asks, acquire, acquire_call, granted, new_request};
use fencepost::{
    clock::ProcessClock,
    domain::{
        command::Acquire,
        limits::Limits,
        name::LockName,
        outcome::{AcquireOutcome, Grant, ReleaseOutcome, RenewOutcome},
    },
    locks::{AcquireAnswer, Hub, Locks, LocksError, WatchItem},
    node::Pushes,
    store::{
        EventKind, Store, StoreError,
        quorum::{
            QuorumStore,
            ballot::ServerId,
            create::create,
            node::{Ask, ClusterId, Mark},
            nodes::{Answers, Carrier, Lost},
        },
    },
};
use futures_util::future::select_all;
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use twins::Twins;

const PARTITIONS: u16 = 8;
const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
const LOCKS: u32 = 40;

/// The nodes, with ways that can be cut.
struct Ways {
    twins: Twins<3>,
    /// Of so many parcels one is lost; none if it is zero.
    loses_each: AtomicUsize,
    parcels: AtomicUsize,
}

impl Carrier for Ways {
    fn carry(&self, node: usize, asks: Vec<Ask>) -> impl Future<Output = Result<Answers, Lost>> + Send {
        self.twins.carry(node, asks)
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        self.twins.up(node)
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        let each = self.loses_each.load(Ordering::Relaxed);
        let number = self.parcels.fetch_add(1, Ordering::Relaxed);
        if each > 0 && number.is_multiple_of(each) {
            return Ok(true);
        }
        self.twins.publish(node, to, parcel).await
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.twins.listen(node, me)
    }
}

type Servers = Vec<Server>;

/// A server. It dies when it is dropped.
struct Server {
    store: Arc<QuorumStore<Arc<Ways>>>,
    locks: Arc<Locks<QuorumStore<Arc<Ways>>>>,
    runs: JoinHandle<()>,
}

impl Server {
    fn start(ways: &Arc<Ways>, mark: &Mark) -> Self {
        let (clock, hub) = (Arc::new(ProcessClock::start()), Arc::new(Hub::new()));
        let limits = Limits::default();
        let store = Arc::new(QuorumStore::new(Arc::clone(ways), mark.clone(), clock, &limits, hub.clone()));
        let locks = Arc::new(Locks::new(Arc::clone(&store), hub, limits));
        let runs = Arc::clone(&store);
        let runs = tokio::spawn(async move { runs.run().await });
        Self { store, locks, runs }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("{what} takes too long"));
}

/// A cluster of three nodes with so many servers, each of which leads some partitions.
async fn cluster(servers: usize) -> (Arc<Ways>, Mark, Servers) {
    let ways = Arc::new(Ways { twins: Twins::new(), loses_each: AtomicUsize::new(0), parcels: AtomicUsize::new(1) });
    let members = (0..3).map(|node| format!("node {node}").into()).collect();
    let mark = Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members };
    create(&ways, &mark, 1_000).await.unwrap();
    let servers: Servers = (0..servers).map(|_| Server::start(&ways, &mark)).collect();
    settled(&servers).await;
    (ways, mark, servers)
}

/// All partitions are led, each once, and all servers know by whom. With this few partitions, one server of several may
/// lead none.
async fn settled(servers: &[Server]) {
    let leads = || servers.iter().map(|server| server.store.leads()).sum::<usize>();
    until("a leader for each partition", || {
        leads() == usize::from(PARTITIONS) && servers.iter().all(|server| server.store.is_ready())
    })
    .await;
}

fn lock(number: u32) -> LockName {
    LockName::new(format!("orders/{number}")).unwrap()
}

/// Repeats what was certainly not done, and, as clients do, what may have been.
async fn persist<T>(mut act: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let begun = Instant::now();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn take(server: &Server, name: &LockName) -> (Acquire, Grant) {
    let request = acquire(new_request(), TTL, false);
    (request.clone(), granted(server.store.acquire(name, request).await.unwrap()))
}

/// Waits for a lock through a server.
fn waits(server: &Server, name: &LockName) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    let (locks, name) = (Arc::clone(&server.locks), name.clone());
    tokio::spawn(async move { locks.acquire(&name, acquire_call(new_request(), 1, TTL, PATIENCE)).await })
}

async fn queued(server: &Server, name: &LockName, count: usize) {
    let begun = Instant::now();
    while persist(async || server.store.view(name).await).await.waiters < count {
        assert!(begun.elapsed() < PATIENCE, "{count} waiters are never queued");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn served(waiting: JoinHandle<Result<AcquireAnswer, LocksError>>) -> Grant {
    match timeout(PATIENCE, waiting).await.expect("the waiter is served").unwrap() {
        Ok(AcquireAnswer::Acquired(acquired)) => acquired.grant,
        other => panic!("not granted: {other:?}"),
    }
}

#[tokio::test]
async fn any_server_answers_for_any_lock() {
    let (_, _, servers) = cluster(3).await;
    let leading = || servers.iter().filter(|server| server.store.leads() > 0).count();
    until("a share for more than one", || leading() > 1).await;
    settled(&servers).await;
    for number in 0..LOCKS {
        let name = lock(number);
        let turn = |step: usize| &servers[(usize::try_from(number).unwrap() + step) % servers.len()].store;
        let request = acquire(new_request(), TTL, false);
        let grant = granted(turn(0).acquire(&name, request.clone()).await.unwrap());
        let again = granted(turn(1).acquire(&name, request).await.unwrap());
        assert_eq!((again.token, again.lease_id), (grant.token, grant.lease_id), "a repeat through another server");
        let other = turn(2).acquire(&name, acquire(new_request(), TTL, false)).await.unwrap();
        assert!(matches!(other, AcquireOutcome::Contended(_)), "{other:?}");
        let RenewOutcome::Renewed(renewed) = turn(2).renew(&name, grant.lease_id).await.unwrap() else {
            panic!("lost");
        };
        assert_eq!(renewed.token, grant.token);
        let view = turn(1).view(&name).await.unwrap();
        assert_eq!(view.current.unwrap().token, grant.token);
        assert_eq!(turn(2).release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        let next = granted(turn(1).acquire(&name, acquire(new_request(), TTL, false)).await.unwrap());
        assert!(next.token > grant.token);
    }
}

#[tokio::test]
async fn each_server_lists_the_locks_of_all() {
    let (_, _, servers) = cluster(3).await;
    let mut names = BTreeSet::new();
    for number in 0..LOCKS {
        take(&servers[0], &lock(number)).await;
        names.insert(lock(number));
    }
    for server in &servers {
        let (mut found, mut from) = (BTreeSet::new(), None);
        loop {
            let page = server.store.list("orders/", from.as_deref(), 7).await.unwrap();
            assert!(page.locks.len() <= 7);
            found.extend(page.locks.into_iter().map(|(name, _)| name));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(found, names);
        assert_eq!(server.store.list("orders/1", None, 100).await.unwrap().locks.len(), 11);
    }
}

#[tokio::test]
async fn waiters_of_all_servers_are_served_first_come_first_served() {
    let (_, _, servers) = cluster(3).await;
    for number in 0..8 {
        let name = lock(number);
        let (_, mut grant) = take(&servers[0], &name).await;
        let mut waiting = Vec::new();
        for waiter in 0..6 {
            waiting.push(waits(&servers[(waiter + 1) % 3], &name));
            queued(&servers[waiter % 3], &name, waiter + 1).await;
        }
        for (step, waiter) in waiting.into_iter().enumerate() {
            assert_eq!(servers[step % 3].store.release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
            let next = served(waiter).await;
            assert!(next.token > grant.token);
            grant = next;
        }
    }
}

#[tokio::test]
async fn waiters_keep_their_order_when_the_leader_dies_and_leases_their_tokens() {
    let (_, _, mut servers) = cluster(3).await;
    servers.sort_by_key(|server| Reverse(server.store.leads()));
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(&servers[1], &lock(number)).await.1));
    }
    let mut waiting = Vec::new();
    for (name, _) in &held {
        let mut queue = Vec::new();
        for waiter in 0..4 {
            queue.push(waits(&servers[1 + waiter % 2], name));
            queued(&servers[1], name, waiter + 1).await;
        }
        waiting.push(queue);
    }
    let dying = servers.remove(0);
    assert!(dying.store.leads() > 0, "else its death shows nothing");
    drop(dying);
    settled(&servers).await;
    for ((name, mut grant), queue) in held.into_iter().zip(waiting) {
        let view = persist(async || servers[0].store.view(&name).await).await;
        assert_eq!(view.current.unwrap().token, grant.token);
        for waiter in queue {
            let released = persist(async || servers[0].store.release(&name, grant.lease_id).await).await;
            assert_eq!(released, ReleaseOutcome::Released);
            let next = served(waiter).await;
            assert!(next.token > grant.token);
            grant = next;
        }
    }
}

#[tokio::test]
async fn a_server_that_leaves_hands_over_within_a_moment_and_one_that_comes_gets_its_share() {
    let (ways, mark, mut servers) = cluster(2).await;
    let name = lock(0);
    let (_, mut grant) = take(&servers[0], &name).await;
    let mut waiting = Vec::new();
    for waiter in 0..4 {
        waiting.push(waits(&servers[1], &name));
        queued(&servers[0], &name, waiter + 1).await;
    }
    let leaving = servers.remove(0);
    let begun = Instant::now();
    leaving.store.leave().await;
    let took = begun.elapsed();
    assert_eq!(leaving.store.leads(), 0);
    drop(leaving);
    for number in 0..LOCKS {
        persist(async || servers[0].store.acquire(&lock(number), acquire(new_request(), TTL, false)).await).await;
    }
    assert!(took < Duration::from_secs(1), "{took:?}: it was taken for dead, not asked to hand over");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}: its successor waited for what it did not say any more");
    settled(&servers).await;
    servers.push(Server::start(&ways, &mark));
    servers.push(Server::start(&ways, &mark));
    until("a share for those who came", || servers.iter().filter(|server| server.store.leads() > 0).count() > 1).await;
    settled(&servers).await;
    for (step, waiter) in waiting.into_iter().enumerate() {
        let server = &servers[step % servers.len()];
        let released = persist(async || server.store.release(&name, grant.lease_id).await).await;
        assert_eq!(released, ReleaseOutcome::Released);
        let next = served(waiter).await;
        assert!(next.token > grant.token);
        grant = next;
    }
}

#[tokio::test]
async fn the_last_server_that_leaves_keeps_nobody_waiting() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (_, grant) = take(&servers[0], &lock(1)).await;
    servers[0].store.leave().await;
    servers.clear();
    let begun = Instant::now();
    let next = vec![Server::start(&ways, &mark)];
    settled(&next).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}: it suspected a server that had said that it leaves");
    assert_eq!(next[0].store.view(&lock(1)).await.unwrap().current.unwrap().token, grant.token);
}

/// Acquires through the service until it is granted, with the next attempt after an unknown outcome, as clients do.
async fn take_with_retries(locks: Arc<Locks<QuorumStore<Arc<Ways>>>>, name: LockName) -> Grant {
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

#[tokio::test]
async fn lost_parcels_delay_waiters_and_lose_none() {
    let (ways, _, servers) = cluster(3).await;
    ways.loses_each.store(7, Ordering::Relaxed);
    for number in 0..6 {
        let name = lock(number);
        let mut grant = take_with_retries(Arc::clone(&servers[0].locks), name.clone()).await;
        let waiter =
            |waiter: usize| tokio::spawn(take_with_retries(Arc::clone(&servers[waiter % 3].locks), name.clone()));
        let mut waiters: Vec<_> = (0..6).map(waiter).collect();
        while !waiters.is_empty() {
            let released = persist(async || servers[1].store.release(&name, grant.lease_id).await).await;
            assert!(matches!(released, ReleaseOutcome::Released | ReleaseOutcome::Gone(_)));
            let served = timeout(PATIENCE, select_all(waiters)).await;
            let (next, _, rest) = served.expect("somebody is served");
            let next = next.unwrap();
            assert!(next.token > grant.token);
            (grant, waiters) = (next, rest);
        }
    }
}

#[tokio::test]
async fn who_watches_sees_the_events_of_all_servers_or_that_some_are_missing() {
    let (_, _, servers) = cluster(3).await;
    let watching = servers[2].locks.watch("orders/".to_owned()).await.unwrap();
    let mut seen = 0;
    for number in 0..LOCKS {
        let request = acquire(new_request(), TTL, false);
        let grant = granted(persist(async || servers[0].store.acquire(&lock(number), request.clone()).await).await);
        persist(async || servers[1].store.release(&lock(number), grant.lease_id).await).await;
        for expected in [EventKind::Granted, EventKind::Released] {
            match timeout(PATIENCE, watching.next()).await.expect("the event comes, or its loss is told") {
                Some(WatchItem::Event(event)) => {
                    assert_eq!((event.kind, event.name, event.token), (expected, lock(number), grant.token));
                    seen += 1;
                }
                // A partition changed its leader meanwhile.
                Some(WatchItem::Missed(_)) => {
                    while timeout(Duration::from_millis(100), watching.next()).await.is_ok() {}
                    break;
                }
                None => panic!("the watch ended"),
            }
        }
    }
    assert!(seen > LOCKS, "{seen} events were seen");
}
