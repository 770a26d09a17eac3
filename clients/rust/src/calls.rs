//! The calls of the API as they are, for those who want the messages themselves.

use crate::attempts::{Attempts, Timed, Way};
use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::servers::Lane;
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use v1::admin_service_client::AdminServiceClient;
use v1::lock_service_client::LockServiceClient;

/// Raw unary calls, with this crate's bounds and repeats: a call whose outcome is unknown is repeated with the same
/// ids, on another server if there is one, until its bound is over. The messages are documented in [`v1`].
#[derive(Clone, Debug)]
pub struct Calls {
    pub(crate) core: Arc<Core>,
}

/// A unary call that may be repeated as it is.
macro_rules! repeated {
    ($self:ident, $request:ident, $client:ident . $method:ident) => {{
        let core = &$self.core;
        let until = Moment::now().plus(core.retry_for);
        core.repeat(Lane::Prompt, until, |channel| {
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
    /// Takes a lock, or waits for it. Sets the request id if it is empty, and counts the attempts from the one given.
    /// Should a request with an id of this call's own making end while it is away, its wait goes on with another.
    ///
    /// Dropped, it cancels the call. If the request id is of this call's own making, the request is also taken back in
    /// the background; one that you brought may be repeated by you, so it is left alone.
    pub async fn acquire(&self, request: v1::AcquireRequest) -> Result<v1::AcquireResponse, CallError> {
        Ok(self.acquire_timed(request).await?.message)
    }

    /// The same, with the moment that its validity counts from: what [`Client::keep`](crate::Client::keep) asks for.
    pub async fn acquire_timed(&self, request: v1::AcquireRequest) -> Result<Timed<v1::AcquireResponse>, CallError> {
        let ours = request.request_id.is_empty();
        Ok(Attempts::new(self.core.clone(), Way::Calls, request, ours).run().await?.timed)
    }

    /// Renews one lease, for callers that keep no stream.
    pub async fn renew(&self, request: v1::RenewRequest) -> Result<v1::RenewResponse, CallError> {
        Ok(self.renew_timed(request).await?.message)
    }

    /// The same, with the moment that its validity counts from.
    pub async fn renew_timed(&self, request: v1::RenewRequest) -> Result<Timed<v1::RenewResponse>, CallError> {
        let core = &self.core;
        let until = Moment::now().plus(core.retry_for);
        core.repeat(Lane::Prompt, until, |channel| {
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

    /// Gives a lease back. Stop the work that it protects before you call this.
    pub async fn release(&self, request: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, CallError> {
        crate::release::call(&self.core, request).await
    }

    /// Reads one lock.
    pub async fn get(&self, request: v1::GetRequest) -> Result<v1::GetResponse, CallError> {
        repeated!(self, request, LockServiceClient.get)
    }

    /// Lists the locks that are held or waited for, one page at a time.
    pub async fn list(&self, request: v1::ListRequest) -> Result<v1::ListResponse, CallError> {
        repeated!(self, request, LockServiceClient.list)
    }

    /// Is this token that of the lock's current lease?
    pub async fn check_token(&self, request: v1::CheckTokenRequest) -> Result<v1::CheckTokenResponse, CallError> {
        repeated!(self, request, LockServiceClient.check_token)
    }

    /// Takes a lock from its holder.
    pub async fn force_release(&self, request: v1::ForceReleaseRequest) -> Result<v1::ForceReleaseResponse, CallError> {
        repeated!(self, request, AdminServiceClient.force_release)
    }

    /// Makes *one* server go away in order: the first that this client was given. Sent once, never to another.
    pub async fn drain(&self, request: v1::DrainRequest) -> Result<v1::DrainResponse, CallError> {
        let core = &self.core;
        let mut client = AdminServiceClient::new(core.servers.channel(0, Lane::Prompt));
        let answer = core.within(core.call_timeout, request, |request| client.drain(request));
        answer.await.map_err(|status| core.servers.judge(0, CallError::new(status)))
    }

    /// Streams what happens to the locks with a prefix. Opening it is repeated; a stream that breaks is not: the next
    /// one would not know what was missed. List again, then watch again.
    pub async fn watch(&self, request: v1::WatchRequest) -> Result<Streaming<v1::WatchResponse>, CallError> {
        let core = &self.core;
        let open = |channel: Channel| {
            let request = request.clone();
            async move {
                let mut client = LockServiceClient::new(channel);
                let timer = core.sleep(core.call_timeout);
                tokio::select! {
                    stream = client.watch(request) => stream.map(tonic::Response::into_inner),
                    () = timer => Err(Status::deadline_exceeded("no answer in time")),
                }
            }
        };
        core.repeat(Lane::Prompt, Moment::now().plus(core.retry_for), open).await
    }
}
