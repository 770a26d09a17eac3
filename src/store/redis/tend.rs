//! What goes on beside the commands: links, polls, hints from other replicas, chores.

use super::{
    RedisStore, effects, keys,
    links::{Arg, Push},
};
use crate::{
    domain::{name::LockName, outcome::Polled},
    store::StoreError,
};
use futures_util::future::{join, join_all};
use std::time::Duration;

/// How often a replica polls for its waiters: the longest that a lost hint can cost, and its heartbeat.
pub(super) const POLL_PERIOD: Duration = Duration::from_secs(1);
/// Locks in one poll of a bucket: about a millisecond of Redis' time.
const LOCKS_PER_POLL: usize = 128;

impl RedisStore {
    /// Keeps the store going. Never ends; dropped, nothing of it goes on.
    pub async fn run(&self) {
        join(
            join(join(self.links.run(), self.keep_meeting()), self.do_chores()),
            join(join(self.listen(), self.poll()), self.keep_watching()),
        )
        .await;
    }

    /// Polls for the waiters that are here, once a period, and at once when hints may have been lost.
    async fn poll(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_PERIOD) => {}
                () = self.resync.notified() => {}
            }
            self.poll_now().await;
        }
    }

    /// Polls once for all waiters that are here.
    pub async fn poll_now(&self) {
        join_all(self.waits.in_line().into_iter().map(|(bucket, names)| self.poll_bucket(bucket, names))).await;
    }

    async fn poll_bucket(&self, bucket: u16, names: Vec<LockName>) {
        for names in names.chunks(LOCKS_PER_POLL) {
            if let Err(error) = self.poll_locks(bucket, names).await {
                // Told where the links are kept, if Redis is away; the waiters' own times end their waits.
                tracing::debug!(bucket, %error, "poll did not get through");
            }
        }
    }

    async fn poll_locks(&self, bucket: u16, names: &[LockName]) -> Result<(), StoreError> {
        let link = self.link(bucket).await?;
        let tail: Vec<Arg> = names.iter().map(|name| Arg::from(name.as_str())).collect();
        // Who is told of a place while the poll is under way may have got it after the poll.
        let before = names.iter().map(|name| self.waits.requests(bucket, name)).collect::<Vec<_>>();
        let answer = self.send(&link, bucket, &self.commands.poll, &tail).await?;
        for effect in &answer.effects {
            // Offers come again below, each with its lock; the rest does not ask for it.
            if !matches!(effect, super::effects::RedisEffect::LookAgain(..)) {
                self.heed_one(bucket, &names[0], effect, None);
            }
        }
        for ((name, before), polled) in names.iter().zip(before).zip(answer.polled()?) {
            let Polled { offered, waiters, first_place } = polled;
            if let Some((request, attempt)) = offered {
                self.hint(bucket, name, request, attempt);
            }
            if let Some(first) = first_place {
                self.waits.first_place(bucket, name, first);
            }
            let missing = waiters + usize::from(offered.is_some()) < before.min(self.waits.requests(bucket, name));
            // Once it may be that they leave in this moment; twice, Redis has forgotten some. They ask, and learn it.
            if self.waits.is_missing_again(bucket, name, missing) {
                for (request, attempt) in self.waits.calls(bucket, Some(name)) {
                    self.notices.look_again(request, attempt);
                }
            }
        }
        Ok(())
    }

    /// Hears what other replicas' commands set off here.
    async fn listen(&self) {
        let mut pushes = self.links.pushes(&keys::channel(self.me));
        while let Some(push) = pushes.recv().await {
            match push {
                Push::Resync => {
                    self.resync.notify_one();
                    self.asked.may_be_unheard();
                    self.notices.hints_lost();
                }
                Push::Message(message) => {
                    if let Err(error) = self.hear(&message) {
                        tracing::warn!(%error, "a message on this replica's channel makes no sense");
                    }
                }
            }
        }
    }

    fn hear(&self, message: &[u8]) -> Result<(), StoreError> {
        let (name, effect) = effects::message(message)?;
        self.heed_one(keys::bucket(&name), &name, &effect, None);
        Ok(())
    }
}
