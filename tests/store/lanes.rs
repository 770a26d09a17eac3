//! Overload: acquires come ten times as fast as the nodes can write grants, beside leases of 3 s that others keep. Not
//! one of these may end.
//!
//! Time is that of the tokio runtime, which is paused, and the node of the test takes its time for each record. So the
//! test says what the store does, not what this machine does. `overload` is the same with a real Redis.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/asks.rs"]
mod asks;
#[path = "../support/twins.rs"]
mod twins;

use asks::{acquire, new_request};
use fencepost::testing::{
    clock::Clock,
    domain::{
        command::{Command, Outcome},
        ids::{AttachmentId, LeaseId},
        limits::Limits,
        name::LockName,
        outcome::{AcquireOutcome, RenewOutcome},
        time::StoreTime,
    },
    locks::Hub,
    node::Pushes,
    store::{
        Answer, Store, StoreError,
        quorum::{
            QuorumStore,
            config::bootstrap::create,
            nodes::client::{Answers, Lost, NodeClient},
            paxos::{
                ballot::ServerId,
                message::Request,
                node::{ClusterId, Mark, NodeRequest},
            },
        },
    },
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Mutex,
    task::LocalSet,
    time::{Instant, interval, sleep},
};
use twins::{Twins, wall_clock};
use uuid::Uuid;

/// As many as a store on Redis has.
const PARTITIONS: u16 = 8;
const LEASES: usize = 1_000;
const STREAMS: usize = 10;
const TTL: Duration = Duration::from_secs(3);
/// What of a TTL a holder counts on: its own margin, and the drift of clocks.
const VALID: Duration = Duration::from_millis(3_000 - 180);
/// Between two beats of a stream.
const BEAT: Duration = Duration::from_millis(333);
/// The records that the node writes in a second, under load.
const CAPACITY: u64 = 2_000;
/// What it takes in a second of what servers send each other.
const BYTES: u64 = 5_000_000;
const OFFERED: u64 = 10 * CAPACITY;
/// Between two bursts of acquires.
const TICK: Duration = Duration::from_millis(5);

/// One node that works through what it is sent, one after the other, and then answers after a while.
struct Slow {
    twin: Twins<1>,
    /// Its one thread.
    busy: Mutex<()>,
    /// What a record takes, in nanoseconds.
    per_record: AtomicU64,
    per_byte: AtomicU64,
    /// Until an answer comes, in nanoseconds.
    way: AtomicU64,
}

impl Slow {
    fn is_loaded(&self, way: Duration) {
        self.per_record.store(1_000_000_000 / CAPACITY, Ordering::Relaxed);
        self.per_byte.store(1_000_000_000 / BYTES, Ordering::Relaxed);
        self.way.store(u64::try_from(way.as_nanos()).unwrap(), Ordering::Relaxed);
    }

    async fn works(&self, nanos: u64) {
        let _busy = self.busy.lock().await;
        sleep(Duration::from_nanos(nanos)).await;
    }

    async fn goes_back(&self) {
        sleep(Duration::from_nanos(self.way.load(Ordering::Relaxed))).await;
    }
}

fn records(request: &NodeRequest) -> u64 {
    match request {
        NodeRequest::OfPartition { request: Request::Write { changes, .. }, .. } => {
            (changes.put.len() + changes.gone.len()) as u64
        }
        _ => 0,
    }
}

impl NodeClient for Slow {
    async fn send(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        let records: u64 = requests.iter().map(records).sum();
        self.works(records * self.per_record.load(Ordering::Relaxed)).await;
        let answers = self.twin.send(node, requests).await;
        self.goes_back().await;
        answers
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        self.twin.up(node)
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        self.twin.wall_clock(node)
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        self.works(parcel.len() as u64 * self.per_byte.load(Ordering::Relaxed)).await;
        let heard = self.twin.publish(node, to, parcel).await;
        self.goes_back().await;
        heard
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.twin.listen(node, me)
    }
}

/// A clock that goes on with the time of the runtime.
struct RuntimeClock;

impl Clock for RuntimeClock {
    fn now(&self) -> StoreTime {
        wall_clock()
    }
}

type QuorumOfOne = Arc<QuorumStore<Arc<Slow>>>;

/// A node, and servers that lead all partitions in equal shares.
async fn servers(count: usize) -> (Arc<Slow>, Vec<QuorumOfOne>) {
    let [per_record, per_byte, way] = [(); 3].map(|()| AtomicU64::new(0));
    let node = Arc::new(Slow { twin: Twins::new(), busy: Mutex::default(), per_record, per_byte, way });
    let members = ["node".into()].into();
    let mark = Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members, rebuild: None };
    create(&node, &mark, wall_clock().as_micros()).await.unwrap();
    let server = |_| {
        let (limits, hub) = (Limits::default(), Arc::new(Hub::new()));
        let store = Arc::new(QuorumStore::new(node.clone(), mark.clone(), Arc::new(RuntimeClock), &limits, hub));
        let runs = store.clone();
        tokio::spawn(async move { runs.run().await });
        store
    };
    let stores: Vec<_> = (0..count).map(server).collect();
    let share = usize::from(PARTITIONS) / count;
    while stores.iter().any(|store| store.leads() != share || !store.is_ready()) {
        sleep(Duration::from_millis(50)).await;
    }
    (node, stores)
}

/// A lease, and until when its holder counts on it.
struct Kept {
    name: LockName,
    renewal: Command,
    renewed: Instant,
    valid_until: Instant,
}

/// What became of the leases.
#[derive(Debug, Default)]
struct Leases {
    renewals: u64,
    failed: u64,
    ended: u64,
    slowest: Duration,
}

/// What became of the acquires.
#[derive(Debug, Default)]
struct Acquires {
    offered: u64,
    granted: u64,
    refused: u64,
    too_late: u64,
    unknown: u64,
    others: Vec<StoreError>,
}

async fn acquires_leases(store: &QuorumOfOne, stream: usize) -> Vec<Kept> {
    let mut kept = Vec::new();
    for number in 0..LEASES / STREAMS {
        let name = LockName::new(format!("kept/{stream}/{number}")).unwrap();
        let (lease_id, attachment) = (LeaseId(Uuid::new_v4()), AttachmentId(Uuid::new_v4()));
        let mut request = acquire(new_request(), TTL, false);
        (request.candidate.lease_id, request.candidate.attachment) = (lease_id, Some(attachment));
        let renewed = Instant::now();
        let outcome = Store::run(&**store, &name, Command::Acquire(request)).await.unwrap().outcome;
        assert!(matches!(outcome, Outcome::Acquire(AcquireOutcome::Granted(_))), "{outcome:?}");
        let renewal = Command::RenewKept(lease_id, attachment);
        // The first renewal is written, and no other one.
        let done = Store::run(&**store, &name, renewal.clone()).await.unwrap().outcome;
        assert!(matches!(done, Outcome::Renew(RenewOutcome::Renewed(_))), "{done:?}");
        kept.push(Kept { name, renewal, renewed, valid_until: renewed + VALID });
    }
    kept
}

/// Keeps the leases of one stream, as a server does for a client that answers each beat.
async fn keeps(store: &QuorumOfOne, mut leases: Vec<Kept>, until: Instant, seen: &RefCell<Leases>) {
    let mut beats = interval(BEAT);
    while Instant::now() < until {
        beats.tick().await;
        let sent = Instant::now();
        let mut due: Vec<_> = leases.iter_mut().filter(|lease| sent - lease.renewed >= TTL / 3).collect();
        let renewals = due.iter().map(|lease| (&lease.name, lease.renewal.clone())).collect();
        let answers = store.renew_each(renewals).await;
        let mut seen = seen.borrow_mut();
        for (lease, answer) in due.iter_mut().zip(answers) {
            let is_renewed = note_renewal(&mut seen, sent, &answer);
            if Instant::now() >= lease.valid_until {
                seen.ended += 1;
            }
            if is_renewed {
                (lease.renewed, lease.valid_until) = (sent, sent + VALID);
            }
        }
    }
}

fn note_renewal(seen: &mut Leases, sent: Instant, answer: &Answer) -> bool {
    let is_renewed = match answer {
        Ok(done) => matches!(done.outcome, Outcome::Renew(RenewOutcome::Renewed(_))),
        Err(_) => false,
    };
    seen.renewals += 1;
    seen.failed += u64::from(!is_renewed);
    seen.slowest = seen.slowest.max(sent.elapsed());
    is_renewed
}

/// One client's acquires: so many in a second, whatever becomes of those before, each of a lock of its own.
async fn offers(store: &QuorumOfOne, until: Instant, seen: &Rc<RefCell<Acquires>>) {
    let mut ticks = interval(TICK);
    let each = OFFERED * u64::try_from(TICK.as_millis()).unwrap() / 1_000;
    while Instant::now() < until {
        ticks.tick().await;
        for _ in 0..each {
            seen.borrow_mut().offered += 1;
            let (store, seen) = (store.clone(), seen.clone());
            tokio::task::spawn_local(async move {
                let name = LockName::new(format!("load/{}", Uuid::new_v4())).unwrap();
                let request = acquire(new_request(), Duration::from_secs(30), false);
                let answer = Store::run(&*store, &name, Command::Acquire(request)).await;
                note_acquire(&mut seen.borrow_mut(), answer);
            });
        }
    }
}

fn note_acquire(seen: &mut Acquires, answer: Answer) {
    match answer {
        Ok(done) => {
            assert!(matches!(done.outcome, Outcome::Acquire(AcquireOutcome::Granted(_))), "{:?}", done.outcome);
            seen.granted += 1;
        }
        Err(StoreError::Overloaded) => seen.refused += 1,
        Err(StoreError::TooLate) => seen.too_late += 1,
        Err(StoreError::OutcomeUnknown(_)) => seen.unknown += 1,
        Err(other) => seen.others.push(other),
    }
}

/// Overload through the last of so many servers, whose node answers after this time.
async fn overload(count: usize, way: Duration) -> (Leases, Acquires, f64) {
    let span = Duration::from_secs(std::env::var("FENCEPOST_OVERLOAD_SECONDS").map_or(8, |text| text.parse().unwrap()));
    let (node, stores) = servers(count).await;
    let store = &stores[count - 1];
    let leases = RefCell::default();
    let acquires = Rc::<RefCell<Acquires>>::default();
    let mut kept = Vec::new();
    for stream in 0..STREAMS {
        kept.push(acquires_leases(store, stream).await);
    }
    node.is_loaded(way);
    let until = Instant::now() + span;
    let keeping = futures_util::future::join_all(kept.into_iter().map(|kept| keeps(store, kept, until, &leases)));
    LocalSet::new().run_until(async { tokio::join!(keeping, offers(store, until, &acquires)) }).await;
    let (leases, acquires) = (leases.take(), acquires.take());
    println!("{count} servers, a way of {way:?}: {leases:?} {acquires:?}");
    (leases, acquires, span.as_secs_f64())
}

/// None has ended, and no renewal took longer than this.
fn assert_kept((leases, acquires, seconds): (Leases, Acquires, f64), slowest: Duration) {
    assert_eq!((leases.ended, leases.failed), (0, 0), "{leases:?}");
    assert!(leases.slowest < slowest, "{leases:?}");
    // A lease is renewed at each fourth beat, or at each third one.
    assert!(leases.renewals as f64 > 0.6 * LEASES as f64 * seconds, "{leases:?}");
    // Acquires do not starve, and nearly all that are not granted are refused in time. After 30 s, half of the records
    // are those of ends.
    assert!(acquires.granted as f64 > 0.4 * CAPACITY as f64 * seconds, "{acquires:?}");
    assert!(acquires.refused > acquires.offered / 2, "{acquires:?}");
    assert!(acquires.others.is_empty() && acquires.unknown < acquires.offered / 100, "{acquires:?}");
}

#[tokio::test(start_paused = true)]
async fn leases_outlast_ten_times_the_acquires_that_the_node_can_write() {
    assert_kept(overload(1, Duration::from_micros(500)).await, Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn they_do_at_a_node_that_answers_after_20_milliseconds() {
    assert_kept(overload(1, Duration::from_millis(20)).await, Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn they_do_on_a_server_that_forwards_half_of_its_commands() {
    assert_kept(overload(2, Duration::from_micros(500)).await, TTL / 3);
}
