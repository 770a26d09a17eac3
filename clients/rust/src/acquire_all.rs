//! Acquiring several locks, one after another, in the order of the bytes of their names: the clients of all languages
//! use that order, so no two calls wait for each other in a circle.

use crate::acquire::Acquire;
use crate::acquire_error::AcquireError;
use crate::client::Client;
use crate::clock::Moment;
use crate::core::Backoff;
use crate::facts::SET_NAMES_MAX;
use crate::lock_set::LockSet;
use crate::set_item::{NoSet, SetItem, ordered};
use crate::status::LockLost;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

/// A request for several locks. Await it to get the [`LockSet`]: all of the locks, or none.
///
/// It fails, and gives back what it has, when one of the locks is not acquired, and when one is lost while later ones
/// are waited for. Dropped at any await, it leaves the queue, and gives everything back in the background.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct AcquireAll {
    /// A request that gets its name in its turn.
    one: Acquire,
    items: Vec<SetItem>,
    wait: Duration,
    by_tries: bool,
}

impl AcquireAll {
    pub(crate) fn new(client: &Client, items: Vec<SetItem>, by_tries: bool) -> Self {
        Self { one: client.acquire(String::new()), items, wait: Duration::ZERO, by_tries }
    }

    /// How long each lease lasts without a renewal ([`Acquire::ttl`]).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.one = self.one.ttl(ttl);
        self
    }

    /// How long to wait for all of the locks in sum. Default: do not wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The longest time to hold each of the locks from its grant, with all renewals ([`Acquire::max_hold`]). The set is
    /// lost with the first lock for which it is over.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.one = self.one.max_hold(max_hold);
        self
    }

    /// How long each of the locks stays unavailable after its grant ([`Acquire::min_hold`]).
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.one = self.one.min_hold(min_hold);
        self
    }

    /// How long each of the locks stays unavailable after a lease that was not released ([`Acquire::lock_delay`]).
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.one = self.one.lock_delay(lock_delay);
        self
    }

    /// The label that others see when they ask who holds one of the locks. Default: the client's.
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.one = self.one.holder(label);
        self
    }

    /// A label of what acquires the locks ([`Acquire::owner`]).
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.one = self.one.owner(owner);
        self
    }

    /// Does not wait for a lock for which so many requests wait already ([`Acquire::max_waiters`]).
    pub fn max_waiters(mut self, max_waiters: u32) -> Self {
        self.one = self.one.max_waiters(max_waiters);
        self
    }

    /// Asks to be told when somebody waits for one of the locks ([`Acquire::tell_when_wanted`]): each lock tells it by
    /// itself.
    pub fn tell_when_wanted(mut self) -> Self {
        self.one = self.one.tell_when_wanted();
        self
    }

    /// Metadata shown with the holder of each lock. Call it once for each key.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.one = self.one.metadata(key, value);
        self
    }

    async fn acquire(self) -> Result<LockSet, AcquireAllError> {
        let until = Moment::now().plus(self.wait);
        let items = ordered(self.items.clone())?;
        let mut pauses = Backoff::default();
        loop {
            let failed = match self.collect(&items, until).await {
                Ok(locks) => return Ok(locks),
                Err(failed) => failed,
            };
            let pause = pauses.next();
            if !(self.by_tries && failed.is_contended()) || pause >= until.from_now() {
                return Err(failed);
            }
            // Nothing is held meanwhile.
            self.one.sleep(pause).await;
        }
    }

    /// Dropped at any await, it drops the locks that it has, which releases them.
    async fn collect(&self, items: &[SetItem], until: Moment) -> Result<LockSet, AcquireAllError> {
        let (mut locks, count) = (LockSet::default(), items.len());
        for item in items {
            let wait = if self.by_tries { Duration::ZERO } else { until.from_now() };
            let acquiring = self.one.clone().for_item(item).wait(wait).into_future();
            let acquired = tokio::select! {
                biased;
                lost = locks.lost() => return Err(lost_early(locks, lost, count).await),
                acquired = acquiring => acquired,
            };
            match acquired {
                Ok(lock) => locks.push(lock),
                Err(cause) => {
                    let given_back = give_back(locks).await;
                    return Err(AcquireAllError::NotAcquired {
                        name: item.name.clone(),
                        count,
                        cause: self.in_turn(cause, wait),
                        given_back,
                    });
                }
            }
        }
        let lost = locks.iter().find_map(|lock| lock.held().state.lost(Moment::now()));
        match lost {
            Some(lost) => Err(lost_early(locks, lost, count).await),
            None => Ok(locks),
        }
    }

    /// The error of a lock whose turn came when the wait was over is that of a wait.
    fn in_turn(&self, cause: AcquireError, wait: Duration) -> AcquireError {
        let is_late = !self.by_tries && !self.wait.is_zero() && wait.is_zero();
        match cause {
            AcquireError::Contended { name, holders, holder_count, waiters, delay, semaphore } if is_late => {
                AcquireError::TimedOut { name, holders, holder_count, waiters, delay, semaphore }
            }
            other => other,
        }
    }
}

/// Gives back the others.
async fn lost_early(locks: LockSet, lost: LockLost, count: usize) -> AcquireAllError {
    AcquireAllError::Lost { lost, count, given_back: give_back(locks).await }
}

/// Releases what is held, the last one first, and returns the names in this order. What no server confirms goes on in
/// the background.
async fn give_back(locks: LockSet) -> Vec<String> {
    let held = locks.iter().rev().filter(|lock| lock.is_valid());
    let names = held.map(|lock| lock.name().to_owned()).collect();
    if let Err(error) = locks.release().await {
        tracing::warn!(%error, "locks not released");
    }
    names
}

impl IntoFuture for AcquireAll {
    type Output = Result<LockSet, AcquireAllError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// Why several locks were not acquired. None of them is held afterwards, or they are being released in the background.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireAllError {
    /// No name was given, or too many. Nothing was sent.
    #[error("a set of locks has 1 to {SET_NAMES_MAX} different names, not {count}")]
    Names {
        /// The number of different names.
        count: usize,
    },
    /// A name was given twice, in two modes. Nothing was sent.
    #[error("{name} cannot be both exclusive and shared in one set of locks")]
    TwoModes {
        /// The name.
        name: String,
    },
    /// One of the locks was not acquired.
    #[error("the {count} locks were not acquired, because of {name}: {cause}; {}", back(.given_back))]
    NotAcquired {
        /// The name of that lock.
        name: String,
        /// The number of locks that were asked for.
        count: usize,
        /// Why it was not acquired.
        #[source]
        cause: AcquireError,
        /// The names of the locks that were acquired and given back, in this order.
        given_back: Vec<String>,
    },
    /// One of the locks was lost before the last one was acquired.
    #[error("the {count} locks were not acquired, because of {}: {lost}; {}", .lost.name, back(.given_back))]
    Lost {
        /// The loss.
        #[source]
        lost: LockLost,
        /// The number of locks that were asked for.
        count: usize,
        /// The names of the locks that were acquired and given back, in this order.
        given_back: Vec<String>,
    },
}

impl From<NoSet> for AcquireAllError {
    fn from(why: NoSet) -> Self {
        match why {
            NoSet::Names { count } => Self::Names { count },
            NoSet::TwoModes { name } => Self::TwoModes { name },
        }
    }
}

impl AcquireAllError {
    /// Whether a lock was not free, and was not waited for.
    fn is_contended(&self) -> bool {
        matches!(self, Self::NotAcquired { cause: AcquireError::Contended { .. }, .. })
    }
}

fn back(given_back: &[String]) -> String {
    if given_back.is_empty() {
        return "none was held".to_owned();
    }
    format!("given back: {}", given_back.join(", "))
}
