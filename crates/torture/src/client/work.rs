//! The work under a lock, while the lease is valid by the holder's clock. A writer increments a number in the stores,
//! in steps of a read and a write. A reader raises the fence once, and then reads the number again and again. Sometimes
//! the last step comes after the end of the lease, as from a process that was paused at the wrong time.

use super::{held_lease::HeldLease, worker::Worker};
use crate::{
    config,
    stores::{RequestedStep, StoreRequest, StoreResponse},
};
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
    /// The name of its fence.
    pub(super) fence: String,
    pub(super) token: u64,
    pub(super) grant: String,
    pub(super) role: Role,
}

/// What the holder of a grant does in the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    /// Nothing: a store cannot order the tokens of those that have several permits.
    Bystander,
}

impl Role {
    /// Of a holder of permits, of which one alone has a slot, where it writes.
    pub(super) fn with_permits(slot: u32) -> Self {
        if slot == 0 { Self::Bystander } else { Self::Writer }
    }
}

impl GrantRef {
    pub(super) fn of(held: &HeldLease) -> Self {
        let lease = &held.lease;
        Self {
            lock: lease.lock_name.clone(),
            fence: config::fence(&lease.lock_name, lease.slot),
            token: held.token(),
            grant: lease.grant_id.clone(),
            role: held.role(),
        }
    }

    /// What a store compares.
    fn identity(&self) -> (String, u64) {
        (self.grant.clone(), self.token)
    }
}

impl Worker {
    async fn store_step(&mut self, grant_ref: &GrantRef, step: RequestedStep) -> Result<StoreResponse> {
        let GrantRef { fence: lock, token, grant, .. } = grant_ref.clone();
        let response = self.stores.send(&StoreRequest { client: self.caller.client, lock, token, grant, step }).await?;
        if !response.accepted && response.highest > grant_ref.token {
            self.min_tokens.insert(grant_ref.lock.clone(), response.highest + 1);
        }
        Ok(response)
    }

    /// A step of the work. Returns whether to continue.
    pub(super) async fn step(&mut self, grant_ref: &GrantRef, is_valid: impl Fn() -> bool) -> Result<bool> {
        if !is_valid() {
            return Ok(false);
        }
        match grant_ref.role {
            Role::Writer => self.increment(grant_ref, is_valid).await,
            Role::Reader => self.read(grant_ref, is_valid).await,
            Role::Bystander => Ok(true),
        }
    }

    /// Reads, and writes the value + 1.
    async fn increment(&mut self, grant_ref: &GrantRef, is_valid: impl Fn() -> bool) -> Result<bool> {
        let read = self.store_step(grant_ref, RequestedStep::Read).await?;
        if !read.accepted {
            return Ok(false);
        }
        self.pause_sometimes().await;
        if !is_valid() {
            return Ok(false);
        }
        let written = self.store_step(grant_ref, plus_one(read)).await?;
        if written.accepted {
            self.wrote = Some((grant_ref.identity(), plus_one(written)));
        }
        Ok(written.accepted)
    }

    /// Reads what no earlier writer can change any more.
    async fn read(&mut self, grant_ref: &GrantRef, is_valid: impl Fn() -> bool) -> Result<bool> {
        if !self.has_raised(grant_ref) {
            if self.rng.chance(5) {
                // Forgets the raise: mostly refused, unless a later reader has raised the fence.
                self.store_step(grant_ref, RequestedStep::Check).await?;
            }
            if !self.raise(grant_ref).await? {
                return Ok(false);
            }
            if let Some(write) = self.unfinished_write(grant_ref) {
                self.store_step(grant_ref, write).await?;
            }
            self.pause_sometimes().await;
            if !is_valid() {
                return Ok(false);
            }
        }
        Ok(self.store_step(grant_ref, RequestedStep::Check).await?.accepted)
    }

    /// Sometimes a holder that was downgraded has a write left from before, which arrives after its raise.
    fn unfinished_write(&mut self, grant_ref: &GrantRef) -> Option<RequestedStep> {
        let (of, write) = self.wrote.take()?;
        (of == grant_ref.identity() && self.rng.chance(30)).then_some(write)
    }

    fn has_raised(&self, grant_ref: &GrantRef) -> bool {
        self.raised == Some(grant_ref.identity())
    }

    /// The first step of a reader. Returns whether it was accepted.
    async fn raise(&mut self, grant_ref: &GrantRef) -> Result<bool> {
        let accepted = self.store_step(grant_ref, RequestedStep::Raise).await?.accepted;
        if accepted {
            self.raised = Some(grant_ref.identity());
        }
        Ok(accepted)
    }

    async fn pause_sometimes(&mut self) {
        if self.rng.chance(30) {
            let pause = self.rng.millis(1, 40);
            sleep(pause).await;
        }
    }

    /// Whether the last step of this holder is to come late. More readers are late than writers: they are refused only
    /// if a writer has come after them.
    pub(super) fn is_to_be_late(&mut self, grant_ref: &GrantRef) -> bool {
        self.rng.chance(if grant_ref.role == Role::Reader { 12 } else { 4 })
    }

    /// Works under the lock until `over`, and takes one more step some time after that.
    pub(super) async fn step_late(&mut self, grant_ref: &GrantRef, over: impl Future<Output = ()>) -> Result<()> {
        match grant_ref.role {
            Role::Writer => {
                let read = self.store_step(grant_ref, RequestedStep::Read).await?;
                self.pause_beyond(over).await;
                if read.accepted {
                    self.store_step(grant_ref, plus_one(read)).await?;
                }
            }
            Role::Reader => {
                // Of some readers, the raise is late as well.
                if !self.has_raised(grant_ref) && self.rng.chance(60) {
                    self.raise(grant_ref).await?;
                }
                self.pause_beyond(over).await;
                if self.has_raised(grant_ref) || self.raise(grant_ref).await? {
                    self.store_step(grant_ref, RequestedStep::Check).await?;
                }
            }
            Role::Bystander => over.await,
        }
        Ok(())
    }

    async fn pause_beyond(&mut self, over: impl Future<Output = ()>) {
        over.await;
        let pause = self.rng.millis(50, 700);
        sleep(pause).await;
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

fn plus_one(read: StoreResponse) -> RequestedStep {
    RequestedStep::Write(read.fenced + 1, read.control + 1)
}
