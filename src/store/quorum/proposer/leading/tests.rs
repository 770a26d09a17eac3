//! Hand-offs, and the bound of what no node takes.
//!
//! What a turn offers to a call that waits at the leader is claimed in that turn, and told with its batch.

use super::*;
use crate::{
    domain::{
        command::{Acquire, Candidate, Command},
        features::Features,
        ids::{AttachmentId, CallId, GrantId, LeaseId, ReplicaId},
        lease::Terms,
        name::{Holder, Metadata},
        outcome::AcquireOutcome,
    },
    store::{
        TestNotices, Timed,
        quorum::{
            paxos::{
                ballot::{Position, Stamp},
                progress::Membership,
            },
            proposer::{
                delivery::ReplyTo,
                local_waiters::{LocalWaiters, QueuePosition},
            },
            rpc::{
                messages::{LAST_ENDS_MAX, LastEnds},
                transport::Transport,
            },
        },
    },
    sync::Mutex,
};
use std::collections::BTreeMap;
use tokio::time::Instant;
use uuid::Uuid;

const ME: ServerId = ServerId([1; 12]);
const OTHER: ServerId = ServerId([2; 12]);
const TTL: Duration = Duration::from_secs(9);
const BALLOT: Ballot = Ballot { round: 1, server: ME };
const START: StoreTime = StoreTime::from_micros(7_000_000);

/// A leader with one node, and what goes out of it.
struct Bench {
    lead: Lead,
    notices: TestNotices,
    transport: Transport,
    local_waiters: Mutex<LocalWaiters>,
    since: Instant,
}

fn name() -> LockName {
    LockName::new("lock").unwrap()
}

/// The request of this number, which waits.
fn acquire(number: u128) -> Acquire {
    let id = Uuid::from_u128(number);
    let terms = Terms {
        fingerprint: 7,
        ttl: TTL,
        holder: Holder::default(),
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let attachment = Some(AttachmentId(Uuid::from_u128(100 + number)));
    let candidate = Candidate { lease_id: LeaseId(id), grant_id: GrantId(id), attachment };
    Acquire { call: Call { request: RequestId(id), attempt: 1, id: CallId(1) }, terms, wait: true, candidate }
}

impl Bench {
    fn new() -> Self {
        let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
        let leader = Leader::new(BALLOT, Position::default(), 0, 0, &[member]);
        let lead = Lead::new(
            LeadId { partition: 0, ballot: BALLOT },
            leader,
            Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: START, now: START },
            9,
            |_| 0,
        )
        .unwrap();
        let (transport, local_waiters) = (Transport::new(), Mutex::default());
        Self { lead, notices: TestNotices::default(), transport, local_waiters, since: Instant::now() }
    }

    fn with_exit<R>(&mut self, act: impl FnOnce(&mut Lead, &Exit<'_>) -> R) -> R {
        let Self { lead, notices, transport, local_waiters, since } = self;
        act(lead, &Exit { me: ME, notices, transport, local_waiters, since: *since })
    }

    fn submit(&mut self, from: ServerId, command: Command, at: StoreTime) {
        let not_after = self.lead.time(at);
        let job = Job {
            lock: HashedName { name: name(), hash: 0 },
            command,
            from,
            not_after,
            reply_to: ReplyTo::Server(from, 1),
        };
        self.with_exit(|lead, exit| lead.submit(job, at, exit));
    }

    /// Queues a request that waits on a server.
    fn queue(&mut self, number: u128, from: ServerId) {
        self.submit(from, Command::Acquire(acquire(number)), START);
        if from == ME && self.holder().is_some_and(|(holder, ..)| holder != number) {
            let at = QueuePosition { ballot: BALLOT, number: 1, ahead: 0 };
            self.local_waiters.lock().acquired(&name(), &acquire(number), at, &AcquireOutcome::Queued.into());
        }
    }

    fn release(&mut self, number: u128) {
        self.submit(ME, Command::Release(acquire(number).candidate.lease_id), START);
    }

    /// The node writes all batches. Returns how many.
    fn write(&mut self) -> usize {
        let mut count = 0;
        while let Some((purpose, _)) = self.lead.next(0, START, || unreachable!("no snapshot is wanted")) {
            assert!(matches!(purpose, Purpose::Write { .. }), "{purpose:?}");
            self.with_exit(|lead, exit| lead.answered(0, purpose, Answer::Done, START, exit));
            count += 1;
        }
        count
    }

    /// The request that holds the lock, where it is attached, and its token.
    fn holder(&self) -> Option<(u128, ReplicaId, u64)> {
        let lease = self.lead.locks.find(&name(), 0)?.lock.lease()?;
        Some((lease.request.0.as_u128(), lease.attachment_replica, lease.token.get()))
    }

    fn hints(&self) -> Vec<u128> {
        self.notices.hints.lock().iter().map(|request| request.0.as_u128()).collect()
    }
}

/// Requests 2 and on wait, through these servers, for the lock that request 1 holds.
fn held_with_waiters(servers: &[ServerId]) -> Bench {
    let mut bench = Bench::new();
    bench.queue(1, ME);
    for (number, server) in (2..).zip(servers) {
        bench.queue(number, *server);
    }
    bench.write();
    bench
}

#[test]
fn a_release_and_the_next_lease_are_one_batch() {
    let mut bench = held_with_waiters(&[ME, ME]);
    bench.release(1);
    assert_eq!(bench.holder(), Some((2, replica_of(ME), 2)));
    assert!(bench.notices.claimed.lock().is_empty(), "no node has it yet");
    assert_eq!(bench.write(), 1);
    let claimed = std::mem::take(&mut *bench.notices.claimed.lock());
    let [(call, Timed { sent, outcome: AcquireOutcome::Granted(grant) })] = &*claimed else { panic!("{claimed:?}") };
    assert_eq!((*call, *sent), (acquire(2).call, bench.since), "the lease counts from before its turn");
    assert_eq!((grant.lease_id, grant.left), (acquire(2).candidate.lease_id, TTL));
    assert_eq!(bench.hints(), [], "it does not claim itself");
    assert!(bench.local_waiters.lock().get(acquire(2).call).is_none(), "it waits no more");
    assert!(bench.local_waiters.lock().get(acquire(3).call).is_some());
}

#[test]
fn a_lock_whose_lease_expires_is_handed_over_too() {
    let mut bench = held_with_waiters(&[ME]);
    let end = START.after(TTL);
    assert!(!bench.with_exit(|lead, exit| lead.apply_due_timers(end, exit)));
    assert_eq!(bench.holder(), Some((2, replica_of(ME), 2)));
}

#[test]
fn a_release_through_another_server_hands_over_to_a_call_that_waits_here() {
    let mut bench = held_with_waiters(&[ME]);
    bench.submit(OTHER, Command::Release(acquire(1).candidate.lease_id), START);
    assert_eq!(bench.holder(), Some((2, replica_of(ME), 2)), "its stream is here");
}

#[test]
fn who_waits_elsewhere_or_cannot_read_is_offered_the_lock() {
    let mut elsewhere = held_with_waiters(&[OTHER, ME]);
    elsewhere.release(1);
    assert_eq!((elsewhere.holder(), elsewhere.hints()), (None, vec![]), "the hint goes to the other server");
    let mut stalled = held_with_waiters(&[ME]);
    stalled.notices.stalled = true;
    stalled.release(1);
    assert_eq!((stalled.holder(), stalled.hints()), (None, vec![2]));
    // As when the outcome of its acquire is still on the way to it.
    let mut early = held_with_waiters(&[ME]);
    early.local_waiters.lock().remove(acquire(2).call);
    early.release(1);
    assert_eq!((early.holder(), early.hints()), (None, vec![2]));
}

#[test]
fn a_call_that_was_dropped_is_not_handed_the_lock() {
    let mut bench = held_with_waiters(&[ME, ME]);
    bench.submit(ME, Command::DropCall(acquire(2).call), START);
    bench.release(1);
    assert_eq!(bench.holder().unwrap().0, 3);
}

#[test]
fn a_leader_that_is_deposed_tells_nobody_of_a_lease_and_the_call_is_presented_to_the_next() {
    let mut bench = held_with_waiters(&[ME]);
    bench.release(1);
    bench.with_exit(|lead, exit| lead.refuse_held(START, exit));
    assert!(bench.notices.claimed.lock().is_empty());
    let next = Ballot { round: 2, server: OTHER };
    let presented = bench.local_waiters.lock().present_to((next, Features::OWN), Instant::now());
    assert_eq!(presented.iter().map(|waiter| waiter.acquire.call).collect::<Vec<_>>(), [acquire(2).call]);
}

#[test]
fn a_command_that_comes_too_late_does_nothing() {
    let mut bench = Bench::new();
    let (reply, mut late) = oneshot::channel();
    let (reply_to, not_after) = (ReplyTo::Caller(reply, bench.since), bench.lead.time(START));
    let job = Job {
        lock: HashedName { name: name(), hash: 0 },
        command: Command::Acquire(acquire(1)),
        from: ME,
        not_after,
        reply_to,
    };
    let now = START.after(Duration::from_micros(1));
    bench.with_exit(|lead, exit| lead.submit(job, now, exit));
    assert!(matches!(late.try_recv(), Ok(Err(Refusal::TooLate))), "its caller has given up");
    assert_eq!(bench.holder(), None);
    bench.submit(ME, Command::Acquire(acquire(1)), now);
    assert_eq!(bench.holder().unwrap().0, 1, "at the last moment it is done");
}

/// What a leader hands over to its successor that has renewed so many leases.
fn handed_over(leases: usize) -> Option<LastEnds> {
    let mut bench = Bench::new();
    let later = START.after(TTL / 2);
    let run = |bench: &mut Bench, now, command: &dyn Fn(Acquire) -> Command| {
        for number in 1..=leases {
            let (name, not_after) = (LockName::new(number.to_string()).unwrap(), bench.lead.time(now));
            let (command, reply_to) = (command(acquire(number as u128)), ReplyTo::Server(ME, 1));
            let job = Job { lock: HashedName { name, hash: number as u64 }, command, from: ME, not_after, reply_to };
            bench.with_exit(|lead, exit| lead.submit(job, now, exit));
            if number % 16 == 0 {
                // Or acquires would wait for room in the lane.
                bench.write();
            }
        }
    };
    let renew = |acquire: Acquire| Command::Renew { lease_id: acquire.candidate.lease_id, ttl: None };
    run(&mut bench, START, &Command::Acquire);
    // That its holder was heard of is written.
    run(&mut bench, START, &renew);
    bench.write();
    run(&mut bench, later, &renew);
    bench.lead.begin_hand_over(OTHER, later);
    assert_eq!(bench.lead.hand_over(), None, "not all answers have left, and the last batch is old");
    bench.write();
    let (successor, ends) = bench.lead.hand_over().unwrap();
    assert_eq!((successor, bench.lead.hand_over()), (OTHER, None));
    let last = bench.lead.leader.position().seq;
    assert!(ends.as_ref().is_none_or(|ends| ends.seq == last));
    ends
}

#[test]
fn a_leader_tells_its_successor_of_renewals_that_no_node_has_unless_they_are_too_many() {
    let end = StoreTime::default().after(TTL / 2 + TTL);
    let ends =
        |leases| handed_over(leases).map(|it| it.ends.into_iter().map(|(token, end)| (token.get(), end)).collect());
    let known = |leases| Some((1..=leases as u64).map(|token| (token, end)).collect::<BTreeMap<_, _>>());
    for leases in [0, 3, LAST_ENDS_MAX] {
        assert_eq!(ends(leases), known(leases), "{leases} leases");
    }
    assert_eq!(ends(LAST_ENDS_MAX + 1), None);
}

#[test]
fn what_no_node_takes_is_bounded() {
    let (now, ballot) = (StoreTime::from_micros(7_000_000), Ballot { round: 1, ..Ballot::default() });
    let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
    let leader = Leader::new(ballot, Position::default(), 0, 0, &[member]);
    let mut lead = Lead::new(
        LeadId { partition: 0, ballot },
        leader,
        Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: now, now },
        1,
        |_| 0,
    )
    .unwrap();
    let later = now.after(2 * SILENCE_MAX);
    assert!(lead.is_heard(later), "nobody waits");
    // A read changes nothing, so it fills no batch.
    lead.read(later, oneshot::channel().0);
    assert!(lead.is_heard(later));
    assert!(!lead.is_heard(later.after(SILENCE_MAX)));
}

#[test]
fn a_leader_whose_batch_nobody_acknowledges_runs_no_turns() {
    let mut bench = Bench::new();
    bench.write();
    bench.queue(1, ME);
    let written = START.after(SILENCE_MAX / 2);
    let (purpose, _) = bench.lead.next(0, written, || unreachable!("no snapshot is wanted")).unwrap();
    let late = written.after(SILENCE_MAX);
    assert!(
        bench.lead.is_heard(StoreTime::from_micros(late.as_micros() - 1)),
        "it has as long from when it is written"
    );
    assert!(!bench.lead.is_heard(late));
    bench.with_exit(|lead, exit| lead.answered(0, purpose, Answer::Done, late, exit));
    assert!(bench.lead.is_heard(late), "it is acknowledged");
}

#[test]
fn a_heartbeat_takes_an_empty_batch_along_where_nothing_was_written_lately() {
    let mut bench = Bench::new();
    assert_eq!(bench.lead.idle_batch(0, START.after(IDLE_BATCH_AGE)), None, "it has not the batch before");
    while bench.write() > 0 {}
    let (written, idle) = (bench.lead.written_at, START.after(2 * IDLE_BATCH_AGE));
    assert_eq!(bench.lead.idle_batch(0, StoreTime::from_micros(idle.as_micros() - 1)), None);
    assert_eq!(bench.lead.written_at, written, "nothing is written without need");
    let (purpose, _) = bench.lead.idle_batch(0, idle).unwrap();
    assert_eq!(bench.lead.idle_batch(0, idle), None, "the node was sent it");
    bench.with_exit(|lead, exit| lead.answered(0, purpose, Answer::Done, idle, exit));
    // What somebody waits for goes at once, and not with a heartbeat.
    bench.queue(1, ME);
    assert_eq!(bench.lead.idle_batch(0, idle.after(TTL)), None);
    assert_eq!(bench.write(), 1);
}

#[test]
fn each_node_gets_the_same_empty_batch_if_it_has_those_before() {
    let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
    let leader = Leader::new(BALLOT, Position::default(), 0, 0, &[member, member, None]);
    let content = Content::default();
    let recovered = Recovered { content, renewals: &Renewals::MayBeMissing, frozen_at: START, now: START };
    let mut lead = Lead::new(LeadId { partition: 0, ballot: BALLOT }, leader, recovered, 9, |_| 0).unwrap();
    let next = |lead: &mut Lead, node| lead.next(node, START, || unreachable!("no snapshot is wanted"));
    for node in [0, 1] {
        assert!(matches!(next(&mut lead, node), Some((Purpose::Write { seq: 1, .. }, _))));
    }
    let idle = START.after(IDLE_BATCH_AGE);
    let seqs = [0, 1, 2].map(|node| match lead.idle_batch(node, idle) {
        Some((Purpose::Write { seq, .. }, _)) => Some(seq),
        _ => None,
    });
    assert_eq!(seqs, [Some(2), Some(2), None]);
    assert!(!lead.may_have_next(0), "it was sent all");
}

#[test]
fn a_successor_has_a_moment_in_which_no_empty_batch_comes() {
    let mut bench = Bench::new();
    bench.write();
    bench.lead.begin_hand_over(OTHER, START);
    while bench.write() > 0 {}
    assert!(bench.lead.hand_over().is_some(), "it is told");
    let written = bench.lead.written_at;
    let almost = StoreTime::from_micros(written.after(HANDED_OVER_BATCH_AGE).as_micros() - 1);
    assert_eq!(bench.lead.idle_batch(0, almost), None);
    assert!(bench.lead.idle_batch(0, written.after(HANDED_OVER_BATCH_AGE)).is_some(), "others are not to suspect it");
}
