//! What is to be done and nobody waits for: cleanups after dropped calls, detachments, disconnections, releases by who
//! is gone.
//!
//! They are handed over from drop guards, which cannot wait. Each may be carried out more than once, so each is retried
//! until it is known to be done. If Redis is away for longer than that, or too many pile up, they are given up: TTLs
//! and grace times do the same, later.

use super::RedisStore;
use crate::{
    domain::{command::Command, name::LockName},
    store::StoreError,
};
use futures_util::future::join_all;
use parking_lot::Mutex;
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

/// The chores that wait.
#[derive(Debug)]
pub(super) struct Chores {
    hand_over: mpsc::Sender<Chore>,
    waiting: Mutex<Option<mpsc::Receiver<Chore>>>,
    /// Those not done yet.
    open: watch::Sender<usize>,
}

impl Chores {
    pub(super) fn new() -> Self {
        let (hand_over, waiting) = mpsc::channel(CHORES_MAX);
        Self { hand_over, waiting: Mutex::new(Some(waiting)), open: watch::Sender::new(0) }
    }

    pub(super) fn add(&self, chore: Chore) {
        self.open.send_modify(|open| *open += 1);
        if self.hand_over.try_send(chore).is_err() {
            self.open.send_modify(|open| *open -= 1);
            tracing::warn!(
                max = CHORES_MAX,
                "too many cleanups wait for redis; leases and places end by their own time"
            );
        }
    }
}

impl RedisStore {
    /// Does chores as they come. Never ends. Dropped, what is left is not done.
    pub(super) async fn do_chores(&self) {
        let Some(mut waiting) = self.chores.waiting.lock().take() else { return std::future::pending().await };
        let mut batch = Vec::with_capacity(CHORES_AT_ONCE);
        while waiting.recv_many(&mut batch, CHORES_AT_ONCE).await > 0 {
            join_all(batch.drain(..).map(|chore| self.do_chore(chore))).await;
        }
    }

    /// Resolves when no chore is left to do.
    pub async fn chores_done(&self) {
        // An error means that the sender is gone, and with it the chores.
        let _ = self.chores.open.subscribe().wait_for(|open| *open == 0).await;
    }

    async fn do_chore(&self, chore: Chore) {
        self.try_chore(chore).await;
        self.chores.open.send_modify(|open| *open -= 1);
    }

    async fn try_chore(&self, chore: Chore) {
        for left in (0..TRIES).rev() {
            match self.do_once(&chore).await {
                Ok(()) => return,
                Err(error) if left == 0 => {
                    tracing::debug!(%error, "a cleanup was given up");
                    return;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn do_once(&self, Chore(name, command): &Chore) -> Result<(), StoreError> {
        match command {
            // Behind nobody: it is the lock's only way on.
            Command::Release(lease_id) => self.release_by(name, *lease_id, &self.commands.release_for_nobody).await,
            command => self.run_plain(name, command).await,
        }
        .map(drop)
    }
}
