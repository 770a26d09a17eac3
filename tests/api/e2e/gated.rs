//! The memory store with gates that hold calls, and with faults.

use fencepost::testing::{
    domain::{command::Command, ids::Call, name::LockName},
    store::{Answer, Page, Store, StoreError, memory::MemoryStore},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// The points at which a call can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    BeforeAcquire,
    AfterAcquire,
    BeforeClaim,
    AfterClaim,
    BeforeGiveUp,
    AfterGiveUp,
}

/// The memory store with gates and faults.
pub(crate) struct GatedStore {
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) shut: Mutex<Option<Gate>>,
    pub(crate) reached: Notify,
    /// Renewals and attachments fail.
    pub(crate) down: AtomicBool,
    /// Claims are too late.
    pub(crate) late: AtomicBool,
    /// Acquires are carried out, and their answers are lost.
    pub(crate) loses_answers: AtomicBool,
    /// The number of leases in each batch of renewals.
    pub(crate) renewals: Mutex<Vec<usize>>,
}

impl GatedStore {
    pub(crate) fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            shut: Mutex::new(None),
            reached: Notify::new(),
            down: AtomicBool::new(false),
            late: AtomicBool::new(false),
            loses_answers: AtomicBool::new(false),
            renewals: Mutex::default(),
        }
    }

    async fn pass(&self, gate: Gate) {
        if *self.shut.lock().unwrap() == Some(gate) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Store for GatedStore {
    async fn run(&self, name: &LockName, command: Command) -> Answer {
        let (before, after) = match &command {
            Command::Acquire(_) => (Gate::BeforeAcquire, Gate::AfterAcquire),
            Command::Claim(..) => (Gate::BeforeClaim, Gate::AfterClaim),
            Command::GiveUp(_) => (Gate::BeforeGiveUp, Gate::AfterGiveUp),
            _ => return self.inner.run(name, command).await,
        };
        self.pass(before).await;
        if before == Gate::BeforeClaim && self.late.load(Ordering::SeqCst) {
            return Err(StoreError::TooLate);
        }
        let answer = self.inner.run(name, command).await;
        self.pass(after).await;
        if before == Gate::BeforeAcquire && self.loses_answers.load(Ordering::SeqCst) {
            return Err(StoreError::OutcomeUnknown("the answer is lost".into()));
        }
        answer
    }

    async fn renew_each(&self, renewals: Vec<(&LockName, Command)>) -> Vec<Answer> {
        if renewals.iter().any(|(_, command)| matches!(command, Command::RenewKept(..))) {
            self.renewals.lock().unwrap().push(renewals.len());
        }
        if self.down.load(Ordering::SeqCst) {
            return renewals.iter().map(|_| Err(StoreError::OutcomeUnknown("the store is down".into()))).collect();
        }
        self.inner.renew_each(renewals).await
    }

    fn post(&self, name: &LockName, command: Command) {
        self.inner.post(name, command);
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.inner.ahead(name, call)
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.inner.list(prefix, from, limit).await
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.inner.watch().await
    }
}
