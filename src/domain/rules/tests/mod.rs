//! Unit tests of the rules, by subject.

mod classic;
mod convert;
mod delays;
mod described;
mod dropped;
mod edges;
mod ended;
mod ghosts;
mod granting;
mod handing_over;
mod holding;
mod max_hold;
mod queueing;
mod replicas;
mod retrying;
mod semaphore_ends;
mod semaphores;
mod shared;
mod shared_ends;
mod shared_queue;
mod viewing;

use super::{Lock, Turn};
use crate::domain::{
    command::{Acquire, Candidate, Effect, Effects},
    ids::{AttachmentId, Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
    lease::{Delays, Extra, LeaseEnd, MaxHold, Terms},
    limits::{CLAIM_WINDOW, COMMAND_WINDOW, MISSED_GRACE},
    mode::Mode,
    name::{Holder, Metadata},
    outcome::{
        AcquireOutcome, ClassicHold, Fate, Gone, Grant, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome,
        TokenStatus,
    },
    replicas::Replicas,
    time::StoreTime,
    token::{FencingToken, Sequencer},
};
use std::time::Duration;
use uuid::Uuid;

/// Requests, in their usual order of arrival.
const A: u128 = 1;
const B: u128 = 2;
const C: u128 = 3;
const D: u128 = 4;

const TTL: Duration = Duration::from_secs(30);
const MICRO: Duration = Duration::from_micros(1);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server that sends no command.
const ELSEWHERE: ReplicaId = ReplicaId(Uuid::from_u128(99));

const fn stream(number: u128) -> AttachmentId {
    AttachmentId(Uuid::from_u128(number))
}

/// One lock, its partition's sequencer, and a time that the test sets.
struct Bench {
    lock: Lock,
    sequencer: Sequencer,
    now: StoreTime,
    /// The effects of the last command.
    effects: Effects,
    /// The shared leases that the last command changed.
    changed_shares: Vec<(FencingToken, GrantId)>,
    waiters_max: usize,
    ttl: Duration,
    min_token: u64,
    max_hold: Option<MaxHold>,
    /// What the next request asks for.
    mode: Mode,
    delays: Option<Delays>,
    leases: u128,
    /// The call id of the next command.
    call_id: u64,
    /// The replica that sends the next command.
    replica: u128,
    replicas: Replicas,
    classic: Option<ClassicHold>,
    /// The stream that the next leases are attached to when they are granted.
    attachment: Option<AttachmentId>,
}

impl Bench {
    fn new() -> Self {
        Self {
            lock: Lock::default(),
            sequencer: Sequencer::after(1_000),
            now: StoreTime::from_micros(1_800_000_000_000_000),
            effects: Effects::new(),
            changed_shares: Vec::new(),
            waiters_max: 10,
            ttl: TTL,
            min_token: 0,
            max_hold: None,
            mode: Mode::Exclusive,
            delays: None,
            leases: 0,
            call_id: 1,
            replica: 0,
            replicas: Replicas::one(),
            classic: None,
            attachment: None,
        }
    }

    /// A bench where A holds the lock and `waiters` are queued.
    fn held_with_waiters(waiters: &[u128]) -> (Self, Grant) {
        let mut bench = Self::new();
        let grant = bench.acquire(A, 1).granted();
        for waiter in waiters {
            assert_eq!(bench.acquire(*waiter, 1), AcquireOutcome::Queued);
        }
        (bench, grant)
    }

    fn pass(&mut self, span: Duration) -> &mut Self {
        self.now = self.now.after(span);
        self
    }

    fn step_back(&mut self, span: Duration) -> &mut Self {
        self.now = StoreTime::from_micros(self.now.as_micros() - u64::try_from(span.as_micros()).unwrap());
        self
    }

    /// The replica that sends the next command is alive.
    fn beat(&mut self) {
        self.replicas.beat(ReplicaId(Uuid::from_u128(self.replica)), self.now);
    }

    fn turn<T>(&mut self, act: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        self.effects.clear();
        // A command is a heartbeat too.
        self.beat();
        let outcome = act(&mut Turn {
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects: &mut self.effects,
            now: self.now,
            replica: ReplicaId(Uuid::from_u128(self.replica)),
            replicas: &self.replicas,
            waiters_max: self.waiters_max,
            classic: self.classic,
        });
        self.lock.check();
        self.changed_shares = self.lock.take_changed_shares();
        outcome
    }

    fn candidate(&mut self) -> Candidate {
        self.leases += 1;
        Candidate {
            lease_id: LeaseId(Uuid::from_u128(1_000 + self.leases)),
            grant_id: GrantId(Uuid::from_u128(2_000 + self.leases)),
            attachment: self.attachment,
        }
    }

    fn acquire_command(&mut self, request: u128, attempt: u32) -> Acquire {
        let terms = Terms {
            // The server takes all parameters into it.
            fingerprint: match &self.mode {
                Mode::Exclusive => 7,
                Mode::Shared => 9,
                Mode::Semaphore(permits) => 10 + u64::from(permits.count),
            },
            ttl: self.ttl,
            holder: Holder::new(request.to_string()).unwrap(),
            metadata: Metadata::default(),
            min_token: self.min_token,
            max_hold: self.max_hold,
            extra: Extra::of_delays(self.delays),
            mode: self.mode.clone(),
        };
        Acquire { call: self.call(request, attempt), terms, wait: true, candidate: self.candidate() }
    }

    fn call(&self, request: u128, attempt: u32) -> Call {
        Call { request: RequestId(Uuid::from_u128(request)), attempt, id: CallId(self.call_id) }
    }

    fn acquire(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let acquire_command = self.acquire_command(request, attempt);
        self.turn(|turn| turn.acquire(acquire_command))
    }

    fn try_acquire(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let acquire_command = Acquire { wait: false, ..self.acquire_command(request, attempt) };
        self.turn(|turn| turn.acquire(acquire_command))
    }

    fn acquire_on_other_terms(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let mut acquire_command = self.acquire_command(request, attempt);
        acquire_command.terms.fingerprint = 8;
        self.turn(|turn| turn.acquire(acquire_command))
    }

    fn claim(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let (call, candidate) = (self.call(request, attempt), self.candidate());
        self.turn(|turn| turn.claim(call, candidate))
    }

    fn give_up(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let call = self.call(request, attempt);
        self.turn(|turn| turn.give_up(call))
    }

    fn drop_call(&mut self, request: u128, attempt: u32) {
        let call = self.call(request, attempt);
        self.turn(|turn| turn.drop_call(call));
    }

    fn keep_queue_position(&mut self, request: u128, attempt: u32) -> AcquireOutcome {
        let acquire_command = self.acquire_command(request, attempt);
        self.turn(|turn| turn.keep_queue_position(acquire_command))
    }

    fn decline(&mut self, request: u128, attempt: u32) {
        self.turn(|turn| turn.decline_offer(RequestId(Uuid::from_u128(request)), attempt));
    }

    fn release(&mut self, grant: &Grant) -> ReleaseOutcome {
        self.turn(|turn| turn.release(grant.lease_id))
    }

    fn renew(&mut self, grant: &Grant, ttl: impl Into<Option<Duration>>) -> RenewOutcome {
        self.turn(|turn| turn.renew(grant.lease_id, ttl.into(), None))
    }

    fn renew_attached(&mut self, grant: &Grant, attachment: AttachmentId) -> RenewOutcome {
        self.turn(|turn| turn.renew(grant.lease_id, None, Some(attachment)))
    }

    fn attach(&mut self, grant: &Grant, attempt: u32, attachment: AttachmentId) -> RenewOutcome {
        self.turn(|turn| turn.attach(grant.lease_id, attempt, attachment))
    }

    fn force_release(&mut self, token: FencingToken) -> RevokeOutcome {
        self.turn(|turn| turn.force_release(token))
    }

    /// Applies expiry, as the expiry task does.
    fn apply_time(&mut self) {
        self.turn(|turn| turn.apply_time());
    }

    fn view(&self) -> LockView {
        self.lock.view(self.now, None)
    }

    fn status(&self, token: FencingToken) -> TokenStatus {
        self.lock.view(self.now, Some(token)).token_status(token)
    }

    /// The requests and attempts that the last command woke.
    fn woken(&self) -> Vec<(u128, u32)> {
        let woken = self.effects.iter().filter_map(|effect| match effect {
            Effect::LookAgain { request, attempt, .. } => Some((request.0.as_u128(), *attempt)),
            _ => None,
        });
        woken.collect()
    }

    /// The ends of leases that the last command announced.
    fn ends(&self) -> Vec<LeaseEnd> {
        let ends = self.effects.iter().filter_map(|effect| match effect {
            Effect::Ended { end, .. } => Some(*end),
            _ => None,
        });
        ends.collect()
    }
}

impl AcquireOutcome {
    #[track_caller]
    fn granted(self) -> Grant {
        match self {
            Self::Granted(grant) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut(_))
    }
}

impl RenewOutcome {
    /// The time left of the renewed lease.
    #[track_caller]
    fn left(self) -> Duration {
        match self {
            Self::Renewed(renewed) => renewed.left,
            other => panic!("not renewed: {other:?}"),
        }
    }
}

fn ended(end: LeaseEnd, successor: Option<FencingToken>) -> Gone {
    Gone { fate: Fate::Ended(end), successor }
}
