//! The bench: a store under test, commands on one lock, and recorded notices.

pub(crate) use crate::asks::{candidate, granted};
use crate::notices::RecordingNotices;
use fencepost::testing::{
    domain::{
        command::{Acquire, Command, Outcome, WrongOutcome},
        ids::{AttachmentId, Call, CallId, RequestId},
        lease::Terms,
        limits::Limits,
        name::{Holder, LockName, Metadata, Reason},
        outcome::{AcquireOutcome, Grant, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome},
    },
    store::Store,
};
use std::{
    ops::Deref,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use uuid::Uuid;

pub(crate) const TTL: Duration = Duration::from_secs(20);
/// The limit of waiters for one lock.
pub(crate) const WAITERS_MAX: usize = 16;

/// A store under test.
pub(crate) trait Harness: Sized + Send + Sync {
    type Store: Store;

    /// Whether classic clients share its locks.
    const IS_SHARED: bool = false;

    /// An empty store with [`limits`], which notifies `notices`.
    async fn start() -> Self;

    fn store(&self) -> &Self::Store;

    fn notices(&self) -> &Arc<RecordingNotices>;

    /// Waits until all posted commands are done.
    async fn done(&self);

    /// Moves the store's time forward, and applies what is due then.
    async fn pass(&self, span: Duration);
}

pub(crate) fn limits() -> Limits {
    Limits { waiters_per_lock: WAITERS_MAX, ..Limits::default() }
}

/// A harness, and commands on one lock.
pub(crate) struct Bench<H> {
    harness: H,
    pub(crate) lock: LockName,
}

impl<H> Deref for Bench<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.harness
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

/// The call of an attempt.
pub(crate) fn call(number: u128, attempt: u32) -> Call {
    Call { request: request(number), attempt, id: CallId(attempt.into()) }
}

pub(crate) fn attachment(number: u128) -> AttachmentId {
    AttachmentId(Uuid::from_u128(number))
}

pub(crate) fn terms() -> Terms {
    let holder = Holder::new("holder".into()).unwrap();
    Terms {
        fingerprint: 7,
        ttl: TTL,
        holder,
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    }
}

/// The first attempt of a request, without waiting.
pub(crate) fn try_acquire(number: u128) -> Acquire {
    Acquire { call: call(number, 1), terms: terms(), wait: false, candidate: candidate() }
}

/// The first attempt of a request that waits.
pub(crate) fn acquire(number: u128) -> Acquire {
    Acquire { wait: true, ..try_acquire(number) }
}

impl<H: Harness> Bench<H> {
    pub(crate) fn new(harness: H) -> Self {
        Self { harness, lock: name("lock") }
    }

    /// Runs a command, and returns its typed outcome.
    pub(crate) async fn run<T: TryFrom<Outcome, Error = WrongOutcome>>(&self, command: Command) -> T {
        self.run_on(&self.lock, command).await
    }

    pub(crate) async fn run_on<T>(&self, lock: &LockName, command: Command) -> T
    where
        T: TryFrom<Outcome, Error = WrongOutcome>,
    {
        self.store().run(lock, command).await.unwrap().of().unwrap().outcome
    }

    /// From now on no waiting client reads, so the store offers the lock, and makes no claim for a waiter.
    pub(crate) fn hand_over_to_nobody(&self) {
        self.notices().stalled.store(true, Ordering::SeqCst);
    }

    /// Posts a command, as a drop guard does, and waits until it is done.
    pub(crate) async fn post(&self, command: Command) {
        self.store().post(&self.lock, command);
        self.done().await;
    }

    pub(crate) async fn request(&self, command: Acquire) -> AcquireOutcome {
        self.run(Command::Acquire(command)).await
    }

    pub(crate) async fn acquire(&self, number: u128) -> Grant {
        granted(self.request(try_acquire(number)).await)
    }

    pub(crate) async fn queue(&self, numbers: impl IntoIterator<Item = u128>) {
        for number in numbers {
            assert_eq!(self.request(acquire(number)).await, AcquireOutcome::Queued);
        }
    }

    pub(crate) async fn claim(&self, number: u128) -> AcquireOutcome {
        self.run(Command::Claim(call(number, 1), candidate())).await
    }

    pub(crate) async fn give_up(&self, number: u128) -> AcquireOutcome {
        self.run(Command::GiveUp(call(number, 1))).await
    }

    pub(crate) async fn drop_call(&self, number: u128, attempt: u32) {
        self.post(Command::DropCall(call(number, attempt))).await;
    }

    pub(crate) async fn decline(&self, number: u128) {
        self.post(Command::Decline { request: request(number), attempt: 1 }).await;
    }

    pub(crate) async fn attach(&self, grant: Grant, number: u128, attempt: u32) -> RenewOutcome {
        self.run(Command::Attach { lease_id: grant.lease_id, attempt, attachment: attachment(number) }).await
    }

    pub(crate) async fn renew_kept(&self, grant: Grant, number: u128) -> RenewOutcome {
        self.run(Command::RenewKept(grant.lease_id, attachment(number))).await
    }

    pub(crate) async fn detach(&self, grant: Grant, number: u128) {
        self.post(Command::Detach(grant.lease_id, attachment(number))).await;
    }

    pub(crate) async fn disconnect(&self, grant: Grant, number: u128) {
        self.post(Command::Disconnect(grant.lease_id, attachment(number))).await;
    }

    pub(crate) async fn release(&self, grant: Grant) {
        let outcome: ReleaseOutcome = self.run(Command::Release(grant.lease_id)).await;
        assert_eq!(outcome, ReleaseOutcome::Released);
    }

    /// Revokes the lease, which offers the lock. A release may also hand it over to a waiter of this server.
    pub(crate) async fn revoke(&self, grant: Grant) {
        let reason = Reason::new("a test".into()).unwrap();
        let outcome: RevokeOutcome = self.run(Command::ForceRelease { expected: grant.token, reason }).await;
        assert!(matches!(outcome, RevokeOutcome::Revoked(_)), "{outcome:?}");
    }

    pub(crate) async fn view(&self) -> LockView {
        *self.run::<Box<LockView>>(Command::View { token: None }).await
    }
}
