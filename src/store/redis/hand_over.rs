//! A hand-off within one replica: the release claims for the call that is next in line here. It saves the hint and the
//! claim, a round trip to Redis while nobody has the lock. The call learns of its lease from this replica, when it is
//! told to look again.

use super::{
    RedisStore,
    answer::Answer,
    keys,
    lease::call_args,
    links::{Arg, Command},
    store::attachment,
};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        name::LockName,
        outcome::{AcquireOutcome, ReleaseOutcome},
        rules::Next,
    },
    store::{StoreError, Timed},
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
    /// Gives a lease back and claims for `next`.
    pub(super) async fn release_to(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        next: Next,
        command: &'static Command,
    ) -> Result<ReleaseOutcome, StoreError> {
        let Next { call, candidate } = next;
        let [request, attempt, id] = call_args(call);
        let tail = [
            Arg::from(lease_id.0),
            request,
            attempt,
            id,
            Arg::from(candidate.lease_id.0),
            Arg::from(candidate.grant_id.0),
            attachment(candidate),
        ];
        let bucket = keys::bucket(name);
        let mut unread = Unread { store: self, call, is: true };
        let answer = self.call(name, command, &tail).await;
        let answer = answer.and_then(|answer| answer.try_map(Answer::release));
        unread.is = false;
        match answer {
            Ok(Timed { sent, outcome: (released, claimed) }) => {
                if let Some(outcome) = claimed {
                    self.know_granted(name, &outcome);
                    // A call that is gone by now has been cleaned up after, before the claim or behind it.
                    if self.waits.hand_over(bucket, name, call, Timed { sent, outcome }) {
                        self.notices.look_again(call.request, call.attempt);
                    }
                }
                Ok(released)
            }
            Err(error) => {
                // Redis may be away for a moment: a claim now would fail, and end the wait. The next poll tells.
                self.waits.doubt(bucket, name);
                Err(error)
            }
        }
    }

    /// What a call that waits here has been handed over, if it has.
    pub(super) fn handed_over(&self, name: &LockName, call: Call) -> Option<Timed<AcquireOutcome>> {
        let bucket = keys::bucket(name);
        let claimed = self.waits.handed_over(bucket, name, call)?;
        self.waits.leave(bucket, name, call);
        // mutant: handed over for longer than it is
        Some(claimed)
    }
}
