//! The one store: the pure rules, driven as the memory store drives them, with a clock and a life of its own.

use fencepost::domain::{
    command::{Acquire, Candidate, Command, Effect, Effects, Outcome},
    ids::{Call, CallId, GrantId, Incarnation, LeaseId, ReplicaId, RequestId},
    lease::{LeaseEnd, Terms},
    name::{Holder, Metadata},
    outcome::{AcquireOutcome, Polled},
    replicas::Replicas,
    rules::{Lock, Next, Turn},
    time::StoreTime,
    token::Sequencer,
};
use std::time::Duration;
use uuid::Uuid;

pub(crate) const SECOND: u64 = 1_000_000;
/// When every run begins.
pub(crate) const START: u64 = 1_800_000_000 * SECOND;
/// Commands that no waiting replica sends come from here.
pub(crate) const NOBODY: u8 = 9;
/// What a replica knows that has seen no token.
pub(crate) const NONE_KNOWN: StoreTime = StoreTime::from_micros(0);
/// No bound is meant to be reached.
const WAITERS_MAX: usize = 100;

/// One transmission of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    pub(crate) request: u8,
    pub(crate) number: u32,
}

/// What may be asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ask {
    Acquire,
    Claim,
    GiveUp,
    Drop,
    Release,
    Renew,
    Poll,
}

/// A message to the store that asks for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asking {
    pub(crate) ask: Ask,
    pub(crate) from: u8,
    pub(crate) attempt: Attempt,
    /// Which of the calls with this number.
    pub(crate) copy: u8,
    /// On the store's clock.
    pub(crate) not_after: StoreTime,
    /// The life of the store that it was meant for.
    pub(crate) life: u32,
    /// A token is a time, more or less: so that it is the distance to now that counts.
    pub(crate) known_token: StoreTime,
    /// The call that a release claims for: its attempt, and which of the calls with this number.
    pub(crate) next: Option<(Attempt, u8)>,
}

/// What the store answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The outcome of a command.
    Of(Outcome),
    Polled(Polled),
    /// The outcome of a release's claim.
    Released(Option<AcquireOutcome>),
}

/// What a command set off.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetOff {
    pub(crate) hints: Vec<(u8, Attempt)>,
    /// The token of a lease that began with this command.
    pub(crate) granted: Option<(u8, u64)>,
    /// Requests whose lease ended, and when: one that expired may have done so long before anybody noticed.
    pub(crate) ended: Vec<(u8, StoreTime)>,
    pub(crate) returned: bool,
}

/// The store's memory: all of it is lost together.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) lock: Lock,
    pub(crate) sequencer: Sequencer,
    pub(crate) replicas: Replicas,
}

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) memory: Memory,
    /// What a promoted replica would know.
    pub(crate) copy: Option<Box<Memory>>,
    pub(crate) life: u32,
    /// How far its clock is behind the real time.
    pub(crate) behind: u64,
}

impl Memory {
    pub(crate) fn empty() -> Self {
        Self { lock: Lock::default(), sequencer: Sequencer::forgotten(), replicas: Replicas::many() }
    }
}

impl Store {
    /// A store that has been up for long, so that tokens follow its clock.
    pub(crate) fn new() -> Self {
        let mut memory = Memory::empty();
        let long_ago = StoreTime::from_micros(START - 100 * SECOND);
        memory.sequencer.draw(long_ago, Incarnation(id(1)), 0).expect("there are tokens");
        Self { memory, copy: None, life: 1, behind: 0 }
    }

    /// The time on its clock.
    pub(crate) fn clock(&self, now: StoreTime) -> StoreTime {
        StoreTime::from_micros(now.as_micros() - self.behind)
    }

    /// Carries out a command.
    pub(crate) fn run(&mut self, now: StoreTime, ttl: u64, wait: bool, asking: &Asking) -> (Answer, SetOff) {
        let now = self.clock(now);
        let mut effects = Effects::new();
        let Memory { lock, sequencer, replicas } = &mut self.memory;
        let mut turn = Turn {
            classic: None,
            lock,
            sequencer,
            effects: &mut effects,
            now,
            not_after: asking.not_after,
            incarnation: Incarnation(id(asking.life)),
            present: Incarnation(id(self.life)),
            replica: ReplicaId(id(asking.from.into())),
            replicas,
            known_token: asking.known_token.as_micros(),
            waiters_max: WAITERS_MAX,
        };
        let request = asking.attempt.request;
        let (call, lease) = (call_of(asking.attempt, asking.copy), lease_of(request));
        let candidate = Candidate { lease_id: lease, grant_id: GrantId(lease.0), attachment: None };
        let answer = match asking.ask {
            Ask::Acquire => {
                Answer::Of(turn.run(Command::Acquire(Acquire { call, terms: terms(request, ttl), wait, candidate })))
            }
            Ask::Claim => Answer::Of(turn.run(Command::Claim(call, candidate))),
            Ask::GiveUp => Answer::Of(turn.run(Command::GiveUp(call))),
            Ask::Drop => Answer::Of(turn.run(Command::DropCall(call))),
            Ask::Release => {
                let next = asking.next.map(|(it, copy)| {
                    let lease_id = lease_of(it.request);
                    let candidate = Candidate { lease_id, grant_id: GrantId(lease_id.0), attachment: None };
                    Next { call: call_of(it, copy), candidate }
                });
                Answer::Released(match next {
                    Some(next) => turn.release_to(lease, next).1,
                    None => {
                        turn.run(Command::Release(lease));
                        None
                    }
                })
            }
            Ask::Renew => Answer::Of(turn.run(Command::Renew { lease_id: lease, ttl: None })),
            Ask::Poll => Answer::Polled(turn.poll()),
        };
        self.memory.lock.check();
        (answer, self.set_off(now, &effects))
    }

    fn set_off(&self, now: StoreTime, effects: &Effects) -> SetOff {
        let mut set_off = SetOff::default();
        for effect in effects {
            match effect {
                Effect::LookAgain { replica, request, attempt } => {
                    let attempt = Attempt { request: number(request.0), number: *attempt };
                    set_off.hints.push((number(replica.0), attempt));
                }
                Effect::Granted => {
                    // It may have ended in the same turn only if a turn could last for a TTL.
                    let lease = self.memory.lock.lease().expect("what was granted is held");
                    set_off.granted = Some((number(lease.request.0), lease.token.get()));
                }
                Effect::Ended { lease, end } => {
                    let at = if *end == LeaseEnd::Expired { lease.expires_at } else { now };
                    set_off.ended.push((number(lease.request.0), at));
                }
                Effect::ReplicaReturned => set_off.returned = true,
                Effect::Detached { .. } => unreachable!("nothing is attached here"),
            }
        }
        set_off
    }

    /// The request that the lock is on offer to, and until when. (Read from what `Debug` shows: the rules tell nobody.)
    pub(crate) fn offered(&self) -> Option<(u8, StoreTime)> {
        let text = format!("{:?}", self.memory.lock);
        let offer = text.split_once("offer: Some(Offer { request: RequestId(")?.1;
        let request = u8::from_str_radix(offer.get(..2)?, 16).ok()?;
        let until = offer.split_once("StoreTime(")?.1.split_once(')')?.0;
        Some((request, StoreTime::from_micros(until.parse().ok()?)))
    }

    /// Whether anything is left when everybody has gone and all periods are over.
    pub(crate) fn leaves_behind(&self, now: StoreTime) -> bool {
        let mut after = self.clone();
        let late = now.after(Duration::from_secs(100));
        // A command that finds nothing: it brings the lock up to its time.
        let nothing = Attempt { request: 0xff, number: 1 };
        let settle = Asking {
            copy: 0,
            ask: Ask::Release,
            from: NOBODY,
            attempt: nothing,
            not_after: late,
            life: self.life,
            known_token: NONE_KNOWN,
            next: None,
        };
        after.run(late, SECOND, true, &settle);
        !after.memory.lock.is_idle()
    }
}

/// A request has one lease at most, so that it goes by the request's number.
fn call_of(Attempt { request, number }: Attempt, copy: u8) -> Call {
    Call { request: RequestId(id(request.into())), attempt: number, id: CallId(1 + u64::from(copy)) }
}

fn lease_of(request: u8) -> LeaseId {
    LeaseId(id(request.into()))
}

fn terms(request: u8, ttl: u64) -> Terms {
    Terms {
        fingerprint: request.into(),
        ttl: Duration::from_micros(ttl),
        holder: Holder::new(String::new()).expect("the shortest label"),
        metadata: Metadata::default(),
        min_token: 0,
    }
}

/// The first digits of an id are what its `Debug` shows: the number goes there.
fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 120)
}

fn number(id: Uuid) -> u8 {
    id.as_bytes()[0]
}
