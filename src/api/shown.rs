//! A lock in messages: who holds it, who waits, and why nobody has it.

use super::values::{count, duration, id, identity, mode, number, previous_end, slot};
use crate::domain::{
    ids::RequestId,
    mode::PermitLimit,
    name::LockName,
    outcome::{ClassicHold, DelayView, HolderView, LockView, SemaphoreView, SharedView, WaiterView, WaitersView},
};
use fencepost_proto::v1;
use ring::digest;
use uuid::Uuid;

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

pub(super) fn waiters(name: LockName, view: WaitersView) -> v1::ListWaitersResponse {
    let WaitersView { lock: state, waiters, has_more } = view;
    let next = waiters.last().filter(|_| has_more).map(|last| last.position.to_string());
    v1::ListWaitersResponse {
        lock: Some(lock(name, state)),
        waiters: waiters.into_iter().map(waiter).collect(),
        next_page_token: next.unwrap_or_default(),
    }
}

fn waiter(view: WaiterView) -> v1::LockWaiter {
    v1::LockWaiter {
        holder: view.holder.into_string(),
        owner: view.owner.into_string(),
        identity: identity(view.identity.as_ref()),
        waiter_id: waiter_id(view.request),
        mode: mode(view.mode).into(),
        permits: view.permits,
        waiting_since: Some(duration(view.waited)),
        skipped: view.is_skipped,
    }
}

/// Names a request without telling its id, which is a credential.
fn waiter_id(request: RequestId) -> String {
    let hash = digest::digest(&digest::SHA256, request.0.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_ref()[..16]);
    Uuid::from_bytes(id).simple().to_string()
}

/// What stands for the label of a holder that never gave one.
const CLASSIC_HOLDER: &str = "classic client";

pub(super) fn holder_count(
    lease: Option<&HolderView>,
    classic: Option<ClassicHold>,
    shared: Option<&SharedView>,
) -> u32 {
    let alone = lease.is_some() || classic.is_some();
    shared.map_or(u32::from(alone), |shared| count(shared.count))
}

pub(super) fn holders(
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
    let extra = view.extra.map(|extra| *extra).unwrap_or_default();
    v1::LockHolder {
        holder: view.holder.into_string(),
        grant_id: id(view.grant_id.0),
        fencing_token: view.token.get(),
        ttl: Some(duration(view.ttl)),
        expires_in: Some(duration(view.left)),
        held_since: Some(duration(view.held)),
        metadata: view.metadata.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        mode: mode.into(),
        permits: view.permits.map_or(0, |permits| permits.count),
        slot: slot(view.permits.and_then(|permits| permits.slot)),
        owner: extra.owner.into_string(),
        identity: identity(extra.identity.as_ref()),
        description: extra.description,
    }
}

pub(super) fn semaphore(view: SemaphoreView) -> v1::Semaphore {
    let PermitLimit { permits, version } = view.limit;
    v1::Semaphore { permits_used: view.used, permit_limit: permits, permit_limit_version: version }
}

pub(super) fn delay(view: DelayView) -> v1::LockDelay {
    v1::LockDelay {
        remaining: Some(duration(view.left)),
        holder: view.holder.into_string(),
        fencing_token: view.token.get(),
    }
}
