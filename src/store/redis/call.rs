//! One command: what every script takes, sending it, and what its answer sets off here.

use super::{
    RedisStore,
    answer::{Answer, RedisEffect},
    keys,
    links::{Arg, Link, Script},
    scripts,
};
use crate::{
    domain::{ids::RequestId, limits::COMMAND_WINDOW, name::LockName, token::FencingToken},
    store::{Event, StoreError},
};
use std::sync::{Arc, LazyLock, atomic::Ordering};
use tokio::time::Instant;
use uuid::Uuid;

macro_rules! scripts {
    ($($name:ident = $source:ident),+ $(,)?) => {
        /// The scripts, whole.
        pub(super) struct Scripts {
            $(pub(super) $name: Script,)+
        }

        impl Scripts {
            /// The scripts with this clock. Kept for as long as the process lives: to be made once.
            pub(super) fn leak(clock: &str, classic: Option<&str>) -> &'static Self {
                let source = |command| &*Box::leak(scripts::source(command, clock, classic).into_boxed_str());
                Box::leak(Box::new(Self { $($name: Script::new(stringify!($name), source(scripts::$source)),)+ }))
            }
        }
    };
}

scripts! {
    acquire = ACQUIRE,
    claim = CLAIM,
    give_up = GIVE_UP,
    drop_call = DROP_CALL,
    release = RELEASE,
    renew = RENEW,
    renew_kept = RENEW_KEPT,
    attach = ATTACH,
    detach = DETACH,
    disconnect = DISCONNECT,
    force_release = FORCE_RELEASE,
    poll = POLL,
    view = VIEW,
    watch = WATCH,
    meta = META,
    list = LIST,
}

impl Scripts {
    /// Those that every store uses: they go by Redis' own clock.
    pub(super) fn shared() -> &'static Self {
        static SHARED: LazyLock<&'static Scripts> = LazyLock::new(|| Scripts::leak(scripts::CLOCK, None));
        &SHARED
    }
}

/// An id as the scripts take it.
pub(super) fn hex(id: Uuid) -> Arg {
    let mut buffer = Uuid::encode_buffer();
    Arg::from(&*id.simple().encode_lower(&mut buffer))
}

impl RedisStore {
    /// A link to a Redis that was found fit for locks.
    pub(super) async fn link(&self, bucket: u16) -> Result<Arc<Link>, StoreError> {
        let link = self.links.get(bucket)?;
        self.meet(&link).await?;
        Ok(link)
    }

    /// What every script takes before its own arguments.
    pub(super) fn frame(&self, link: &Link, bucket: u16, base: &str, tail: &[Arg]) -> Vec<Arg> {
        let mut args = Vec::with_capacity(6 + tail.len());
        args.extend([
            Arg::from(base),
            hex(self.me.0),
            hex(link.incarnation().0),
            Arg::from(self.known[usize::from(bucket)].load(Ordering::Relaxed)),
            Arg::from(link.not_after(COMMAND_WINDOW).as_micros()),
            Arg::from(self.waiters_max as u64),
        ]);
        args.extend_from_slice(tail);
        args
    }

    pub(super) async fn send(
        &self,
        link: &Link,
        bucket: u16,
        script: &'static Script,
        tail: &[Arg],
    ) -> Result<super::links::Value, StoreError> {
        let base = keys::base(bucket);
        link.run(script, &keys::of_bucket(&base), &self.frame(link, bucket, &base, tail)).await
    }

    /// Runs a command on one lock. Dropped, the command may run all the same.
    pub(super) async fn call(
        &self,
        name: &LockName,
        script: &'static Script,
        tail: &[Arg],
    ) -> Result<Answer, StoreError> {
        self.call_for(name, script, tail, None).await
    }

    /// The same for one of the calls that wait, which its own command need not tell to look again.
    pub(super) async fn call_for(
        &self,
        name: &LockName,
        script: &'static Script,
        tail: &[Arg],
        own: Option<(RequestId, u32)>,
    ) -> Result<Answer, StoreError> {
        let bucket = keys::bucket(name);
        let link = self.link(bucket).await?;
        let mut args = Vec::with_capacity(1 + tail.len());
        args.push(Arg::from(name.as_str()));
        args.extend_from_slice(tail);
        let sent = Instant::now();
        let answer = self.read(&link, sent, self.send(&link, bucket, script, &args).await?)?;
        if !answer.is_too_late() {
            self.heed(bucket, name, &answer, own);
            return Ok(answer);
        }
        // Nothing was done, and now Redis' time is known: it was set since the last sample, or nothing was asked for long.
        let sent = Instant::now();
        let answer = self.read(&link, sent, self.send(&link, bucket, script, &args).await?)?;
        self.heed(bucket, name, &answer, own);
        Ok(answer)
    }

    pub(super) fn read(&self, link: &Link, sent: Instant, value: super::links::Value) -> Result<Answer, StoreError> {
        let answer = Answer::read(value)?;
        link.sample(sent, answer.now);
        if answer.is_left_behind() {
            link.retire("redis has left the incarnation that this connection was made to");
        }
        Ok(answer)
    }

    /// Remembers a token that was seen, for a Redis that may forget it.
    pub(super) fn know(&self, name: &LockName, token: FencingToken) {
        self.known[usize::from(keys::bucket(name))].fetch_max(token.get(), Ordering::Relaxed);
    }

    /// Does what a command's effects ask of this replica; the others were told by the script.
    fn heed(&self, bucket: u16, name: &LockName, answer: &Answer, own: Option<(RequestId, u32)>) {
        for effect in &answer.effects {
            self.heed_one(bucket, name, effect, own);
        }
    }

    pub(super) fn heed_one(&self, bucket: u16, name: &LockName, effect: &RedisEffect, own: Option<(RequestId, u32)>) {
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
                for (request, attempt) in self.waits.calls(bucket, None).into_iter().filter(|call| Some(*call) != own) {
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
            self.chores.decline(name, request, attempt);
        }
    }
}
