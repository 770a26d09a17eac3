//! What is to be done and nobody waits for: cleanups after dropped calls, detachments, disconnections, releases by who
//! is gone.
//!
//! They are handed over from drop guards, which cannot wait. Each may be carried out more than once, so each is retried
//! until it is known to be done. If the store is away for longer than that, or too many pile up, they are given up:
//! TTLs and grace times do the same, later.

use super::StoreError;
use crate::{
    domain::{command::Command, name::LockName},
    sync::Mutex,
};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Chores that may wait to be done.
const CHORES_MAX: usize = 65_536;
/// Chores done at once, over the same few connections.
const CHORES_AT_ONCE: usize = 256;
/// How often a chore is tried, and the pause between.
const TRIES: u32 = 4;
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
                "too many cleanups wait for the store; leases and places end by their own time"
            );
        }
    }

    /// Has a store do chores as they come. Never ends; to be called once. Dropped, what is left is not done.
    pub(super) async fn run(&self, store: &impl DoChore) {
        let Some(mut waiting) = self.waiting.lock().take() else { return std::future::pending().await };
        let mut batch = Vec::with_capacity(CHORES_AT_ONCE);
        while waiting.recv_many(&mut batch, CHORES_AT_ONCE).await > 0 {
            let each = batch.drain(..).map(async |chore| {
                retry(&chore, store).await;
                self.open.send_modify(|open| *open -= 1);
            });
            join_all(each).await;
        }
    }

    /// Resolves when no chore is left to do.
    pub(super) async fn done(&self) {
        // An error means that the sender is gone, and with it the chores.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

async fn retry(chore: &Chore, store: &impl DoChore) {
    for left in (0..TRIES).rev() {
        match store.do_chore(chore).await {
            Ok(()) => return,
            Err(error) if left == 0 => {
                tracing::debug!(%error, "a cleanup was given up");
                return;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
