//! Memory costs: allocations of an uncontended acquire and release, bytes for a lease and a waiting call, and both for
//! what servers send each other. Counted and not timed, so the figures are the same on every machine.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/twins.rs"]
mod twins;

use allocation_counter::{AllocationInfo, measure};
use fencepost::testing::{
    clock::{Clock, ProcessClock},
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, RequestId},
        lease::Terms,
        limits::{Limits, METADATA_BYTES_MAX},
        mode::ModeName,
        name::{Holder, LockName, Metadata},
        outcome::{AcquireOutcome, Grant, LockView},
        time::StoreTime,
        token::FencingToken,
    },
    locks::{AcquireAnswer, AcquireCall, Hub, Locks},
    store::{
        Answer, Store,
        memory::MemoryStore,
        quorum::{
            QuorumStore,
            config::bootstrap::create,
            nodes::client::{NodeClient as _, PARCEL_BYTES_MAX},
            paxos::{
                ballot::{Ballot, ServerId},
                node::{ClusterId, Mark},
            },
            rpc::messages::{Done, Frame, FrameError, Parcel, PresentedWaiter, Refusal, Work, parcels},
        },
    },
};
use futures_util::future::join_all;
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::Context,
    time::Duration,
};
use tokio::time::Instant;
use twins::{Twins, wall_clock};
use uuid::Uuid;

type Service = Locks<MemoryStore>;

fn service() -> Service {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
    let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    Locks::new(store, hub, Limits::default())
}

fn call(wait: Duration) -> AcquireCall {
    let holder = Holder::new("host-17:worker-4".into()).unwrap();
    let terms = Terms {
        fingerprint: 0,
        ttl: Duration::from_secs(30),
        holder,
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let request = RequestId(Uuid::new_v4());
    AcquireCall {
        call: Call { request, attempt: 1, id: CallId(1) },
        terms,
        wait,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    }
}

fn name(number: usize) -> LockName {
    LockName::new(format!("orders/{number:08}")).unwrap()
}

/// The result of a future that is ready at its first poll, so it neither awaits nor spawns.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("an uncontended call does not await"),
    }
}

fn acquire_and_release(locks: &Service, name: &LockName, wait: Duration) {
    let answer = now(locks.acquire(name, call(wait)));
    let Ok(AcquireAnswer::Acquired(acquired)) = answer else { panic!("{answer:?}") };
    now(locks.release(name, acquired.grant.lease_id)).unwrap();
}

/// The allocations after a measure_warm-up, in which the tables grow.
fn measure_warm(mut act: impl FnMut()) -> AllocationInfo {
    (0..200).for_each(|_| act());
    let mut best: Option<AllocationInfo> = None;
    for _ in 0..50 {
        let info = measure(&mut act);
        if best.as_ref().is_none_or(|best| info.count_total < best.count_total) {
            best = Some(info);
        }
    }
    best.unwrap()
}

#[test]
fn an_uncontended_acquire_and_release_makes_at_most_3_allocations() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let locks = service();
    let name = name(0);
    // One allocation: the holder's label. The memory of ended requests is in tables that have grown already.
    let tried = measure_warm(|| acquire_and_release(&locks, &name, Duration::ZERO));
    assert!(tried.count_total <= 1, "{tried:?}");
    // Two more: a call that may wait is registered as a waiter before the command, so that no hint is lost.
    let waiting = measure_warm(|| acquire_and_release(&locks, &name, Duration::from_secs(1)));
    assert!(waiting.count_total <= 3, "{waiting:?}");
    println!(
        "allocations of an acquire and release: {} without waiting, {} if it may wait",
        tried.count_total, waiting.count_total
    );
}

#[test]
fn metadata_costs_at_most_4_times_its_size() {
    let pairs: Vec<_> = (0..METADATA_BYTES_MAX / 3).map(|number| (format!("{number:03x}"), String::new())).collect();
    let mut kept = None;
    let cost = measure(|| kept = Some(Metadata::new(pairs.clone()).unwrap()));
    assert!(cost.bytes_current <= 4 * METADATA_BYTES_MAX as i64, "{cost:?}");
    assert_eq!(kept.unwrap().pairs().count(), pairs.len());
}

#[test]
fn a_lease_and_a_waiting_call_cost_at_most_two_kilobytes() {
    const COUNT: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let locks = service();
    let held = measure(|| {
        for number in 0..COUNT {
            let name = name(number);
            assert!(matches!(now(locks.acquire(&name, call(Duration::ZERO))), Ok(AcquireAnswer::Acquired(_))));
        }
    });
    let per_lease = held.bytes_current / COUNT as i64;
    let contended = name(0);
    let mut waiting = Vec::with_capacity(COUNT);
    let waited = measure(|| {
        for _ in 0..COUNT {
            let mut future = Box::pin(locks.acquire(&contended, call(Duration::from_secs(60))));
            let polled = future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
            waiting.push(future);
        }
    });
    let per_waiter = waited.bytes_current / COUNT as i64;
    println!("bytes: {per_lease} per lease, {per_waiter} per waiting call (without the transport)");
    assert!(per_lease <= 2_048 && per_waiter <= 2_048, "{per_lease} {per_waiter}");
}

const SERVER: ServerId = ServerId([7; 12]);
const BALLOT: Ballot = Ballot { round: 300, server: SERVER };

fn acquire(metadata: Metadata) -> Acquire {
    let AcquireCall { call, terms, .. } = call(Duration::ZERO);
    let candidate = Candidate { lease_id: LeaseId(Uuid::nil()), grant_id: GrantId(Uuid::nil()), attachment: None };
    Acquire { call, terms: Terms { metadata, ..terms }, wait: false, candidate }
}

fn forward(command: Command) -> Frame {
    let work = Work::Run(name(1), command);
    Frame::Forward { number: 1, partition: 17, ballot: BALLOT, not_after: StoreTime::from_micros(1 << 50), work }
}

fn reply(result: Result<Done, Refusal>) -> Frame {
    Frame::Reply { number: 1, now: StoreTime::from_micros(1 << 50), result }
}

#[test]
fn an_acquire_that_another_server_answers_makes_8_allocations_more() {
    let forwarded = forward(Command::Acquire(acquire(Metadata::default())));
    let grant = Grant {
        lease_id: LeaseId(Uuid::max()),
        grant_id: GrantId(Uuid::max()),
        token: FencingToken::new(7).unwrap(),
        left: Duration::from_secs(30),
        previous_end: None,
        slot: None,
        mode: ModeName::Exclusive,
    };
    let granted = reply(Ok(Done::Outcome {
        outcome: Outcome::Acquire(AcquireOutcome::Granted(grant)),
        queue_position: 0,
        ahead: 0,
    }));
    let cost = |frame: &Frame| {
        let sent = frame.clone();
        let mut parcel = Vec::new();
        let sending = measure(|| parcel = parcels(SERVER, [sent]).remove(0));
        let mut read = None;
        let reading = measure(|| read = Some(Parcel::decode(&parcel).unwrap()));
        assert_eq!(&read.unwrap().frames[..], std::slice::from_ref(frame));
        (sending.count_total, reading.count_total)
    };
    // The parcel and the list of parcels. The list of frames, the name and the label of the holder.
    assert_eq!(cost(&forwarded), (2, 3));
    assert_eq!(cost(&granted), (2, 1));
}

/// What it costs to read this, and how much of it that is. Whether it is read depends on how many there are of it.
fn reading(frame: &Frame, frames: usize) -> (Result<usize, FrameError>, u64) {
    let parcel = Parcel { from: SERVER, frames: vec![frame.clone(); frames] }.encode();
    assert!(parcel.len() <= PARCEL_BYTES_MAX, "{}", parcel.len());
    let mut read = None;
    let cost = measure(|| read = Some(Parcel::decode(&parcel).map(|parcel| parcel.frames.len())));
    (read.unwrap(), cost.bytes_max)
}

#[test]
fn no_parcel_costs_more_than_a_few_times_its_largest_size() {
    const MANY: usize = 500_000;
    let empty = || Metadata::new(vec![(String::new(), String::new()); 16_000]).unwrap();
    let acquire_of_waiter = acquire(Metadata::default());
    let waiter = PresentedWaiter {
        queue_position: (Ballot::default(), 0),
        name: name(0),
        acquire: acquire_of_waiter,
        is_dropped: false,
    };
    let (waiters, not_after) = (vec![waiter; 60_000], StoreTime::from_micros(1));
    let waiters = Frame::Waiters { partition: 0, ballot: BALLOT, not_after, waiters, is_last: true };
    let locks = vec![(LockName::new("n").unwrap(), LockView::default()); MANY];
    let cases = [
        ("the smallest frames", reading(&reply(Err(Refusal::NotLeader)), MANY)),
        ("the longest lists of empty texts", reading(&forward(Command::Acquire(acquire(empty()))), 120)),
        ("the shortest waiters", reading(&waiters, 1)),
        ("the shortest locks", reading(&reply(Ok(Done::Page { locks, next: None, budget: 0 })), 1)),
    ];
    for (what, (read, bytes)) in cases {
        println!("{what}: {bytes} bytes, {read:?}");
        assert!(bytes < 2 * PARCEL_BYTES_MAX as u64, "{what}: {bytes} bytes, {read:?}");
    }
}

/// A clock that goes on with the time of the runtime.
struct RuntimeClock;

impl Clock for RuntimeClock {
    fn now(&self) -> StoreTime {
        wall_clock()
    }
}

/// A store that leads all of its partitions.
async fn leading_store() -> Arc<QuorumStore<Arc<Twins<1>>>> {
    const PARTITIONS: u16 = 32;
    let nodes = Arc::new(Twins::<1>::new());
    let members = ["node".into()].into();
    let mark = Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members, rebuild: None };
    nodes.up(0).await;
    create(&nodes, &mark, wall_clock().as_micros()).await.unwrap();
    let store =
        Arc::new(QuorumStore::new(nodes, mark, Arc::new(RuntimeClock), &Limits::default(), Arc::new(Hub::new())));
    let runs = store.clone();
    tokio::spawn(async move { runs.run().await });
    while store.leads() < usize::from(PARTITIONS) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store
}

/// What renewals cost with their futures, up to the first await, at which no majority has them yet.
fn submitting<'a>(
    runtime: &tokio::runtime::Runtime,
    count: usize,
    begin: impl FnOnce() -> Pin<Box<dyn Future<Output = Vec<Answer>> + 'a>>,
) -> AllocationInfo {
    let (_inside, mut begun) = (runtime.enter(), None);
    let submitted = measure(|| {
        let mut renewing = begin();
        assert!(renewing.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        begun = Some(renewing);
    });
    let answers = runtime.block_on(begun.unwrap());
    assert!(answers.len() == count && answers.iter().all(Result::is_ok));
    submitted
}

/// The allocations and bytes of a renewal that is submitted together with others, and of one on its own, at most.
const TOGETHER_MAX: (u64, u64) = (1, 950);
const ALONE_MAX: (u64, u64) = (2, 1_800);

#[test]
fn renewals_that_are_submitted_together_cost_less_than_each_on_its_own() {
    const COUNT: usize = 1_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let attachment = AttachmentId(Uuid::max());
    let names: Vec<_> = (0..COUNT).map(name).collect();
    let (store, renewals) = runtime.block_on(async {
        let store = leading_store().await;
        let mut renewals = Vec::new();
        for name in &names {
            let mut acquire = acquire(Metadata::default());
            acquire.candidate.lease_id = LeaseId(Uuid::new_v4());
            acquire.candidate.attachment = Some(attachment);
            renewals.push((name, Command::RenewKept(acquire.candidate.lease_id, attachment)));
            let outcome = Store::run(&*store, name, Command::Acquire(acquire)).await.unwrap().outcome;
            assert!(matches!(outcome, Outcome::Acquire(AcquireOutcome::Granted(_))), "{outcome:?}");
        }
        (store, renewals)
    });
    let store = &*store;
    let each = || renewals.iter().map(|(name, command)| Store::run(store, name, command.clone()));
    let alone = submitting(&runtime, COUNT, || Box::pin(join_all(each())));
    let together = submitting(&runtime, COUNT, || Box::pin(store.renew_each(renewals.clone())));
    let per_lease = |info: &AllocationInfo| (info.count_total / COUNT as u64, info.bytes_max / COUNT as u64);
    println!(
        "allocations and bytes to submit a renewal: {:?} together, {:?} each on its own",
        per_lease(&together),
        per_lease(&alone)
    );
    assert!(together.count_total < alone.count_total && together.bytes_max < alone.bytes_max);
    for (renewal, (count, bytes)) in [(&together, TOGETHER_MAX), (&alone, ALONE_MAX)] {
        assert!(per_lease(renewal).0 <= count && per_lease(renewal).1 <= bytes);
    }
}
