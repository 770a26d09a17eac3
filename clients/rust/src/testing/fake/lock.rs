//! One lock of a fake server: its lease, its queue, and what others see of them.

use super::clients::Clients;
use crate::clock::Moment;
use crate::proto::wire;
use crate::v1;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use v1::acquire_response::Outcome;
use v1::detached::Reason;
use v1::session_response::Message;

/// Who waits for the answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A unary call.
    Call(u64),
    /// An operation of a session, with the handle of its lease.
    Operation { stream: u64, operation: u64, handle: u32 },
}

/// The stream that keeps a lease alive, and its handle there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) stream: u64,
    pub(super) handle: u32,
}

/// An acquire without an answer.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: v1::AcquireRequest,
    /// `None` if it is gone, and its queue position is kept.
    pub(super) caller: Option<Caller>,
    pub(super) arrived: Moment,
    pub(super) until: Moment,
}

/// A current lease.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) request: v1::AcquireRequest,
    pub(super) lease_id: String,
    pub(super) grant_id: String,
    pub(super) token: u64,
    pub(super) ttl: Duration,
    pub(super) since: Moment,
    pub(super) until: Moment,
    pub(super) previous_end: v1::LeaseEnd,
    pub(super) keeper: Option<Keeper>,
    /// The number of the attachment.
    pub(super) attempt: u32,
}

impl Grant {
    /// Answers a request with this lease, which its session keeps alive from now on.
    pub(super) fn give(&mut self, caller: Caller, arrived: Moment, now: Moment, clients: &mut Clients) {
        if let Caller::Operation { stream, handle, .. } = caller {
            self.keep(Keeper { stream, handle }, clients);
        }
        let lease = v1::Lease {
            lock_name: self.request.lock_name.clone(),
            lease_id: self.lease_id.clone(),
            grant_id: self.grant_id.clone(),
            fencing_token: self.token,
            ttl: wire(self.until.since(now)),
        };
        let answer = v1::AcquireResponse {
            outcome: Outcome::Acquired.into(),
            lease: Some(lease),
            held_for: wire(now.since(arrived)),
            previous_end: self.previous_end.into(),
            ..Default::default()
        };
        clients.answer_acquire(caller, answer);
    }

    /// From now on this stream keeps the lease alive.
    pub(super) fn keep(&mut self, keeper: Keeper, clients: &Clients) {
        if let Some(before) = self.keeper.replace(keeper).filter(|before| *before != keeper) {
            clients.send(before.stream, detached(before.handle, Reason::AttachedElsewhere));
        }
    }

    /// Restores the TTL.
    pub(super) fn renew(&mut self, now: Moment) {
        self.until = self.until.max(now.plus(self.ttl));
    }

    fn holder(&self, now: Moment) -> v1::LockHolder {
        v1::LockHolder {
            holder: self.request.holder.clone(),
            grant_id: self.grant_id.clone(),
            fencing_token: self.token,
            ttl: wire(self.ttl),
            expires_in: wire(self.until.since(now)),
            held_since: wire(now.since(self.since)),
            metadata: self.request.metadata.clone(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) current: Option<Grant>,
    pub(super) queue: VecDeque<Waiter>,
    /// The newest token, and the end of its lease.
    pub(super) newest: u64,
    pub(super) previous_end: v1::LeaseEnd,
    /// The ends of all leases, by id.
    pub(super) ends: HashMap<String, v1::LeaseEnd>,
    /// The ids of the requests whose lease has ended.
    pub(super) ended_requests: HashSet<String>,
}

impl Lock {
    /// The current lease, if it has this id.
    pub(super) fn find(&mut self, lease_id: &str) -> Option<&mut Grant> {
        self.current.as_mut().filter(|grant| grant.lease_id == lease_id)
    }

    /// How a lease that is not current has ended.
    pub(super) fn end_of(&self, lease_id: &str) -> v1::LeaseEnd {
        self.ends.get(lease_id).copied().unwrap_or(v1::LeaseEnd::Unknown)
    }

    /// The token of the current lease; 0 if there is none.
    pub(super) fn successor(&self) -> u64 {
        self.current.as_ref().map_or(0, |grant| grant.token)
    }

    pub(super) fn info(&self, name: &str, now: Moment) -> v1::LockInfo {
        v1::LockInfo {
            lock_name: name.to_owned(),
            holders: self.current.iter().map(|grant| grant.holder(now)).collect(),
            waiters: u32::try_from(self.queue.len()).unwrap_or(u32::MAX),
            previous_end: self.previous_end.into(),
            newest_token: self.newest,
        }
    }

    /// Removes a waiter from the queue, and answers it if it is still there.
    pub(super) fn withdraw(&mut self, place: usize, outcome: Outcome, now: Moment, clients: &mut Clients) {
        let Some(waiter) = self.queue.remove(place) else { return };
        let Some(caller) = waiter.caller else { return };
        let v1::LockInfo { holders, waiters, .. } = self.info(&waiter.request.lock_name, now);
        let answer = v1::AcquireResponse { outcome: outcome.into(), holders, waiters, ..Default::default() };
        clients.answer_acquire(caller, answer);
    }
}

pub(super) fn detached(handle: u32, reason: Reason) -> Message {
    Message::Detached(v1::Detached { handle, reason: reason.into() })
}
