//! What a command runs under: one lock, or several that are held together. It is valid until the first lease ends.

use crate::cli::text;
use fencepost_client::{Held, Lock, LockLost, Status, StatusChanges};
use futures_util::future::select_all;
use std::{future::pending, time::Duration};

/// The locks, in the order of their names. There is at least one.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    held: Vec<Held>,
}

impl Holding {
    pub(super) fn of(locks: &[Lock]) -> Self {
        Self { held: locks.iter().map(Lock::held).collect() }
    }

    /// How long all leases are still valid; zero if one is lost.
    pub(super) fn valid_for(&self) -> Duration {
        self.held.iter().map(Held::valid_for).min().unwrap_or_default()
    }

    pub(super) fn is_valid(&self) -> bool {
        self.held.iter().all(Held::is_valid)
    }

    /// The shortest of the TTLs.
    pub(super) fn ttl(&self) -> Duration {
        self.held.iter().map(Held::ttl).min().unwrap_or_default()
    }

    /// The name of the lock whose lease ends first, or has ended.
    pub(super) fn weakest(&self) -> &str {
        self.first_to_end().map_or("", Held::name)
    }

    /// Whether the lease that ends first ends because of its `max_hold`.
    pub(super) fn reaches_max_hold(&self) -> bool {
        self.first_to_end().is_some_and(Held::reaches_max_hold)
    }

    fn first_to_end(&self) -> Option<&Held> {
        self.held.iter().min_by_key(|held| held.valid_for())
    }

    /// How one of the locks was lost, if one was.
    pub(super) fn loss(&self) -> Option<LockLost> {
        self.held.iter().find_map(|held| match held.status() {
            Status::Lost(lost) => Some(lost),
            _ => None,
        })
    }

    /// The tokens, for messages: `token 7`, or `tokens 7 and 9`.
    pub(super) fn tokens(&self) -> String {
        let word = if self.held.len() > 1 { "tokens" } else { "token" };
        format!("{word} {}", text::list(self.held.iter().map(Held::token)))
    }

    /// Resolves when one of the locks is lost.
    pub(super) async fn lost(self) -> LockLost {
        let (lost, ..) = select_all(self.held.iter().map(|held| Box::pin(held.lost()))).await;
        lost
    }

    pub(super) fn changes(&self) -> Changes {
        Changes { each: self.held.iter().map(|held| (held.clone(), held.status_changes())).collect() }
    }
}

/// Reports changes of the status of each lock.
pub(super) struct Changes {
    each: Vec<(Held, StatusChanges)>,
}

impl Changes {
    /// Waits for the next change of one of the locks; for ever after the last one. Cancel-safe.
    pub(super) async fn next(&mut self) -> (Held, Status) {
        let next = self.each.iter_mut().map(|(held, changes)| {
            Box::pin(async move {
                match changes.next().await {
                    Some(status) => (held.clone(), status),
                    None => pending().await,
                }
            })
        });
        let (change, ..) = select_all(next).await;
        change
    }
}
