//! One command: what every script takes, sending it, and what its answer sets off here.

use super::{RedisStore, answer::Answer, effects::RedisEffect, error::measure, keys, scripts};
use crate::{
    domain::{
        command::Command,
        ids::{Call, RequestId},
        name::LockName,
        outcome::AcquireOutcome,
        token::FencingToken,
    },
    node::{Arg, Caller, Connection, Lane, RESPONSE_TIMEOUT, Reply, Script, ScriptCommand},
    store::{Event, StoreError, Timed, chores::Chore},
};
use futures_util::FutureExt;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, atomic::Ordering},
};
use tokio::time::Instant;

macro_rules! commands {
    ($($lane:ident: { $($name:ident = $constant:ident,)+ })+) => {
        /// What the scripts are asked for.
        pub(super) struct Commands {
            $($(pub(super) $name: ScriptCommand,)+)+
        }

        impl Commands {
            /// The commands in this present. Kept, with their scripts, for as long as the process lives: to be made
            /// once.
            pub(super) fn leak(present: &str, classic: Option<&str>) -> &'static Self {
                let mut scripts = HashMap::<_, &'static Script>::new();
                let mut command = |name, lane| {
                    let flags = scripts::flags(name);
                    let source = || &*Box::leak(scripts::source(flags, present, classic).into_boxed_str());
                    let script = scripts.entry(flags).or_insert_with(|| Box::leak(Box::new(Script::new(source()))));
                    ScriptCommand::new(name, script, lane)
                };
                Box::leak(Box::new(Self { $($($name: command(scripts::$constant, Lane::$lane),)+)+ }))
            }
        }
    };
}

// Why each has its lane: a late poll, which is the heartbeat of this server, has other servers skip the waiters here. A
// late claim finds its offer withdrawn. If new acquires went before renewals, an overload would end leases, and their
// holders would come back as more acquires. Renewals by streams come in very large numbers, long before their leases
// end.
commands! {
    Upkeep: {
        poll = POLL,
        meta = META,
        drop_call = DROP_CALL,
        decline = DECLINE,
        detach = DETACH,
        disconnect = DISCONNECT,
        release_for_nobody = RELEASE,
    }
    Progress: {
        // mutant: claims behind a crowd
        claim = CLAIM,
        give_up = GIVE_UP,
        release = RELEASE,
        renew = RENEW,
        force_release = FORCE_RELEASE,
    }
    Entry: {
        // mutant: claims behind a crowd: to here
        acquire = ACQUIRE,
        view = VIEW,
        list = LIST,
    }
    Bulk: {
        renew_kept = RENEW_KEPT,
        attach = ATTACH,
        watch = WATCH,
    }
}

impl Commands {
    /// The script command for a command of the store.
    pub(super) fn of(&self, command: &Command) -> &ScriptCommand {
        match command {
            Command::Acquire(_) => &self.acquire,
            Command::Claim(..) => &self.claim,
            Command::GiveUp(_) => &self.give_up,
            Command::DropCall(_) => &self.drop_call,
            Command::Decline { .. } => &self.decline,
            Command::Release(_) => &self.release,
            Command::Renew { .. } => &self.renew,
            Command::RenewKept(..) => &self.renew_kept,
            Command::Attach { .. } => &self.attach,
            Command::Detach(..) => &self.detach,
            Command::Disconnect(..) => &self.disconnect,
            Command::ForceRelease { .. } => &self.force_release,
            Command::View => &self.view,
        }
    }

    /// Those that every store uses: they go by Redis' own clock.
    pub(super) fn shared() -> &'static Self {
        static SHARED: LazyLock<&'static Commands> = LazyLock::new(|| Commands::leak(scripts::PRESENT, None));
        &SHARED
    }
}

impl RedisStore {
    /// A connection to a Redis that was found fit for locks.
    pub(super) async fn connection(&self, bucket: u16) -> Result<Arc<Connection>, StoreError> {
        let connection = self.node.connection(keys::connection(bucket))?;
        self.admission.admit(&connection).await?;
        Ok(connection)
    }

    /// A command as the scripts take it: what it is, its bucket, the highest token seen there, and its own arguments.
    fn packed(&self, command: &ScriptCommand, bucket: u16, name: Option<&LockName>, tail: &[Arg]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(256);
        Arg::from(command.name()).pack(&mut packed);
        Arg::from(keys::base(bucket)).pack(&mut packed);
        Arg::from(self.known[usize::from(bucket)].load(Ordering::Relaxed)).pack(&mut packed);
        name.iter().for_each(|name| Arg::from(name.as_str()).pack(&mut packed));
        tail.iter().for_each(|arg| arg.pack(&mut packed));
        packed
    }

    pub(super) async fn send(
        &self,
        connection: &Arc<Connection>,
        bucket: u16,
        command: &'static ScriptCommand,
        tail: &[Arg],
    ) -> Result<Answer, StoreError> {
        let packed = self.packed(command, bucket, None, tail);
        let reply = connection.submit(command, bucket, packed, &mut Caller::patient()).await.map_err(Into::into);
        measure(&self.metrics, &reply);
        let reply = reply?;
        self.read(connection, reply).map(|answer| answer.outcome)
    }

    /// Runs a command on one lock. Dropped, the command may run all the same.
    pub(super) async fn call(
        &self,
        name: &LockName,
        command: &'static ScriptCommand,
        tail: &[Arg],
    ) -> Result<Timed<Answer>, StoreError> {
        self.call_for(name, command, tail, None, &mut Caller::patient()).await
    }

    /// The same for one of the calls that wait, which its own command need not tell to look again. Dropped when the
    /// command has left, it tells the caller so.
    pub(super) fn call_for<F: Future<Output = ()> + Unpin>(
        &self,
        name: &LockName,
        command: &'static ScriptCommand,
        tail: &[Arg],
        own: Option<Call>,
        caller: &mut Caller<F>,
    ) -> impl Future<Output = Result<Timed<Answer>, StoreError>> {
        self.submit(name, command, tail, own, caller).inspect(move |answer| measure(&self.metrics, answer))
    }

    async fn submit<F: Future<Output = ()> + Unpin>(
        &self,
        name: &LockName,
        command: &'static ScriptCommand,
        tail: &[Arg],
        own: Option<Call>,
        caller: &mut Caller<F>,
    ) -> Result<Timed<Answer>, StoreError> {
        let bucket = keys::bucket(name);
        let connection = self.connection(bucket).await?;
        let (packed, began) = (self.packed(command, bucket, Some(name), tail), Instant::now());
        let answer = self.read(&connection, connection.submit(command, bucket, packed, caller).await?)?;
        // Stood in line twice, it could be so late that the end of its own request is forgotten.
        if !answer.outcome.is_too_late() || caller.has_stopped() || began.elapsed() > RESPONSE_TIMEOUT {
            self.heed(bucket, name, &answer.outcome, own);
            return Ok(answer);
        }
        // Nothing was done, and now Redis' time is known: it was set since the last sample, or nothing was asked for
        // long.
        let packed = self.packed(command, bucket, Some(name), tail);
        let answer = self.read(&connection, connection.submit(command, bucket, packed, caller).await?)?;
        self.heed(bucket, name, &answer.outcome, own);
        Ok(answer)
    }

    fn read(&self, connection: &Connection, Reply { sent, now, packed }: Reply) -> Result<Timed<Answer>, StoreError> {
        let answer = Answer::read(now, &packed)?;
        if answer.is_left_behind() {
            connection.retire("redis has left the incarnation that this connection was made to");
        }
        Ok(Timed { sent, outcome: answer })
    }

    /// Remembers a token that was seen, for a Redis that may forget it.
    pub(super) fn know(&self, name: &LockName, token: FencingToken) {
        self.known[usize::from(keys::bucket(name))].fetch_max(token.get(), Ordering::Relaxed);
    }

    /// The same of a lease, if that is the outcome.
    pub(super) fn know_granted(&self, name: &LockName, outcome: &AcquireOutcome) {
        if let AcquireOutcome::Granted(grant) = outcome {
            self.know(name, grant.token);
        }
    }

    /// Makes the highest token seen in any bucket the floor of all of them. A new life of Redis may have forgotten
    /// tokens of buckets of which this server has seen nothing, and its clock may be behind.
    pub(super) fn know_in_all_buckets(&self) {
        let highest = self.known.iter().map(|known| known.load(Ordering::Relaxed)).max().unwrap_or(0);
        for known in &self.known {
            known.fetch_max(highest, Ordering::Relaxed);
        }
    }

    /// Does what a command's effects ask of this replica; the others were told by the script.
    fn heed(&self, bucket: u16, name: &LockName, answer: &Answer, own: Option<Call>) {
        for effect in &answer.effects {
            self.heed_one(bucket, name, effect, own);
        }
    }

    pub(super) fn heed_one(&self, bucket: u16, name: &LockName, effect: &RedisEffect, own: Option<Call>) {
        match effect {
            RedisEffect::LookAgain(replica, request, attempt) if *replica == self.me => {
                self.hint(bucket, name, *request, *attempt);
            }
            RedisEffect::Ended { end, attachment: Some((attachment, replica)), .. } if *replica == self.me => {
                self.notices.lease_ended(*attachment, *end);
            }
            RedisEffect::Detached(replica, _, attachment) if *replica == self.me => self.notices.detached(*attachment),
            RedisEffect::Event(event) => self.notices.event(Event::clone(event)),
            RedisEffect::ReplicaReturned => {
                // Those who waited before may be deleted. Each asks, and learns whether it still stands in line.
                let own = own.map(|call| (call.request, call.attempt));
                for (request, attempt) in self.waits.calls(bucket, None).into_iter().filter(|it| Some(*it) != own) {
                    self.notices.look_again(request, attempt);
                }
            }
            _ => {}
        }
    }

    /// Passes a hint on to the calls it is for. An offer that nobody here waits for is declined.
    pub(super) fn hint(&self, bucket: u16, name: &LockName, request: RequestId, attempt: u32) {
        if self.waits.knows(bucket, name, request, attempt) {
            self.notices.look_again(request, attempt);
        } else {
            // Never as a dropped call: a hint that was slow may find the lease that this very offer became.
            self.chores.add(Chore(name.clone(), Command::Decline { request, attempt }));
        }
    }
}
