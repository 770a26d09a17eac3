//! Background commands that no call waits for: cleanups after dropped calls, detachments, disconnections, releases of
//! clients that are gone.
//!
//! They are handed over from drop guards, which cannot wait. Each may be carried out more than once, so each is retried
//! until it is known to be done. If the store is away for too long, or too many pile up, they are given up: TTLs and
//! grace times do the same, later.

use super::StoreError;
use crate::{
    domain::{command::Command, name::LockName},
    sync::Mutex,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// Chores that may wait to be done.
const CHORES_MAX: usize = 65_536;
/// Chores done at once, over the same few connections.
const CHORES_AT_ONCE: usize = 256;
/// How long a chore is tried. What a store that stood still was asked before may be done when it goes on, and a lease
/// that nobody heard of would last for its TTL.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(300);

/// A command that is posted.
#[derive(Debug)]
pub(super) struct Chore(pub(super) LockName, pub(super) Command);

/// A store that does chores.
pub(super) trait DoChore: Sync {
    /// Does a chore once. With an error it is tried again.
    fn do_chore(&self, chore: &Chore) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The chores that wait.
#[derive(Debug)]
pub(super) struct Chores {
    hand_over: mpsc::Sender<Chore>,
    waiting: Mutex<Option<mpsc::Receiver<Chore>>>,
    /// Those not done yet.
    open: watch::Sender<usize>,
}

impl Default for Chores {
    fn default() -> Self {
        let (hand_over, waiting) = mpsc::channel(CHORES_MAX);
        Self { hand_over, waiting: Mutex::new(Some(waiting)), open: watch::Sender::new(0) }
    }
}

impl Chores {
    pub(super) fn add(&self, chore: Chore) {
        self.open.send_modify(|open| *open += 1);
        if self.hand_over.try_send(chore).is_err() {
            self.open.send_modify(|open| *open -= 1);
            tracing::warn!(
                max = CHORES_MAX,
                "too many cleanups wait for the store: abandoned leases and queue positions end only when they expire"
            );
        }
    }

    /// Has a store do chores as they come. Never ends; to be called once. Dropped, what is left is not done.
    pub(super) async fn run(&self, store: &impl DoChore) {
        let Some(mut waiting) = self.waiting.lock().take() else { return std::future::pending().await };
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(chore) = waiting.recv(), if under_way.len() < CHORES_AT_ONCE => {
                    under_way.push(async move { retry(&chore, store).await });
                }
                Some(()) = under_way.next() => self.open.send_modify(|open| *open -= 1),
                // The sender is a part of this.
                else => return std::future::pending().await,
            }
        }
    }

    /// Resolves when no chore is left to do.
    pub(super) async fn done(&self) {
        // An error means that the sender is gone, and with it the chores.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

async fn retry(chore: &Chore, store: &impl DoChore) {
    let until = Instant::now() + PATIENCE;
    while let Err(error) = store.do_chore(chore).await {
        if Instant::now() >= until {
            tracing::debug!(%error, "a cleanup was given up");
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
