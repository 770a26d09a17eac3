//! The commands that every store carries out, and what they come to.

use super::StoreError;
use crate::domain::{
    ids::{AttachmentId, Call, LeaseId},
    name::{LockName, Reason},
    outcome::{AcquireOutcome, HolderView, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, TokenStatus},
    rules::{Acquire, Candidate},
    token::FencingToken,
};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// A lease in the keeping of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Its lock.
    pub name: &'a LockName,
    /// The lease.
    pub lease_id: LeaseId,
    /// The stream's attachment of it.
    pub attachment: AttachmentId,
    /// The client's count of attachments.
    pub attempt: u32,
}

/// What a command came to, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed<T> {
    /// A moment before the store acted: what a lease has left counts from here, not from when the store was asked,
    /// which may be long before.
    pub sent: Instant,
    /// What it came to.
    pub outcome: T,
}

impl<T> Timed<T> {
    /// What is done here and now.
    pub fn act(act: impl FnOnce() -> T) -> Self {
        let sent = Instant::now();
        Self { sent, outcome: act() }
    }

    /// The same of what is made of the outcome.
    pub fn try_map<R, E>(self, make: impl FnOnce(T) -> Result<R, E>) -> Result<Timed<R>, E> {
        let Self { sent, outcome } = self;
        make(outcome).map(|outcome| Timed { sent, outcome })
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// The locks on it, in no particular order.
    pub locks: Vec<(LockName, LockView)>,
    /// Where the next one begins; none at the end.
    pub next: Option<String>,
}

impl Page {
    /// About what a lock takes up on a page; what is the same for all of them is not counted.
    pub(super) fn bytes(name: &LockName, view: &LockView) -> usize {
        const PER_PAIR: usize = 8;
        let holder = |holder: &HolderView| {
            let pairs = holder.metadata.pairs().map(|(key, value)| key.len() + value.len() + PER_PAIR);
            holder.holder.as_str().len() + pairs.sum::<usize>()
        };
        name.as_str().len() + view.current.as_ref().map_or(0, holder)
    }
}

/// Carries out commands by the rules of `domain`. A store tells what it sets off through the
/// [`Notices`](super::Notices) it was made with.
///
/// Every command is atomic and may be repeated. A future that is dropped leaves the command done or not done, nothing
/// between: the caller does not know which (*outcome unknown*) and repeats it, or has `drop_call` clean up (after
/// `acquire` the store does).
///
/// The functions that return no future do not block. They are called from drop guards: the work is done now or handed
/// to a cleaner, and nobody waits for it.
pub trait LockStore: Send + Sync + 'static {
    /// Asks for the lock. If `stop` resolves before the command has left, it does not leave: `Overloaded`.
    ///
    /// Dropped, or with an error, it cleans up after itself as `drop_call` does, if there can be anything to clean up:
    /// only the store knows whether the command has left.
    fn acquire(
        &self,
        name: &LockName,
        command: Acquire,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<Timed<AcquireOutcome>, StoreError>> + Send;

    /// Claims the offer to a waiting request, or asks what became of it.
    fn claim(
        &self,
        name: &LockName,
        call: Call,
        candidate: Candidate,
    ) -> impl Future<Output = Result<Timed<AcquireOutcome>, StoreError>> + Send;

    /// Ends the wait of a call whose time is over.
    fn give_up(
        &self,
        name: &LockName,
        call: Call,
    ) -> impl Future<Output = Result<Timed<AcquireOutcome>, StoreError>> + Send;

    /// How many stand in line before a call that waits here, at most, as far as is known without asking. Nothing if it
    /// is not known to stand in line.
    fn ahead(&self, name: &LockName, call: Call) -> Option<u64>;

    /// Cleans up after a call that was dropped since it stands in line, or whose lease was granted and not heard of.
    fn drop_call(&self, name: &LockName, call: Call);

    /// Declines an offer to a call that waits here and cannot take it now: whoever is behind it comes first. Its place
    /// is skipped, and kept for as long as that of a dropped call; a claim brings it back. Without an offer nothing
    /// changes.
    ///
    /// False if a release has handed the lock over to the call already: then the store cleans up as in `drop_call`.
    fn decline(&self, name: &LockName, call: Call) -> bool;

    /// Gives a lease back.
    fn release(
        &self,
        name: &LockName,
        lease_id: LeaseId,
    ) -> impl Future<Output = Result<ReleaseOutcome, StoreError>> + Send;

    /// Renews a lease, whichever stream keeps it.
    fn renew(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        ttl: Option<Duration>,
    ) -> impl Future<Output = Result<Timed<RenewOutcome>, StoreError>> + Send;

    /// Locks with the same number are cheap to command together.
    fn group(&self, name: &LockName) -> u16;

    /// Takes leases into the keeping of a stream and renews them. Answers one by one, in order.
    fn attach(&self, leases: &[Kept<'_>]) -> impl Future<Output = Vec<Result<RenewOutcome, StoreError>>> + Send;

    /// Renews leases that a stream keeps, best handed over group by group. Answers one by one, in order.
    fn renew_kept(&self, leases: &[Kept<'_>]) -> impl Future<Output = Vec<Result<RenewOutcome, StoreError>>> + Send;

    /// Takes a lease out of a stream's keeping.
    fn detach(&self, lease: Kept<'_>);

    /// Takes a lease back because its stream ended, if it is still in that stream's keeping.
    fn disconnect(&self, lease: Kept<'_>);

    /// Takes the lock from the holder of this token.
    fn force_release(
        &self,
        name: &LockName,
        expected: FencingToken,
        reason: &Reason,
    ) -> impl Future<Output = Result<RevokeOutcome, StoreError>> + Send;

    /// Reads a lock.
    fn view(&self, name: &LockName) -> impl Future<Output = Result<LockView, StoreError>> + Send;

    /// What a token is worth, and the highest one granted.
    fn check_token(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> impl Future<Output = Result<(TokenStatus, Option<FencingToken>), StoreError>> + Send;

    /// Lists the locks in use whose names begin with `prefix`, from `from` on ([`Page::next`]), at most `limit`.
    fn list(
        &self,
        prefix: &str,
        from: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Makes sure that events are told from now on.
    fn begin_watch(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}
