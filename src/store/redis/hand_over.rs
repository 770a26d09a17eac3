//! A hand-off within one server: the release claims for the next waiter, if that waits here. It saves the hint and the
//! claim, a round trip to Redis while nobody has the lock. The outcome goes straight to the waiting call.

use super::{RedisStore, answer::Answer as Reply, command::next_args, keys};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        name::LockName,
        rules::Next,
    },
    node::{Arg, ScriptCommand},
    store::{Answer, Timed},
};

/// A claim of which it is not known what it came to. Dropped so (whoever released is gone), its call is told to ask
/// Redis.
struct Unread<'a> {
    store: &'a RedisStore,
    call: Call,
    is: bool,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        // mutant: handed over to nobody
        if self.is {
            self.store.notices.look_again(self.call.request, self.call.attempt);
        }
    }
}

impl RedisStore {
    /// Releases a lease and claims for `next`.
    pub(super) async fn release_to(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        next: Next,
        script: &'static ScriptCommand,
    ) -> Answer {
        let call = next.call;
        let args: Vec<_> = [Arg::from(lease_id.0)].into_iter().chain(next_args(next)).collect();
        let bucket = keys::bucket(name);
        let mut unread = Unread { store: self, call, is: true };
        let reply = self.call(name, script, &args).await;
        let reply = reply.and_then(|reply| reply.try_map(Reply::release));
        unread.is = false;
        match reply {
            Ok(Timed { sent, outcome: (released, claimed) }) => {
                if let Some(outcome) = claimed {
                    self.know_granted(name, &outcome);
                    self.waits.leave(bucket, name, call);
                    // A call that is gone by now has been cleaned up, before the claim or behind it.
                    // mutant: handed over for longer than it is
                    self.notices.claimed(call, Timed { sent, outcome });
                }
                Ok(Timed { sent, outcome: released.into() })
            }
            Err(error) => {
                // Redis may be away for a moment: a claim now would fail, and end the wait. The next poll tells.
                self.waits.doubt(bucket, name);
                Err(error)
            }
        }
    }
}
