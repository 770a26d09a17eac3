//! What a holder does under its lock: it counts a number up in the stores, in steps of a read and a write, each while
//! the lease is valid by its own reckoning. Rude ones do what a process does that was paused at the wrong moment: write
//! when it is over.

use super::{holding::Holding, taking::Worker};
use crate::stores::{Ask, Told};
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

/// The stores, from the side of those who write to them.
pub(super) struct Stores {
    input: Lines<BufReader<OwnedReadHalf>>,
    output: OwnedWriteHalf,
}

impl Stores {
    pub(super) async fn connect(socket: &Path) -> Result<Self> {
        let (input, output) = UnixStream::connect(socket).await?.into_split();
        Ok(Self { input: BufReader::new(input).lines(), output })
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Told> {
        let mut text = serde_json::to_string(ask)?;
        text.push('\n');
        self.output.write_all(text.as_bytes()).await?;
        let line = self.input.next_line().await?.context("the stores are gone")?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// One grant, as the stores are told of it.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) lock: String,
    pub(super) token: u64,
    pub(super) grant: String,
}

impl Name {
    pub(super) fn of(holding: &Holding) -> Self {
        let lease = &holding.lease;
        Self { lock: lease.lock_name.clone(), token: lease.fencing_token, grant: lease.grant_id.clone() }
    }
}

impl Worker {
    async fn store(&mut self, name: &Name, write: Option<(u64, u64)>) -> Result<Told> {
        let Name { lock, token, grant } = name.clone();
        let told = self.stores.ask(&Ask { client: self.caller.client, lock, token, grant, write }).await?;
        if !told.accepted && told.highest > name.token {
            self.wishes.insert(name.lock.clone(), told.highest + 1);
        }
        Ok(told)
    }

    /// A read and a write of one more. False if there is no sense in going on.
    pub(super) async fn step(&mut self, name: &Name, is_valid: impl Fn() -> bool) -> Result<bool> {
        if !is_valid() {
            return Ok(false);
        }
        let read = self.store(name, None).await?;
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
        Ok(self.store(name, Some((read.fenced + 1, read.control + 1))).await?.accepted)
    }

    /// Reads under the lock and writes when `over` has come and some more time has passed.
    pub(super) async fn be_rude(&mut self, name: &Name, over: impl Future<Output = ()>) -> Result<()> {
        let read = self.store(name, None).await?;
        over.await;
        let pause = self.rng.millis(50, 700);
        sleep(pause).await;
        if read.accepted {
            self.store(name, Some((read.fenced + 1, read.control + 1))).await?;
        }
        Ok(())
    }

    /// For how long to hold a lock.
    pub(super) fn hold_for(&mut self, ttl: Duration) -> Duration {
        match self.rng.below(100) {
            0..70 => self.rng.millis(0, 15),
            70..90 => self.rng.millis(20, 200),
            _ => ttl.mul_f64(0.5).min(Duration::from_secs(1)),
        }
    }
}
