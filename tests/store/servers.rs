//! Several servers on one cluster: each answers for any lock, whoever leads its partition.
//!
//! Time is that of the tokio runtime, which is paused: it goes on to the next timer when nothing else is left to do. So
//! no pause of this machine is taken for a server's death, and no test waits for real.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/asks.rs"]
mod asks;
#[path = "../support/twins.rs"]
mod twins;

use asks::{Asks, acquire, acquire_call, granted, new_request};
use fencepost::{
    clock::{Clock, ManualClock},
    domain::{
        command::Acquire,
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
            ballot::ServerId,
            create::create,
            frame::{Frame, Parcel},
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
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use twins::Twins;
use uuid::Uuid;

const PARTITIONS: u16 = 8;
const TTL: Duration = Duration::from_secs(60);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long calls wait for a lock.
const WAIT: Duration = Duration::from_secs(300);
const LOCKS: u32 = 40;

/// What becomes of a parcel.
#[derive(Clone, Copy)]
enum Fate {
    Comes,
    Lost,
    Late(Duration),
}

/// The nodes, with ways that can be cut.
struct Ways {
    twins: Arc<Twins<3>>,
    /// What becomes of a parcel with such a frame.
    fate: Mutex<fn(&Frame) -> Fate>,
    /// Of so many parcels one is lost; none if it is zero.
    loses_each: AtomicUsize,
    parcels: AtomicUsize,
    /// Whether parcels through the first node are lost.
    first_is_deaf: AtomicBool,
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
        let is_lost = each > 0 && number.is_multiple_of(each);
        if is_lost || (node == 0 && self.first_is_deaf.load(Ordering::Relaxed)) {
            return Ok(true);
        }
        let fate = *self.fate.lock().unwrap();
        let fates = Parcel::decode(&parcel).unwrap().frames.into_iter().map(|frame| fate(&frame));
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

/// A clock that goes on with the time of the runtime. Each began at another time.
struct RuntimeClock(StoreTime, Instant);

impl RuntimeClock {
    fn start() -> Self {
        Self(StoreTime::from_micros(Uuid::new_v4().as_u64_pair().0 >> 16), Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> StoreTime {
        self.0.after(self.1.elapsed())
    }
}

impl Ways {
    fn to_all(&self, fate: fn(&Frame) -> Fate) {
        *self.fate.lock().unwrap() = fate;
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
        Self::with_clock(ways, mark, Arc::new(RuntimeClock::start()))
    }

    fn with_clock(ways: &Arc<Ways>, mark: &Mark, clock: Arc<dyn Clock>) -> Self {
        let (hub, limits) = (Arc::new(Hub::new()), Limits::default());
        let store = Arc::new(QuorumStore::new(Arc::clone(ways), mark.clone(), clock, &limits, hub.clone()));
        let locks = Arc::new(Locks::new(Arc::clone(&store), hub, limits));
        let runs = Self::run(&store);
        Self { store, locks, runs }
    }

    fn run(store: &Arc<QuorumStore<Arc<Ways>>>) -> JoinHandle<()> {
        let runs = Arc::clone(store);
        tokio::spawn(async move { runs.run().await })
    }

    /// Does nothing for so long.
    async fn pause(&mut self, pause: Duration) {
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
    let ways = Arc::new(Ways {
        twins: Arc::new(Twins::new()),
        fate: Mutex::new(|_| Fate::Comes),
        loses_each: AtomicUsize::new(0),
        parcels: AtomicUsize::new(1),
        first_is_deaf: AtomicBool::new(false),
    });
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
    waits_as(server, name, acquire_call(new_request(), 1, TTL, WAIT))
}

fn waits_as(server: &Server, name: &LockName, call: AcquireCall) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    let (locks, name) = (Arc::clone(&server.locks), name.clone());
    tokio::spawn(async move { locks.acquire(&name, call).await })
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test]
async fn tokens_rise_also_if_the_clock_of_the_next_server_is_years_behind() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (_, first) = take(&servers[0], &lock(1)).await;
    servers[0].store.leave().await;
    servers.clear();
    let clock = Arc::new(ManualClock::at(StoreTime::from_micros(1)));
    let behind = vec![Server::with_clock(&ways, &mark, clock)];
    settled(&behind).await;
    let released = behind[0].store.release(&lock(1), first.lease_id).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    let (_, next) = take(&behind[0], &lock(1)).await;
    assert!(next.token > first.token);
}

#[tokio::test]
async fn a_lock_that_is_held_all_the_time_is_in_each_listing_while_others_come_and_go() {
    let (_, _, servers) = cluster(3).await;
    let mut held = BTreeSet::new();
    for number in 0..LOCKS {
        let name = LockName::new(format!("held/{number}")).unwrap();
        let request = acquire(new_request(), TTL, false);
        granted(persist(async || servers[0].store.acquire(&name, request.clone()).await).await);
        held.insert(name);
    }
    let comes_and_goes = async {
        for number in (0..20).cycle() {
            let name = LockName::new(format!("gone/{number}")).unwrap();
            let request = acquire(new_request(), TTL, false);
            if let Ok(AcquireOutcome::Granted(grant)) = servers[1].store.acquire(&name, request).await {
                let _ = servers[2].store.release(&name, grant.lease_id).await;
            }
        }
    };
    let lists = async {
        for _ in 0..30 {
            let (mut found, mut from) = (BTreeSet::new(), None);
            loop {
                // A page token of a leader that lost the lead is refused: the listing begins again.
                let Ok(page) = servers[2].store.list("", from.as_deref(), 5).await else {
                    (found, from) = (BTreeSet::new(), None);
                    sleep(Duration::from_millis(20)).await;
                    continue;
                };
                found.extend(page.locks.into_iter().map(|(name, _)| name));
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
            assert!(found.is_superset(&held), "{:?} are missing", held.difference(&found).collect::<Vec<_>>());
        }
    };
    tokio::select! {
        () = lists => {}
        () = comes_and_goes => unreachable!("it goes on"),
    }
}

#[tokio::test]
async fn a_waiter_is_served_when_the_lease_of_a_stopped_holder_ends() {
    const SHORT: Duration = Duration::from_secs(2);
    let (_, _, servers) = cluster(3).await;
    let served = (0..LOCKS).map(async |number| {
        let [holder, waiter] = [0, 1].map(|step| &servers[(usize::try_from(number).unwrap() + step) % 3]);
        let name = lock(number);
        let held = acquire(new_request(), SHORT, false);
        granted(persist(async || holder.store.acquire(&name, held.clone()).await).await);
        let begun = Instant::now();
        let grant = take_with_retries(Arc::clone(&waiter.locks), name).await;
        (grant, begun.elapsed())
    });
    for (_, took) in futures_util::future::join_all(served).await {
        // An offer that nobody heard of would lapse after the claim window only.
        assert!(took < SHORT + CLAIM_WINDOW, "{took:?}");
    }
}

/// Holds locks through the second of three servers, of which the first leads most partitions.
async fn with_held_locks() -> (Arc<Ways>, Servers, Vec<(LockName, Grant)>) {
    let (ways, _, mut servers) = cluster(3).await;
    // Until each has its share.
    sleep(Duration::from_secs(4)).await;
    settled(&servers).await;
    servers.sort_by_key(|server| Reverse(server.store.leads()));
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(&servers[1], &lock(number)).await.1));
    }
    (ways, servers, held)
}

async fn release(server: &Server, (name, grant): &(LockName, Grant)) {
    let released = persist(async || server.store.release(name, grant.lease_id).await).await;
    assert_eq!(released, ReleaseOutcome::Released);
}

async fn all_are_free(server: &Server) {
    for number in 0..LOCKS {
        let view = persist(async || server.store.view(&lock(number)).await).await;
        assert_eq!((view.current, view.waiters), (None, 0), "nobody asks for it any more");
    }
}

fn delays_waiters(frame: &Frame) -> Fate {
    if matches!(frame, Frame::Waiters { .. }) { Fate::Late(Duration::from_secs(4)) } else { Fate::Comes }
}

fn loses_waiters(frame: &Frame) -> Fate {
    if matches!(frame, Frame::Waiters { .. }) { Fate::Lost } else { Fate::Comes }
}

fn loses_hand_overs(frame: &Frame) -> Fate {
    if matches!(frame, Frame::HandOver { .. }) { Fate::Lost } else { Fate::Comes }
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_before_the_new_leader_knew_of_it_is_granted_nothing() {
    let (ways, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (number, (name, _)) in held.iter().enumerate() {
        let call = acquire_call(new_request(), 1, TTL, Duration::from_secs(8));
        // One of the two does not lead the partition afterwards.
        waiting.push(waits_as(&servers[1 + number % 2], name, call));
        queued(&servers[1], name, 1).await;
    }
    ways.to_all(loses_waiters);
    drop(servers.remove(0));
    let mut forgotten = 0;
    for waiter in waiting {
        match timeout(PATIENCE, waiter).await.unwrap().unwrap() {
            Ok(AcquireAnswer::TimedOut(_)) => {}
            Err(LocksError::Forgotten) => forgotten += 1,
            // While nobody led.
            Err(LocksError::Store(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(forgotten > 0, "else all were presented, and this shows nothing");
    ways.to_all(|_| Fate::Comes);
    for held in &held {
        release(&servers[0], held).await;
    }
    sleep(Duration::from_secs(6)).await;
    all_are_free(&servers[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_presented_late_and_was_dropped_meanwhile_is_granted_nothing() {
    let (ways, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        waiting.push(waits(&servers[2], name));
        queued(&servers[1], name, 1).await;
    }
    ways.to_all(delays_waiters);
    drop(servers.remove(0));
    settled(&servers).await;
    for (waiting, held) in waiting.into_iter().zip(&held) {
        waiting.abort();
        release(&servers[0], held).await;
    }
    sleep(Duration::from_secs(8)).await;
    all_are_free(&servers[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_place_when_the_leader_dies() {
    let (_, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        let request = new_request();
        let overtaken = waits_as(&servers[1], name, acquire_call(request, 1, TTL, WAIT));
        queued(&servers[1], name, 1).await;
        let second = waits(&servers[1], name);
        queued(&servers[1], name, 2).await;
        let retry = waits_as(&servers[2], name, acquire_call(request, 2, TTL, WAIT));
        let end = timeout(PATIENCE, overtaken).await.unwrap().unwrap();
        assert!(matches!(end, Err(LocksError::Overtaken)), "{end:?}");
        waiting.push((retry, second));
    }
    drop(servers.remove(0));
    for (held, (retry, second)) in held.into_iter().zip(waiting) {
        release(&servers[0], &held).await;
        let first = served(retry).await;
        release(&servers[0], &(held.0, first)).await;
        assert!(served(second).await.token > first.token);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_server_that_was_silent_are_served_when_it_is_back() {
    // Its waiters are skipped after 3 s, and after 30 s deleted by what is done with their locks then. In between
    // nothing is, once it is forgotten how the leases ended.
    for (silence, until_release) in [(20, 6), (40, 6), (40, 39)] {
        let (ways, mark, mut servers) = cluster(1).await;
        let mut held = Vec::new();
        for number in 0..LOCKS {
            held.push((lock(number), take(&servers[0], &lock(number)).await.1));
        }
        servers.push(Server::start(&ways, &mark));
        settled(&servers).await;
        let waiting: Vec<_> = held.iter().map(|(name, _)| waits(&servers[1], name)).collect();
        for (name, _) in &held {
            queued(&servers[0], name, 1).await;
        }
        assert_eq!(servers[0].store.leads(), usize::from(PARTITIONS), "it has not settled");
        let mut silent = servers.remove(1);
        let away = tokio::spawn(async move {
            silent.pause(Duration::from_secs(silence)).await;
            silent
        });
        sleep(Duration::from_secs(until_release)).await;
        for held in &held {
            release(&servers[0], held).await;
        }
        // It gets its share of the partitions soon. The others stay where they are.
        let _back = away.await.unwrap();
        for (waiting, (_, grant)) in waiting.into_iter().zip(held) {
            assert!(served(waiting).await.token > grant.token);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_which_nothing_comes_costs_a_moment_and_is_not_tried_again_at_once() {
    let (ways, mark, mut servers) = cluster(1).await;
    ways.to_all(loses_hand_overs);
    servers.push(Server::start(&ways, &mark));
    for number in 0..LOCKS {
        // Some of these leases end while it hands over.
        let request = acquire(new_request(), Duration::from_millis(2_500), false);
        granted(servers[0].store.acquire(&lock(number), request).await.unwrap());
    }
    let (begun, mut waited) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(20) {
        for number in 0..LOCKS {
            let asked = Instant::now();
            // Refused, or carried out when the hand-over has failed.
            let _ = servers[0].store.view(&lock(number)).await;
            waited += asked.elapsed();
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(servers[0].store.leads(), usize::from(PARTITIONS));
    assert!(waited > Duration::from_millis(100), "{waited:?}: it handed nothing over");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_find_another_way_where_a_node_takes_parcels_and_does_not_pass_them_on() {
    let (ways, servers, held) = with_held_locks().await;
    ways.first_is_deaf.store(true, Ordering::Relaxed);
    for server in &servers {
        for (name, grant) in &held {
            let view = persist(async || server.store.view(name).await).await;
            assert_eq!(view.current.unwrap().token, grant.token);
        }
    }
}
