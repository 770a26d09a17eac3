//! A lock for unit tests, which no server knows.

use crate::bearer::Bearer;
use crate::clock::Moment;
use crate::core::Core;
use crate::held::Held;
use crate::lease::LeaseState;
use crate::mode::Mode;
use crate::servers::Servers;
use crate::status::{Loss, LossCause};
use crate::validity::Reading;
use crate::values::Lease;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// No test takes so long.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// A lock that no server knows, for unit tests of code that takes a [`Held`]: [`Lock`](crate::Lock) derefs to that as
/// well. It is held until [`lose`](Self::lose), or for a day. Nobody sees its descriptions.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use fencepost_client::{Held, LossCause, testing::FakeLock};
///
/// async fn work(held: &Held) -> Result<u64, LossCause> {
///     if held.is_valid() { Ok(held.token()) } else { Err(held.lost().await.cause) }
/// }
///
/// let lock = FakeLock::new("orders/42", 7);
/// assert_eq!(work(&lock).await, Ok(7));
/// lock.lose(LossCause::Revoked);
/// assert_eq!(work(&lock).await, Err(LossCause::Revoked));
/// # }
/// ```
#[derive(Debug)]
pub struct FakeLock {
    held: Held,
}

impl FakeLock {
    /// A lock with this name and fencing token.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, whose clock ends a wait for the loss.
    pub fn new(name: &str, token: u64) -> Self {
        let servers = Servers::new(Vec::new(), Bearer::default());
        let core = Core::new(servers, Handle::current(), String::new(), Duration::ZERO, Duration::ZERO);
        let lease = Lease {
            lock_name: name.to_owned(),
            lease_id: "00000000-0000-4000-8000-000000000001".to_owned(),
            grant_id: "00000000-0000-4000-8000-000000000002".to_owned(),
            token,
            ttl: TTL,
            permits: 0,
            slot: None,
            mode: None,
        };
        let now = Moment::now();
        let reading = Reading { sent: now, read: now, held_for: Duration::ZERO, ttl: TTL };
        let state = Arc::new(LeaseState::new(core.next_key(), lease, reading));
        state.is_new();
        Self { held: Held { state, core: Arc::new(core), permits: 0 } }
    }

    /// Tells that somebody waits for the lock in this mode.
    pub fn want(&self, mode: Mode) {
        self.held.state.wanted(Moment::now(), mode);
    }

    /// Loses the lock for this reason. Only the first loss counts.
    pub fn lose(&self, cause: LossCause) {
        self.held.state.end(Loss::new(cause));
    }
}

impl Deref for FakeLock {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[tokio::test]
    async fn it_can_be_wanted_and_described() {
        let lock = FakeLock::new("orders/42", 7);
        assert_eq!((lock.mode(), lock.is_wanted()), (Mode::Exclusive, false));
        let wanted = tokio::spawn(lock.wanted());
        lock.want(Mode::Shared);
        assert_eq!(wanted.await.ok(), Some(Some(Mode::Shared)));
        for number in [1, 2] {
            assert_eq!(lock.describe().metadata("done", "7").await.ok(), Some(number));
        }
        lock.lose(LossCause::Expired);
        assert!(lock.describe().await.is_err());
    }

    #[tokio::test]
    async fn it_is_held_until_it_is_lost() {
        let lock = FakeLock::new("orders/42", 7);
        assert_eq!((lock.name(), lock.token(), lock.status()), ("orders/42", 7, Status::Held));
        assert!(lock.valid_for() > TTL / 2);
        let (mut changes, lost) = (lock.status_changes(), tokio::spawn(lock.lost()));
        lock.lose(LossCause::Expired);
        lock.lose(LossCause::Revoked);
        assert_eq!(lost.await.map(|lost| lost.cause).ok(), Some(LossCause::Expired));
        assert!(matches!(changes.next().await, Some(Status::Lost(_))));
        assert_eq!(changes.next().await, None);
        assert!(!lock.is_valid());
    }
}
