//! The commands of the store trait.

use super::{
    RedisStore,
    answer::Answer,
    keys, lease,
    links::{Arg, Asker, Command},
    scripts,
};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        name::{LockName, Reason},
        outcome::{AcquireOutcome, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, TokenStatus},
        rules::{Acquire, Candidate},
        time::micros,
        token::FencingToken,
    },
    store::{Kept, LockStore, Page, StoreError, Timed},
};
use std::{pin::pin, time::Duration};

/// An acquire that is under way. Dropped so, or with an error, it is not polled for any more; and if its command has
/// left, what came of that is cleaned up.
struct Asking<'a, F> {
    store: &'a RedisStore,
    name: &'a LockName,
    call: Call,
    /// It is entered among those that wait.
    entered: bool,
    asker: Asker<F>,
}

impl<F> Drop for Asking<'_, F> {
    fn drop(&mut self) {
        let Self { store, name, call, .. } = *self;
        if self.entered {
            store.waits.leave(keys::bucket(name), name, call);
        }
        // mutant: grant forgotten
        if self.asker.unheard {
            store.chores.drop_call(name, call);
        }
    }
}

/// A release that is under way. Dropped, it is done all the same, and nobody waits for it: a client may give back and
/// go. If it had been sent it may be done twice, which finds nothing the second time.
struct GivingBack<'a> {
    store: &'a RedisStore,
    name: &'a LockName,
    lease_id: LeaseId,
    over: bool,
}

impl Drop for GivingBack<'_> {
    fn drop(&mut self) {
        // mutant: release forgotten
        if !self.over {
            self.store.chores.release(self.name, self.lease_id);
        }
    }
}

impl RedisStore {
    /// What an answer to claim or give_up says; a call that does not stand in line is not polled for any more. One that
    /// asked too late, or the wrong life of Redis, still stands there: `drop_call` takes it out.
    fn settle(&self, name: &LockName, call: Call, answer: Timed<Answer>) -> Result<Timed<AcquireOutcome>, StoreError> {
        use AcquireOutcome::{LeftBehind, Queued, TooLate};
        let answer = self.read_acquire(name, call, answer)?;
        if !matches!(answer.outcome, Queued | TooLate(_) | LeftBehind) {
            self.waits.leave(keys::bucket(name), name, call);
        }
        Ok(answer)
    }

    /// The same of acquire: what it says, noted.
    fn read_acquire(
        &self,
        name: &LockName,
        call: Call,
        Timed { sent, outcome: mut answer }: Timed<Answer>,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        if let Some((place, first)) = answer.queued_at()? {
            self.waits.queued(keys::bucket(name), name, call, place, first);
            return Ok(Timed { sent, outcome: AcquireOutcome::Queued });
        }
        let outcome = answer.acquire()?;
        self.know_granted(name, &outcome);
        Ok(Timed { sent, outcome })
    }

    /// Gives a lease back by this command; to whom waits here, if somebody does who can take it.
    pub(super) async fn give_back(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        command: &'static Command,
    ) -> Result<ReleaseOutcome, StoreError> {
        let next = self.waits.next(keys::bucket(name), name);
        if let Some(next) = next.filter(|next| self.notices.is_alive(next.call.request, next.call.attempt)) {
            return self.release_to(name, lease_id, next, command).await;
        }
        Ok(self.call(name, command, &[Arg::from(lease_id.0)]).await?.outcome.release()?.0)
    }
}

impl LockStore for RedisStore {
    async fn acquire(
        &self,
        name: &LockName,
        command: Acquire,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        let Acquire { call, terms, wait, candidate } = command;
        let tail = [
            Arg::from(wait),
            Arg::from(micros(terms.ttl)),
            Arg::from(terms.min_token),
            Arg::from(scripts::kept_for(terms.ttl)),
            lease::packed(self.me, call, &terms, candidate),
        ];
        if wait {
            self.waits.enter(keys::bucket(name), name, call, candidate);
        }
        let stop = pin!(stop);
        let mut asking = Asking { store: self, name, call, entered: wait, asker: Asker::until(stop) };
        let answer = self.call_for(name, &self.commands.acquire, &tail, Some(call), &mut asking.asker).await;
        let outcome = answer.and_then(|answer| self.read_acquire(name, call, answer));
        match &outcome {
            // Here it stays.
            Ok(Timed { outcome: AcquireOutcome::Queued, .. }) => asking.entered = false,
            Ok(_) => {}
            Err(error) => asking.asker.unheard = !error.is_nothing_done(),
        }
        outcome
    }

    async fn claim(
        &self,
        name: &LockName,
        call: Call,
        candidate: Candidate,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        if let Some(outcome) = self.handed_over(name, call) {
            return Ok(outcome);
        }
        let (lease_id, grant_id) = (Arg::from(candidate.lease_id.0), Arg::from(candidate.grant_id.0));
        let [request, attempt, id] = lease::call_args(call);
        let tail = [request, attempt, id, lease_id, grant_id, attachment(candidate)];
        let answer = self.call(name, &self.commands.claim, &tail).await?;
        self.settle(name, call, answer)
    }

    async fn give_up(&self, name: &LockName, call: Call) -> Result<Timed<AcquireOutcome>, StoreError> {
        let answer = self.call(name, &self.commands.give_up, &lease::call_args(call)).await?;
        self.settle(name, call, answer)
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.waits.ahead(keys::bucket(name), name, call)
    }

    fn drop_call(&self, name: &LockName, call: Call) {
        self.waits.leave(keys::bucket(name), name, call);
        self.chores.drop_call(name, call);
    }

    fn decline(&self, name: &LockName, call: Call) -> bool {
        // A claim that is still on its way tells the call to look again, which declines again.
        if self.handed_over(name, call).is_some() {
            self.chores.drop_call(name, call);
            return false;
        }
        self.chores.decline(name, call.request, call.attempt);
        true
    }

    async fn release(&self, name: &LockName, lease_id: LeaseId) -> Result<ReleaseOutcome, StoreError> {
        let mut giving_back = GivingBack { store: self, name, lease_id, over: false };
        let outcome = self.give_back(name, lease_id, &self.commands.release).await;
        giving_back.over = true;
        outcome
    }

    async fn renew(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        ttl: Option<Duration>,
    ) -> Result<Timed<RenewOutcome>, StoreError> {
        let mut tail = vec![Arg::from(lease_id.0)];
        tail.extend(ttl.map(|ttl| Arg::from(micros(ttl))));
        self.renew_one(name, &self.commands.renew, &tail).await
    }

    fn group(&self, name: &LockName) -> u16 {
        keys::bucket(name)
    }

    async fn attach(&self, leases: &[Kept<'_>]) -> Vec<Result<RenewOutcome, StoreError>> {
        self.attach_each(leases).await
    }

    async fn renew_kept(&self, leases: &[Kept<'_>]) -> Vec<Result<RenewOutcome, StoreError>> {
        self.renew_each(leases).await
    }

    fn detach(&self, lease: Kept<'_>) {
        self.chores.detach(lease.name, lease.lease_id, lease.attachment);
    }

    fn disconnect(&self, lease: Kept<'_>) {
        self.chores.disconnect(lease.name, lease.lease_id, lease.attachment);
    }

    async fn force_release(
        &self,
        name: &LockName,
        expected: FencingToken,
        reason: &Reason,
    ) -> Result<RevokeOutcome, StoreError> {
        let tail = [Arg::from(expected.get()), Arg::from(reason.as_str())];
        self.call(name, &self.commands.force_release, &tail).await?.outcome.revoke()
    }

    async fn view(&self, name: &LockName) -> Result<LockView, StoreError> {
        self.call(name, &self.commands.view, &[]).await?.outcome.view()
    }

    async fn check_token(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<(TokenStatus, Option<FencingToken>), StoreError> {
        let view = self.view(name).await?;
        let status = match view.newest_token {
            Some(newest) if token < newest => TokenStatus::Stale,
            Some(newest) if token == newest && view.current.is_some() => TokenStatus::Current,
            Some(newest) if token == newest => TokenStatus::Ended,
            _ => TokenStatus::Unknown,
        };
        Ok((status, view.newest_token))
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.page(prefix, from, limit).await
    }

    async fn begin_watch(&self) -> Result<(), StoreError> {
        self.ask_for_events_once().await
    }
}

pub(super) fn attachment(candidate: Candidate) -> Arg {
    candidate.attachment.map_or(Arg::from(""), |attachment| Arg::from(attachment.0))
}
