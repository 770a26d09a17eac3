//! Builds commands, and runs them on a store.

#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::testing::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome, WrongOutcome},
        ids::{Call, CallId, GrantId, LeaseId, RequestId},
        lease::Terms,
        name::{Holder, LockName, Metadata},
        outcome::{AcquireOutcome, Grant, LockView, ReleaseOutcome, RenewOutcome},
    },
    locks::AcquireCall,
    store::{Store, StoreError, Timed},
};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) fn new_request() -> RequestId {
    RequestId(Uuid::new_v4())
}

pub(crate) fn candidate() -> Candidate {
    Candidate { lease_id: LeaseId(Uuid::new_v4()), grant_id: GrantId(Uuid::new_v4()), attachment: None }
}

/// An acquire: the first attempt of a request, with this TTL.
pub(crate) fn acquire(request: RequestId, ttl: Duration, wait: bool) -> Acquire {
    let holder = Holder::new("test".into()).unwrap();
    let terms = Terms {
        fingerprint: 7,
        ttl,
        holder,
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let call = Call { request, attempt: 1, id: CallId(Uuid::new_v4().as_u64_pair().0) };
    Acquire { call, terms, wait, candidate: candidate() }
}

/// A call of the service that arrives now: an attempt of a request, with this TTL and wait.
pub(crate) fn acquire_call(request: RequestId, attempt: u32, ttl: Duration, wait: Duration) -> AcquireCall {
    let Acquire { call, terms, .. } = acquire(request, ttl, !wait.is_zero());
    AcquireCall {
        call: Call { attempt, ..call },
        terms,
        wait,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    }
}

#[track_caller]
pub(crate) fn granted(outcome: AcquireOutcome) -> Grant {
    match outcome {
        AcquireOutcome::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// Commands with typed outcomes.
pub(crate) trait Asks: Store {
    async fn ask<T>(&self, name: &LockName, command: Command) -> Result<Timed<T>, StoreError>
    where
        T: TryFrom<Outcome, Error = WrongOutcome>,
    {
        Ok(self.run(name, command).await?.of()?)
    }

    async fn acquire(&self, name: &LockName, acquire: Acquire) -> Result<AcquireOutcome, StoreError> {
        Ok(self.ask(name, Command::Acquire(acquire)).await?.outcome)
    }

    async fn claim(&self, name: &LockName, call: Call) -> Result<Timed<AcquireOutcome>, StoreError> {
        self.ask(name, Command::Claim(call, candidate())).await
    }

    async fn give_up(&self, name: &LockName, call: Call) -> Result<AcquireOutcome, StoreError> {
        Ok(self.ask(name, Command::GiveUp(call)).await?.outcome)
    }

    async fn release(&self, name: &LockName, lease_id: LeaseId) -> Result<ReleaseOutcome, StoreError> {
        Ok(self.ask(name, Command::Release(lease_id)).await?.outcome)
    }

    async fn renew(&self, name: &LockName, lease_id: LeaseId) -> Result<RenewOutcome, StoreError> {
        Ok(self.ask(name, Command::Renew { lease_id, ttl: None }).await?.outcome)
    }

    async fn view(&self, name: &LockName) -> Result<LockView, StoreError> {
        Ok(*self.ask::<Box<LockView>>(name, Command::View { token: None }).await?.outcome)
    }
}

impl<S: Store> Asks for S {}
