//! The operations of one session.

use super::{Acquire, Answer, FromClient, Operation, ToClient, positions::Positions};
use crate::{
    domain::{
        command::Command,
        ids::Call,
        limits::{OPERATIONS_PER_SESSION_MAX, POSITION_PERIOD},
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    locks::{
        AcquireAnswer, Dispatch, Locks, LocksError, Permission, Target,
        client::Client,
        keepalive::{Keeping, StreamError},
        waiters::Waiter,
    },
    store::Store,
    telemetry::metrics::{OperationKind, StreamKind},
};
use hashbrown::HashMap;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;

/// An operation in flight.
enum InFlight {
    Acquire { handle: u32, wait: Option<Wait> },
    Other,
}

/// The wait of an acquire.
struct Wait {
    waiter: Arc<Waiter>,
    name: LockName,
    /// The queue position that was last sent to its client.
    sent_position: Option<u64>,
}

/// An operation that has not started. It is a small part of the future that runs it, so it is cheap to move.
pub(super) struct Begun(u64, Operation);

/// A finished operation.
pub(super) struct Done(u64, Outcome);

enum Outcome {
    Acquire(LockName, Call, Result<AcquireAnswer, LocksError>),
    Release(Result<ReleaseOutcome, LocksError>),
    Renew(Result<(RenewOutcome, Duration), LocksError>),
}

impl Outcome {
    fn error(&self) -> Option<&LocksError> {
        match self {
            Self::Acquire(_, _, answer) => answer.as_ref().err(),
            Self::Release(outcome) => outcome.as_ref().err(),
            Self::Renew(outcome) => outcome.as_ref().err(),
        }
    }
}

impl Begun {
    /// Dropped before it is done, it is cleaned up like a dropped unary call.
    pub(super) async fn run<S: Store>(self, locks: Arc<Locks<S>>, dispatch: impl Dispatch) -> Done {
        let Self(number, operation) = self;
        let outcome = match operation {
            Operation::Acquire(acquire) => {
                let Acquire { name, call, .. } = *acquire;
                let ids = call.call;
                let answer = dispatch
                    .dispatch(
                        OperationKind::Acquire,
                        Target::Lock(&name),
                        pin!(dispatch.while_permitted(call.wait, &name, pin!(locks.acquire(&name, call)))),
                    )
                    .await;
                Outcome::Acquire(name, ids, answer)
            }
            Operation::Release(name, lease_id) => Outcome::Release(
                dispatch
                    .dispatch(OperationKind::Release, Target::Lock(&name), pin!(locks.release(&name, lease_id)))
                    .await,
            ),
            Operation::Renew { name, lease_id, ttl, arrived } => Outcome::Renew(
                dispatch
                    .dispatch(
                        OperationKind::Renew,
                        Target::Lock(&name),
                        pin!(locks.renew(&name, lease_id, ttl, arrived)),
                    )
                    .await,
            ),
        };
        Done(number, outcome)
    }
}

/// The state of one session. Dropped, the session is over.
pub(super) struct Session<S: Store, E> {
    pub(super) keeping: Keeping<S, ToClient<E>>,
    locks: Arc<Locks<S>>,
    client: Arc<Client>,
    in_flight: HashMap<u64, InFlight>,
    /// How many operations in flight may wait.
    waiting: usize,
    pub(super) positions: Positions,
    look_at: Instant,
}

impl<S: Store, E> Session<S, E> {
    pub(super) fn open(locks: Arc<Locks<S>>, client: Arc<Client>, permission: Option<Arc<dyn Permission>>) -> Self {
        let keeping = Keeping::open(&locks, StreamKind::Session, permission);
        Self {
            keeping,
            locks,
            client,
            in_flight: HashMap::new(),
            waiting: 0,
            positions: Positions::default(),
            look_at: Instant::now(),
        }
    }

    /// The next message to send; `None` while the client does not read.
    pub(super) fn next_message(&mut self) -> Option<ToClient<E>> {
        if self.client.is_stalled() { None } else { self.keeping.outgoing.pop_front() }
    }

    /// When `on_time` is due.
    pub(super) fn next_due(&self) -> Instant {
        let due = self.keeping.next_due();
        if self.waiting == 0 { due } else { due.min(self.look_at) }
    }

    pub(super) fn on_time(&mut self, now: Instant) -> Result<(), LocksError> {
        self.keeping.on_time(now)?;
        if self.look_at <= now {
            let waits = self.in_flight.iter().filter(|(_, it)| matches!(it, InFlight::Acquire { wait: Some(_), .. }));
            self.positions.look_at(waits.map(|(operation, _)| *operation));
            self.look_at = now + POSITION_PERIOD;
        }
        Ok(())
    }

    /// Tells some waiting operations their queue position.
    pub(super) fn send_positions(&mut self) {
        for operation in self.positions.take_some() {
            let Some(InFlight::Acquire { wait: Some(wait), .. }) = self.in_flight.get_mut(&operation) else { continue };
            let ahead = self.locks.store.ahead(&wait.name, wait.waiter.call());
            if let Some(ahead) = ahead.filter(|ahead| Some(*ahead) != wait.sent_position) {
                wait.sent_position = Some(ahead);
                self.keeping.outgoing.push_back(ToClient::Answer(operation, Answer::Waiting(ahead)));
            }
        }
    }

    /// Handles a message, or returns the operation that it begins.
    pub(super) async fn receive(&mut self, message: FromClient<E>) -> Result<Option<Begun>, StreamError> {
        match message {
            FromClient::Keep(message) => self.keeping.receive(message).await.map(|()| None),
            FromClient::Cancel(operation) => {
                if let Some(InFlight::Acquire { wait: Some(wait), .. }) = self.in_flight.get(&operation) {
                    wait.waiter.stop();
                }
                Ok(None)
            }
            FromClient::Begin(number, operation) => self.begin(number, operation),
            FromClient::Refuse(number, error) => {
                self.check_number(number)?;
                self.say(number, Answer::Refused(error));
                Ok(None)
            }
        }
    }

    fn check_number(&self, number: u64) -> Result<(), StreamError> {
        let is_free = number != 0 && !self.in_flight.contains_key(&number);
        if is_free { Ok(()) } else { Err(StreamError::OperationNumber(number)) }
    }

    fn begin(&mut self, number: u64, mut operation: Operation) -> Result<Option<Begun>, StreamError> {
        self.check_number(number)?;
        let full = if self.in_flight.len() >= OPERATIONS_PER_SESSION_MAX {
            Some(full("operations are in flight", OPERATIONS_PER_SESSION_MAX))
        } else if matches!(operation, Operation::Acquire(_)) && !self.keeping.has_room() {
            Some(full("leases are kept", self.locks.limits().leases_per_stream))
        } else {
            None
        };
        if let Some(full) = full {
            self.say(number, full);
            return Ok(None);
        }
        let in_flight = match &mut operation {
            Operation::Acquire(acquire) => {
                let Acquire { name, call, handle, release_on_disconnect } = &mut **acquire;
                call.attachment = Some(self.keeping.expect(*handle, *release_on_disconnect)?);
                let wait = (!call.wait.is_zero()).then(|| self.wait(number, name, call.call));
                call.waiter = wait.as_ref().map(|wait| wait.waiter.clone());
                InFlight::Acquire { handle: *handle, wait }
            }
            Operation::Release(_, lease_id) => {
                self.keeping.give_back(*lease_id);
                InFlight::Other
            }
            Operation::Renew { .. } => InFlight::Other,
        };
        self.in_flight.insert(number, in_flight);
        Ok(Some(Begun(number, operation)))
    }

    fn wait(&mut self, operation: u64, name: &LockName, call: Call) -> Wait {
        if self.waiting == 0 {
            self.look_at = Instant::now() + POSITION_PERIOD;
        }
        self.set_waiting(self.waiting + 1);
        let waiter = Waiter::of_session(call, operation, self.positions.queued(), self.client.clone());
        Wait { waiter: Arc::new(waiter), name: name.clone(), sent_position: None }
    }

    fn set_waiting(&mut self, calls: usize) {
        self.waiting = calls;
        self.client.set_waiting(calls);
    }

    fn say(&mut self, operation: u64, answer: Answer<E>) {
        self.keeping.outgoing.push_back(ToClient::Answer(operation, answer));
    }

    /// Answers a finished operation, unless the credentials of the session do not count any more. That ends the
    /// session: its client then repeats the operation on another one, with new credentials. Dropped here, a lease that
    /// it was granted lasts for its TTL, or for 3 s if its answer had not left.
    pub(super) async fn done(&mut self, Done(operation, outcome): Done) {
        let handle = match self.in_flight.remove(&operation) {
            Some(InFlight::Acquire { handle, wait }) => {
                if wait.is_some() {
                    self.set_waiting(self.waiting - 1);
                }
                handle
            }
            Some(InFlight::Other) | None => 0,
        };
        if let Some(error) = outcome.error().filter(|error| error.is_of_credentials()) {
            self.keeping.expect_no_more(handle);
            self.keeping.deny(error.clone(), Instant::now());
            return;
        }
        match outcome {
            Outcome::Acquire(name, call, answer) => {
                let acquired = match &answer {
                    Ok(AcquireAnswer::Acquired(acquired)) => Some((*acquired, name.clone())),
                    _ => None,
                };
                self.say(
                    operation,
                    answer.map_or_else(Answer::Failed, |answer| Answer::Acquire { name, call, answer }),
                );
                match acquired {
                    Some((acquired, name)) => self.keeping.adopt(handle, name, acquired).await,
                    None => self.keeping.expect_no_more(handle),
                }
            }
            Outcome::Release(outcome) => self.say(operation, outcome.map_or_else(Answer::Failed, Answer::Release)),
            Outcome::Renew(outcome) => {
                self.say(
                    operation,
                    outcome.map_or_else(Answer::Failed, |(outcome, held)| Answer::Renew(outcome, held)),
                );
            }
        }
    }
}

fn full<E>(what: &'static str, max: usize) -> Answer<E> {
    Answer::Failed(LocksError::SessionFull { what, max })
}

impl<S: Store, E> Drop for Session<S, E> {
    fn drop(&mut self) {
        // Grants that the client was not told of are cleaned up like dropped calls.
        for message in &self.keeping.outgoing {
            if let ToClient::Answer(_, Answer::Acquire { name, call, answer: AcquireAnswer::Acquired(_) }) = message {
                self.locks.store.post(name, Command::DropCall(*call));
            }
        }
    }
}
