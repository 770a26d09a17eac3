//! The stores protected by the locks. For each lock a number that its holders increment, once with a fence
//! (docs/fencing.md), and once without, as a control that shows the effect of the fence. Each step is recorded in the
//! order of processing.
//!
//! A read raises the fence, so that the value read stays current while its reader may write.

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

/// A request of a holder to the stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoreRequest {
    pub(crate) client: u32,
    pub(crate) lock: String,
    pub(crate) token: u64,
    pub(crate) grant: String,
    /// The new values of the fenced store and of the control; `None` for a read.
    pub(crate) write: Option<(u64, u64)>,
}

/// The answer of the stores.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StoreResponse {
    /// Whether the fenced store accepted the request.
    pub(crate) accepted: bool,
    /// The highest token before this request.
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

/// Totals of one lock's stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockTotals {
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
    fn take(&mut self, request: StoreRequest) -> StoreResponse {
        let entry = self.entries.entry(request.lock.clone()).or_default();
        let highest = entry.highest;
        let accepted = request.token > highest || (request.token == highest && request.grant == entry.grant);
        if accepted {
            entry.highest = request.token;
            entry.grant.clone_from(&request.grant);
        }
        if let Some((fenced, control)) = request.write {
            entry.control = control;
            if accepted {
                entry.fenced = fenced;
            }
        }
        let (fenced, control, write) = (entry.fenced, entry.control, request.write.is_some());
        let StoreRequest { client, lock, token, grant, .. } = request;
        let (at, seq) = (clock::now(), u64::try_from(self.steps.len()).unwrap_or(u64::MAX));
        self.steps.push(StoreStep { client, lock, token, grant, at, seq, write, highest, accepted, fenced, control });
        StoreResponse { accepted, highest, fenced, control }
    }
}

/// The stores and their server.
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

    /// All steps so far.
    pub(crate) fn steps(&self) -> Vec<StoreStep> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).steps.clone()
    }

    /// Totals by lock.
    pub(crate) fn totals(&self) -> HashMap<String, LockTotals> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: HashMap<String, LockTotals> = HashMap::new();
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
        let Ok(request) = serde_json::from_str(&line) else { return };
        let response = inner.lock().unwrap_or_else(PoisonError::into_inner).take(request);
        let Ok(mut text) = serde_json::to_string(&response) else { return };
        text.push('\n');
        if output.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: u64, grant: &str, write: Option<(u64, u64)>) -> StoreRequest {
        StoreRequest { client: 1, lock: "a".into(), token, grant: grant.into(), write }
    }

    #[test]
    fn the_fence_refuses_what_the_control_takes() {
        let mut stores = Inner::default();
        let old = stores.take(request(1, "x", None));
        let new = stores.take(request(2, "y", None));
        assert!(stores.take(request(2, "y", Some((new.fenced + 1, new.control + 1)))).accepted);
        let late = stores.take(request(1, "x", Some((old.fenced + 1, old.control + 1))));
        assert!(!late.accepted && late.highest == 2);
        assert!(!stores.take(request(2, "z", None)).accepted, "an equal token of another grant");
        assert_eq!((late.fenced, late.control), (1, 1), "the control lost one of two");
    }
}
