//! The door of the store: commands in, outcomes out.

use super::{
    RedisStore,
    answer::Answer as Reply,
    command::{Args, outcome_of, script_of},
    keys,
};
use crate::{
    domain::{
        command::{Acquire, Command, Outcome},
        ids::{Call, LeaseId},
        name::LockName,
        outcome::{AcquireOutcome, RenewOutcome},
    },
    node::{Caller, ScriptCommand},
    store::{
        Answer, Page, Store, StoreError, Timed,
        chores::{Chore, DoChore},
    },
};
use futures_util::future::join_all;
use std::pin::pin;

/// An acquire in flight. Dropped so, or with an error, it is not polled for any more; and if its command was sent, it
/// is cleaned up.
struct Asking<'a, F> {
    store: &'a RedisStore,
    name: &'a LockName,
    call: Call,
    /// It is entered among those that wait.
    entered: bool,
    caller: Caller<F>,
}

impl<F> Drop for Asking<'_, F> {
    fn drop(&mut self) {
        let Self { store, name, call, .. } = *self;
        if self.entered {
            store.waits.leave(keys::bucket(name), name, call);
        }
        // mutant: grant forgotten
        if self.caller.is_outcome_unknown {
            store.chores.add(Chore(name.clone(), Command::DropCall(call)));
        }
    }
}

/// A release in flight. Dropped, it is done all the same, and nobody waits for it: a client may release and go. If it
/// had been sent it may be done twice, which finds nothing the second time.
struct Releasing<'a> {
    store: &'a RedisStore,
    name: &'a LockName,
    lease_id: LeaseId,
    over: bool,
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        // mutant: release forgotten
        if !self.over {
            self.store.chores.add(Chore(self.name.clone(), Command::Release(self.lease_id)));
        }
    }
}

impl RedisStore {
    async fn acquire(&self, name: &LockName, acquire: Acquire, stop: impl Future<Output = ()> + Send) -> Answer {
        let Acquire { call, wait, candidate, .. } = acquire;
        let (script, args) = self.script_of(&Command::Acquire(acquire));
        if wait {
            self.waits.enter(keys::bucket(name), name, call, candidate);
        }
        let stop = pin!(stop);
        let mut asking = Asking { store: self, name, call, entered: wait, caller: Caller::until(stop) };
        let reply = self.call_for(name, script, &args, Some(call), &mut asking.caller).await;
        let outcome = reply.and_then(|reply| self.read_acquire(name, call, reply));
        match &outcome {
            // Here it stays.
            Ok(Timed { outcome: AcquireOutcome::Queued, .. }) => asking.entered = false,
            Ok(_) => {}
            Err(error) => asking.caller.is_outcome_unknown = !error.is_nothing_done(),
        }
        let Timed { sent, outcome } = outcome?;
        Ok(Timed { sent, outcome: outcome.into() })
    }

    /// Carries out a command of a call that is queued. If it is queued no more, it is not polled for any more. A call
    /// that asked too late, or the wrong incarnation, is still queued: its cleanup takes it out.
    async fn run_queued(&self, name: &LockName, call: Call, command: &Command) -> Answer {
        use AcquireOutcome::{LeftBehind, Queued, TooLate};
        let (script, args) = self.script_of(command);
        let reply = self.call(name, script, &args).await?;
        let Timed { sent, outcome } = self.read_acquire(name, call, reply)?;
        if !matches!(outcome, Queued | TooLate(_) | LeftBehind) {
            self.waits.leave(keys::bucket(name), name, call);
        }
        Ok(Timed { sent, outcome: outcome.into() })
    }

    /// Reads the answer to acquire, claim or give_up, and notes what it says.
    fn read_acquire(
        &self,
        name: &LockName,
        call: Call,
        Timed { sent, outcome: mut reply }: Timed<Reply>,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        if let Some((place, first)) = reply.queued_at()? {
            self.waits.queued(keys::bucket(name), name, call, place, first);
            return Ok(Timed { sent, outcome: AcquireOutcome::Queued });
        }
        let outcome = reply.acquire()?;
        self.know_granted(name, &outcome);
        Ok(Timed { sent, outcome })
    }

    async fn release(&self, name: &LockName, lease_id: LeaseId) -> Answer {
        let mut releasing = Releasing { store: self, name, lease_id, over: false };
        let answer = self.release_by(name, lease_id, &self.commands.release).await;
        releasing.over = true;
        answer
    }

    /// Releases a lease by this script command: to the next waiter, if it waits here and can take the lock.
    pub(super) async fn release_by(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        script: &'static ScriptCommand,
    ) -> Answer {
        let next = self.waits.next(keys::bucket(name), name);
        if let Some(next) = next.filter(|next| self.notices.is_alive(next.call.request, next.call.attempt)) {
            return self.release_to(name, lease_id, next, script).await;
        }
        let command = Command::Release(lease_id);
        let (_, args) = script_of(self.me, &command);
        let reply = self.call(name, script, &args).await?;
        reply.try_map(|reply| outcome_of(&command, reply))
    }

    /// Carries out a command that leaves nothing to note about a waiting call.
    pub(super) async fn run_plain(&self, name: &LockName, command: &Command) -> Answer {
        let (script, args) = self.script_of(command);
        let reply = self.call(name, script, &args).await?;
        let answer = reply.try_map(|reply| outcome_of(command, reply))?;
        if let Outcome::Renew(RenewOutcome::Renewed(renewed)) = &answer.outcome {
            self.know(name, renewed.token);
        }
        Ok(answer)
    }

    /// Resolves when no chore is left to do.
    pub async fn chores_done(&self) {
        self.chores.done().await;
    }

    fn script_of(&self, command: &Command) -> (&'static ScriptCommand, Args) {
        let (_, args) = script_of(self.me, command);
        (self.commands.of(command), args)
    }
}

impl DoChore for RedisStore {
    async fn do_chore(&self, Chore(name, command): &Chore) -> Result<(), StoreError> {
        match command {
            // Behind nobody: it is the lock's only way on.
            Command::Release(lease_id) => self.release_by(name, *lease_id, &self.commands.release_for_nobody).await,
            command => self.run_plain(name, command).await,
        }
        .map(drop)
    }
}

impl Store for RedisStore {
    async fn run_unless(&self, name: &LockName, command: Command, stop: impl Future<Output = ()> + Send) -> Answer {
        match command {
            Command::Acquire(acquire) => self.acquire(name, acquire, stop).await,
            Command::Claim(call, _) | Command::GiveUp(call) => self.run_queued(name, call, &command).await,
            Command::Release(lease_id) => self.release(name, lease_id).await,
            Command::DropCall(call) => {
                self.waits.leave(keys::bucket(name), name, call);
                self.run_plain(name, &command).await
            }
            command => self.run_plain(name, &command).await,
        }
    }

    async fn run_each(&self, commands: Vec<(&LockName, Command)>) -> Vec<Answer> {
        let each = commands.into_iter().map(async |(name, command)| match command {
            Command::RenewKept(..) | Command::Attach { .. } => self.run_plain(name, &command).await,
            // Boxed, or thousands of renewals would each have room for the largest command.
            command => Box::pin(self.run(name, command)).await,
        });
        join_all(each).await
    }

    fn post(&self, name: &LockName, command: Command) {
        if let Command::DropCall(call) = command {
            self.waits.leave(keys::bucket(name), name, call);
        }
        self.chores.add(Chore(name.clone(), command));
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.waits.ahead(keys::bucket(name), name, call)
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.page(prefix, from, limit).await
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.ask_for_events_once().await
    }
}
