//! The stores that the locks protect: for each lock a number that its holders count up, once with a fence (DESIGN
//! section 7) and once without, as the control that shows what the fence is for. They write down what they take, in the
//! order in which they take it.
//!
//! A read raises the fence: what it read stays true for as long as its reader may write.

use crate::clock;
use anyhow::Result;
use fencepost_torture::history::StoreStep;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

/// What a holder asks of the stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) client: u32,
    pub(crate) lock: String,
    pub(crate) token: u64,
    pub(crate) grant: String,
    /// What to write to the fenced one and to the control; a read without.
    pub(crate) write: Option<(u64, u64)>,
}

/// What they answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Whether the fenced one took it.
    pub(crate) accepted: bool,
    /// The highest token that it had seen before.
    pub(crate) highest: u64,
    pub(crate) fenced: u64,
    pub(crate) control: u64,
}

#[derive(Default)]
struct Entry {
    highest: u64,
    grant: String,
    fenced: u64,
    control: u64,
}

/// What became of a lock's stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) writes_accepted: u64,
    pub(crate) fenced: u64,
    pub(crate) writes_all: u64,
    pub(crate) control: u64,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<String, Entry>,
    steps: Vec<StoreStep>,
}

impl Inner {
    fn take(&mut self, ask: Ask) -> Told {
        let entry = self.entries.entry(ask.lock.clone()).or_default();
        let highest = entry.highest;
        let accepted = ask.token > highest || (ask.token == highest && ask.grant == entry.grant);
        if accepted {
            entry.highest = ask.token;
            entry.grant.clone_from(&ask.grant);
        }
        if let Some((fenced, control)) = ask.write {
            entry.control = control;
            if accepted {
                entry.fenced = fenced;
            }
        }
        let (fenced, control, write) = (entry.fenced, entry.control, ask.write.is_some());
        let Ask { client, lock, token, grant, .. } = ask;
        let (at, seq) = (clock::now(), u64::try_from(self.steps.len()).unwrap_or(u64::MAX));
        self.steps.push(StoreStep { client, lock, token, grant, at, seq, write, highest, accepted, fenced, control });
        Told { accepted, highest, fenced, control }
    }
}

/// The stores, and what serves them.
pub(crate) struct Stores {
    inner: Arc<Mutex<Inner>>,
    serving: JoinHandle<()>,
}

impl Drop for Stores {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Stores {
    pub(crate) fn serve(socket: &Path) -> Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let inner = Arc::new(Mutex::new(Inner::default()));
        let own = Arc::clone(&inner);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&own)));
            }
        });
        Ok(Self { inner, serving })
    }

    /// What they took so far.
    pub(crate) fn steps(&self) -> Vec<StoreStep> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).steps.clone()
    }

    /// By lock.
    pub(crate) fn totals(&self) -> HashMap<String, Totals> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: HashMap<String, Totals> = HashMap::new();
        for step in inner.steps.iter().filter(|step| step.write) {
            let totals = all.entry(step.lock.clone()).or_default();
            totals.writes_all += 1;
            totals.writes_accepted += u64::from(step.accepted);
        }
        for (lock, entry) in &inner.entries {
            let totals = all.entry(lock.clone()).or_default();
            (totals.fenced, totals.control) = (entry.fenced, entry.control);
        }
        all
    }
}

async fn serve(stream: UnixStream, inner: Arc<Mutex<Inner>>) {
    let (input, mut output) = stream.into_split();
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(ask) = serde_json::from_str(&line) else { return };
        let told = inner.lock().unwrap_or_else(PoisonError::into_inner).take(ask);
        let Ok(mut text) = serde_json::to_string(&told) else { return };
        text.push('\n');
        if output.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(token: u64, grant: &str, write: Option<(u64, u64)>) -> Ask {
        Ask { client: 1, lock: "a".into(), token, grant: grant.into(), write }
    }

    #[test]
    fn the_fence_refuses_what_the_control_takes() {
        let mut stores = Inner::default();
        let old = stores.take(ask(1, "x", None));
        let new = stores.take(ask(2, "y", None));
        assert!(stores.take(ask(2, "y", Some((new.fenced + 1, new.control + 1)))).accepted);
        let late = stores.take(ask(1, "x", Some((old.fenced + 1, old.control + 1))));
        assert!(!late.accepted && late.highest == 2);
        assert!(!stores.take(ask(2, "z", None)).accepted, "an equal token of another grant");
        assert_eq!((late.fenced, late.control), (1, 1), "the control lost one of two");
    }
}
