//! The memory store behind gates, at which a call can be held and dropped, and behind a link that can be cut.

use fencepost::{
    domain::{
        ids::{Call, LeaseId},
        name::{LockName, Reason},
        outcome::{AcquireOutcome, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, TokenStatus},
        rules::{Acquire, Candidate},
        time::StoreTime,
        token::FencingToken,
    },
    store::{Kept, LockStore, Page, StoreError, Timed, memory::MemoryStore},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Where a call can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    BeforeAcquire,
    AfterAcquire,
    BeforeClaim,
    AfterClaim,
    BeforeGiveUp,
    AfterGiveUp,
}

/// The memory store behind gates.
pub(crate) struct GatedStore {
    pub(crate) inner: Arc<MemoryStore>,
    pub(crate) shut: Mutex<Option<Gate>>,
    pub(crate) reached: Notify,
    /// Nothing that streams ask gets through.
    pub(crate) down: AtomicBool,
    /// Claims come too late to change anything.
    pub(crate) late: AtomicBool,
    /// How many leases streams had renewed at once, each time.
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
            renewals: Mutex::default(),
        }
    }

    fn cut(&self, count: usize) -> Option<Vec<Result<RenewOutcome, StoreError>>> {
        let unknown = || Err(StoreError::OutcomeUnknown("the link is cut".into()));
        self.down.load(Ordering::SeqCst).then(|| (0..count).map(|_| unknown()).collect())
    }

    async fn pass(&self, gate: Gate) {
        if *self.shut.lock().unwrap() == Some(gate) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// An acquire that is behind its gates: a store cleans up after one that is dropped.
struct Asking<'a> {
    store: &'a MemoryStore,
    name: &'a LockName,
    call: Call,
    armed: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.store.drop_call(self.name, self.call);
        }
    }
}

impl LockStore for GatedStore {
    async fn acquire(
        &self,
        name: &LockName,
        command: Acquire,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        let mut asking = Asking { store: &self.inner, name, call: command.call, armed: true };
        self.pass(Gate::BeforeAcquire).await;
        let outcome = self.inner.acquire(name, command, stop).await;
        self.pass(Gate::AfterAcquire).await;
        asking.armed = false;
        outcome
    }

    async fn claim(
        &self,
        name: &LockName,
        call: Call,
        candidate: Candidate,
    ) -> Result<Timed<AcquireOutcome>, StoreError> {
        self.pass(Gate::BeforeClaim).await;
        if self.late.load(Ordering::SeqCst) {
            return Ok(Timed::act(|| AcquireOutcome::TooLate(StoreTime::default())));
        }
        let outcome = self.inner.claim(name, call, candidate).await;
        self.pass(Gate::AfterClaim).await;
        outcome
    }

    async fn give_up(&self, name: &LockName, call: Call) -> Result<Timed<AcquireOutcome>, StoreError> {
        self.pass(Gate::BeforeGiveUp).await;
        let outcome = self.inner.give_up(name, call).await;
        self.pass(Gate::AfterGiveUp).await;
        outcome
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.inner.ahead(name, call)
    }

    fn drop_call(&self, name: &LockName, call: Call) {
        self.inner.drop_call(name, call);
    }

    fn decline(&self, name: &LockName, call: Call) -> bool {
        self.inner.decline(name, call)
    }

    async fn release(&self, name: &LockName, lease_id: LeaseId) -> Result<ReleaseOutcome, StoreError> {
        self.inner.release(name, lease_id).await
    }

    async fn renew(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        ttl: Option<Duration>,
    ) -> Result<Timed<RenewOutcome>, StoreError> {
        self.inner.renew(name, lease_id, ttl).await
    }

    async fn attach(&self, leases: &[Kept<'_>]) -> Vec<Result<RenewOutcome, StoreError>> {
        match self.cut(leases.len()) {
            Some(cut) => cut,
            None => self.inner.attach(leases).await,
        }
    }

    fn group(&self, name: &LockName) -> u16 {
        self.inner.group(name)
    }

    async fn renew_kept(&self, leases: &[Kept<'_>]) -> Vec<Result<RenewOutcome, StoreError>> {
        self.renewals.lock().unwrap().push(leases.len());
        match self.cut(leases.len()) {
            Some(cut) => cut,
            None => self.inner.renew_kept(leases).await,
        }
    }

    fn detach(&self, lease: Kept<'_>) {
        self.inner.detach(lease);
    }

    fn disconnect(&self, lease: Kept<'_>) {
        self.inner.disconnect(lease);
    }

    async fn force_release(
        &self,
        name: &LockName,
        expected: FencingToken,
        reason: &Reason,
    ) -> Result<RevokeOutcome, StoreError> {
        self.inner.force_release(name, expected, reason).await
    }

    async fn view(&self, name: &LockName) -> Result<LockView, StoreError> {
        self.inner.view(name).await
    }

    async fn check_token(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<(TokenStatus, Option<FencingToken>), StoreError> {
        self.inner.check_token(name, token).await
    }

    async fn begin_watch(&self) -> Result<(), StoreError> {
        self.inner.begin_watch().await
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.inner.list(prefix, from, limit).await
    }
}
