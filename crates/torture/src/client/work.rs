//! The work under a lock: increments a number in the stores, in steps of a read and a write, while the lease is valid
//! by the holder's clock. Sometimes it writes after the end of its lease, like a process that was paused at the wrong
//! time.

use super::{held_lease::HeldLease, worker::Worker};
use crate::stores::{StoreRequest, StoreResponse};
use anyhow::{Context, Result};
use std::{path::Path, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::sleep,
};

/// The connection of a worker to the stores.
pub(super) struct StoresClient {
    input: Lines<BufReader<OwnedReadHalf>>,
    output: OwnedWriteHalf,
}

impl StoresClient {
    pub(super) async fn connect(socket: &Path) -> Result<Self> {
        let (input, output) = UnixStream::connect(socket).await?.into_split();
        Ok(Self { input: BufReader::new(input).lines(), output })
    }

    async fn send(&mut self, request: &StoreRequest) -> Result<StoreResponse> {
        let mut text = serde_json::to_string(request)?;
        text.push('\n');
        self.output.write_all(text.as_bytes()).await?;
        let line = self.input.next_line().await?.context("the stores have stopped")?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// A grant as named in requests to the stores.
#[derive(Clone, Debug)]
pub(super) struct GrantRef {
    pub(super) lock: String,
    pub(super) token: u64,
    pub(super) grant: String,
    /// Its holder reads only: it does nothing in the stores.
    pub(super) reads_only: bool,
}

impl GrantRef {
    pub(super) fn of(held: &HeldLease) -> Self {
        let lease = &held.lease;
        Self {
            lock: lease.lock_name.clone(),
            token: held.token(),
            grant: lease.grant_id.clone(),
            reads_only: held.reads_only(),
        }
    }
}

impl Worker {
    async fn store_step(&mut self, grant_ref: &GrantRef, write: Option<(u64, u64)>) -> Result<StoreResponse> {
        let GrantRef { lock, token, grant, reads_only: _ } = grant_ref.clone();
        let response =
            self.stores.send(&StoreRequest { client: self.caller.client, lock, token, grant, write }).await?;
        if !response.accepted && response.highest > grant_ref.token {
            self.min_tokens.insert(grant_ref.lock.clone(), response.highest + 1);
        }
        Ok(response)
    }

    /// Reads, and writes the value + 1. Returns whether to continue.
    pub(super) async fn step(&mut self, grant_ref: &GrantRef, is_valid: impl Fn() -> bool) -> Result<bool> {
        if !is_valid() || grant_ref.reads_only {
            return Ok(is_valid());
        }
        let read = self.store_step(grant_ref, None).await?;
        if !read.accepted {
            return Ok(false);
        }
        if self.rng.chance(30) {
            let pause = self.rng.millis(1, 40);
            sleep(pause).await;
        }
        if !is_valid() {
            return Ok(false);
        }
        Ok(self.store_step(grant_ref, Some((read.fenced + 1, read.control + 1))).await?.accepted)
    }

    /// Reads under the lock, and writes some time after `over`.
    pub(super) async fn write_late(&mut self, grant_ref: &GrantRef, over: impl Future<Output = ()>) -> Result<()> {
        if grant_ref.reads_only {
            over.await;
            return Ok(());
        }
        let read = self.store_step(grant_ref, None).await?;
        over.await;
        let pause = self.rng.millis(50, 700);
        sleep(pause).await;
        if read.accepted {
            self.store_step(grant_ref, Some((read.fenced + 1, read.control + 1))).await?;
        }
        Ok(())
    }

    /// How long to hold a lock.
    pub(super) fn hold_for(&mut self, ttl: Duration) -> Duration {
        match self.rng.below(100) {
            0..70 => self.rng.millis(0, 15),
            70..90 => self.rng.millis(20, 200),
            _ => ttl.mul_f64(0.5).min(Duration::from_secs(1)),
        }
    }
}
