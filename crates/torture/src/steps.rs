//! Steps of holders on the protected stores, as histories record them.

use crate::history::Nanos;
use serde::{Deserialize, Serialize};

/// One step of a holder on the protected stores. Each write goes to both: the fenced store, and the control, which
/// ignores tokens. Recorded by the stores, in the order in which they processed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreStep {
    /// The client.
    pub client: u32,
    /// The lock's name; of a holder of a slot of a semaphore, `NAME#SLOT`.
    pub lock: String,
    /// The token of the request.
    pub token: u64,
    /// The grant id of the request.
    pub grant: String,
    /// When the stores processed it.
    pub at: Nanos,
    /// The number of the step, in the order of the stores.
    pub seq: u64,
    /// What the holder asked for.
    pub kind: StepKind,
    /// The highest token of a writer that the fenced store had seen before.
    pub writer: u64,
    /// The highest token of a reader that it had seen before.
    pub shared: u64,
    /// Whether the fenced store accepted it.
    pub accepted: bool,
    /// The fenced store's number after it.
    pub fenced: u64,
    /// The control's number after it.
    pub control: u64,
}

/// What a holder asks of the stores: a writer reads and writes, and a reader raises and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A read of a writer. It also raises the fence, so that the value read stays current while its reader may write.
    Read,
    /// A write, of the value read + 1.
    Write,
    /// The first step of a reader: it shuts out all earlier writers.
    Raise,
    /// The other steps of a reader, each of which reads the number.
    Check,
}

impl StepKind {
    /// Whether holders of a shared lock take this step.
    #[must_use]
    pub fn is_of_reader(self) -> bool {
        matches!(self, Self::Raise | Self::Check)
    }
}

impl StoreStep {
    /// Whether it is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.kind == StepKind::Write
    }
}
