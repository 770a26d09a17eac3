//! Waiting in the lane, passing it, and refusals.

use super::*;
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::{Call, CallId, GrantId, LeaseId, RequestId},
        lease::Terms,
        limits::COMMAND_WINDOW,
        name::{Holder, LockName, Metadata},
        outcome::AcquireOutcome,
    },
    store::{
        TestNotices,
        content::Content,
        lateness::LATE_MAX,
        partition::{HashedName, Renewals},
        quorum::{
            paxos::{
                ballot::{Ballot, LeadId, Position, ServerId, Stamp},
                leader::{Leader, Purpose},
                message::Answer,
                progress::Membership,
            },
            proposer::{delivery::Confirmed, leading::Recovered, local_waiters::LocalWaiters},
            rpc::transport::Transport,
        },
    },
    sync::Mutex,
};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

const ME: ServerId = ServerId([1; 12]);
const BALLOT: Ballot = Ballot { round: 1, server: ME };
const TTL: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

type Reply = oneshot::Receiver<Result<Confirmed, Refusal>>;

/// A leader with one node, and a clock.
struct Bench {
    lead: Lead,
    notices: TestNotices,
    transport: Transport,
    local_waiters: Mutex<LocalWaiters>,
    now: StoreTime,
}

fn name(number: u128) -> LockName {
    LockName::new(format!("lock/{number}")).unwrap()
}

fn hash(name: &LockName) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(name)
}

/// The request of this number.
fn acquire(number: u128, wait: bool) -> Acquire {
    let id = Uuid::from_u128(number);
    let (holder, metadata) = (Holder::default(), Metadata::default());
    let terms = Terms {
        fingerprint: 7,
        ttl: TTL,
        holder,
        metadata,
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let candidate = Candidate { lease_id: LeaseId(id), grant_id: GrantId(id), attachment: None };
    Acquire { call: Call { request: RequestId(id), attempt: 1, id: CallId(1) }, terms, wait, candidate }
}

/// What came of a command; `None` if it waits.
fn outcome(reply: &mut Reply) -> Option<Result<Outcome, Refusal>> {
    reply.try_recv().ok().map(|done| done.map(|confirmed| confirmed.outcome.outcome))
}

fn token(reply: &mut Reply) -> Option<u64> {
    match outcome(reply) {
        Some(Ok(Outcome::Acquire(AcquireOutcome::Granted(grant)))) => Some(grant.token.get()),
        _ => None,
    }
}

impl Bench {
    fn new() -> Self {
        let now = StoreTime::from_micros(7_000_000);
        let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
        let leader = Leader::new(BALLOT, Position::default(), 0, 0, &[member]);
        let recovered =
            Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: now, now };
        let lead = Lead::new(LeadId { partition: 0, ballot: BALLOT }, leader, recovered, 9, hash).unwrap();
        let (transport, local_waiters) = (Transport::new(), Mutex::default());
        let mut bench = Self { lead, notices: TestNotices::default(), transport, local_waiters, now };
        // The first batch, which tells nothing.
        let first = bench.takes();
        bench.answer(first);
        bench
    }

    fn with_exit<R>(&mut self, act: impl FnOnce(&mut Lead, StoreTime, &Exit<'_>) -> R) -> R {
        let Self { lead, notices, transport, local_waiters, now } = self;
        act(lead, *now, &Exit { me: ME, notices, transport, local_waiters, since: Instant::now() })
    }

    fn submit(&mut self, lock: u128, command: Command) -> Reply {
        let (sender, reply) = oneshot::channel();
        let name = name(lock);
        let lock = HashedName { hash: hash(&name), name };
        let not_after = self.lead.time(self.now).after(COMMAND_WINDOW);
        let job = Job { lock, command, from: ME, not_after, reply_to: ReplyTo::Caller(sender, Instant::now()) };
        self.with_exit(|lead, now, exit| lead.submit(job, now, exit));
        reply
    }

    /// Tries to acquire the locks of these numbers, each by a request of its own.
    fn acquire_each(&mut self, numbers: std::ops::Range<u128>) -> Vec<Reply> {
        numbers.map(|number| self.submit(number, Command::Acquire(acquire(number, false)))).collect()
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// The node takes batches, as the driver has it do. They are not acknowledged yet.
    fn takes(&mut self) -> Vec<Purpose> {
        self.with_exit(|lead, now, exit| lead.admit_acquires(now, exit));
        bench_batches(&mut self.lead, self.now)
    }

    /// The node acknowledges them.
    fn answer(&mut self, batches: Vec<Purpose>) {
        for purpose in batches {
            self.with_exit(|lead, now, exit| lead.answered(0, purpose, Answer::Done, now, exit));
        }
    }

    /// One round trip to the node, that takes so long.
    fn round_trip(&mut self, time: Duration) {
        let batches = self.takes();
        self.passes(time);
        self.answer(batches);
    }

    fn waiting(&self) -> usize {
        self.lead.lane.waiting.len()
    }
}

fn bench_batches(lead: &mut Lead, now: StoreTime) -> Vec<Purpose> {
    std::iter::from_fn(|| lead.next(0, now, || unreachable!("no snapshot is wanted")).map(|(purpose, _)| purpose))
        .collect()
}

#[test]
fn a_renewal_passes_acquires_that_wait_and_those_stay_in_their_order() {
    let mut bench = Bench::new();
    let held = bench.submit(0, Command::Acquire(acquire(0, false)));
    bench.round_trip(MS);
    let mut acquires = bench.acquire_each(1..100);
    assert_eq!(bench.waiting(), 99 - WINDOW_MIN, "no more may be on their way");
    let lease_id = acquire(0, false).candidate.lease_id;
    let mut renewed = bench.submit(0, Command::Renew { lease_id, ttl: None });
    let mut released = bench.submit(0, Command::Release(lease_id));
    drop(held);
    let batches = bench.takes();
    assert_eq!(batches.len(), 1, "the next batch has them all");
    bench.answer(batches);
    assert!(outcome(&mut renewed).is_some() && outcome(&mut released).is_some());
    assert_eq!(acquires.iter_mut().filter_map(token).count(), WINDOW_MIN);
    while bench.waiting() > 0 {
        bench.round_trip(MS);
    }
    bench.round_trip(MS);
    // The first of them have been told.
    let tokens: Vec<_> = acquires[WINDOW_MIN..].iter_mut().map(|reply| token(reply).unwrap()).collect();
    assert!(tokens.is_sorted() && tokens.len() == 99 - WINDOW_MIN, "{tokens:?}");
}

#[test]
fn requests_for_one_lock_are_served_in_the_order_in_which_they_came() {
    let mut bench = Bench::new();
    let _others = bench.acquire_each(1..100);
    let mut first = bench.submit(500, Command::Acquire(acquire(500, true)));
    bench.passes(MS);
    let mut second = bench.submit(500, Command::Acquire(acquire(501, true)));
    while bench.waiting() > 0 {
        bench.round_trip(MS);
    }
    bench.round_trip(MS);
    assert!(token(&mut first).is_some());
    assert_eq!(outcome(&mut second), Some(Ok(AcquireOutcome::Queued.into())));
}

#[test]
fn a_cleanup_that_passes_its_acquire_ends_it() {
    let mut bench = Bench::new();
    let _others = bench.acquire_each(1..100);
    let mut acquires = bench.submit(500, Command::Acquire(acquire(500, true)));
    let _cleanup = bench.submit(500, Command::DropCall(acquire(500, true).call));
    bench.passes(COMMAND_WINDOW);
    while bench.waiting() > 0 {
        bench.round_trip(Duration::ZERO);
    }
    bench.round_trip(MS);
    assert_eq!(outcome(&mut acquires), Some(Ok(AcquireOutcome::Overtaken.into())));
}

#[test]
fn the_window_follows_the_speed_of_the_node() {
    let mut bench = Bench::new();
    let _load = bench.acquire_each(0..12_000);
    for _ in 0..40 {
        bench.round_trip(MS);
    }
    assert_eq!(bench.lead.lane.window, WINDOW_MAX);
    for round in 6..12 {
        let _load = bench.acquire_each(2_000 * round..2_000 * (round + 1));
        bench.round_trip(AGE_MAX + MS);
    }
    assert_eq!(bench.lead.lane.window, WINDOW_MIN);
}

#[test]
fn a_window_that_bounds_nothing_does_not_grow() {
    let mut bench = Bench::new();
    for number in 0..100 {
        let _granted = bench.acquire_each(number..number + 1);
        bench.round_trip(MS);
    }
    assert_eq!((bench.lead.lane.window, bench.lead.lane.held), (WINDOW_MIN, 0));
}

#[test]
fn acquires_of_free_locks_that_waited_for_too_long_are_refused() {
    let mut bench = Bench::new();
    let _held = bench.acquire_each(0..1);
    let mut old = bench.acquire_each(1..1_000);
    let mut queues = bench.submit(0, Command::Acquire(acquire(2_000, true)));
    bench.passes(AGE_MAX);
    let mut young = bench.acquire_each(1_000..1_010);
    bench.passes(MS);
    let mut younger = bench.acquire_each(1_010..1_020);
    bench.passes(LATE_MAX - MS);
    let mut youngest = bench.acquire_each(1_020..1_021);
    assert_eq!(bench.waiting(), 1_000 - WINDOW_MIN + 1 + 21, "not late for long enough");
    bench.passes(MS);
    let mut last = bench.acquire_each(1_021..1_022);
    assert_eq!(outcome(&mut old[998]), Some(Err(Refusal::Overloaded)));
    assert_eq!(outcome(&mut young[9]), Some(Err(Refusal::Overloaded)));
    assert_eq!(bench.waiting(), 12, "all that are not older than that");
    assert_eq!(bench.lead.take_shed(), Shed { late: 1_000 - WINDOW_MIN as u64 + 10, full: 0 });
    assert_eq!(bench.lead.take_shed(), Shed::default());
    for _ in 0..3 {
        bench.round_trip(MS);
    }
    assert_eq!(outcome(&mut queues), Some(Ok(AcquireOutcome::Queued.into())), "the lock is held: nothing is written");
    assert!(younger.iter_mut().chain(&mut youngest).chain(&mut last).all(|reply| token(reply).is_some()));
}

#[test]
fn acquires_of_held_locks_need_no_room_for_a_grant() {
    let mut bench = Bench::new();
    let _granted = bench.acquire_each(0..WINDOW_MIN as u128);
    let mut queues = bench.submit(0, Command::Acquire(acquire(2_000, true)));
    let mut free = bench.acquire_each(1_000..1_001);
    assert_eq!(bench.waiting(), 2);
    let batches = bench.takes();
    bench.answer(batches);
    assert_eq!(outcome(&mut queues), Some(Ok(AcquireOutcome::Queued.into())));
    assert!(outcome(&mut free[0]).is_none() && bench.waiting() == 1);
}

#[test]
fn a_lane_that_is_late_now_and_then_refuses_nothing() {
    let mut bench = Bench::new();
    for number in 0..20 {
        let at = 1_000 * number;
        let _waiting = bench.acquire_each(at..at + 1_000);
        bench.passes(AGE_MAX + MS);
        let mut after = bench.acquire_each(at + 1_000..at + 1_001);
        assert!(outcome(&mut after[0]).is_none());
        while bench.waiting() > 0 {
            bench.round_trip(Duration::ZERO);
        }
    }
    assert_eq!(bench.lead.take_shed(), Shed::default());
}

#[test]
fn a_full_lane_refuses_and_late_acquires_are_told_so() {
    let mut bench = Bench::new();
    let mut waiting = bench.acquire_each(0..(WINDOW_MIN + WAITING_MAX) as u128);
    let [mut refused] = bench.acquire_each(50_000..50_001).try_into().unwrap();
    assert_eq!(outcome(&mut refused), Some(Err(Refusal::Overloaded)));
    assert_eq!(bench.lead.take_shed(), Shed { late: 0, full: 1 });
    bench.passes(COMMAND_WINDOW);
    bench.with_exit(|lead, now, exit| lead.refuse_late_acquires(now, exit));
    assert_eq!(bench.waiting(), WAITING_MAX, "their callers wait");
    bench.passes(MS);
    bench.with_exit(|lead, now, exit| lead.refuse_late_acquires(now, exit));
    assert_eq!(bench.waiting(), 0);
    assert_eq!(outcome(&mut waiting[WINDOW_MIN]), Some(Err(Refusal::TooLate)));
}

#[test]
fn a_leader_that_hands_over_or_loses_the_lead_has_begun_none_of_them() {
    let mut bench = Bench::new();
    let mut waiting = bench.acquire_each(0..100);
    bench.with_exit(|lead, now, _| lead.begin_hand_over(ServerId([2; 12]), now));
    bench.takes();
    assert_eq!(outcome(&mut waiting[99]), Some(Err(Refusal::NotLeader)));
    let mut bench = Bench::new();
    let mut waiting = bench.acquire_each(0..100);
    bench.with_exit(|lead, now, exit| lead.refuse_held(now, exit));
    assert_eq!(outcome(&mut waiting[99]), Some(Err(Refusal::NotLeader)));
    assert_eq!(outcome(&mut waiting[0]), Some(Err(Refusal::Deposed)));
}
