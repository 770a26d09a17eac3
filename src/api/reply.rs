//! Converts the service's answers into messages.

use crate::{
    config::duration::as_written,
    domain::{
        lease::{LeaseEnd, MaxHold},
        mode::{ConvertTo, PermitLimit},
        name::LockName,
        outcome::{
            ClassicHold, Contention, DelayView, Fate, Gone, HolderView, LockView, ReleaseOutcome, RenewOutcome,
            RevokeOutcome, SemaphoreView, SharedView, TokenStatus,
        },
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
use std::{num::NonZeroU32, time::Duration};
use tonic::Status;

pub(super) fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

pub(super) fn acquire(name: LockName, answer: AcquireAnswer) -> v1::AcquireResponse {
    use v1::acquire_response::Outcome;
    match answer {
        AcquireAnswer::Acquired(acquired) => {
            let grant = acquired.grant;
            v1::AcquireResponse {
                outcome: Outcome::Acquired.into(),
                lease: Some(v1::Lease {
                    lock_name: name.into_string(),
                    lease_id: grant.lease_id.0.to_string(),
                    grant_id: grant.grant_id.0.to_string(),
                    fencing_token: grant.token.get(),
                    ttl: Some(duration(grant.left)),
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

pub(super) fn lock(name: LockName, view: LockView) -> v1::LockInfo {
    v1::LockInfo {
        lock_name: name.into_string(),
        holder_count: holder_count(view.current.as_ref(), view.classic, view.shared.as_deref()),
        semaphore: view.shared.as_ref().and_then(|shared| shared.semaphore).map(semaphore),
        holders: holders(view.current, view.classic, view.shared),
        waiters: count(view.waiters),
        previous_end: previous_end(view.previous_end).into(),
        newest_token: number(view.newest_token),
        delay: view.delay.map(delay),
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

pub(super) fn watch(item: WatchItem) -> v1::WatchResponse {
    use v1::watch_response::Kind;
    match item {
        WatchItem::Missed(missed) => {
            v1::WatchResponse { kind: Kind::Missed.into(), missed, ..v1::WatchResponse::default() }
        }
        WatchItem::Event(event) => {
            let expired_because = |max: MaxHold| format!("held for its max_hold of {}", as_written(max.span()));
            let mut mode = v1::LockMode::Unspecified;
            let (kind, reason) = match event.kind {
                EventKind::Converted(to) => {
                    mode = if to == ConvertTo::Shared { v1::LockMode::Shared } else { v1::LockMode::Exclusive };
                    (Kind::Changed, String::new())
                }
                EventKind::Granted => (Kind::Granted, String::new()),
                EventKind::Released => (Kind::Released, String::new()),
                EventKind::Expired => (Kind::Expired, event.max_hold.map(expired_because).unwrap_or_default()),
                EventKind::Revoked(reason) => (Kind::Revoked, reason),
            };
            v1::WatchResponse {
                kind: kind.into(),
                lock_name: event.name.into_string(),
                holder: event.holder,
                grant_id: event.grant_id.0.to_string(),
                fencing_token: event.token.get(),
                reason,
                missed: 0,
                mode: mode.into(),
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

/// What stands for the label of a holder that never gave one.
const CLASSIC_HOLDER: &str = "classic client";

fn holder_count(lease: Option<&HolderView>, classic: Option<ClassicHold>, shared: Option<&SharedView>) -> u32 {
    let alone = lease.is_some() || classic.is_some();
    shared.map_or(u32::from(alone), |shared| count(shared.count))
}

fn holders(
    lease: Option<HolderView>,
    classic: Option<ClassicHold>,
    shared: Option<Box<SharedView>>,
) -> Vec<v1::LockHolder> {
    if let Some(shared) = shared {
        return shared.holders.into_iter().map(|view| holder(view, v1::LockMode::Shared)).collect();
    }
    let alone = lease.map(|view| holder(view, v1::LockMode::Exclusive)).or_else(|| {
        classic.map(|hold| v1::LockHolder {
            holder: CLASSIC_HOLDER.to_owned(),
            expires_in: hold.left.map(duration),
            mode: v1::LockMode::Exclusive.into(),
            ..v1::LockHolder::default()
        })
    });
    alone.into_iter().collect()
}

fn holder(view: HolderView, mode: v1::LockMode) -> v1::LockHolder {
    let mode = if view.permits.is_some() { v1::LockMode::Semaphore } else { mode };
    v1::LockHolder {
        holder: view.holder.into_string(),
        grant_id: view.grant_id.0.to_string(),
        fencing_token: view.token.get(),
        ttl: Some(duration(view.ttl)),
        expires_in: Some(duration(view.left)),
        held_since: Some(duration(view.held)),
        metadata: view.metadata.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        mode: mode.into(),
        permits: view.permits.map_or(0, |permits| permits.count),
        slot: slot(view.permits.and_then(|permits| permits.slot)),
    }
}

fn semaphore(view: SemaphoreView) -> v1::Semaphore {
    let PermitLimit { permits, version } = view.limit;
    v1::Semaphore { permits_used: view.used, permit_limit: permits, permit_limit_version: version }
}

fn slot(slot: Option<NonZeroU32>) -> u32 {
    slot.map_or(0, NonZeroU32::get)
}

fn delay(view: DelayView) -> v1::LockDelay {
    v1::LockDelay {
        remaining: Some(duration(view.left)),
        holder: view.holder.into_string(),
        fencing_token: view.token.get(),
    }
}

fn fate(fate: Fate) -> v1::LeaseEnd {
    match fate {
        Fate::Ended(end) => lease_end(end),
        Fate::Superseded => v1::LeaseEnd::Superseded,
        Fate::Unknown => v1::LeaseEnd::Unknown,
    }
}

fn previous_end(end: Option<LeaseEnd>) -> v1::LeaseEnd {
    end.map_or(v1::LeaseEnd::Unspecified, lease_end)
}

fn lease_end(end: LeaseEnd) -> v1::LeaseEnd {
    match end {
        LeaseEnd::Released => v1::LeaseEnd::Released,
        LeaseEnd::Expired => v1::LeaseEnd::Expired,
        LeaseEnd::Revoked => v1::LeaseEnd::Revoked,
    }
}

fn number(token: Option<FencingToken>) -> u64 {
    token.map_or(0, FencingToken::get)
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
