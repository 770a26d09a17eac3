//! A leader that shares locks with classic clients, and the pure twin of a node.

mod random;

use super::*;
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::{Call, CallId, GrantId, LeaseId, RequestId},
        lease::{Delays, Extra, LeaseEnd, Terms},
        limits::COMMAND_WINDOW,
        mode::Mode,
        name::{Holder, Metadata},
        outcome::{AcquireOutcome, Fate, Gone, ReleaseOutcome, RenewOutcome},
    },
    store::{
        TestNotices,
        content::{Bytes, Content},
        partition::Renewals,
        quorum::{
            paxos::{
                acceptor::{Acceptor, Header, Incarnation},
                ballot::{Ballot, LeadId, Position, Stamp},
                classic::Step,
                classic_keys::{ClassicKey, ClassicValue},
                leader::Leader,
                progress::Membership,
                recovery::Admission,
            },
            proposer::{
                delivery::{Confirmed, ReplyTo},
                leading::{Recovered, SILENCE_MAX},
                local_waiters::{LocalWaiters, QueuePosition},
            },
            rpc::transport::Transport,
        },
    },
    sync::Mutex,
};
use std::time::Duration;
use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

const ME: ServerId = ServerId([1; 12]);
const TTL: Duration = Duration::from_secs(9);
const BALLOT: Ballot = Ballot { round: 1, server: ME };
const HIGHER: Ballot = Ballot { round: 2, server: ServerId([2; 12]) };
const LIFE: Incarnation = Incarnation(1);
const HOME: Stamp = Stamp(1);
const KEY: &[u8] = b"lock:a";

type Answered = oneshot::Receiver<Result<Confirmed, Refusal>>;

/// A leader, its node, and what is on its way between them.
struct Bench {
    lead: Lead,
    node: Acceptor,
    sent: Vec<(Purpose, Request)>,
    now: StoreTime,
    notices: TestNotices,
    transport: Transport,
    local_waiters: Mutex<LocalWaiters>,
}

fn name() -> LockName {
    LockName::new("a").unwrap()
}

fn acquire(number: u128, wait: bool) -> Acquire {
    let id = Uuid::from_u128(number);
    let (holder, metadata, mode) = (Holder::default(), Metadata::default(), Mode::Exclusive);
    let terms = Terms { fingerprint: 7, ttl: TTL, holder, metadata, min_token: 0, max_hold: None, extra: None, mode };
    let candidate = Candidate { lease_id: LeaseId(id), grant_id: GrantId(id), attachment: None };
    Acquire { call: Call { request: RequestId(id), attempt: 1, id: CallId(1) }, terms, wait, candidate }
}

fn value(number: u128) -> ClassicValue {
    ClassicValue::Text(Uuid::from_u128(number).to_string().into_bytes().into())
}

fn theirs() -> ClassicValue {
    ClassicValue::Text(b"theirs".as_slice().into())
}

impl Bench {
    /// Its first batch is at the node.
    fn new() -> Self {
        let header =
            Header { incarnation: LIFE, stamp: HOME, promised: BALLOT, accepted: Position::default(), time: 0 };
        let node = Acceptor { header: Some(header), token: Some(0), ..Acceptor::default() };
        let member = Some(Membership { stamp: HOME, accepted: Position::default() });
        let leader = Leader::new(BALLOT, Position::default(), 0, 0, &[member]);
        let now = StoreTime::from_micros(7_000_000);
        let lead = Lead::new(
            LeadId { partition: 0, ballot: BALLOT },
            leader,
            Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: now, now },
            9,
            |_| 0,
        )
        .unwrap();
        let lead = lead.beside_classic(Some(&"lock:".into()));
        let (notices, transport, local_waiters) = (TestNotices::default(), Transport::new(), Mutex::default());
        let mut bench = Self { lead, node, sent: Vec::new(), now, notices, transport, local_waiters };
        bench.settle();
        bench
    }

    /// A lock that request 1 holds.
    fn held() -> Self {
        let mut bench = Self::new();
        let mut answer = bench.run(Command::Acquire(acquire(1, true)));
        bench.settle();
        assert!(matches!(bench.outcome(&mut answer), Ok(Outcome::Acquire(AcquireOutcome::Granted(_)))));
        bench
    }

    fn with_exit<R>(&mut self, act: impl FnOnce(&mut Lead, StoreTime, &Exit<'_>) -> R) -> R {
        let Self { lead, now, notices, transport, local_waiters, .. } = self;
        act(lead, *now, &Exit { me: ME, notices, transport, local_waiters, since: Instant::now() })
    }

    fn run(&mut self, command: Command) -> Answered {
        let (reply, answered) = oneshot::channel();
        let not_after = self.lead.time(self.now).after(COMMAND_WINDOW);
        let reply_to = ReplyTo::Caller(reply, Instant::now());
        let job = Job { lock: HashedName { name: name(), hash: 0 }, command, from: ME, not_after, reply_to };
        self.with_exit(|lead, now, exit| lead.submit(job, now, exit));
        answered
    }

    fn outcome(&self, answered: &mut Answered) -> Result<Outcome, Refusal> {
        answered.try_recv().expect("it is answered").map(|confirmed| confirmed.outcome.outcome)
    }

    /// Takes what the leader has to send, as the task of the node does.
    fn collect(&mut self) {
        while self.lead.may_have_next(0)
            && let Some(next) = self.lead.next(0, self.now, || unreachable!("no snapshot is wanted"))
        {
            self.sent.push(next);
        }
    }

    /// What was sent at this place arrives, and its answer too.
    fn deliver(&mut self, at: usize) -> Heard {
        let (purpose, request) = self.sent.remove(at);
        let answer = self.node.answer(LIFE, Stamp(9), &request);
        self.with_exit(|lead, now, exit| lead.heard(0, purpose, answer, now, exit))
    }

    /// Delivers in order until there is nothing more to send.
    fn settle(&mut self) {
        self.collect();
        while !self.sent.is_empty() {
            assert_eq!(self.deliver(0), Heard::Leads);
            self.collect();
        }
    }

    /// The steps that are under way.
    fn steps(&self) -> Vec<&Step> {
        let requests = self.sent.iter().map(|(_, request)| request);
        requests.filter_map(|request| if let Request::Classic(step) = request { Some(&**step) } else { None }).collect()
    }

    fn holder(&self) -> Option<u128> {
        let lock = &self.lead.locks.find(&name(), 0)?.lock;
        let lease = lock.lease().filter(|lease| self.lead.time(self.now) < lease.expires_at)?;
        Some(lease.request.0.as_u128())
    }

    fn key(&self) -> Option<ClassicValue> {
        self.node.classic.0.get(KEY).and_then(|key| key.value.clone())
    }

    /// A classic client has the key.
    fn take(&mut self) {
        self.node.classic.0.entry(Bytes::from(KEY)).or_default().value = Some(theirs());
    }

    fn give(&mut self) {
        if let Some(ClassicKey { value, .. }) = self.node.classic.0.get_mut(KEY) {
            value.take_if(|value| *value == theirs());
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.with_exit(|lead, now, exit| lead.apply_due_timers(now, exit));
    }
}

/// They would take the lock within the delay.
#[test]
fn delays_are_refused_beside_classic_clients() {
    let mut bench = Bench::new();
    let mut delayed = acquire(1, false);
    delayed.terms.extra = Extra::of_delays(Delays::new(TTL, Duration::ZERO));
    let mut answer = bench.run(Command::Acquire(delayed));
    bench.settle();
    assert_eq!(bench.outcome(&mut answer), Ok(Outcome::Acquire(AcquireOutcome::BesideClassic)));
    let mut answer = bench.run(Command::Acquire(acquire(1, false)));
    bench.settle();
    assert!(matches!(bench.outcome(&mut answer), Ok(Outcome::Acquire(AcquireOutcome::Granted(_)))), "nothing was done");
}

#[test]
fn a_lock_is_granted_when_the_node_has_set_the_key_and_not_before() {
    let mut bench = Bench::new();
    let mut answer = bench.run(Command::Acquire(acquire(1, true)));
    bench.collect();
    assert_eq!((bench.holder(), bench.steps().len()), (None, 1));
    let ms = 9_500;
    let wish = Wish::Hold { value: Uuid::from_u128(1).to_string().into_bytes().into(), ms };
    assert_eq!((&*bench.steps()[0].key, &bench.steps()[0].wish), (KEY, &wish));
    bench.deliver(0);
    assert_eq!((bench.holder(), bench.key()), (Some(1), Some(value(1))));
    assert!(answer.try_recv().is_err(), "no node has the lease yet");
    bench.settle();
    assert!(matches!(bench.outcome(&mut answer), Ok(Outcome::Acquire(AcquireOutcome::Granted(_)))));
}

#[test]
fn a_key_of_a_classic_client_refuses_and_its_end_serves_who_waits() {
    let mut bench = Bench::new();
    bench.take();
    let [mut tried, mut queued] =
        [(1, false), (2, true)].map(|(n, wait)| bench.run(Command::Acquire(acquire(n, wait))));
    bench.settle();
    let Ok(Outcome::Acquire(AcquireOutcome::Contended(refused))) = bench.outcome(&mut tried) else { panic!("refused") };
    assert_eq!(refused.classic, Some(ClassicHold { left: None }));
    assert_eq!(bench.outcome(&mut queued), Ok(Outcome::Acquire(AcquireOutcome::Queued)));
    bench.pass(Duration::from_secs(1));
    bench.settle();
    assert_eq!((bench.key(), bench.notices.hints.lock().len()), (Some(theirs()), 0), "it is polled in vain");
    bench.give();
    bench.pass(Duration::from_secs(1));
    bench.settle();
    assert_eq!(bench.notices.hints.lock().len(), 1);
    assert_eq!(bench.key(), Some(ClassicValue::Text(b"on offer by fencepost".as_slice().into())));
    bench.run(Command::Claim(acquire(2, true).call, acquire(2, true).candidate));
    bench.settle();
    assert_eq!((bench.holder(), bench.key()), (Some(2), Some(value(2))));
}

#[test]
fn a_renewal_finds_a_foreign_key_and_the_lease_is_lost() {
    let mut bench = Bench::held();
    bench.node.classic.0.clear();
    let renew = || Command::Renew { lease_id: acquire(1, true).candidate.lease_id, ttl: None };
    let mut renewed = bench.run(renew());
    bench.settle();
    assert!(matches!(bench.outcome(&mut renewed), Ok(Outcome::Renew(RenewOutcome::Renewed(_)))));
    assert_eq!(bench.key(), Some(value(1)), "a missing key is restored");
    bench.take();
    let mut lost = bench.run(renew());
    bench.settle();
    let gone = Gone { fate: Fate::Ended(LeaseEnd::Revoked), successor: None };
    assert_eq!(bench.outcome(&mut lost), Ok(Outcome::Renew(RenewOutcome::Lost(gone))));
    assert_eq!(bench.key(), Some(theirs()));
}

#[test]
fn a_key_is_deleted_when_the_node_has_the_end_of_its_lease_and_not_before() {
    let mut bench = Bench::held();
    let mut released = bench.run(Command::Release(acquire(1, true).candidate.lease_id));
    bench.collect();
    assert!(bench.steps().is_empty() && bench.key() == Some(value(1)));
    bench.deliver(0);
    assert_eq!(bench.outcome(&mut released), Ok(Outcome::Release(ReleaseOutcome::Released)));
    bench.collect();
    assert_eq!(bench.steps()[0].wish, Wish::Drop);
    bench.settle();
    assert_eq!(bench.node.classic.0.len(), 0);
}

#[test]
fn who_waits_gets_a_key_that_was_never_free() {
    let mut bench = Bench::held();
    bench.run(Command::Acquire(acquire(2, true)));
    bench.settle();
    let queue_position = QueuePosition { ballot: BALLOT, number: 1, ahead: 0 };
    bench.local_waiters.lock().acquired(&name(), &acquire(2, true), queue_position, &AcquireOutcome::Queued.into());
    bench.run(Command::Release(acquire(1, true).candidate.lease_id));
    assert_eq!((bench.holder(), bench.notices.hints.lock().len()), (None, 1), "the call is to claim");
    bench.run(Command::Claim(acquire(2, true).call, acquire(2, true).candidate));
    bench.collect();
    while !bench.sent.is_empty() {
        assert!(bench.key().is_some());
        bench.deliver(0);
        bench.collect();
    }
    assert_eq!((bench.holder(), bench.key()), (Some(2), Some(value(2))));
}

#[test]
fn a_deposed_leader_touches_no_key_and_refuses_what_waits() {
    let mut bench = Bench::new();
    let mut waits = bench.run(Command::Acquire(acquire(1, true)));
    let mut behind = bench.run(Command::Acquire(acquire(2, true)));
    bench.collect();
    bench.node.answer(LIFE, Stamp(9), &Request::Promise(HIGHER));
    assert_eq!(bench.deliver(0), Heard::Deposed(HIGHER));
    bench.with_exit(|lead, now, exit| lead.refuse_held(now, exit));
    assert_eq!((bench.holder(), bench.key()), (None, None));
    assert!(bench.outcome(&mut waits).is_err());
    assert_eq!(bench.outcome(&mut behind), Err(Refusal::NotLeader));
}

#[test]
fn a_step_whose_answer_is_lost_is_sent_again_and_a_command_that_is_late_by_then_does_nothing() {
    let mut bench = Bench::new();
    let mut late = bench.run(Command::Acquire(acquire(1, true)));
    bench.collect();
    let lost = bench.sent.remove(0);
    bench.node.answer(LIFE, Stamp(9), &lost.1);
    assert_eq!((bench.key(), bench.holder()), (Some(value(1)), None));
    bench.pass(COMMAND_WINDOW + Duration::from_millis(1));
    bench.lead.reconnected(0);
    bench.collect();
    assert!(bench.sent.iter().any(|(_, request)| *request == lost.1), "the same step");
    bench.settle();
    assert_eq!(bench.outcome(&mut late), Err(Refusal::TooLate));
    assert_eq!((bench.holder(), bench.key()), (None, None), "what was set is deleted");
    // It arrives for a second time, when another lease has the key.
    bench.run(Command::Acquire(acquire(2, true)));
    bench.settle();
    bench.node.answer(LIFE, Stamp(9), &lost.1);
    assert_eq!((bench.holder(), bench.key()), (Some(2), Some(value(2))));
}

#[test]
fn a_leader_whose_steps_are_not_answered_takes_no_more_commands() {
    let mut bench = Bench::new();
    bench.run(Command::Acquire(acquire(1, true)));
    let begun = bench.now;
    assert!(bench.lead.is_heard(begun));
    assert!(!bench.lead.is_heard(begun.after(SILENCE_MAX)));
    bench.settle();
    assert!(bench.lead.is_heard(begun.after(SILENCE_MAX)));
}

#[test]
fn a_leader_hands_over_when_its_keys_say_what_its_locks_say() {
    let mut bench = Bench::held();
    bench.run(Command::Release(acquire(1, true).candidate.lease_id));
    let now = bench.now;
    bench.lead.begin_hand_over(HIGHER.server, now);
    bench.collect();
    while !bench.sent.is_empty() {
        assert_eq!(bench.lead.hand_over(), None);
        bench.deliver(0);
        bench.collect();
    }
    let successor = bench.lead.hand_over().map(|(successor, _)| successor);
    assert_eq!((bench.key(), successor), (None, Some(HIGHER.server)));
}

#[test]
fn a_waiter_that_is_presented_to_a_new_leader_gets_the_lock_after_a_step() {
    let mut bench = Bench::new();
    let presented = |number| {
        let acquire = acquire(number, true);
        PresentedWaiter { queue_position: (BALLOT, 1), name: name(), acquire, is_dropped: false }
    };
    bench.with_exit(|lead, now, exit| lead.presents(ME, (vec![presented(1), presented(2)], true), |_| 0, now, exit));
    assert_eq!(bench.holder(), None);
    bench.settle();
    assert_eq!((bench.holder(), bench.key()), (Some(1), Some(value(1))));
    assert_eq!(bench.lead.locks.find(&name(), 0).unwrap().lock.view(bench.lead.time(bench.now), None).waiters, 1);
}

#[test]
fn the_cleanup_of_a_call_deletes_the_key_that_an_older_leader_has_set_for_it() {
    let mut bench = Bench::new();
    let (older, set) = (Position::default(), Uuid::from_u128(1).to_string().into_bytes());
    let key = ClassicKey { value: Some(value(1)), copy: Some((older, set.into())) };
    bench.node.classic.0.insert(Bytes::from(KEY), key);
    bench.run(Command::DropCall(acquire(1, true).call));
    bench.settle();
    assert_eq!(bench.key(), None);
}

#[test]
fn a_leader_that_goes_on_from_its_memory_still_shares_its_locks() {
    let mut bench = Bench::held();
    bench.run(Command::Acquire(acquire(2, true)));
    bench.with_exit(|lead, now, exit| lead.refuse_held(now, exit));
    let (next, now) = (Stamp(2), bench.now);
    let lead =
        bench.lead.recalled(HIGHER, Admission { next, above: BALLOT, skip: 1_000 }, &Renewals::WRITTEN, now).unwrap();
    assert_eq!(lead.bridge.unwrap().reason(&name()), "a classic client has lock:a");
}
