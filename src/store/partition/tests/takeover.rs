//! A server that takes over gives the same answers as its predecessor.

use super::*;
use crate::domain::{
    lease::{Delays, Extra, Lease, MaxHold},
    mode::{Mode, PermitLimit, Permits},
    outcome::{Contention, LockView, Renewed},
};
use proptest::prelude::*;

const LOCKS: u8 = 3;
/// Three of each lock that are exclusive or shared, and three for permits.
const REQUESTS: u32 = 18;
const SEMAPHORES: std::ops::Range<u32> = 9..REQUESTS;
const ATTEMPTS: u32 = 3;
const COPIES: u64 = 2;

/// Random numbers, of which each step takes what it needs.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    request: u32,
    attempt: u32,
    copy: u64,
    choice: usize,
}

impl Step {
    fn call(self) -> Call {
        Call { request: RequestId(id(self.request)), attempt: self.attempt, id: CallId(self.copy) }
    }

    fn lock(self) -> LockName {
        lock_of(self.request)
    }
}

fn lock_of(request: u32) -> LockName {
    name(u8::try_from(request % u32::from(LOCKS)).unwrap())
}

fn ttl(request: u32) -> Duration {
    [5, 2, 40, 30][usize::try_from(request % 4).unwrap()] * SECOND
}

/// A bound on every second request, which some renewals meet.
fn max_hold(request: u32) -> Option<MaxHold> {
    MaxHold::new(2 * ttl(request)).filter(|_| request % 2 == 1)
}

/// A min_hold for one request in six, a lock_delay for another; of those for permits, too.
fn delays(request: u32) -> Option<Delays> {
    match request % 6 {
        2 => Delays::new(20 * SECOND, Duration::ZERO),
        4 => Delays::new(Duration::ZERO, 12 * SECOND),
        _ => None,
    }
}

/// Of the requests for a lock, one at least is exclusive, one is shared, and three are for permits.
fn mode(request: u32) -> Mode {
    match request {
        0 | 1 | 2 | 3 | 5 | 7 => Mode::Shared,
        _ if SEMAPHORES.contains(&request) => permits(request),
        _ => Mode::Exclusive,
    }
}

/// One limit is raised, one is lowered, and on one the requests disagree.
fn permits(request: u32) -> Mode {
    let (count, permits, version) = match request {
        9 | 12 => (1, 2, 0),
        15 => (1, 3, 1),
        10 => (1, 3, 0),
        13 => (2, 3, 0),
        16 => (1, 1, 1),
        11 => (1, 2, 0),
        14 => (1, 3, 0),
        _ => (2, 3, 1),
    };
    Mode::Semaphore(Box::new(Permits::new(count, PermitLimit { permits, version }).unwrap()))
}

fn terms_of(request: u32, ttl: Duration) -> Terms {
    Terms { extra: Extra::of_delays(delays(request)), mode: mode(request), ..terms(ttl) }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..22_u8, 0..REQUESTS, 1..=ATTEMPTS, 1..=COPIES, 0..100_usize)
        .prop_map(|(kind, request, attempt, copy, choice)| Step { kind, request, attempt, copy, choice });
    prop::collection::vec(step, 1..80)
}

struct World {
    leader: Leader,
    /// All that were granted, each with the token of its grant.
    leases: Vec<(LockName, LeaseId, FencingToken)>,
    made: u32,
}

impl World {
    fn run(&mut self, step: Step) {
        let lock = step.lock();
        let call = step.call();
        let of_lock: Vec<_> = self.leases.iter().filter(|(of, ..)| *of == lock).map(|(_, lease, _)| *lease).collect();
        // Mostly the last one.
        let lease_id = of_lock.iter().rev().nth(step.choice % 3).or(of_lock.last()).copied();
        let lease_id = lease_id.unwrap_or(LeaseId(id(u32::MAX >> 8)));
        let attachment = AttachmentId(id(u32::try_from(step.choice % 2).unwrap()));
        self.made += 1;
        let candidate = Candidate {
            attachment: (step.choice.is_multiple_of(4)).then_some(attachment),
            ..candidate(1_000 + self.made)
        };
        let command = match step.kind {
            0..=4 => {
                let wait = step.choice.is_multiple_of(2);
                let terms = Terms { max_hold: max_hold(step.request), ..terms_of(step.request, ttl(step.request)) };
                Command::Acquire(Acquire { call, terms, wait, candidate })
            }
            5 => Command::Claim(call, candidate),
            6 => Command::GiveUp(call),
            7 => Command::DropCall(call),
            8 | 9 => Command::Release(lease_id),
            10 => Command::Renew { lease_id, ttl: [None, Some(3 * SECOND), Some(60 * SECOND)][step.choice % 3] },
            11 => Command::RenewKept(lease_id, attachment),
            12 => Command::Attach { lease_id, attempt: step.attempt, attachment },
            13 => Command::Detach(lease_id, attachment),
            14 => Command::Disconnect(lease_id, attachment),
            17 | 18 => {
                let to = if step.copy == 1 { ConvertTo::Shared } else { ConvertTo::Exclusive };
                let tokens = self.tokens(&lock, lease_id);
                // Mostly the present one.
                let token = tokens[usize::from(step.choice.is_multiple_of(8)) % tokens.len()];
                Command::Convert { lease_id, token, to }
            }
            15 | 16 => {
                let millis = [1, 400, 501, 1_000, 2_999, 5_000, 9_999, 31_000][step.choice % 8];
                return self.leader.pass(Duration::from_millis(millis));
            }
            kind => {
                self.leader.write();
                let successor = self.leader.successor();
                self.compare(&successor);
                self.compare_leases();
                if kind == 21 {
                    self.leader.partition = successor;
                    assert_eq!(counts(&self.leader.write()).0, 0, "a takeover alone changes no record");
                }
                return;
            }
        };
        if let Outcome::Acquire(AcquireOutcome::Granted(grant)) = self.leader.run(&lock, command) {
            self.leases.push((lock, grant.lease_id, grant.token));
        }
    }

    /// The tokens by which a conversion may name this lease: its present one, if it lasts, and that of its grant.
    fn tokens(&self, lock: &LockName, lease_id: LeaseId) -> Vec<FencingToken> {
        let slot = self.leader.partition.find(lock, hash(lock));
        let lease = slot.and_then(|slot| slot.lock.leases().find(|lease| lease.lease_id == lease_id));
        let granted = self.leases.iter().find(|(_, it, _)| *it == lease_id).map(|(.., token)| *token);
        let tokens = lease.map(|lease| lease.token).into_iter().chain(granted);
        tokens.chain([FencingToken::new(1).unwrap()]).collect()
    }

    /// Compares each durable answer.
    fn compare(&self, successor: &Partition<Outbox>) {
        for lock in (0..LOCKS).map(name) {
            let state = |partition: &Partition<Outbox>| {
                partition.find(&lock, hash(&lock)).map_or_else(Lock::default, |slot| slot.lock.clone())
            };
            let (one, other) = (state(&self.leader.partition), state(successor));
            self.compare_states(&one, &other);
            for command in self.probes(&lock) {
                let waits = |request| one.ahead(request).is_some();
                if command_of(&command).is_some_and(waits) {
                    continue;
                }
                self.compare_answers(&one, &other, successor, &command);
            }
        }
    }

    /// A successor that knows of all renewals has the same leases.
    fn compare_leases(&self) {
        let leader = &self.leader.partition;
        let ends = |of: &Partition<Outbox>| of.unwritten_ends().collect::<BTreeMap<_, _>>();
        let successor = self.leader.successor_with(&Renewals::Known(ends(leader)));
        for lock in (0..LOCKS).map(name) {
            let leases = |of: &Partition<Outbox>| {
                of.find(&lock, hash(&lock)).map_or_else(Vec::new, |slot| slot.lock.leases().cloned().collect())
            };
            assert_eq!(leases(&successor), leases(leader));
        }
        assert_eq!(ends(&successor), ends(leader), "it tells its own successor the same");
    }

    fn compare_states(&self, one: &Lock, other: &Lock) {
        let now = self.leader.now;
        assert_eq!(one.tombstones(), other.tombstones());
        assert_eq!(one.delay(), other.delay());
        assert!(one.ghosts().eq(other.ghosts()));
        assert_eq!(one.leases().count(), other.leases().count());
        let modes = one.leases().map(|lease| &lease.terms.mode).chain(one.ghosts().map(|ghost| &ghost.mode));
        if modes.into_iter().any(|mode| mode.permits().is_some()) {
            assert_eq!(one.permit_limit(), other.permit_limit(), "though the leases may be of another one");
        }
        for (one, other) in one.leases().zip(other.leases()) {
            assert_eq!(*other, Lease { expires_at: other.expires_at, ..one.clone() });
            if one.terms.ttl <= RENEWAL_UNWRITTEN_TTL_MAX && !one.unheard {
                let bound = one.terms.max_hold.map(|max| one.granted_at.after(max.span()));
                let anew = now.after(one.terms.ttl);
                assert_eq!(other.expires_at, bound.map_or(anew, |bound| anew.min(bound)), "it begins anew");
                assert!(one.expires_at <= other.expires_at);
            } else {
                assert_eq!(other.expires_at, one.expires_at);
            }
        }
        for later in [Duration::ZERO, 5 * SECOND, 10 * SECOND] {
            let at = now.after(if one.leases().next().is_some() { Duration::ZERO } else { later });
            assert_eq!(of_view(one.view(at, None)), of_view(other.view(at, None)));
        }
    }

    fn probes(&self, lock: &LockName) -> Vec<Command> {
        let mut probes = Vec::new();
        // One more than there were.
        for request in (0..REQUESTS + u32::from(LOCKS)).filter(|request| lock_of(*request) == *lock) {
            for (attempt, copy) in (1..=ATTEMPTS + 1).flat_map(|attempt| (1..=COPIES).map(move |copy| (attempt, copy)))
            {
                let step = Step { kind: 0, request, attempt, copy, choice: 0 };
                let (call, candidate) = (step.call(), candidate(0));
                let acquire = |ttl| Acquire { call, terms: terms_of(request, ttl), wait: false, candidate };
                probes.push(Command::Acquire(acquire(ttl(request))));
                probes.push(Command::Acquire(acquire(SECOND)));
                probes.extend([Command::Claim(call, candidate), Command::GiveUp(call), Command::DropCall(call)]);
            }
        }
        for lease_id in self.leases.iter().filter(|(of, ..)| of == lock).map(|(_, lease_id, _)| *lease_id) {
            probes.push(Command::Release(lease_id));
            probes.extend(self.tokens(lock, lease_id).into_iter().flat_map(|token| {
                [ConvertTo::Exclusive, ConvertTo::Shared].map(|to| Command::Convert { lease_id, token, to })
            }));
            probes.extend([None, Some(60 * SECOND)].map(|ttl| Command::Renew { lease_id, ttl }));
            for attachment in [0, 1, 2].map(|number| AttachmentId(id(number))) {
                probes.push(Command::RenewKept(lease_id, attachment));
                probes.push(Command::Disconnect(lease_id, attachment));
                probes.extend((0..=ATTEMPTS).map(|attempt| Command::Attach { lease_id, attempt, attachment }));
            }
        }
        probes
    }

    fn compare_answers(&self, one: &Lock, other: &Lock, successor: &Partition<Outbox>, command: &Command) {
        let answer = |lock: &Lock, partition: &Partition<Outbox>| {
            let (mut lock, mut sequencer) = (lock.clone(), partition.sequencer.clone());
            let outcome = turn((&mut lock, &mut sequencer), self.leader.now, |turn| turn.run(command.clone()));
            (outcome_without_time(outcome), lock)
        };
        let ((answer_of_one, one_after), (answer_of_other, other_after)) =
            (answer(one, &self.leader.partition), answer(other, successor));
        // Only waiters, which are not kept, are before a new request, and it has to agree with them.
        let disagrees = |answer: &Outcome| {
            matches!(answer, Outcome::Acquire(AcquireOutcome::ModeMismatch | AcquireOutcome::LimitMismatch(_)))
        };
        let is_new = match &answer_of_other {
            Outcome::Acquire(AcquireOutcome::Granted(grant)) => other.lease_of(grant.token).is_none(),
            _ => disagrees(&answer_of_one) || disagrees(&answer_of_other),
        };
        // Likewise a waiter that is offered the lock is in the way of an upgrade.
        let is_offered = matches!(
            (&answer_of_one, &answer_of_other),
            (Outcome::Convert(ConvertOutcome::Contended(_)), Outcome::Convert(ConvertOutcome::Converted(_)))
        );
        if (is_new || is_offered) && one.view(self.leader.now, None).waiters > 0 {
            return;
        }
        assert_eq!(answer_of_one, answer_of_other, "{command:?}");
        assert_eq!(one_after.tombstones(), other_after.tombstones(), "{command:?}");
        let leases =
            |lock: &Lock| lock.leases().map(|lease| Lease { expires_at: START, ..lease.clone() }).collect::<Vec<_>>();
        assert_eq!(leases(&one_after), leases(&other_after), "{command:?}");
        assert_eq!(one_after.delay(), other_after.delay(), "{command:?}");
        assert!(one_after.ghosts().eq(other_after.ghosts()), "{command:?}");
    }
}

/// The request that a probe is about.
fn command_of(command: &Command) -> Option<RequestId> {
    match command {
        Command::Acquire(Acquire { call, .. })
        | Command::Claim(call, _)
        | Command::GiveUp(call)
        | Command::DropCall(call) => Some(call.request),
        _ => None,
    }
}

fn of_view(view: LockView) -> LockView {
    let (mut current, mut shared) = (view.current, view.shared);
    let holders = shared.iter_mut().flat_map(|shared| &mut shared.holders);
    current.iter_mut().chain(holders).for_each(|holder| holder.left = Duration::ZERO);
    LockView { current, shared, waiters: 0, ..view }
}

/// Without what is left of leases that begin anew, and without waiters.
fn outcome_without_time(outcome: Outcome) -> Outcome {
    let blank = |contention: Box<Contention>| {
        let Contention { current, delay, shared, .. } = *contention;
        let view = of_view(LockView { current, delay, shared, ..LockView::default() });
        let LockView { current, delay, shared, .. } = view;
        Box::new(Contention { current, classic: None, waiters: 0, delay, shared })
    };
    match outcome {
        Outcome::Acquire(AcquireOutcome::Granted(grant)) => {
            Outcome::Acquire(AcquireOutcome::Granted(Grant { left: Duration::ZERO, ..grant }))
        }
        Outcome::Acquire(AcquireOutcome::Contended(contention)) => {
            Outcome::Acquire(AcquireOutcome::Contended(blank(contention)))
        }
        Outcome::Acquire(AcquireOutcome::TimedOut(contention)) => {
            Outcome::Acquire(AcquireOutcome::TimedOut(blank(contention)))
        }
        Outcome::Convert(ConvertOutcome::Contended(contention)) => {
            Outcome::Convert(ConvertOutcome::Contended(blank(contention)))
        }
        Outcome::Convert(ConvertOutcome::Converted(lease)) => {
            Outcome::Convert(ConvertOutcome::Converted(Renewed { left: Duration::ZERO, ..lease }))
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn a_successor_answers_as_its_predecessor(steps in steps()) {
        let mut world = World { leader: Leader::new(), leases: Vec::new(), made: 0 };
        for step in steps {
            world.run(step);
        }
        world.leader.write();
        // Waiters end with their calls, which are not run here.
        world.leader.partition = world.leader.successor();
        for _ in 0..3 {
            world.leader.pass(100 * SECOND);
            world.leader.write();
        }
        prop_assert!(world.leader.content.0.is_empty(), "nothing outlives its use: {:?}", world.leader.content);
        prop_assert_eq!(world.leader.partition.sizes().0, 0);
    }
}

#[test]
fn a_record_that_cannot_be_read_is_not_passed_over() {
    let refused = |key: &[u8], record: &[u8]| {
        let content = Content(BTreeMap::from([(key.into(), record.into())]));
        Partition::from_content(content, &Renewals::MayBeMissing, START, 0, hash).err().unwrap().to_string()
    };
    let text = refused(b"la\xff", &[1, 1]);
    assert!(
        text.starts_with("the record with the key \"la\\xff\" cannot be read: this version of the server writes no"),
        "{text}"
    );
    let text = refused(b"la", &[9, 1]);
    assert!(text.contains("it has layout 9"), "{text}");
}

#[test]
fn numbers_of_ended_requests_rise_over_leaders() {
    let mut leader = Leader::new();
    for number in 0..3 {
        let lease = leader.take(&name(1), number, SECOND).lease_id;
        leader.run(&name(1), Command::Release(lease));
        assert_eq!(leader.write().put[0].0, record::Key::of_ended(number.into()));
        leader.partition = leader.successor();
    }
}
