//! Outcomes and errors of a release, and the unary call.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::servers::Lane;
use crate::status::{LockLost, LossCause};
use crate::v1;
use std::time::Duration;
use v1::lock_service_client::LockServiceClient;

/// How the released lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// [`Released`](v1::LeaseEnd::Released): by this release. Anything else: it had ended before, and only the token
    /// protected the work done since then. For a lock that was lost already it says how, as far as this process knows:
    /// [`Unspecified`](v1::LeaseEnd::Unspecified) if the cause is [`Silence`](LossCause::Silence), because no server
    /// has reported an end.
    pub end: v1::LeaseEnd,
    /// If it had ended before: the token of the lease that holds the lock now, if there is one.
    pub successor_token: Option<u64>,
}

impl Released {
    /// Whether the lock was held until the release.
    pub fn was_held(&self) -> bool {
        self.end == v1::LeaseEnd::Released
    }
}

/// The server did not confirm the release. The lease ends by its TTL at the latest.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The release may have been applied.
    #[error("release: outcome unknown; the lease ends by its TTL at the latest")]
    OutcomeUnknown {
        /// The error of the last transmission; `None` if the process' runtime was shutting down.
        source: Option<CallError>,
    },
    /// The server refused the call.
    #[error("release refused; the lease ends by its TTL")]
    Refused {
        /// The server's error.
        source: CallError,
    },
}

impl From<CallError> for ReleaseError {
    fn from(source: CallError) -> Self {
        if source.is_transient() { Self::OutcomeUnknown { source: Some(source) } } else { Self::Refused { source } }
    }
}

impl From<v1::ReleaseResponse> for Released {
    fn from(response: v1::ReleaseResponse) -> Self {
        let successor_token = (response.successor_token != 0).then_some(response.successor_token);
        Self { end: response.end(), successor_token }
    }
}

impl From<LockLost> for Released {
    fn from(lost: LockLost) -> Self {
        let end = match lost.cause {
            LossCause::Expired => v1::LeaseEnd::Expired,
            LossCause::Revoked => v1::LeaseEnd::Revoked,
            LossCause::Superseded => v1::LeaseEnd::Superseded,
            LossCause::Released => v1::LeaseEnd::Released,
            LossCause::Unknown | LossCause::Invalid => v1::LeaseEnd::Unknown,
            LossCause::Silence | LossCause::Detached => v1::LeaseEnd::Unspecified,
        };
        Self { end, successor_token: lost.successor_token }
    }
}

/// Releases by a unary call, with retries. Dropped, the last transmission may still be applied.
pub(crate) async fn call(core: &Core, request: v1::ReleaseRequest) -> Result<v1::ReleaseResponse, CallError> {
    let until = Moment::now().plus(core.retry_for);
    core.retry(Lane::Prompt, until, |channel| {
        let request = request.clone();
        async move {
            let mut client = LockServiceClient::new(channel);
            let limit = core.limit(Duration::ZERO, until);
            core.within(limit, request, |request| client.release(request)).await
        }
    })
    .await
}
