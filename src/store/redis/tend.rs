//! What goes on beside the commands: connections, polls, hints from other replicas, chores.

use super::{RedisStore, effects, keys};
use crate::{
    domain::{name::LockName, outcome::Polled},
    node::{Arg, Connection, Push},
    store::StoreError,
};
use futures_util::future::{join, join_all};
use std::{slice, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a replica polls for its waiters: the longest that a lost hint can cost, and its heartbeat.
pub(super) const POLL_PERIOD: Duration = Duration::from_secs(1);
/// Locks in one poll of a bucket: about a millisecond of Redis' time.
const LOCKS_PER_POLL: usize = 128;

impl RedisStore {
    /// Runs the background work of the store. Never ends; dropped, all of it stops.
    pub async fn maintain(&self) {
        join(
            join(join(self.node.run(), self.admission.run(&self.node, self)), self.chores.run(self)),
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
        let connection = match self.connection(bucket).await {
            Ok(connection) => connection,
            // The node logs that Redis is away, the admission that it is not used.
            Err(error) => return tell_not_polled(bucket, &error),
        };
        for names in names.chunks(LOCKS_PER_POLL) {
            match self.poll_locks(&connection, bucket, names).await {
                Ok(()) => {}
                // One of them is damaged: each by itself, so that the others are served.
                Err(StoreError::Corrupt(_)) => {
                    join_all(names.iter().map(|name| self.poll_lock(&connection, bucket, name))).await;
                }
                Err(error) => tell_not_polled(bucket, &error),
            }
        }
    }

    async fn poll_lock(&self, connection: &Arc<Connection>, bucket: u16, name: &LockName) {
        match self.poll_locks(connection, bucket, slice::from_ref(name)).await {
            Ok(()) => {}
            Err(StoreError::Corrupt(why)) => {
                if self.warned.is_news(bucket, why.clone(), Instant::now()) {
                    tracing::warn!(
                        bucket = keys::base(bucket),
                        lock = name.as_str(),
                        why,
                        change = "remove the key that Fencepost did not write; until then who waits for the lock may \
                        not get it",
                        "redis holds something that fencepost did not write: a lock cannot be polled"
                    );
                }
            }
            Err(error) => tell_not_polled(bucket, &error),
        }
    }

    /// A lock's key is gone, and those who wait stand in lines that nobody serves.
    fn tell_stranded(&self, bucket: u16, name: &LockName) {
        if self.warned.is_news(bucket, format!("the key of {} is gone", name.as_str()), Instant::now()) {
            tracing::warn!(
                bucket = keys::base(bucket),
                lock = name.as_str(),
                change = "delete no key that begins with fp: (fencepost force-release takes a lock back)",
                "redis lost the key of a lock that calls wait for: they are told to repeat, and its lease is lost"
            );
        }
    }

    async fn poll_locks(
        &self,
        connection: &Arc<Connection>,
        bucket: u16,
        names: &[LockName],
    ) -> Result<(), StoreError> {
        let tail: Vec<Arg> = names.iter().map(|name| Arg::from(name.as_str())).collect();
        // Who is told of a place while the poll is under way may have got it after the poll.
        let before = names.iter().map(|name| self.waits.requests(bucket, name)).collect::<Vec<_>>();
        let answer = self.send(connection, bucket, &self.commands.poll, &tail).await?;
        for effect in &answer.effects {
            // Offers come again below, each with its lock; the rest does not ask for it.
            if !matches!(effect, super::effects::RedisEffect::LookAgain(..)) {
                self.heed_one(bucket, &names[0], effect, None);
            }
        }
        for ((name, before), polled) in names.iter().zip(before).zip(answer.polled()?) {
            let Polled { offered, mut waiters, first_place } = polled;
            if waiters > 0 && first_place.is_none() {
                self.tell_stranded(bucket, name);
                waiters = 0;
            }
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
        let mut pushes = self.node.subscribe(&keys::channel(self.me));
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

/// The waiters' own times end their waits.
fn tell_not_polled(bucket: u16, error: &StoreError) {
    tracing::debug!(bucket, %error, "poll did not get through");
}
