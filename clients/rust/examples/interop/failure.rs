//! The error answers of the driver.

use fencepost_client::{AcquireAllError, AcquireError, CallError, Holder, LockLost, LossCause, ReleaseError};
use serde_json::{Value, json};
use std::io;

/// An error answer: its kind, its message, and further fields.
pub(crate) struct Failure(pub(crate) Value);

pub(crate) fn loss_name(cause: LossCause) -> String {
    match cause {
        LossCause::ReleasedElsewhere => "released".to_owned(),
        LossCause::MaxHold => "max_hold".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

pub(crate) fn failure(kind: &str, message: &str) -> Failure {
    Failure(json!({ "error": kind, "message": message }))
}

pub(crate) fn closed() -> Failure {
    failure("closed", "no client is open")
}

pub(crate) fn bad_request(message: &str) -> Failure {
    failure("bad_request", message)
}

fn refused(code: &str, reason: &str, message: &str) -> Failure {
    Failure(json!({ "error": "refused", "code": code, "reason": reason, "message": message }))
}

fn lost_failure(reason: &str, successor_token: Option<u64>, message: &str) -> Failure {
    Failure(json!({ "error": "lost", "reason": reason, "successor_token": successor_token, "message": message }))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        bad_request(&error.to_string())
    }
}

impl From<LockLost> for Failure {
    fn from(lost: LockLost) -> Self {
        lost_failure(&loss_name(lost.cause), lost.successor_token, &lost.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        if error.is_outcome_unknown() {
            return failure("outcome_unknown", &error.to_string());
        }
        refused(error.code().name(), &error.reason().unwrap_or_default(), &error.to_string())
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Refused { cause } => cause.into(),
            other => failure("outcome_unknown", &other.to_string()),
        }
    }
}

impl From<AcquireAllError> for Failure {
    fn from(error: AcquireAllError) -> Self {
        let message = error.to_string();
        let (Self(mut fields), name, given_back) = match error {
            AcquireAllError::NotAcquired { name, cause, given_back, .. } => (cause.into(), name, given_back),
            AcquireAllError::Lost { lost, given_back, .. } => (lost.clone().into(), lost.name, given_back),
            _ => return bad_request(&message),
        };
        fields["message"] = json!(message);
        fields["name"] = json!(name);
        fields["given_back"] = json!(given_back);
        Self(fields)
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        let message = error.to_string();
        let busy = |kind, holders: &[Holder], count, waiters| {
            let holder = holders.first().map(|holder| &holder.label);
            Self(json!({ "error": kind, "message": message, "holder": holder, "holders": count, "waiters": waiters }))
        };
        match &error {
            AcquireError::Contended { holders, holder_count, waiters, .. } => {
                busy("contended", holders, *holder_count, *waiters)
            }
            AcquireError::TimedOut { holders, holder_count, waiters, .. } => {
                busy("timed_out", holders, *holder_count, *waiters)
            }
            AcquireError::Invalid { .. } => refused("INVALID_ARGUMENT", "INVALID_FIELD", &message),
            AcquireError::Exhausted { .. } => refused("RESOURCE_EXHAUSTED", "", &message),
            AcquireError::Ended => refused("ABORTED", "REQUEST_ENDED", &message),
            AcquireError::Overtaken => refused("ABORTED", "OVERTAKEN", &message),
            AcquireError::LostOnArrival { .. } => lost_failure("silence", None, &message),
            AcquireError::OutcomeUnknown { .. } => failure("outcome_unknown", &message),
            AcquireError::Unavailable { source } | AcquireError::Refused { source } => source.clone().into(),
            _ => refused("INTERNAL", "", &message),
        }
    }
}
