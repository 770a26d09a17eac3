//! The store: the pure rules, driven as the memory store drives them, with its own clock.

use super::model::Protocol;
use fencepost::testing::domain::{
    binding::Binding,
    command::{Acquire, Candidate, Command, Effect, Effects, Outcome},
    ids::{Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
    lease::{Delays, Extra, LeaseEnd, Terms},
    mode::PermitLimit,
    name::{Holder, Metadata},
    outcome::{AcquireOutcome, ReleaseOutcome},
    replicas::Replicas,
    rules::{Lock, Next, Turn},
    time::StoreTime,
    token::Sequencer,
};
use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};
use uuid::Uuid;

pub(crate) const SECOND: u64 = 1_000_000;
/// The time at which every run begins.
pub(crate) const START: u64 = 1_800_000_000 * SECOND;
/// The sender of commands that go through no replica with waiters.
pub(crate) const NO_REPLICA: u8 = 9;
/// Never reached.
const WAITERS_MAX: usize = 100;

/// One attempt of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) request: u8,
    pub(crate) number: u32,
}

/// Calls of requests that are queued, each the only call of its attempt: of no more clients than wait beside a holder.
pub(crate) type NextCalls = [Option<(Attempt, u8)>; 2];

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandKind {
    Acquire,
    Claim,
    GiveUp,
    Drop,
    Release,
    Renew,
}

/// A command to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreCommand {
    pub(crate) kind: CommandKind,
    pub(crate) from: u8,
    pub(crate) attempt: Attempt,
    /// The number of the call within its attempt.
    pub(crate) copy: u8,
    /// On the store's clock.
    pub(crate) not_after: StoreTime,
    /// The calls that a release may hand over to.
    pub(crate) next: NextCalls,
}

impl StoreCommand {
    /// Applies what time has brought, as the store's timer does: a release of an unknown lease.
    pub(crate) fn apply_time(now: StoreTime) -> Self {
        let attempt = Attempt { request: 0xff, number: 1 };
        Self {
            kind: CommandKind::Release,
            from: NO_REPLICA,
            attempt,
            copy: 0,
            not_after: now,
            next: NextCalls::default(),
        }
    }
}

/// An answer of the store.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The outcome of a command.
    Of(Outcome),
    /// The outcome of a release's claim, and the call that it was for.
    Released(Option<(Attempt, u8, AcquireOutcome)>),
}

/// The effects of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caused {
    pub(crate) hints: Vec<(u8, Attempt)>,
    pub(crate) granted: Option<Granted>,
    /// Requests whose lease ended, and when. An expired lease ended when it expired, not when the store noticed.
    pub(crate) ended: Vec<(u8, StoreTime)>,
}

/// What a request was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) request: u8,
    pub(crate) token: u64,
    /// The slot of a single permit.
    pub(crate) slot: Option<NonZeroU32>,
}

/// The memory of the store.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) lock: Lock,
    pub(crate) sequencer: Sequencer,
    pub(crate) replicas: Replicas,
    /// The replicas that it has ever heard of.
    pub(crate) heard: BTreeSet<u8>,
}

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) memory: Memory,
    /// How far its clock is behind, in microseconds.
    pub(crate) behind: u64,
}

impl Memory {
    /// That of a store which starts at `now`.
    pub(crate) fn empty(now: StoreTime) -> Self {
        let replicas = Replicas::many_beside(replica_of(NO_REPLICA));
        Self { lock: Lock::default(), sequencer: Sequencer::above_clock(now), replicas, heard: BTreeSet::new() }
    }
}

impl Store {
    /// A store that has run for longer than a clock may be set back.
    pub(crate) fn new() -> Self {
        Self { memory: Memory::empty(StoreTime::from_micros(START - 60 * SECOND)), behind: 0 }
    }

    /// Starts anew at `now`, its clock `behind` by that much more.
    pub(crate) fn restart(&mut self, now: StoreTime, behind: u64) {
        self.behind += behind;
        self.memory = Memory::empty(self.clock(now));
    }

    /// The time on its clock.
    pub(crate) fn clock(&self, now: StoreTime) -> StoreTime {
        StoreTime::from_micros(now.as_micros() - self.behind)
    }

    pub(crate) fn is_alive(&self, now: StoreTime, replica: u8) -> bool {
        self.memory.replicas.is_alive(replica_of(replica), self.clock(now))
    }

    /// A replica is found dead.
    pub(crate) fn found_dead(&mut self, now: StoreTime, replica: u8) {
        let now = self.clock(now);
        self.memory.replicas.found_dead(replica_of(replica), now);
    }

    /// A replica is alive. True if it was there before and has been silent: its waiters were skipped, or deleted.
    pub(crate) fn hear_of(&mut self, now: StoreTime, replica: u8) -> bool {
        let was_silent = !self.is_alive(now, replica) && !self.memory.heard.insert(replica);
        let now = self.clock(now);
        self.memory.replicas.beat(replica_of(replica), now);
        was_silent
    }

    /// Carries out a command.
    pub(crate) fn run(&mut self, model: &Protocol, now: StoreTime, command: &StoreCommand) -> (Answer, Caused) {
        let now = self.clock(now);
        let mut effects = Effects::new();
        let Memory { lock, sequencer, replicas, .. } = &mut self.memory;
        let mut turn = Turn {
            classic: None,
            lock,
            sequencer,
            effects: &mut effects,
            now,
            replica: replica_of(command.from),
            replicas,
            waiters_max: WAITERS_MAX,
        };
        let request = command.attempt.request;
        let (call, lease) = (call_of(command.attempt, command.copy), lease_of(request));
        let candidate = Candidate { lease_id: lease, grant_id: GrantId(lease.0), attachment: None };
        let answer = match command.kind {
            CommandKind::Acquire => {
                let terms = terms(model, request);
                Answer::Of(turn.run(Command::Acquire(Acquire { call, terms, wait: model.wait, candidate })))
            }
            CommandKind::Claim => Answer::Of(turn.run(Command::Claim(call, candidate))),
            CommandKind::GiveUp => Answer::Of(turn.run(Command::GiveUp(call))),
            CommandKind::Drop => Answer::Of(turn.run(Command::DropCall(call))),
            CommandKind::Release => {
                let has_released = turn.run(Command::Release(lease)) == Outcome::Release(ReleaseOutcome::Released);
                let is_of = |it: &&(Attempt, u8), request| lease_of(it.0.request).0 == request;
                let next = |RequestId(request): RequestId, _: &Binding| {
                    let (it, copy) = command.next.iter().flatten().find(|it| is_of(it, request))?;
                    let lease_id = lease_of(it.request);
                    let candidate = Candidate { lease_id, grant_id: GrantId(lease_id.0), attachment: None };
                    Some(Next { call: call_of(*it, *copy), candidate })
                };
                // The leader claims for a call that waits at it, in the turn that frees the lock.
                let claimed = if has_released { turn.claim_offered(turn.replica, next) } else { None };
                Answer::Released(claimed.map(|(call, outcome)| {
                    let attempt = Attempt { request: number(call.request.0), number: call.attempt };
                    (attempt, u8::try_from(call.id.0 - 1).expect("few copies"), outcome)
                }))
            }
            CommandKind::Renew => Answer::Of(turn.run(Command::Renew { lease_id: lease, ttl: None })),
        };
        self.memory.lock.check();
        // They are for a store that keeps leases elsewhere.
        self.memory.lock.take_changed_shares();
        (answer, self.caused(now, &effects))
    }

    fn caused(&self, now: StoreTime, effects: &Effects) -> Caused {
        let mut caused = Caused::default();
        for effect in effects {
            match effect {
                Effect::LookAgain { replica, request, attempt } => {
                    let attempt = Attempt { request: number(request.0), number: *attempt };
                    caused.hints.push((number(replica.0), attempt));
                }
                Effect::Granted(token) => {
                    let lease = self.memory.lock.lease_of(*token).expect("a granted lease is current");
                    let slot = lease.terms.mode.permits().and_then(|permits| permits.slot);
                    let granted = Granted { request: number(lease.request.0), token: token.get(), slot };
                    let before = caused.granted.replace(granted);
                    assert!(before.is_none(), "a command grants one request");
                }
                Effect::Ended { lease, end } => {
                    let at = if *end == LeaseEnd::Expired { lease.expires_at } else { now };
                    caused.ended.push((number(lease.request.0), at));
                }
                Effect::Detached { .. } => unreachable!("the model has no attachments"),
                Effect::Changed { .. } | Effect::Wanted { .. } => unreachable!("the model changes no lease"),
            }
        }
        caused
    }

    /// The requests that the lock is offered to.
    pub(crate) fn offers(&self) -> Vec<u8> {
        let mut offers: Vec<_> = self.memory.lock.offers().map(|request| number(request.0)).collect();
        offers.sort_unstable();
        offers
    }

    /// When the lease of this request expires, if it has one.
    pub(crate) fn expires(&self, request: u8) -> Option<StoreTime> {
        let lease = self.memory.lock.leases().find(|lease| number(lease.request.0) == request);
        lease.map(|lease| lease.expires_at)
    }

    /// The limit of the semaphore that is in force.
    pub(crate) fn permit_limit(&self) -> Option<PermitLimit> {
        self.memory.lock.permit_limit()
    }

    /// Whether time has brought something.
    pub(crate) fn is_due(&self, now: StoreTime) -> bool {
        self.memory.lock.next_due().is_some_and(|due| due <= self.clock(now))
    }

    /// Whether state is left after all periods have passed.
    pub(crate) fn leaves_behind(&self, model: &Protocol, now: StoreTime) -> bool {
        let mut after = self.clone();
        let late = now.after(Duration::from_secs(100));
        after.run(model, late, &StoreCommand::apply_time(late));
        !after.memory.lock.is_idle()
    }
}

fn call_of(Attempt { request, number }: Attempt, copy: u8) -> Call {
    Call { request: RequestId(id(request.into())), attempt: number, id: CallId(1 + u64::from(copy)) }
}

fn replica_of(number: u8) -> ReplicaId {
    ReplicaId(id(number.into()))
}

fn lease_of(request: u8) -> LeaseId {
    LeaseId(id(request.into()))
}

fn terms(model: &Protocol, request: u8) -> Terms {
    let delays = Delays::new(Duration::ZERO, Duration::from_micros(model.lock_delay));
    Terms {
        fingerprint: request.into(),
        ttl: Duration::from_micros(model.ttl),
        holder: Holder::new(String::new()).expect("an empty holder is valid"),
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: delays.map(|delays| Box::new(Extra { delays: Some(delays), ..Extra::default() })),
        mode: model.asks_of(request).mode(),
    }
}

/// An id with the number in its first digits, which `Debug` prints.
fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 120)
}

fn number(id: Uuid) -> u8 {
    id.as_bytes()[0]
}
