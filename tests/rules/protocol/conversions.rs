//! Conversions whose messages are lost, repeated and late. They have a small model of their own, because its states
//! include tokens.
//!
//! One client holds the lock, and converts its lease. It gives up on a conversion at any time, and sends the next one.
//! A reader comes and goes beside it. A message that is lost is one that is never delivered.

use super::store::{SECOND, START};
use fencepost::testing::domain::{
    command::{Acquire, Candidate, Command, Effects, Outcome},
    ids::{Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
    lease::Terms,
    mode::{ConvertTo, Mode},
    name::{Holder, Metadata},
    outcome::{AcquireOutcome, ConvertOutcome, Grant},
    replicas::Replicas,
    rules::{Lock, Turn},
    time::StoreTime,
    token::{FencingToken, Sequencer},
};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::{
    hash::{Hash, Hasher},
    time::Duration,
};
use uuid::Uuid;

/// A configuration.
#[derive(Clone, Copy, Debug)]
struct Conversions {
    /// The mode in which the client acquires the lock.
    begins: ConvertTo,
    conversions: u8,
    repeats: u8,
    /// How often a reader asks for the lock.
    readers: u8,
    bug: Option<Bug>,
}

/// A deliberate bug in the client, which the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// It writes until its downgrade is answered.
    WritesUntilAnswered,
    /// It writes as soon as it has asked for an upgrade.
    WritesUnanswered,
    /// It takes the answer to an older conversion for that to the last one.
    HearsAnyAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Convert(ConvertTo),
    Deliver(usize),
    Repeat(usize),
    Hear(usize),
    ReaderComes,
    ReaderGoes,
}

/// A conversion under way to the store.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u8,
    token: FencingToken,
    to: ConvertTo,
    /// A copy of it has changed the lease.
    has_acted: bool,
}

/// An answer under way to the client: the token, if the lease has the mode.
#[derive(Clone, Copy, Debug)]
struct Answer {
    number: u8,
    to: ConvertTo,
    token: Option<FencingToken>,
}

#[derive(Clone, Debug)]
struct State {
    lock: Lock,
    sequencer: Sequencer,
    /// What the client knows: its token, and whether it may write.
    token: FencingToken,
    writes: bool,
    sent: u8,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    repeats: u8,
    readers: u8,
    /// The lease of the reader that is there.
    reader: Option<LeaseId>,
    /// A copy of a conversion that had changed the lease has changed it again.
    acted_again: bool,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        format!("{self:?}").hash(hasher);
    }
}

const OWN: u8 = 1;

fn id(number: u8) -> Uuid {
    Uuid::from_u128(number.into())
}

impl State {
    fn run(&mut self, command: Command) -> Outcome {
        let mut turn = Turn {
            classic: None,
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects: &mut Effects::new(),
            now: StoreTime::from_micros(START),
            replica: ReplicaId(id(1)),
            replicas: &Replicas::one(),
            waiters_max: 0,
        };
        turn.run(command)
    }

    /// Acquires the lock, without waiting for it.
    fn acquire(&mut self, number: u8, mode: Mode) -> Option<Grant> {
        let terms = Terms {
            fingerprint: number.into(),
            ttl: Duration::from_micros(100 * SECOND),
            holder: Holder::new(String::new()).expect("an empty holder is valid"),
            metadata: Metadata::default(),
            min_token: 0,
            max_hold: None,
            extra: None,
            mode,
        };
        let call = Call { request: RequestId(id(number)), attempt: 1, id: CallId(1) };
        let (lease_id, grant_id) = (LeaseId(id(number)), GrantId(id(number)));
        let candidate = Candidate { lease_id, grant_id, attachment: None };
        match self.run(Command::Acquire(Acquire { call, terms, wait: false, candidate })) {
            Outcome::Acquire(AcquireOutcome::Granted(grant)) => Some(grant),
            _ => None,
        }
    }

    /// The mode and the token of the client's lease.
    fn lease(&self) -> Option<(Mode, FencingToken)> {
        let lease = self.lock.leases().find(|lease| lease.lease_id == LeaseId(id(OWN)));
        lease.map(|lease| (lease.terms.mode.clone(), lease.token))
    }

    /// A copy of this conversion reaches the store.
    fn convert(&mut self, at: usize) {
        let Request { number, token, to, has_acted } = self.requests[at];
        let before = self.lease();
        let outcome = self.run(Command::Convert { lease_id: LeaseId(id(OWN)), token, to });
        let has_changed = before != self.lease();
        self.acted_again |= has_acted && has_changed;
        self.requests[at].has_acted |= has_changed;
        let token = match outcome {
            Outcome::Convert(ConvertOutcome::Converted(lease)) => Some(lease.token),
            _ => None,
        };
        self.answers.push(Answer { number, to, token });
    }
}

impl Model for Conversions {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let sequencer = Sequencer::above_clock(StoreTime::from_micros(START - 60 * SECOND));
        let mut state = State {
            lock: Lock::default(),
            token: FencingToken::new(1).expect("a token"),
            sequencer,
            writes: self.begins == ConvertTo::Exclusive,
            sent: 0,
            requests: vec![],
            answers: vec![],
            repeats: self.repeats,
            readers: self.readers,
            reader: None,
            acted_again: false,
        };
        state.token = state.acquire(OWN, self.begins.mode()).expect("a free lock is granted").token;
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.sent < self.conversions {
            actions.extend([ConvertTo::Exclusive, ConvertTo::Shared].map(Action::Convert));
        }
        actions.extend((0..state.requests.len()).map(Action::Deliver));
        if state.repeats > 0 {
            actions.extend((0..state.requests.len()).map(Action::Repeat));
        }
        actions.extend((0..state.answers.len()).map(Action::Hear));
        if state.reader.is_some() {
            actions.push(Action::ReaderGoes);
        } else if state.readers > 0 {
            actions.push(Action::ReaderComes);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Convert(to) => {
                state.sent += 1;
                let request = Request { number: state.sent, token: state.token, to, has_acted: false };
                state.requests.push(request);
                match to {
                    ConvertTo::Shared if self.bug != Some(Bug::WritesUntilAnswered) => state.writes = false,
                    ConvertTo::Exclusive if self.bug == Some(Bug::WritesUnanswered) => state.writes = true,
                    _ => {}
                }
            }
            Action::Deliver(at) => {
                state.convert(at);
                state.requests.remove(at);
            }
            Action::Repeat(at) => {
                state.repeats -= 1;
                state.convert(at);
            }
            Action::Hear(at) => {
                let Answer { number, to, token } = state.answers.remove(at);
                let is_awaited = number == state.sent || self.bug == Some(Bug::HearsAnyAnswer);
                if let Some(token) = token.filter(|_| is_awaited) {
                    (state.token, state.writes) = (token, to == ConvertTo::Exclusive);
                }
            }
            Action::ReaderComes => {
                let number = OWN + state.readers;
                state.reader = state.acquire(number, Mode::Shared).map(|grant| grant.lease_id);
                // One that is refused asks again, with another request.
                state.readers -= 1;
            }
            Action::ReaderGoes => {
                let lease = state.reader.take()?;
                state.run(Command::Release(lease));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(ALONE, |_, state: &State| !state.writes || state.reader.is_none()),
            Property::<Self>::always(ONCE, |_, state: &State| !state.acted_again),
        ]
    }
}

const ALONE: &str = "a writer is alone";
const ONCE: &str = "a conversion acts once";

/// The broken invariants, with the number of steps to each.
fn broken(model: Conversions) -> Vec<(&'static str, usize)> {
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_bfs().join();
    println!("{model:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    let steps = |(name, path): (_, stateright::Path<State, Action>)| {
        let actions = path.into_actions();
        println!("{name:?} is broken by {actions:?}");
        (name, actions.len())
    };
    checker.discoveries().into_iter().map(steps).collect()
}

fn conversions(begins: ConvertTo) -> Conversions {
    Conversions { begins, conversions: 3, repeats: 1, readers: 1, bug: None }
}

#[test]
fn late_and_repeated_conversions_break_nothing() {
    for begins in [ConvertTo::Exclusive, ConvertTo::Shared] {
        assert_eq!(broken(conversions(begins)), []);
    }
}

#[test]
fn deliberate_bugs_of_a_client_that_converts_break_exclusion() {
    for (bug, begins) in [
        (Bug::WritesUntilAnswered, ConvertTo::Exclusive),
        (Bug::WritesUnanswered, ConvertTo::Shared),
        (Bug::HearsAnyAnswer, ConvertTo::Shared),
    ] {
        let found = broken(Conversions { bug: Some(bug), ..conversions(begins) });
        assert!(found.iter().any(|(name, _)| *name == ALONE), "{bug:?} breaks nothing");
    }
}
