//! The raw calls of the API.

use crate::attempts::{Attempts, Route, Timed};
use crate::bearer::Connection;
use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::observe;
use crate::servers::Lane;
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;
use v1::admin_service_client::AdminServiceClient;
use v1::lock_service_client::LockServiceClient;

/// Raw unary calls with this client's timeouts and retries: a call whose outcome is unknown is retried with the same
/// ids, on another server if there is one, until [`ClientBuilder::retry_for`](crate::ClientBuilder::retry_for) is over.
/// The messages are documented in [`v1`].
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) core: Arc<Core>,
}

/// A unary call that may be retried unchanged.
macro_rules! retried {
    ($self:ident, $request:ident, $client:ident . $method:ident) => {{
        let core = &$self.core;
        let until = Moment::now().plus(core.retry_for);
        core.retry(Lane::Prompt, until, |channel| {
            let request = $request.clone();
            async move {
                let mut client = $client::new(channel);
                let limit = core.limit(Duration::ZERO, until);
                core.within(limit, request, |request| client.$method(request)).await
            }
        })
        .await
    }};
}

impl Calls {
    /// Acquires a lock, or waits for it. Sets the request id if it is empty, and counts attempts from the given one. If
    /// the request ends while the servers cannot hear from it and this call chose its id, the wait continues under a
    /// new id.
    ///
    /// Dropped, it cancels the call. If this call chose the request id, the request is also withdrawn in the
    /// background. A request with your own id is left alone, because you may retry it.
    pub async fn acquire(&self, request: v1::AcquireRequest) -> Result<v1::AcquireResponse, CallError> {
        Ok(self.acquire_timed(request).await?.message)
    }

    /// Like [`acquire`](Self::acquire), with the time that the lease counts from, for
    /// [`Client::keep`](crate::Client::keep).
    pub async fn acquire_timed(&self, request: v1::AcquireRequest) -> Result<Timed<v1::AcquireResponse>, CallError> {
        let ours = request.request_id.is_empty();
        Ok(Attempts::new(self.core.clone(), Route::Unary, request, ours).run().await?.timed)
    }

    /// Renews one lease, for callers without a stream.
    pub async fn renew(&self, request: v1::RenewRequest) -> Result<v1::RenewResponse, CallError> {
        Ok(self.renew_timed(request).await?.message)
    }

    /// Like [`renew`](Self::renew), with the time that the lease counts from.
    pub async fn renew_timed(&self, request: v1::RenewRequest) -> Result<Timed<v1::RenewResponse>, CallError> {
        let core = &self.core;
        let until = Moment::now().plus(core.retry_for);
        core.retry(Lane::Prompt, until, |channel| {
            let request = request.clone();
            async move {
                let mut client = LockServiceClient::new(channel);
                let limit = core.limit(Duration::ZERO, until);
                let sent_at = Moment::now();
                let message = core.within(limit, request, |request| client.renew(request)).await?;
                Ok(Timed { sent_at, message })
            }
        })
        .await
    }

    /// Releases a lease. Stop the protected work first.
    pub async fn release(&self, request: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, CallError> {
        crate::release::call(&self.core, request).await
    }

    /// Reads one lock.
    pub async fn get(&self, request: v1::GetRequest) -> Result<v1::GetResponse, CallError> {
        retried!(self, request, LockServiceClient.get)
    }

    /// Lists locks that are held or waited for, one page at a time.
    pub async fn list(&self, request: v1::ListRequest) -> Result<v1::ListResponse, CallError> {
        retried!(self, request, LockServiceClient.list)
    }

    /// Reads one lock and those who wait for it, one page at a time.
    pub async fn list_waiters(&self, request: v1::ListWaitersRequest) -> Result<v1::ListWaitersResponse, CallError> {
        retried!(self, request, LockServiceClient.list_waiters)
    }

    /// Replaces what others see of a lease. With a number of your own a repeat changes nothing.
    pub async fn describe(&self, request: v1::DescribeRequest) -> Result<v1::DescribeResponse, CallError> {
        retried!(self, request, LockServiceClient.describe)
    }

    /// Checks whether this token belongs to the lock's current lease.
    pub async fn check_token(&self, request: v1::CheckTokenRequest) -> Result<v1::CheckTokenResponse, CallError> {
        retried!(self, request, LockServiceClient.check_token)
    }

    /// Revokes a lock's lease.
    pub async fn force_release(&self, request: v1::ForceReleaseRequest) -> Result<v1::ForceReleaseResponse, CallError> {
        retried!(self, request, AdminServiceClient.force_release)
    }

    /// Drains *one* server: the first one added to the client. Sent once, never retried elsewhere.
    pub async fn drain(&self, request: v1::DrainRequest) -> Result<v1::DrainResponse, CallError> {
        let core = &self.core;
        let channel = core.servers.channel(0, Lane::Prompt);
        let mut client = AdminServiceClient::new(channel.connection.clone());
        let answer = core.within(core.call_timeout, request, |request| client.drain(request)).await;
        core.answered(&channel, answer).map_err(|error| core.servers.explain(0, error))
    }

    /// Streams events of the locks with a prefix. Opening is retried; a broken stream is not resumed, because events
    /// may have been missed: list again, then watch again.
    pub async fn watch(&self, request: v1::WatchRequest) -> Result<Streaming<v1::WatchResponse>, CallError> {
        let core = &self.core;
        let open = |channel: Connection| {
            let request = request.clone();
            async move { core.opened(LockServiceClient::new(channel).watch(request)).await }
        };
        core.retry(Lane::Prompt, Moment::now().plus(core.retry_for), open).await
    }

    /// Streams the states of one lock. Opening is retried; a broken stream is not resumed
    /// ([`Client::observe`](crate::Client::observe) does that).
    pub async fn observe(&self, request: v1::ObserveRequest) -> Result<Streaming<v1::ObserveResponse>, CallError> {
        let core = &self.core;
        let open = |channel: Connection| observe::open(core, channel, request.clone());
        core.retry(Lane::Prompt, Moment::now().plus(core.retry_for), open).await
    }
}
