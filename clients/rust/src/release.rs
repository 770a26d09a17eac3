//! Outcomes and errors of a release, and the unary call.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::servers::Lane;
use crate::status::{LockLost, LossCause};
use crate::v1;
use crate::values::LeaseEnd;
use std::time::Duration;
use v1::lock_service_client::LockServiceClient;

/// How the released lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// [`Released`](LeaseEnd::Released): by this release. Anything else: it had ended before, and only the token
    /// protected the work done since then. For a lock that was lost already it says how, as far as this process knows:
    /// `None` if the cause is [`Silence`](LossCause::Silence) or [`MaxHold`](LossCause::MaxHold), because no server has
    /// reported an end.
    pub end: Option<LeaseEnd>,
    /// If it had ended before: the token of the lease that holds the lock now, if there is one.
    pub successor_token: Option<u64>,
}

impl Released {
    /// Whether the lock was held until the release.
    pub fn was_held(&self) -> bool {
        self.end == Some(LeaseEnd::Released)
    }
}

/// The server did not confirm the release. The lease ends by its TTL at the latest.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The release may have been applied.
    #[error("{}; the lock is free after its TTL at the latest", text(.cause.as_ref()))]
    OutcomeUnknown {
        /// The error of the last transmission; `None` if the process' runtime was shutting down.
        cause: Option<CallError>,
    },
    /// No server could be reached, or each one that answered said that it did nothing.
    #[error("{cause}; the lock is free after its TTL")]
    Unavailable {
        /// The error of the last transmission.
        cause: CallError,
    },
    /// The server refused the call.
    #[error("{cause}; the lock is free after its TTL")]
    Refused {
        /// The server's error.
        cause: CallError,
    },
}

fn text(cause: Option<&CallError>) -> String {
    cause.map_or_else(|| "outcome unknown: the runtime is shutting down".to_owned(), ToString::to_string)
}

impl From<CallError> for ReleaseError {
    fn from(cause: CallError) -> Self {
        if cause.is_outcome_unknown() {
            Self::OutcomeUnknown { cause: Some(cause) }
        } else if cause.is_unavailable() {
            Self::Unavailable { cause }
        } else {
            Self::Refused { cause }
        }
    }
}

impl From<v1::ReleaseResponse> for Released {
    fn from(response: v1::ReleaseResponse) -> Self {
        let successor_token = (response.successor_token != 0).then_some(response.successor_token);
        Self { end: LeaseEnd::of(response.end()), successor_token }
    }
}

impl From<LockLost> for Released {
    fn from(lost: LockLost) -> Self {
        let end = match lost.cause {
            LossCause::Expired => Some(LeaseEnd::Expired),
            LossCause::Revoked => Some(LeaseEnd::Revoked),
            LossCause::Superseded => Some(LeaseEnd::Superseded),
            LossCause::Released | LossCause::ReleasedElsewhere => Some(LeaseEnd::Released),
            LossCause::Unknown | LossCause::Invalid => Some(LeaseEnd::Unknown),
            LossCause::Silence | LossCause::MaxHold | LossCause::Detached => None,
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
