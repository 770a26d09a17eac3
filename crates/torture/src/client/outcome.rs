//! The meaning of answers, and the validity of leases (`held_for` in `lock.proto`), implemented independently of the
//! client library under test.

use crate::clock;
use fencepost_proto::v1::{self, acquire_response::Outcome};
use fencepost_torture::history::{AcquireEnd, Grant, Nanos};
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(super) fn duration(wire: Option<prost_types::Duration>) -> Duration {
    wire.and_then(|time| time.try_into().ok()).unwrap_or_default()
}

pub(super) fn wire(time: Duration) -> Option<prost_types::Duration> {
    time.try_into().ok()
}

/// The safety margin of a TTL: 1 % for drift, and the margin of `lock.proto`.
pub(super) fn safety_margin(ttl: Duration) -> Duration {
    ttl / 100 + (ttl / 20).max(Duration::from_millis(20))
}

pub(super) fn valid_until(sent: Nanos, read: Nanos, held_for: Duration, ttl: Duration) -> Nanos {
    // At most the duration of the whole exchange by the local clock.
    let held_for = clock::nanos(held_for).min(read.saturating_sub(sent));
    (sent + held_for + clock::nanos(ttl)).saturating_sub(clock::nanos(safety_margin(ttl)))
}

/// Whether the outcome is unknown.
pub(super) fn is_unknown(status: &Status) -> bool {
    let by_code = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled);
    // A status with a source was made locally, for a broken connection.
    by_code || std::error::Error::source(status).is_some()
}

fn aborted(status: &Status) -> AcquireEnd {
    match status.get_details_error_info().map(|info| info.reason).as_deref() {
        Some("REQUEST_ENDED") => AcquireEnd::Aborted,
        Some("OVERTAKEN") => AcquireEnd::Overtaken,
        _ => AcquireEnd::Refused(format!("ABORTED for an unknown reason: {}", describe(status))),
    }
}

pub(super) fn describe(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

pub(super) fn acquire_end(
    answer: Result<v1::AcquireResponse, Status>,
    sent: Nanos,
    read: Nanos,
) -> (AcquireEnd, Option<v1::Lease>) {
    let end = match answer {
        Ok(answer) => match (answer.outcome(), answer.lease) {
            (Outcome::Acquired, Some(lease)) => {
                let (held_for, left) = (duration(answer.held_for), duration(lease.ttl));
                let valid_until = valid_until(sent, read, held_for, left);
                let grant = Grant {
                    token: lease.fencing_token,
                    grant: lease.grant_id.clone(),
                    valid_until,
                    held_for: clock::nanos(held_for),
                    left: clock::nanos(left),
                    slot: lease.slot,
                    usable: valid_until > read,
                };
                return (AcquireEnd::Acquired(grant), Some(lease));
            }
            (Outcome::Contended, _) => AcquireEnd::Contended,
            (Outcome::TimedOut, _) => AcquireEnd::TimedOut,
            (other, _) => AcquireEnd::Refused(format!("unknown outcome: {other:?}")),
        },
        Err(status) if status.code() == Code::Aborted => aborted(&status),
        Err(status) if is_unknown(&status) => AcquireEnd::Unknown(describe(&status)),
        Err(status) => AcquireEnd::Refused(describe(&status)),
    };
    (end, None)
}
