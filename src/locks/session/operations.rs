//! The operations of one session.

use super::{Answer, FromClient, Operation, ToClient, waits::Waits};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        limits::{OPERATIONS_PER_SESSION_MAX, POSITION_PERIOD},
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    locks::{
        AcquireAnswer, AcquireCall, Locks, LocksError,
        client::Client,
        keepalive::{Keeping, StreamError},
    },
    store::LockStore,
};
use hashbrown::HashMap;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// An operation that is under way.
#[derive(Clone, Copy)]
enum UnderWay {
    Acquire { handle: u32 },
    Other,
}

/// The work of an operation.
enum Task {
    Acquire(LockName, AcquireCall),
    Release(LockName, LeaseId),
    Renew(LockName, LeaseId, Option<Duration>, Instant),
}

/// An operation that has not started. It is a tenth of the size of the future that runs it, so it is cheap to move.
pub(super) struct Begun(u64, Task);

/// A finished operation.
pub(super) struct Done(u64, Outcome);

enum Outcome {
    Acquire(LockName, Call, Result<AcquireAnswer, LocksError>),
    Release(Result<ReleaseOutcome, LocksError>),
    Renew(Result<(RenewOutcome, Duration), LocksError>),
}

impl Begun {
    /// Dropped before it is done, it is cleaned up like a dropped unary call.
    pub(super) async fn run<S: LockStore>(self, locks: Arc<Locks<S>>) -> Done {
        let Self(operation, task) = self;
        let outcome = match task {
            Task::Acquire(name, call) => {
                let ids = call.call;
                let answer = locks.acquire(&name, call).await;
                Outcome::Acquire(name, ids, answer)
            }
            Task::Release(name, lease_id) => Outcome::Release(locks.release(&name, lease_id).await),
            Task::Renew(name, lease_id, ttl, arrived) => {
                Outcome::Renew(locks.renew(&name, lease_id, ttl, arrived).await)
            }
        };
        Done(operation, outcome)
    }
}

/// The state of one session. Dropped, the session is over.
pub(super) struct Session<S: LockStore, E> {
    pub(super) keeping: Keeping<S, ToClient<E>>,
    locks: Arc<Locks<S>>,
    client: Arc<Client>,
    under_way: HashMap<u64, UnderWay>,
    pub(super) waits: Waits,
    look_at: Instant,
}

impl<S: LockStore, E> Session<S, E> {
    pub(super) fn open(locks: Arc<Locks<S>>, client: Arc<Client>) -> Self {
        let keeping = Keeping::open(&locks);
        let (under_way, waits) = (HashMap::new(), Waits::new(client.clone()));
        Self { keeping, locks, client, under_way, waits, look_at: Instant::now() }
    }

    /// The next message to send; `None` while the client does not read.
    pub(super) fn next_message(&mut self) -> Option<ToClient<E>> {
        if self.client.is_stalled() { None } else { self.keeping.outgoing.pop_front() }
    }

    /// When `on_time` is due.
    pub(super) fn next_due(&self) -> Instant {
        let beat_at = self.keeping.next_beat_at();
        if self.waits.is_empty() { beat_at } else { beat_at.min(self.look_at) }
    }

    pub(super) fn on_time(&mut self, now: Instant) {
        if self.keeping.next_beat_at() <= now {
            self.keeping.beat(now);
        }
        if self.look_at <= now {
            self.waits.look_at_all();
            self.look_at = now + POSITION_PERIOD;
        }
    }

    /// Tells some waiting operations their queue position.
    pub(super) fn tell_some(&mut self) {
        let outgoing = &mut self.keeping.outgoing;
        self.waits.look(self.locks.store(), |operation, ahead| {
            outgoing.push_back(ToClient::Answer(operation, Answer::Waiting(ahead)));
        });
    }

    /// Handles a message, or returns the operation that it begins.
    pub(super) async fn receive(&mut self, message: FromClient<E>) -> Result<Option<Begun>, StreamError> {
        match message {
            FromClient::Keep(message) => self.keeping.receive(message).await.map(|()| None),
            FromClient::Cancel(operation) => {
                self.waits.cancel(operation);
                Ok(None)
            }
            FromClient::Begin(operation, what) => Ok(self.begin(operation, what)?.map(|task| Begun(operation, task))),
        }
    }

    fn begin(&mut self, operation: u64, what: Operation<E>) -> Result<Option<Task>, StreamError> {
        if operation == 0 || self.under_way.contains_key(&operation) {
            return Err(StreamError::OperationNumber(operation));
        }
        let task = match what {
            Operation::Refused(error) => {
                self.say(operation, Answer::Refused(error));
                return Ok(None);
            }
            _ if self.under_way.len() >= OPERATIONS_PER_SESSION_MAX => {
                self.say(operation, full("operations are under way", OPERATIONS_PER_SESSION_MAX));
                return Ok(None);
            }
            Operation::Acquire { .. } if !self.keeping.has_room() => {
                self.say(operation, full("leases are kept", self.locks.limits().leases_per_stream));
                return Ok(None);
            }
            Operation::Acquire { name, mut call, handle, release_on_disconnect } => {
                call.attachment = Some(self.keeping.expect(handle, release_on_disconnect)?);
                if !call.wait.is_zero() {
                    if self.waits.is_empty() {
                        self.look_at = Instant::now() + POSITION_PERIOD;
                    }
                    call.follower = Some(self.waits.add(operation, &name, call.call));
                }
                self.under_way.insert(operation, UnderWay::Acquire { handle });
                return Ok(Some(Task::Acquire(name, call)));
            }
            Operation::Release(name, lease_id) => {
                self.keeping.give_back(lease_id);
                Task::Release(name, lease_id)
            }
            Operation::Renew { name, lease_id, ttl, arrived } => Task::Renew(name, lease_id, ttl, arrived),
        };
        self.under_way.insert(operation, UnderWay::Other);
        Ok(Some(task))
    }

    fn say(&mut self, operation: u64, answer: Answer<E>) {
        self.keeping.outgoing.push_back(ToClient::Answer(operation, answer));
    }

    /// Answers a finished operation. Dropped here, a lease that it was granted lasts for its TTL, or for 3 s if its
    /// answer had not left.
    pub(super) async fn done(&mut self, Done(operation, outcome): Done) {
        let handle = match self.under_way.remove(&operation) {
            Some(UnderWay::Acquire { handle }) => handle,
            Some(UnderWay::Other) | None => 0,
        };
        match outcome {
            Outcome::Acquire(name, call, answer) => {
                self.waits.remove(operation);
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

impl<S: LockStore, E> Drop for Session<S, E> {
    fn drop(&mut self) {
        // Grants that the client was not told of are cleaned up like dropped calls.
        for message in &self.keeping.outgoing {
            if let ToClient::Answer(_, Answer::Acquire { name, call, answer: AcquireAnswer::Acquired(_) }) = message {
                self.locks.store().drop_call(name, *call);
            }
        }
    }
}
