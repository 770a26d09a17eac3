//! The lock service: waiting, keeping alive, watching, draining. It knows no transport and no store by name.

mod client;
mod denied;
mod dispatch;
mod error;
mod hub;
pub mod keepalive;
mod measure;
mod observe;
mod over_quota;
pub mod session;
mod wait;
mod waiters;
mod watch;

pub use denied::{Denied, Forbidden, NotPermitted};
pub use dispatch::{Dispatch, Permission, Target};
pub use error::LocksError;
pub use hub::{Auditor, Hub};
pub use observe::Observing;
pub use over_quota::OverQuota;
pub use wait::{AcquireAnswer, AcquireCall, Acquired, ConvertAnswer};
pub use waiters::Waiter;
pub use watch::{WatchItem, Watching};

use crate::{
    domain::{
        command::{Command, Outcome, WrongOutcome},
        ids::LeaseId,
        limits::Limits,
        mode::ConvertTo,
        name::{Holder, LockName, Metadata, Reason},
        outcome::{
            ConvertOutcome, DescribeOutcome, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, WaitersView,
        },
        token::FencingToken,
    },
    store::{Page, Store, Timed},
    telemetry::metrics::LockMetrics,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The service over one store.
pub struct Locks<S> {
    store: Arc<S>,
    hub: Arc<Hub>,
    observed: observe::Observed,
    limits: Limits,
    going: Going,
    metrics: Arc<LockMetrics>,
}

/// The state of this server's drain.
#[derive(Clone, Debug, Default)]
struct Going {
    /// The drain has begun: acquires are refused, and waiting calls end.
    draining: CancellationToken,
    /// The drain is over: streams end.
    gone: CancellationToken,
}

impl<S: Store> Locks<S> {
    /// The service over `store`, whose notices go to `hub`.
    pub fn new(store: Arc<S>, hub: Arc<Hub>, limits: Limits) -> Self {
        Self {
            store,
            hub,
            observed: observe::Observed::default(),
            limits,
            going: Going::default(),
            metrics: Arc::default(),
        }
    }

    /// The same, measured by these metrics.
    #[must_use]
    pub fn measured(self, metrics: Arc<LockMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Sets the metrics that are read from the state of the service. To be called before they are read.
    pub fn measure(&self) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.waiters.set(count(self.hub.waiters.len()));
        self.metrics.watchers.set(count(self.hub.watchers.len()));
    }

    /// The bounds of the service.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Begins to drain: acquires are refused, waiting calls end with a hint to retry, and streams are notified to
    /// attach elsewhere. Leases are not touched.
    pub fn drain(&self) {
        self.going.draining.cancel();
    }

    /// Refuses new work while the server drains.
    pub fn check_draining(&self) -> Result<(), LocksError> {
        if self.is_draining() { Err(LocksError::Draining) } else { Ok(()) }
    }

    /// Whether [`Locks::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.going.draining.is_cancelled()
    }

    /// Resolves when no call waits here and no KeepAlive stream is open.
    pub async fn quiet(&self) {
        while self.busy() != (0, 0) {
            self.hub.left.notified().await;
        }
    }

    /// Resolves when [`Locks::drain`] was called.
    pub async fn draining(&self) {
        self.going.draining.cancelled().await;
    }

    /// Ends the streams that are still open. The server drains from now on, if it did not before: streams look for
    /// their end only then.
    pub fn end_streams(&self) {
        self.going.draining.cancel();
        self.going.gone.cancel();
    }

    /// The number of waiting calls and of open streams on this server.
    pub fn busy(&self) -> (usize, usize) {
        (self.hub.waiters.len(), self.hub.streams())
    }

    /// Releases a lease.
    pub async fn release(&self, name: &LockName, lease_id: LeaseId) -> Result<ReleaseOutcome, LocksError> {
        Ok(self.run(name, Command::Release(lease_id)).await?.outcome)
    }

    /// Renews a lease. Also returns how long the call was held here before the command was sent.
    pub async fn renew(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        ttl: Option<Duration>,
        arrived: Instant,
    ) -> Result<(RenewOutcome, Duration), LocksError> {
        let renewed = self.run(name, Command::Renew { lease_id, ttl }).await;
        measure::renewal(&self.metrics, renewed.as_ref().map(|renewed| &renewed.outcome).map_err(drop));
        let Timed { sent, outcome } = renewed?;
        Ok((outcome, sent.saturating_duration_since(arrived)))
    }

    /// Revokes the lease with this token. Logged, because it breaks exclusion.
    pub async fn force_release(
        &self,
        name: &LockName,
        expected: FencingToken,
        reason: Reason,
    ) -> Result<RevokeOutcome, LocksError> {
        let logged = reason.clone();
        let outcome = self.run(name, Command::ForceRelease { expected, reason }).await?.outcome;
        if let RevokeOutcome::Revoked(holder) = &outcome {
            tracing::warn!(
                lock_name = name.as_str(),
                holder = holder.as_str(),
                fencing_token = expected.get(),
                reason = logged.as_str(),
                "lease revoked by force release"
            );
        }
        Ok(outcome)
    }

    /// Converts a lease to another mode. Also returns how long the call was held here before the command was sent.
    pub async fn convert(
        &self,
        name: &LockName,
        (lease_id, token): (LeaseId, FencingToken),
        to: ConvertTo,
        arrived: Instant,
    ) -> Result<(ConvertAnswer, Duration), LocksError> {
        let Timed { sent, outcome } = self.run(name, Command::Convert { lease_id, token, to }).await?;
        let answer = match outcome {
            ConvertOutcome::Converted(renewed) => ConvertAnswer::Converted(renewed),
            ConvertOutcome::Contended(contention) => ConvertAnswer::Contended(contention),
            ConvertOutcome::Lost(gone) => ConvertAnswer::Lost(gone),
            ConvertOutcome::TokenOutdated => return Err(LocksError::TokenOutdated),
            ConvertOutcome::NotConvertible => return Err(LocksError::NotConvertible),
            ConvertOutcome::TokensExhausted => return Err(LocksError::TokensExhausted),
            ConvertOutcome::BesideClassic => return Err(LocksError::BesideClassic),
        };
        Ok((answer, sent.saturating_duration_since(arrived)))
    }

    /// Replaces what others see of a lease.
    pub async fn describe(
        &self,
        name: &LockName,
        lease_id: LeaseId,
        (metadata, holder, number): (Metadata, Option<Holder>, u64),
    ) -> Result<DescribeOutcome, LocksError> {
        Ok(self.run(name, Command::Describe { lease_id, metadata, holder, number }).await?.outcome)
    }

    /// Reads a lock and at most `max` of its waiters, behind this position.
    pub async fn list_waiters(&self, name: &LockName, after: Option<u64>, max: u32) -> Result<WaitersView, LocksError> {
        Ok(*self.run::<Box<WaitersView>>(name, Command::ListWaiters { after, max }).await?.outcome)
    }

    /// Reads a lock, and whether a shared lease has this token.
    pub async fn view(&self, name: &LockName, token: Option<FencingToken>) -> Result<LockView, LocksError> {
        read(&*self.store, name, token).await
    }

    async fn run<T>(&self, name: &LockName, command: Command) -> Result<Timed<T>, LocksError>
    where
        T: TryFrom<Outcome, Error = WrongOutcome>,
    {
        Ok(self.store.run(name, command).await?.of()?)
    }

    /// A page of the locks in use.
    pub async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, LocksError> {
        Ok(self.store.list(prefix, from, limit).await?)
    }

    /// Events from now on of the locks whose names begin with `prefix`.
    pub async fn watch(&self, prefix: String) -> Result<Watching, LocksError> {
        let watching = self.hub.watchers.watch(prefix, self.going.gone.clone())?;
        self.store.watch().await?;
        Ok(watching)
    }
}

/// Reads a lock, and whether a shared lease has this token.
async fn read(store: &impl Store, name: &LockName, token: Option<FencingToken>) -> Result<LockView, LocksError> {
    Ok(*store.run(name, Command::View { token }).await?.of::<Box<LockView>>()?.outcome)
}
