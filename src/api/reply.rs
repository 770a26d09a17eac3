//! Converts the service's answers into messages.

use super::{
    shown::{delay, holder_count, holders, semaphore},
    values::{count, duration, fate, id, identity, mode, number, previous_end, slot},
};
use crate::{
    config::duration::as_written,
    domain::{
        lease::MaxHold,
        name::LockName,
        outcome::{Contention, DescribeOutcome, Gone, ReleaseOutcome, RenewOutcome, RevokeOutcome, TokenStatus},
        token::FencingToken,
    },
    locks::{
        AcquireAnswer, ConvertAnswer, WatchItem,
        keepalive::{DetachReason, Group, ToClient},
        session::{self, Answer},
    },
    store::EventKind,
};
use fencepost_proto::v1;
use prost::Message as _;
use std::time::Duration;
use tonic::Status;

pub(super) fn acquire(name: LockName, answer: AcquireAnswer) -> v1::AcquireResponse {
    use v1::acquire_response::Outcome;
    match answer {
        AcquireAnswer::Acquired(acquired) => {
            let grant = acquired.grant;
            v1::AcquireResponse {
                outcome: Outcome::Acquired.into(),
                lease: Some(v1::Lease {
                    lock_name: name.into_string(),
                    lease_id: id(grant.lease_id.0),
                    grant_id: id(grant.grant_id.0),
                    fencing_token: grant.token.get(),
                    ttl: Some(duration(grant.left)),
                    mode: mode(grant.mode).into(),
                    slot: slot(grant.slot),
                }),
                held_for: Some(duration(acquired.held_for)),
                previous_end: previous_end(grant.previous_end).into(),
                ..v1::AcquireResponse::default()
            }
        }
        AcquireAnswer::Contended(contention) => contended(Outcome::Contended, *contention),
        AcquireAnswer::TimedOut(contention) => contended(Outcome::TimedOut, *contention),
    }
}

fn contended(outcome: v1::acquire_response::Outcome, contention: Contention) -> v1::AcquireResponse {
    v1::AcquireResponse {
        outcome: outcome.into(),
        holder_count: holder_count(contention.current.as_ref(), contention.classic, contention.shared.as_deref()),
        semaphore: contention.shared.as_ref().and_then(|shared| shared.semaphore).map(semaphore),
        holders: holders(contention.current, contention.classic, contention.shared),
        waiters: count(contention.waiters),
        delay: contention.delay.map(delay),
        ..v1::AcquireResponse::default()
    }
}

pub(super) fn release(outcome: ReleaseOutcome) -> v1::ReleaseResponse {
    match outcome {
        ReleaseOutcome::Released => v1::ReleaseResponse { end: v1::LeaseEnd::Released.into(), successor_token: 0 },
        ReleaseOutcome::Gone(gone) => {
            let end = fate(gone.fate);
            let successor_token = if end == v1::LeaseEnd::Released { 0 } else { number(gone.successor) };
            v1::ReleaseResponse { end: end.into(), successor_token }
        }
    }
}

pub(super) fn renew(outcome: RenewOutcome, held_for: Duration) -> v1::RenewResponse {
    use v1::renew_response::Outcome;
    match outcome {
        RenewOutcome::Renewed(renewed) => v1::RenewResponse {
            outcome: Outcome::Renewed.into(),
            ttl: Some(duration(renewed.left)),
            held_for: Some(duration(held_for)),
            fencing_token: renewed.token.get(),
            ..v1::RenewResponse::default()
        },
        RenewOutcome::Lost(gone) => v1::RenewResponse {
            outcome: Outcome::Lost.into(),
            end: fate(gone.fate).into(),
            successor_token: number(gone.successor),
            ..v1::RenewResponse::default()
        },
        // Unreachable: the renewal of a unary call names no attachment.
        RenewOutcome::AttachedElsewhere => v1::RenewResponse {
            outcome: Outcome::Lost.into(),
            end: v1::LeaseEnd::Unknown.into(),
            ..v1::RenewResponse::default()
        },
    }
}

pub(super) fn convert(answer: ConvertAnswer, held_for: Duration) -> v1::ConvertResponse {
    use v1::convert_response::Outcome;
    match answer {
        ConvertAnswer::Converted(lease) => v1::ConvertResponse {
            outcome: Outcome::Converted.into(),
            fencing_token: lease.token.get(),
            ttl: Some(duration(lease.left)),
            held_for: Some(duration(held_for)),
            ..v1::ConvertResponse::default()
        },
        ConvertAnswer::Contended(contention) => v1::ConvertResponse {
            outcome: Outcome::Contended.into(),
            holder_count: holder_count(contention.current.as_ref(), contention.classic, contention.shared.as_deref()),
            holders: holders(contention.current, contention.classic, contention.shared),
            ..v1::ConvertResponse::default()
        },
        ConvertAnswer::Lost(gone) => v1::ConvertResponse {
            outcome: Outcome::Lost.into(),
            end: fate(gone.fate).into(),
            successor_token: number(gone.successor),
            ..v1::ConvertResponse::default()
        },
    }
}

pub(super) fn describe(outcome: DescribeOutcome) -> v1::DescribeResponse {
    use v1::describe_response::Outcome;
    match outcome {
        DescribeOutcome::Described(number) => {
            v1::DescribeResponse { outcome: Outcome::Described.into(), number, ..v1::DescribeResponse::default() }
        }
        DescribeOutcome::Outdated(number) => {
            v1::DescribeResponse { outcome: Outcome::Outdated.into(), number, ..v1::DescribeResponse::default() }
        }
        DescribeOutcome::Lost(gone) => v1::DescribeResponse {
            outcome: Outcome::Lost.into(),
            number: 0,
            end: fate(gone.fate).into(),
            successor_token: self::number(gone.successor),
        },
    }
}

pub(super) fn check_token(status: TokenStatus, newest: Option<FencingToken>) -> v1::CheckTokenResponse {
    use v1::check_token_response::Status;
    let status = match status {
        TokenStatus::Current => Status::Current,
        TokenStatus::Ended => Status::Ended,
        TokenStatus::Stale => Status::Stale,
        TokenStatus::Unknown => Status::Unknown,
    };
    v1::CheckTokenResponse { status: status.into(), newest_token: number(newest) }
}

pub(super) fn force_release(outcome: RevokeOutcome) -> v1::ForceReleaseResponse {
    use v1::force_release_response::Outcome;
    let (outcome, holder, current_tokens) = match outcome {
        RevokeOutcome::Revoked(holder) => (Outcome::Revoked, holder.into_string(), Vec::new()),
        RevokeOutcome::NotHeld => (Outcome::NotHeld, String::new(), Vec::new()),
        RevokeOutcome::TokenMismatch(current) => (Outcome::TokenMismatch, String::new(), vec![current.get()]),
    };
    v1::ForceReleaseResponse { outcome: outcome.into(), holder, current_tokens }
}

/// Why a lease expired that was renewed in time.
pub(crate) fn expired_because(max: MaxHold) -> String {
    format!("held for its max_hold of {}", as_written(max.span()))
}

pub(super) fn watch(item: WatchItem) -> v1::WatchResponse {
    use v1::watch_response::Kind;
    match item {
        WatchItem::Missed(missed) => {
            v1::WatchResponse { kind: Kind::Missed.into(), missed, ..v1::WatchResponse::default() }
        }
        WatchItem::Event(event) => {
            let changed = if let EventKind::Changed(to) = &event.kind { mode(*to) } else { v1::LockMode::Unspecified };
            let (kind, reason) = match event.kind {
                EventKind::Changed(_) => (Kind::Changed, String::new()),
                EventKind::Granted => (Kind::Granted, String::new()),
                EventKind::Released => (Kind::Released, String::new()),
                EventKind::Expired => (Kind::Expired, event.max_hold.map(expired_because).unwrap_or_default()),
                EventKind::Revoked(reason) => (Kind::Revoked, reason),
            };
            v1::WatchResponse {
                kind: kind.into(),
                lock_name: event.name.into_string(),
                holder: event.holder,
                grant_id: id(event.grant_id.0),
                fencing_token: event.token.get(),
                reason,
                missed: 0,
                mode: changed.into(),
                identity: identity(event.identity.as_ref()),
            }
        }
    }
}

pub(super) fn keep_alive(message: ToClient) -> v1::KeepAliveResponse {
    use v1::keep_alive_response::Message;
    let message = match message {
        ToClient::Beat { beat, next_in } => Message::Beat(v1::Beat { beat, next_in: Some(duration(next_in)) }),
        ToClient::Attached(leases) => Message::Attached(v1::Attached { leases: groups(leases) }),
        ToClient::Renewed { beat, leases } => Message::Renewed(v1::Renewed { beat, leases: groups(leases) }),
        ToClient::Lost { handle, gone: Gone { fate: how, successor } } => {
            Message::Lost(v1::Lost { handle, end: fate(how).into(), successor_token: number(successor) })
        }
        ToClient::AtRisk(handles) => Message::AtRisk(v1::AtRisk { handles }),
        ToClient::Detached { handle, reason } => {
            use v1::detached::Reason;
            let reason = match reason {
                DetachReason::Requested => Reason::Requested,
                DetachReason::AttachedElsewhere => Reason::AttachedElsewhere,
                DetachReason::StreamFull => Reason::StreamFull,
            };
            Message::Detached(v1::Detached { handle, reason: reason.into() })
        }
        ToClient::Wanted { handle, mode: waited_for } => {
            Message::Wanted(v1::Wanted { handle, mode: mode(waited_for).into() })
        }
        ToClient::Draining(grace) => Message::Draining(v1::Draining { grace: Some(duration(grace)) }),
    };
    v1::KeepAliveResponse { message: Some(message) }
}

/// A session's message. Those of kept leases are the same as on a KeepAlive stream.
pub(super) fn session(message: session::ToClient<Status>) -> v1::SessionResponse {
    use v1::session_response::Message;
    let (operation, message) = match message {
        session::ToClient::Answer(operation, answer) => (operation, answer_of(answer)),
        session::ToClient::Kept(message) => {
            use v1::keep_alive_response::Message as Kept;
            let message = keep_alive(message).message.map(|message| match message {
                Kept::Beat(beat) => Message::Beat(beat),
                Kept::Attached(attached) => Message::Attached(attached),
                Kept::Renewed(renewed) => Message::Renewed(renewed),
                Kept::Lost(lost) => Message::Lost(lost),
                Kept::AtRisk(at_risk) => Message::AtRisk(at_risk),
                Kept::Detached(detached) => Message::Detached(detached),
                Kept::Draining(draining) => Message::Draining(draining),
                Kept::Wanted(wanted) => Message::Wanted(wanted),
            });
            return v1::SessionResponse { operation: 0, message };
        }
    };
    v1::SessionResponse { operation, message: Some(message) }
}

fn answer_of(answer: Answer<Status>) -> v1::session_response::Message {
    use v1::session_response::Message;
    match answer {
        Answer::Waiting(ahead) => Message::Waiting(v1::Waiting { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) }),
        Answer::Acquire { name, answer, .. } => Message::Acquire(acquire(name, answer)),
        Answer::Release(outcome) => Message::Release(release(outcome)),
        Answer::Renew(outcome, held_for) => Message::Renew(renew(outcome, held_for)),
        Answer::Failed(error) => Message::Error(operation_error(&error.into())),
        Answer::Refused(status) => Message::Error(operation_error(&status)),
    }
}

/// Converts a status into a message. Its details, if there are any, are encoded as such a message.
fn operation_error(status: &Status) -> v1::OperationError {
    let details = v1::OperationError::decode(status.details()).unwrap_or_default().details;
    v1::OperationError { code: status.code().into(), message: status.message().to_owned(), details }
}

fn groups(groups: Vec<Group>) -> Vec<v1::RenewedLeases> {
    groups
        .into_iter()
        .map(|group| v1::RenewedLeases { ttl: Some(duration(group.left)), handles: group.handles })
        .collect()
}
