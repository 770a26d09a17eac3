//! The messages of clients on sessions and keep-alive streams.

use super::lock::{Caller, Keeper, Waiter, detached};
use super::shared::State;
use crate::clock::Moment;
use crate::proto::{duration, wire};
use crate::v1;
use std::collections::BTreeMap;
use v1::acquire_response::Outcome;
use v1::detached::Reason;
use v1::renew_response::Outcome as Renewal;
use v1::session_request::Message as Request;
use v1::session_response::Message;

impl State {
    /// A message has arrived on a stream.
    pub(super) fn received(&mut self, stream: u64, request: v1::SessionRequest, now: Moment) {
        let operation = request.operation;
        match request.message {
            Some(Request::Acquire(v1::SessionAcquire { request, handle, .. })) => {
                let caller = Caller::Operation { stream, operation, handle };
                self.locks.acquire(request.unwrap_or_default(), caller, now, &mut self.clients);
            }
            Some(Request::Release(request)) => {
                let answer = self.locks.release(&request, &mut self.clients);
                self.clients.answer(stream, operation, Message::Release(answer));
                self.locks.serve(&request.lock_name, now, &mut self.clients);
            }
            Some(Request::Renew(request)) => {
                let answer = self.renew(&request, now);
                self.clients.answer(stream, operation, Message::Renew(answer));
            }
            Some(Request::Cancel(cancel)) => self.cancel(stream, cancel.operation, now),
            Some(Request::Attach(attach)) => {
                attach.leases.iter().for_each(|attachment| self.attach(stream, attachment, now));
            }
            Some(Request::Detach(detach)) => {
                detach.handles.into_iter().for_each(|handle| self.detach(Keeper { stream, handle }));
            }
            Some(Request::Answer(answer)) => self.answered(stream, answer.beat, now),
            None => {}
        }
    }

    pub(super) fn renew(&mut self, request: &v1::RenewRequest, now: Moment) -> v1::RenewResponse {
        let lock = self.locks.lock(&request.lock_name);
        let Some(grant) = lock.find(&request.lease_id) else {
            let (end, successor_token) = (lock.end_of(&request.lease_id).into(), lock.successor());
            return v1::RenewResponse { outcome: Renewal::Lost.into(), end, successor_token, ..Default::default() };
        };
        grant.ttl = request.ttl.map_or(grant.ttl, |ttl| duration(Some(ttl)));
        grant.renew(now);
        let (ttl, fencing_token) = (wire(grant.until.since(now)), grant.token);
        v1::RenewResponse { outcome: Renewal::Renewed.into(), ttl, fencing_token, ..Default::default() }
    }

    /// Ends the wait of an operation of a stream.
    fn cancel(&mut self, of: u64, number: u64, now: Moment) {
        let is_cancelled = |waiter: &Waiter| match waiter.caller {
            Some(Caller::Operation { stream, operation, .. }) => (stream, operation) == (of, number),
            _ => false,
        };
        for lock in self.locks.by_name.values_mut() {
            if let Some(place) = lock.queue.iter().position(is_cancelled) {
                return lock.withdraw(place, Outcome::TimedOut, now, &mut self.clients);
            }
        }
    }

    fn attach(&mut self, stream: u64, attachment: &v1::LeaseAttachment, now: Moment) {
        let (handle, attempt) = (attachment.handle, attachment.attempt.max(1));
        let lock = self.locks.lock(&attachment.lock_name);
        let Some(grant) = lock.find(&attachment.lease_id) else {
            let (end, successor_token) = (lock.end_of(&attachment.lease_id).into(), lock.successor());
            return self.clients.send(stream, Message::Lost(v1::Lost { handle, end, successor_token }));
        };
        if attempt < grant.attempt {
            return self.clients.send(stream, detached(handle, Reason::AttachedElsewhere));
        }
        grant.attempt = attempt;
        grant.renew(now);
        grant.keep(Keeper { stream, handle }, &self.clients);
        let leases = vec![v1::RenewedLeases { ttl: wire(grant.until.since(now)), handles: vec![handle] }];
        self.clients.send(stream, Message::Attached(v1::Attached { leases }));
    }

    fn detach(&mut self, keeper: Keeper) {
        if let Some(grant) = self.locks.grants().find(|grant| grant.keeper == Some(keeper)) {
            (grant.keeper, grant.attempt) = (None, 0);
            self.clients.send(keeper.stream, detached(keeper.handle, Reason::Requested));
        }
    }

    /// A beat was answered: renews the leases of the stream that have used up a third of their TTL.
    fn answered(&mut self, stream: u64, beat: u64, now: Moment) {
        let mut renewed = BTreeMap::<_, Vec<_>>::new();
        for grant in self.locks.grants() {
            let keeper = grant.keeper.filter(|keeper| keeper.stream == stream);
            if let Some(keeper) = keeper.filter(|_| grant.until.since(now) <= grant.ttl / 3 * 2) {
                grant.renew(now);
                renewed.entry(grant.ttl).or_default().push(keeper.handle);
            }
        }
        if !renewed.is_empty() {
            let group = |(ttl, handles)| v1::RenewedLeases { ttl: wire(ttl), handles };
            let leases = renewed.into_iter().map(group).collect();
            self.clients.send(stream, Message::Renewed(v1::Renewed { beat, leases }));
        }
    }
}
