//! Those who wait for a lock.

use crate::client::Client;
use crate::error::CallError;
use crate::mode::Mode;
use crate::proto::duration;
use crate::v1;
use std::time::Duration;

/// A request that waits for a lock, as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The label of the request; may be empty.
    pub label: String,
    /// What waits, as the request said ([`Acquire::owner`](crate::Acquire::owner)); may be empty.
    pub owner: String,
    /// Who it is, as the server verified it; `None` if it was not verified.
    pub identity: Option<String>,
    /// Distinguishes it from other requests, and stays the same while it waits.
    pub id: String,
    /// The mode that it waits for.
    pub mode: Mode,
    /// The permits of a semaphore that it waits for; 0 if the lock is no semaphore for it.
    pub permits: u32,
    /// How long it has been in this queue. It counts anew when another server takes the lock over.
    pub waiting_since: Duration,
    /// Whether the queue passes over it now, and keeps its place for a few seconds: its call was dropped or does not
    /// read, or its server is silent.
    pub skipped: bool,
}

impl From<v1::LockWaiter> for Waiter {
    fn from(waiter: v1::LockWaiter) -> Self {
        Self {
            mode: Mode::of(waiter.mode()).unwrap_or_default(),
            label: waiter.holder,
            owner: waiter.owner,
            identity: Some(waiter.identity).filter(|identity| !identity.is_empty()),
            id: waiter.waiter_id,
            permits: waiter.permits,
            waiting_since: duration(waiter.waiting_since),
            skipped: waiter.skipped,
        }
    }
}

impl Client {
    /// Those who wait for a lock, the next first. A long queue is read in several steps: requests may join and leave
    /// between them.
    pub async fn waiters(&self, lock_name: impl Into<String>) -> Result<Vec<Waiter>, CallError> {
        let mut request = v1::ListWaitersRequest { lock_name: lock_name.into(), ..Default::default() };
        let (calls, mut waiters) = (self.calls(), Vec::new());
        loop {
            let page = calls.list_waiters(request.clone()).await?;
            waiters.extend(page.waiters.into_iter().map(Waiter::from));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(waiters);
            }
        }
    }
}
