//! A hand-off within one replica: the release claims for the call that is next in line here. It saves the hint and the claim, a round
//! trip to Redis while nobody has the lock. The call learns of its lease from this replica, when it is told to look again.

use super::{
    RedisStore,
    answer::Answer,
    keys,
    links::{Arg, Command},
    store::attachment,
};
use crate::{
    domain::{
        ids::{LeaseId, RequestId},
        name::LockName,
        outcome::{AcquireOutcome, ReleaseOutcome},
        rules::Next,
    },
    store::{StoreError, Timed},
};

/// A claim of which it is not known what it came to. Dropped so (whoever released is gone), its call is told to ask Redis.
struct Unread<'a> {
    store: &'a RedisStore,
    call: (RequestId, u32),
    is: bool,
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if self.is {
            self.store.notices.look_again(self.call.0, self.call.1);
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
        let Next { request, attempt, candidate } = next;
        let tail = [
            Arg::from(lease_id.0),
            Arg::from(request.0),
            Arg::from(attempt),
            Arg::from(candidate.lease_id.0),
            Arg::from(candidate.grant_id.0),
            attachment(candidate),
        ];
        let (bucket, call) = (keys::bucket(name), (request, attempt));
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
                        self.notices.look_again(request, attempt);
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
    pub(super) fn handed_over(
        &self,
        name: &LockName,
        request: RequestId,
        attempt: u32,
    ) -> Option<Timed<AcquireOutcome>> {
        let bucket = keys::bucket(name);
        let claimed = self.waits.handed_over(bucket, name, (request, attempt))?;
        self.waits.leave(bucket, name, request, attempt);
        Some(claimed)
    }
}
