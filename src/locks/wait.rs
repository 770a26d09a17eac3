//! Acquire: ask the store, and wait if the request is queued.

use super::{
    Locks, LocksError,
    client::Client,
    measure,
    waiters::{Waiter, Waiting, Woken},
};
use crate::{
    domain::{
        command::{Acquire, Candidate, Command},
        ids::{AttachmentId, Call, GrantId, LeaseId},
        lease::Terms,
        limits::{DEADLINE_MARGIN_MAX, DROP_GRACE},
        name::LockName,
        outcome::{AcquireOutcome, Contention, Gone, Grant, Renewed},
    },
    store::{Store, StoreError, Timed},
    telemetry::metrics::Granted,
};
use futures_util::FutureExt;
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
    /// For a call of a session: how the session follows it while it waits.
    pub waiter: Option<Arc<Waiter>>,
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

/// The outcome of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConvertAnswer {
    /// The lease has the mode that was asked for.
    Converted(Renewed),
    /// Others hold the lock too.
    Contended(Box<Contention>),
    /// The lease has ended.
    Lost(Gone),
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

/// Has the store clean up after a call that was dropped, or that ended with an unknown outcome. It is the only guard of
/// a call: armed before the first command is sent, so that there is no await at which the call leaves something behind.
struct Cleanup<'a, S: Store> {
    store: &'a S,
    name: &'a LockName,
    call: Call,
    armed: bool,
}

impl<S: Store> Drop for Cleanup<'_, S> {
    fn drop(&mut self) {
        // mutant: dropped call not cleaned up
        if self.armed {
            self.store.post(self.name, Command::DropCall(self.call));
        }
    }
}

enum Wake {
    Hint,
    Claimed(Box<Timed<AcquireOutcome>>),
    TimeOver,
    Draining,
    /// Its client does not read, and it has declined the lock, or was granted a lease that it cannot pass on.
    Stalled,
}

impl From<Woken> for Wake {
    fn from(woken: Woken) -> Self {
        match woken {
            Woken::Hint => Self::Hint,
            Woken::Claimed(claimed) => Self::Claimed(claimed),
        }
    }
}

impl<S: Store> Locks<S> {
    /// Acquires a lock, or waits for it.
    ///
    /// If this future is dropped at any await (the client cancelled, or is gone), the store cleans up: the queue
    /// position is kept for a retry for a few seconds, and a lease that was granted unheard is cut short. Once this has
    /// returned, the answer belongs to the transport.
    pub fn acquire(
        &self,
        name: &LockName,
        call: AcquireCall,
    ) -> impl Future<Output = Result<AcquireAnswer, LocksError>> + Send {
        // A combinator, because an async function would hold the call twice.
        self.ask(name, call).inspect(move |answer| measure::acquire(&self.metrics, answer))
    }

    async fn ask(&self, name: &LockName, call: AcquireCall) -> Result<AcquireAnswer, LocksError> {
        self.check_draining()?;
        let wait_until = call.wait_until();
        let AcquireCall { call, terms, arrived, attachment, waiter, .. } = call;
        let enter = |until| Ok::<_, LocksError>((self.enter(waiter, call)?, until));
        let waiting = wait_until.map(enter).transpose()?;
        // A call is granted at most one lease, whichever command grants it.
        let candidate = candidate(attachment);
        let command = Command::Acquire(Acquire { call, terms, wait: waiting.is_some(), candidate });
        let mut cleanup = Cleanup { store: &*self.store, name, call, armed: true };
        let answer = self.store.run(name, command).await;
        cleanup.armed = !answer.as_ref().is_err_and(StoreError::is_nothing_done);
        let Timed { mut sent, mut outcome } = answer?.of()?;
        // mutant: waits after it asked
        if let (AcquireOutcome::Queued, Some((waiting, _))) = (&outcome, &waiting) {
            waiting.notify_queued();
        }
        // From when a grant is a hand-off to this call.
        let mut offered = None;
        let mut granted = Granted::Try;
        let answer = loop {
            match (outcome, &waiting) {
                (AcquireOutcome::Queued, Some((waiting, until))) => {
                    granted = Granted::Wait;
                    let wake = tokio::select! {
                        biased;
                        () = self.going.draining.cancelled() => Wake::Draining,
                        woken = waiting.woken() => woken.into(),
                        wake = self.end_of_wait(waiting, *until) => wake,
                    };
                    let wake = match (wake, waiting.stalled_client()) {
                        // The guard stays armed: the cleanup takes the lease back.
                        (Wake::Claimed(_), Some(_)) => Wake::Stalled,
                        // Boxed, or each waiting call would keep space that few need.
                        (Wake::Hint, Some(client)) => Box::pin(self.decline(name, waiting, client, *until)).await,
                        (wake, _) => wake,
                    };
                    offered = match &wake {
                        Wake::Hint => Some(Instant::now()),
                        Wake::Claimed(claimed) => Some(claimed.sent),
                        Wake::TimeOver | Wake::Draining | Wake::Stalled => None,
                    };
                    Timed { sent, outcome } = match wake {
                        // If this fails, the request is still queued, and this call will not wait for it: the guard
                        // stays armed.
                        Wake::Hint => self.store.run(name, Command::Claim(call, candidate)).await?.of()?,
                        Wake::Claimed(claimed) => *claimed,
                        Wake::TimeOver => self.store.run(name, Command::GiveUp(call)).await?.of()?,
                        // The guard stays armed: the queue position is kept for the retry.
                        Wake::Draining => return Err(LocksError::Draining),
                        Wake::Stalled => return Err(LocksError::Ended),
                    };
                }
                (outcome, _) => {
                    if matches!(outcome, AcquireOutcome::Granted(_)) {
                        self.measure_grant(granted, arrived, offered);
                    }
                    break self.answer(outcome, sent.saturating_duration_since(arrived), sent, candidate);
                }
            }
        };
        // The outcome is known, so there is nothing to clean up.
        cleanup.armed = false;
        answer
    }

    /// Registers a call that may wait.
    fn enter(&self, waiter: Option<Arc<Waiter>>, call: Call) -> Result<Waiting<'_>, LocksError> {
        let max = self.limits.waiters_per_server;
        let waiter = waiter.unwrap_or_else(|| Arc::new(Waiter::new(call)));
        self.hub.waiters.enter(waiter, max).ok_or(LocksError::ServerFull { max })
    }

    /// Counts a grant, and the time that it took if the call was queued.
    fn measure_grant(&self, granted: Granted, arrived: Instant, offered: Option<Instant>) {
        self.metrics.grants.of(granted).inc();
        if granted == Granted::Wait {
            let now = Instant::now();
            self.metrics.wait.observe(now.saturating_duration_since(arrived).as_secs_f64());
            if let Some(offered) = offered {
                self.metrics.handoff.observe(now.saturating_duration_since(offered).as_secs_f64());
            }
        }
    }

    /// Declines an offer to a call whose client does not read. Resolves when the client reads again, so that the call
    /// claims, or when the wait ends. Dropped, the place of the call is skipped and kept like that of any dropped call.
    async fn decline(&self, name: &LockName, waiting: &Waiting<'_>, client: &Client, until: Instant) -> Wake {
        let Call { request, attempt, .. } = waiting.call();
        let stall = client.stall();
        // The store keeps the queue position until then.
        let position_gone = Instant::now() + DROP_GRACE;
        loop {
            self.store.post(name, Command::Decline { request, attempt });
            tokio::select! {
                biased;
                () = stall.cancelled() => return Wake::Hint,
                woken = waiting.woken() => if let Woken::Claimed(_) = woken { return Wake::Stalled },
                wake = self.end_of_wait(waiting, until) => return wake,
                () = tokio::time::sleep_until(position_gone) => return Wake::Stalled,
            }
        }
    }

    /// Resolves when the wait of a call ends, whether or not the lock is offered to it.
    async fn end_of_wait(&self, waiting: &Waiting<'_>, until: Instant) -> Wake {
        tokio::select! {
            biased;
            () = self.going.draining.cancelled() => Wake::Draining,
            () = waiting.stopped() => Wake::TimeOver,
            () = tokio::time::sleep_until(until) => Wake::TimeOver,
        }
    }

    fn answer(
        &self,
        outcome: AcquireOutcome,
        held_for: Duration,
        sent: Instant,
        candidate: Candidate,
    ) -> Result<AcquireAnswer, LocksError> {
        Ok(match outcome {
            AcquireOutcome::Granted(grant) => {
                let attached = candidate.attachment.is_some() && grant.lease_id == candidate.lease_id;
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
            AcquireOutcome::TokensExhausted => return Err(LocksError::TokensExhausted),
            AcquireOutcome::BesideClassic => return Err(LocksError::BesideClassic),
            AcquireOutcome::LimitMismatch(limit) => return Err(LocksError::LimitMismatch(limit)),
            AcquireOutcome::ModeMismatch => return Err(LocksError::ModeMismatch),
        })
    }
}

fn candidate(attachment: Option<AttachmentId>) -> Candidate {
    Candidate { lease_id: LeaseId(Uuid::new_v4()), grant_id: GrantId(Uuid::new_v4()), attachment }
}
