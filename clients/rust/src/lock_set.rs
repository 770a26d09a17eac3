//! Several locks held by this process together.

use crate::lock::Lock;
use crate::release::{ReleaseError, Released};
use crate::releasing::Releasing;
use crate::status::LockLost;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Several locks held by this process together, in the order of the bytes of their names. Each is renewed in the
/// background, and has a token of its own: send it with every write to the store that this lock protects.
///
/// The set is valid until the first of its locks ends, and lost when one is. Stop the work then, and release the set:
/// the others are held until that. Dropped, the locks are released in the background, the last one first.
#[must_use = "locks that are dropped are released"]
#[derive(Debug, Default)]
pub struct LockSet {
    locks: Vec<Lock>,
}

impl LockSet {
    /// Adds the lock that was acquired last.
    pub(crate) fn push(&mut self, lock: Lock) {
        self.locks.push(lock);
    }

    /// The locks.
    pub fn iter(&self) -> std::slice::Iter<'_, Lock> {
        self.locks.iter()
    }

    /// The names of the locks, each once, sorted by their bytes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(|lock| lock.name())
    }

    /// One of the locks.
    pub fn get(&self, name: &str) -> Option<&Lock> {
        self.locks.iter().find(|lock| lock.name() == name)
    }

    /// The fencing token of one of the locks.
    pub fn token(&self, name: &str) -> Option<u64> {
        self.get(name).map(|lock| lock.token())
    }

    /// Whether all leases are valid by the local clock, which is read on each call. Once false, it stays false.
    pub fn is_valid(&self) -> bool {
        self.locks.iter().all(|lock| lock.is_valid())
    }

    /// How long all leases are still valid without another renewal; zero if one is lost.
    pub fn valid_for(&self) -> Duration {
        self.locks.iter().map(|lock| lock.valid_for()).min().unwrap_or_default()
    }

    /// Resolves when one of the locks is no longer held, as [`Held::lost`](crate::Held::lost) does. It may be called
    /// any number of times; the future borrows nothing and is cancel-safe.
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + 'static + use<> {
        type Lost = Pin<Box<dyn Future<Output = LockLost> + Send>>;
        let mut waits: Vec<Lost> = self.locks.iter().map(|lock| Box::pin(lock.lost()) as Lost).collect();
        poll_fn(move |context| {
            let lost = waits.iter_mut().find_map(|wait| match wait.as_mut().poll(context) {
                Poll::Ready(lost) => Some(lost),
                Poll::Pending => None,
            });
            lost.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// The locks, each to be released by itself.
    pub fn into_locks(mut self) -> Vec<Lock> {
        std::mem::take(&mut self.locks)
    }

    /// Releases all locks, the last one first, and waits for all answers. Stop the protected work first.
    ///
    /// All releases are sent before the first await. Dropped, they go on in the background. The result is that of the
    /// first lock that was not held until then, if there is one; an error does not tell of it.
    pub async fn release(self) -> Result<Released, ReleaseAllError> {
        let mut locks = self.into_locks();
        let mut ends = Vec::with_capacity(locks.len());
        while let Some(lock) = locks.pop() {
            let (name, core) = (lock.name().to_owned(), lock.core.clone());
            let end = match lock.begin_release() {
                // Each repeats its transmissions at the same time as the others.
                Ok(releasing) => End::Answer(core.in_background(Releasing::finish(releasing))),
                Err(known) => End::Known(known),
            };
            ends.push((name, end));
        }
        let (mut worst, mut failed) = (None::<Released>, None::<ReleaseAllError>);
        // In the order of the locks, so that the first one counts.
        while let Some((name, end)) = ends.pop() {
            match end.result().await {
                Ok(end) if worst.is_none_or(|worst| worst.was_held() && !end.was_held()) => worst = Some(end),
                Ok(_) => {}
                Err(cause) => {
                    let failed = failed.get_or_insert_with(|| ReleaseAllError { names: Vec::new(), cause });
                    failed.names.push(name);
                }
            }
        }
        // Without locks, nothing was lost.
        let released = Released { end: Some(crate::LeaseEnd::Released), successor_token: None };
        failed.map_or_else(|| Ok(worst.unwrap_or(released)), Err)
    }
}

/// The end of a lease that was asked for.
enum End {
    Known(Released),
    Answer(tokio::task::JoinHandle<Result<Released, ReleaseError>>),
}

impl End {
    async fn result(self) -> Result<Released, ReleaseError> {
        match self {
            Self::Known(end) => Ok(end),
            Self::Answer(answer) => match answer.await {
                Ok(result) => result,
                Err(_shutting_down) => Err(ReleaseError::OutcomeUnknown { cause: None }),
            },
        }
    }
}

impl<'a> IntoIterator for &'a LockSet {
    type Item = &'a Lock;
    type IntoIter = std::slice::Iter<'a, Lock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Drop for LockSet {
    fn drop(&mut self) {
        // The last one first: a vector would drop the first one first.
        while let Some(lock) = self.locks.pop() {
            drop(lock);
        }
    }
}

/// The release of some locks is not confirmed. They are free after their TTL at the latest; the others have ended, by
/// their release or before it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the release of {} is not confirmed: {cause}", .names.join(", "))]
#[non_exhaustive]
pub struct ReleaseAllError {
    /// The locks whose release is not confirmed.
    pub names: Vec<String>,
    /// Why that of the first one is not.
    pub cause: ReleaseError,
}
