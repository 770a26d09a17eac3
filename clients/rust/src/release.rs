//! What giving a lease back comes to.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::servers::Lane;
use crate::v1;
use std::time::Duration;
use v1::lock_service_client::LockServiceClient;

/// How the lease that was given back ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// [`Released`](v1::LeaseEnd::Released): given back. Any other: it had ended before, and the work done since then
    /// was not protected by the lock, only by its token.
    pub end: v1::LeaseEnd,
    /// With any other: the token of the lease that holds the lock now, if there is one.
    pub successor_token: Option<u64>,
}

impl Released {
    /// Was the lock held until it was given back?
    pub fn was_held(&self) -> bool {
        self.end == v1::LeaseEnd::Released
    }
}

/// The server did not say that the lease is given back. It ends by its TTL at the latest.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// It may be given back already.
    #[error("release: outcome unknown; the lease ends by its TTL at the latest")]
    OutcomeUnknown {
        /// What the last transmission failed with, unless this process' runtime was shutting down.
        source: Option<CallError>,
    },
    /// The server refused the call.
    #[error("release refused; the lease ends by its TTL")]
    Refused {
        /// The server's words.
        source: CallError,
    },
}

impl From<CallError> for ReleaseError {
    fn from(source: CallError) -> Self {
        if source.may_pass() { Self::OutcomeUnknown { source: Some(source) } } else { Self::Refused { source } }
    }
}

impl From<v1::ReleaseResponse> for Released {
    fn from(response: v1::ReleaseResponse) -> Self {
        let successor_token = (response.successor_token != 0).then_some(response.successor_token);
        Self { end: response.end(), successor_token }
    }
}

/// One Release by unary calls, repeated. Dropped, it leaves the last transmission to the server.
pub(crate) async fn call(core: &Core, request: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, CallError> {
    let until = Moment::now().plus(core.retry_for);
    core.repeat(Lane::Prompt, until, |channel| {
        let request = request.clone();
        async move {
            let mut client = LockServiceClient::new(channel);
            let limit = core.limit(Duration::ZERO, until);
            core.within(limit, request, |request| client.release(request)).await
        }
    })
    .await
}
