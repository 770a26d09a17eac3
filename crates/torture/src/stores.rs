//! The stores protected by the locks. For each lock a number that its holders increment, once with a fence
//! (docs/fencing.md), and once without, as a control that shows the effect of the fence. Each step is recorded in the
//! order of processing.
//!
//! The fence has the two marks of docs/guards.md. A read of a writer raises its mark, so that the value read stays
//! current while it may write. A reader raises the other mark once, and checks with each of its reads that no later
//! writer has come.

use crate::clock;
use anyhow::Result;
use fencepost_torture::steps::{StepKind, StoreStep};
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
    /// The name of the fence: that of the lock, or of a slot of it.
    pub(crate) lock: String,
    pub(crate) token: u64,
    pub(crate) grant: String,
    pub(crate) step: RequestedStep,
}

/// What it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestedStep {
    Read,
    /// Of these values to the fenced store and to the control.
    Write(u64, u64),
    Raise,
    Check,
}

impl RequestedStep {
    fn kind(self) -> StepKind {
        match self {
            Self::Read => StepKind::Read,
            Self::Write(..) => StepKind::Write,
            Self::Raise => StepKind::Raise,
            Self::Check => StepKind::Check,
        }
    }
}

/// The answer of the stores.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StoreResponse {
    /// Whether the fenced store accepted the request.
    pub(crate) accepted: bool,
    /// The highest token of a writer or a reader before this request.
    pub(crate) highest: u64,
    pub(crate) fenced: u64,
    pub(crate) control: u64,
}

#[derive(Default)]
struct Entry {
    fence: Fence,
    fenced: u64,
    control: u64,
}

/// The marks of docs/guards.md.
#[derive(Default)]
struct Fence {
    /// The highest token of a writer, and its grant.
    writer: u64,
    grant: String,
    /// The highest token of a reader.
    shared: u64,
}

impl Fence {
    /// Whether it accepts the step of this holder. If so, its mark is raised.
    fn accept(&mut self, kind: StepKind, token: u64, grant: &str) -> bool {
        let no_writer_since = token > self.writer || (token == self.writer && grant == self.grant);
        let accepted = match kind {
            StepKind::Read | StepKind::Write => no_writer_since && token > self.shared,
            StepKind::Raise => no_writer_since,
            StepKind::Check => no_writer_since && token <= self.shared,
        };
        match kind {
            StepKind::Read | StepKind::Write if accepted => {
                self.writer = token;
                grant.clone_into(&mut self.grant);
            }
            StepKind::Raise if accepted => self.shared = self.shared.max(token),
            _ => {}
        }
        accepted
    }
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
        let (kind, writer, shared) = (request.step.kind(), entry.fence.writer, entry.fence.shared);
        let accepted = entry.fence.accept(kind, request.token, &request.grant);
        if let RequestedStep::Write(fenced, control) = request.step {
            entry.control = control;
            if accepted {
                entry.fenced = fenced;
            }
        }
        let (fenced, control, highest) = (entry.fenced, entry.control, writer.max(shared));
        let StoreRequest { client, lock, token, grant, step: _ } = request;
        let (at, seq) = (clock::now(), u64::try_from(self.steps.len()).unwrap_or(u64::MAX));
        let step = StoreStep { client, lock, token, grant, at, seq, kind, writer, shared, accepted, fenced, control };
        self.steps.push(step);
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
        for step in inner.steps.iter().filter(|step| step.is_write()) {
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

    use RequestedStep::{Check, Raise, Read, Write};

    fn request(token: u64, grant: &str, step: RequestedStep) -> StoreRequest {
        StoreRequest { client: 1, lock: "a".into(), token, grant: grant.into(), step }
    }

    #[test]
    fn the_fence_refuses_what_the_control_takes() {
        let mut stores = Inner::default();
        let old = stores.take(request(1, "x", Read));
        let new = stores.take(request(2, "y", Read));
        assert!(stores.take(request(2, "y", Write(new.fenced + 1, new.control + 1))).accepted);
        let late = stores.take(request(1, "x", Write(old.fenced + 1, old.control + 1)));
        assert!(!late.accepted && late.highest == 2);
        assert!(!stores.take(request(2, "z", Read)).accepted, "an equal token of another grant");
        assert_eq!((late.fenced, late.control), (1, 1), "the control lost one of two");
    }

    #[test]
    fn a_reader_shuts_out_earlier_writers_and_later_ones_shut_out_readers() {
        let mut stores = Inner::default();
        let mut accepts = |token, grant: &str, step| stores.take(request(token, grant, step)).accepted;
        assert!(accepts(1, "w", Read) && !accepts(3, "r", Check), "a check before the raise");
        assert!(accepts(3, "r", Raise) && accepts(3, "r", Check));
        assert!(!accepts(1, "w", Write(1, 1)), "the late write of an earlier writer");
        assert!(accepts(2, "q", Raise) && accepts(2, "q", Check), "an earlier reader is not in the way");
        assert!(accepts(3, "r", Check), "it lowers no mark");
        assert!(accepts(4, "v", Write(1, 1)));
        assert!(!accepts(3, "r", Check) && !accepts(3, "r", Raise), "the late steps of an earlier reader");
        assert!(!accepts(4, "u", Raise), "an equal token of another grant");
        assert!(accepts(4, "v", Raise) && accepts(4, "v", Check), "a lock that was downgraded");
        assert!(!accepts(4, "v", Write(2, 2)), "its own late write from before");
        assert!(accepts(5, "v", Write(2, 2)), "upgraded, it has another token");
    }

    #[test]
    fn a_refusal_tells_the_highest_token_of_both_marks() {
        let mut stores = Inner::default();
        stores.take(request(1, "w", Read));
        stores.take(request(3, "r", Raise));
        assert_eq!(stores.take(request(1, "w", Write(1, 1))).highest, 3);
        stores.take(request(4, "v", Read));
        assert_eq!(stores.take(request(3, "r", Check)).highest, 4);
    }
}
