//! Acquire: ask the store, and wait if the request is queued.

use super::{Locks, LocksError, client::Client, waiters::Waiting};
use crate::{
    domain::{
        ids::{AttachmentId, Call, GrantId, LeaseId, RequestId},
        lease::Terms,
        limits::{DEADLINE_MARGIN_MAX, DROP_GRACE},
        name::LockName,
        outcome::{AcquireOutcome, Contention, Grant},
        rules::{Acquire, Candidate},
    },
    store::{LockStore, StoreError, Timed},
    sync::{Mutex, Notify},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

/// An Acquire call.
#[derive(Clone, Debug)]
pub struct AcquireCall {
    /// Its request, its attempt, and its own id.
    pub call: Call,
    /// What it asks for.
    pub terms: Terms,
    /// How long to wait.
    pub wait: Duration,
    /// When this transmission arrived.
    pub arrived: Instant,
    /// The deadline of the call, after which its caller gives up.
    pub deadline: Option<Instant>,
    /// The attachment that the lease has from its grant on, if any.
    pub attachment: Option<AttachmentId>,
    /// For a call of a session: what the session shares with it while it waits.
    pub follower: Option<Arc<Follower>>,
}

/// What a session shares with a call that waits. The session learns when the call is queued, and may end the wait.
#[derive(Debug)]
pub struct Follower {
    number: u64,
    in_line: Arc<Mutex<Vec<u64>>>,
    client: Arc<Client>,
    enough: Notify,
}

impl Follower {
    /// `number` is added to `in_line` when the call is queued.
    pub(super) fn new(number: u64, in_line: Arc<Mutex<Vec<u64>>>, client: Arc<Client>) -> Self {
        Self { number, in_line, client, enough: Notify::new() }
    }

    /// Ends the wait, as if its time were over.
    pub(super) fn wait_no_longer(&self) {
        self.enough.notify_one();
    }
}

/// A lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The lease.
    pub grant: Grant,
    /// How long the call was held here before `sent`.
    pub held_for: Duration,
    /// When the command was sent that granted the lease, or found it granted. The time left counts from here.
    pub sent: Instant,
    /// Whether the lease has the call's attachment since its grant.
    pub attached: bool,
}

/// The outcome of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireAnswer {
    /// The lock is the caller's.
    Acquired(Acquired),
    /// It is not free.
    Contended(Box<Contention>),
    /// The wait ended without it.
    TimedOut(Box<Contention>),
}

impl AcquireCall {
    /// When to stop waiting: a little before the caller does, so that the answer still arrives.
    fn wait_until(&self) -> Option<Instant> {
        if self.wait.is_zero() {
            return None;
        }
        let until = self.arrived + self.wait;
        let deadline = self.deadline.map(|deadline| {
            deadline - (deadline.saturating_duration_since(self.arrived) / 10).min(DEADLINE_MARGIN_MAX)
        });
        Some(deadline.map_or(until, |deadline| deadline.min(until)))
    }
}

/// Has the store clean up after a queued call that was dropped, or that ended with an unknown outcome.
struct Cleanup<'a, S: LockStore> {
    store: &'a S,
    name: &'a LockName,
    call: Call,
    armed: bool,
}

impl<S: LockStore> Drop for Cleanup<'_, S> {
    fn drop(&mut self) {
        // mutant: dropped call not cleaned up
        if self.armed {
            self.store.drop_call(self.name, self.call);
        }
    }
}

enum Wake {
    Hint,
    TimeOver,
    Draining,
    /// It declined the lock, and its client read nothing for as long as the place was kept.
    PlaceGone,
}

impl<S: LockStore> Locks<S> {
    /// Acquires a lock, or waits for it.
    ///
    /// If this future is dropped at any await (the client cancelled, or is gone), the store cleans up: the queue
    /// position is kept for a retry for a few seconds, and a lease that was granted unheard is cut short. Once this has
    /// returned, the answer belongs to the transport.
    pub async fn acquire(&self, name: &LockName, call: AcquireCall) -> Result<AcquireAnswer, LocksError> {
        if self.going.draining.is_cancelled() {
            return Err(LocksError::Draining);
        }
        let wait_until = call.wait_until();
        let AcquireCall { call, terms, arrived, attachment, follower, .. } = call;
        let max = self.limits.waiters_per_server;
        // mutant: waits after it asked
        let waiting = match wait_until {
            Some(_) => {
                let client = follower.as_ref().map(|follower| follower.client.clone());
                let entered = self.hub.waiters.enter(call.request, call.attempt, client, max);
                Some(entered.ok_or(LocksError::ServerFull { max })?)
            }
            None => None,
        };
        let mut told = false;
        // A call is granted at most one lease, whichever command grants it.
        let wanted = candidate(call.request, attachment);
        let command = Acquire { call, terms, wait: wait_until.is_some(), candidate: wanted };
        let stop = async {
            // A call that does not wait ends by its own deadline.
            let Some(until) = wait_until else { return std::future::pending().await };
            // Boxed, or each waiting call would keep the space that only its start needs.
            Box::pin(self.end_of_wait(follower.as_deref(), until)).await;
        };
        let Timed { mut sent, mut outcome } = match self.store.acquire(name, command, stop).await {
            Err(StoreError::Overloaded) if self.is_draining() => return Err(LocksError::Draining),
            answer => answer?,
        };
        // mutant: waits after it asked: to here
        let mut cleanup = Cleanup { store: &*self.store, name, call, armed: true };
        let answer = loop {
            match (outcome, &waiting, wait_until) {
                (AcquireOutcome::Queued, Some(waiting), Some(until)) => {
                    if let Some(follower) = follower.as_ref().filter(|_| !told) {
                        follower.in_line.lock().push(follower.number);
                        told = true;
                    }
                    let wake = tokio::select! {
                        biased;
                        () = self.going.draining.cancelled() => Wake::Draining,
                        () = waiting.hint() => Wake::Hint,
                        wake = self.end_of_wait(follower.as_deref(), until) => wake,
                    };
                    let wake = match (wake, &follower) {
                        (Wake::Hint, Some(follower)) if follower.client.is_stalled() => {
                            // Boxed, or each waiting call would keep space that few need.
                            Box::pin(self.decline(&mut cleanup, waiting, follower, until)).await
                        }
                        (wake, _) => wake,
                    };
                    Timed { sent, outcome } = match wake {
                        Wake::Hint => match self.store.claim(name, call, wanted).await? {
                            // The request is still queued, and this call will not wait for it: the guard stays armed.
                            Timed { outcome: AcquireOutcome::TooLate(now), .. } => {
                                return Err(LocksError::TooLate(now));
                            }
                            Timed { outcome: AcquireOutcome::LeftBehind, .. } => return Err(left_behind()),
                            claimed => claimed,
                        },
                        Wake::TimeOver => self.store.give_up(name, call).await?,
                        // The guard stays armed: the queue position is kept for the retry.
                        Wake::Draining => return Err(LocksError::Draining),
                        Wake::PlaceGone => return Err(LocksError::Ended),
                    };
                }
                (outcome, ..) => break self.answer(outcome, sent.saturating_duration_since(arrived), sent, wanted),
            }
        };
        // The outcome is known, so there is nothing to clean up.
        cleanup.armed = false;
        answer
    }

    /// Declines an offer to a call whose client does not read. Resolves when the client reads again, so that the call
    /// claims, or when the wait ends. Dropped, the place of the call is skipped and kept like that of any dropped call.
    async fn decline(
        &self,
        cleanup: &mut Cleanup<'_, S>,
        waiting: &Waiting<'_>,
        follower: &Follower,
        until: Instant,
    ) -> Wake {
        let stall = follower.client.stall();
        // The store keeps the place until then.
        let place_gone = Instant::now() + DROP_GRACE;
        loop {
            cleanup.armed = self.store.decline(cleanup.name, cleanup.call);
            if !cleanup.armed {
                return Wake::PlaceGone;
            }
            tokio::select! {
                biased;
                () = stall.cancelled() => return Wake::Hint,
                () = waiting.hint() => {}
                wake = self.end_of_wait(Some(follower), until) => return wake,
                () = tokio::time::sleep_until(place_gone) => return Wake::PlaceGone,
            }
        }
    }

    /// Resolves when the wait of a call ends, whether or not the lock is offered to it.
    async fn end_of_wait(&self, follower: Option<&Follower>, until: Instant) -> Wake {
        tokio::select! {
            biased;
            () = self.going.draining.cancelled() => Wake::Draining,
            () = enough(follower) => Wake::TimeOver,
            () = tokio::time::sleep_until(until) => Wake::TimeOver,
        }
    }

    fn answer(
        &self,
        outcome: AcquireOutcome,
        held_for: Duration,
        sent: Instant,
        wanted: Candidate,
    ) -> Result<AcquireAnswer, LocksError> {
        Ok(match outcome {
            AcquireOutcome::Granted(grant) => {
                let attached = wanted.attachment.is_some() && grant.lease_id == wanted.lease_id;
                AcquireAnswer::Acquired(Acquired { grant, held_for, sent, attached })
            }
            AcquireOutcome::Contended(contention) => AcquireAnswer::Contended(contention),
            AcquireOutcome::TimedOut(contention) => AcquireAnswer::TimedOut(contention),
            AcquireOutcome::Shared => return Err(LocksError::Shared),
            AcquireOutcome::Overtaken => return Err(LocksError::Overtaken),
            AcquireOutcome::Ended => return Err(LocksError::Ended),
            // A call that did not ask to wait is never queued; a store that says so has forgotten the request.
            AcquireOutcome::Unknown | AcquireOutcome::Queued => return Err(LocksError::Forgotten),
            AcquireOutcome::OtherTerms => return Err(LocksError::OtherTerms),
            AcquireOutcome::MinTokenTooHigh(max) => return Err(LocksError::MinTokenTooHigh { max }),
            AcquireOutcome::QueueFull => {
                return Err(LocksError::QueueFull { max: self.limits.waiters_per_lock });
            }
            AcquireOutcome::TooLate(now) => return Err(LocksError::TooLate(now)),
            AcquireOutcome::LeftBehind => return Err(left_behind()),
            AcquireOutcome::TokensExhausted => return Err(LocksError::TokensExhausted),
        })
    }
}

fn left_behind() -> LocksError {
    StoreError::Unavailable("it was restarted, promoted or replaced, or got its first replica; connecting anew".into())
        .into()
}

async fn enough(follower: Option<&Follower>) {
    match follower {
        Some(follower) => {
            follower.enough.notified().await;
            // Keeps the permit, so that the next call of this function sees it too.
            follower.enough.notify_one();
        }
        None => std::future::pending().await,
    }
}

fn candidate(request: RequestId, attachment: Option<AttachmentId>) -> Candidate {
    Candidate {
        // mutant: lease ids that do not go by their request
        lease_id: LeaseId::of(request, Uuid::new_v4().as_u64_pair().1),
        grant_id: GrantId(Uuid::new_v4()),
        attachment,
    }
}
