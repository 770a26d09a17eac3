//! Conversions of a held lock: a writer becomes a reader, or the only reader a writer.

use crate::calls::Calls;
use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::lock::Lock;
use crate::mode::Mode;
use crate::servers::Lane;
use crate::status::{LockLost, Loss};
use crate::v1::{self, convert_response::Outcome};
use std::time::Duration;
use v1::lock_service_client::LockServiceClient;

/// Why a lock was not converted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The lock is lost.
    #[error("{0}")]
    Lost(LockLost),
    /// The call failed. If its outcome is unknown, convert again: a repeat answers what the first call did.
    #[error("{0}")]
    Call(#[from] CallError),
}

impl Lock {
    /// Lets others share the lock from now on: it stays held without a moment in between, and keeps its token. Readers
    /// that are next in the queue get the lock at once, and a writer that waits comes after them. Stop writing before
    /// you call this, because readers may come in although no answer arrives. A lock that is shared already stays so.
    ///
    /// Refused (`NOT_CONVERTIBLE`) for a semaphore.
    pub async fn downgrade(&mut self) -> Result<(), ConvertError> {
        self.convert(Mode::Shared).await.map(drop)
    }

    /// Makes a shared lock exclusive, if nobody else shares it or is offered it: `false` if somebody does, and it stays
    /// shared. It never waits, because two readers would wait for each other. A lock that is exclusive already stays
    /// so.
    ///
    /// Afterwards the lock has a **new token**, of which handles tell: read [`token`](crate::Held::token) for each
    /// write. That is so for a lock that was exclusive, too: a [`downgrade`](Self::downgrade) that had no answer does
    /// not undo the upgrade if it arrives later. If the outcome is unknown, or the future was dropped, the token may be
    /// outdated: call this again. Refused (`NOT_CONVERTIBLE`) for a semaphore.
    pub async fn try_upgrade(&mut self) -> Result<bool, ConvertError> {
        self.convert(Mode::Exclusive).await
    }

    async fn convert(&mut self, mode: Mode) -> Result<bool, ConvertError> {
        let state = &self.held().state;
        if let Some(lost) = state.lost(Moment::now()) {
            return Err(ConvertError::Lost(lost));
        }
        let request = v1::ConvertRequest {
            lock_name: state.name.clone(),
            lease_id: state.lease_id.clone(),
            fencing_token: state.token(),
            mode: v1::LockMode::from(mode).into(),
        };
        // What the call would tell after the end of the lease is no news.
        let answer = tokio::select! {
            biased;
            lost = self.held().lost() => return Err(ConvertError::Lost(lost)),
            answer = call(&self.core, request) => answer?,
        };
        match answer.outcome() {
            Outcome::Converted => {
                state.convert(mode, answer.fencing_token);
                Ok(true)
            }
            Outcome::Contended => Ok(false),
            Outcome::Lost | Outcome::Unspecified => {
                let loss = Loss::from_server(answer.end(), answer.successor_token);
                state.end(loss);
                Err(ConvertError::Lost(state.lock_lost(loss)))
            }
        }
    }
}

impl Calls {
    /// Converts a lease to another mode. A repeat answers what the first call did.
    pub async fn convert(&self, request: v1::ConvertRequest) -> Result<v1::ConvertResponse, CallError> {
        call(&self.core, request).await
    }
}

async fn call(core: &Core, request: v1::ConvertRequest) -> Result<v1::ConvertResponse, CallError> {
    let until = Moment::now().plus(core.retry_for);
    core.retry(Lane::Prompt, until, |channel| {
        let request = request.clone();
        async move {
            let mut client = LockServiceClient::new(channel);
            let limit = core.limit(Duration::ZERO, until);
            core.within(limit, request, |request| client.convert(request)).await
        }
    })
    .await
}
