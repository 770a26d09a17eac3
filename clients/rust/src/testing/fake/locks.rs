//! The locks of a fake server: who gets them, and how leases and waits end.

use super::clients::Clients;
use super::lock::{Caller, Grant, Lock, Waiter};
use crate::clock::Moment;
use crate::facts::DEFAULT_TTL_MS;
use crate::proto::duration;
use crate::v1;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use uuid::Uuid;
use v1::acquire_response::Outcome;
use v1::session_response::Message;
use v1::watch_response::Kind;

/// How long the queue position of a client that is gone is kept for a repetition of its request, as on a real server.
const PLACE_KEPT: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) by_name: BTreeMap<String, Lock>,
    /// The newest token of all locks.
    token: u64,
}

impl Locks {
    pub(super) fn lock(&mut self, name: &str) -> &mut Lock {
        self.by_name.entry(name.to_owned()).or_default()
    }

    /// The current leases.
    pub(super) fn grants(&mut self) -> impl Iterator<Item = &mut Grant> {
        self.by_name.values_mut().filter_map(|lock| lock.current.as_mut())
    }

    /// Answers a request, or queues it.
    pub(super) fn acquire(
        &mut self,
        mut request: v1::AcquireRequest,
        caller: Caller,
        now: Moment,
        clients: &mut Clients,
    ) {
        let name = request.lock_name.clone();
        request.attempt = request.attempt.max(1);
        if request.request_id.is_empty() {
            request.request_id = Uuid::new_v4().to_string();
        }
        let until = now.plus(duration(request.wait_timeout));
        let lock = self.lock(&name);
        if lock.ended_requests.contains(&request.request_id) {
            return clients.refuse(caller, "REQUEST_ENDED");
        }
        if let Some(grant) = lock.current.as_mut().filter(|grant| grant.request.request_id == request.request_id) {
            if request.attempt < grant.request.attempt {
                return clients.refuse(caller, "OVERTAKEN");
            }
            (grant.request, grant.attempt) = (request, 1);
            return grant.give(caller, now, now, clients);
        }
        let waiter = Waiter { request, caller: Some(caller), arrived: now, until };
        match lock.queue.iter_mut().find(|before| before.request.request_id == waiter.request.request_id) {
            Some(before) if waiter.request.attempt < before.request.attempt => {
                return clients.refuse(caller, "OVERTAKEN");
            }
            Some(place) => {
                let before = std::mem::replace(place, waiter);
                before.caller.into_iter().for_each(|before| clients.refuse(before, "OVERTAKEN"));
            }
            None => lock.queue.push_back(waiter),
        }
        self.serve(&name, now, clients);
        let lock = self.lock(&name);
        let Some(place) = lock.queue.iter().position(|waiter| waiter.caller == Some(caller)) else { return };
        if until <= now {
            lock.withdraw(place, Outcome::Contended, now, clients);
        } else {
            clients.waits(caller, place);
        }
    }

    /// Grants a free lock to the first who waits.
    pub(super) fn serve(&mut self, name: &str, now: Moment, clients: &mut Clients) {
        let token = self.token.saturating_add(1);
        let lock = self.lock(name);
        if lock.current.is_some() {
            return;
        }
        let first = lock.queue.iter().position(|waiter| waiter.caller.is_some());
        let next = first.and_then(|place| lock.queue.remove(place));
        let Some(Waiter { request, caller: Some(caller), arrived, .. }) = next else { return };
        let ttl = request.ttl.map_or(Duration::from_millis(DEFAULT_TTL_MS), |ttl| duration(Some(ttl)));
        let mut grant = Grant {
            lease_id: Uuid::new_v4().to_string(),
            grant_id: Uuid::new_v4().to_string(),
            token: token.max(request.min_token),
            ttl,
            since: now,
            until: now.plus(ttl),
            previous_end: lock.previous_end,
            keeper: None,
            attempt: 1,
            request,
        };
        clients.report(Kind::Granted, &grant);
        grant.give(caller, arrived, now, clients);
        lock.newest = grant.token;
        self.token = grant.token;
        self.lock(name).current = Some(grant);
    }

    /// Ends the current lease. Its lock is still to be served.
    fn end(&mut self, name: &str, end: v1::LeaseEnd, kind: Kind, clients: &mut Clients) -> Option<Grant> {
        let lock = self.lock(name);
        let grant = lock.current.take()?;
        lock.previous_end = end;
        lock.ends.insert(grant.lease_id.clone(), end);
        lock.ended_requests.insert(grant.request.request_id.clone());
        clients.report(kind, &grant);
        Some(grant)
    }

    /// Ends the current lease without its holder, who is told. Returns whether there was one.
    fn lose(&mut self, name: &str, end: v1::LeaseEnd, kind: Kind, now: Moment, clients: &mut Clients) -> bool {
        let Some(grant) = self.end(name, end, kind, clients) else { return false };
        self.serve(name, now, clients);
        if let Some(keeper) = grant.keeper {
            let successor_token = self.lock(name).successor();
            let lost = v1::Lost { handle: keeper.handle, end: end.into(), successor_token };
            clients.send(keeper.stream, Message::Lost(lost));
        }
        true
    }

    pub(super) fn revoke(&mut self, name: &str, now: Moment, clients: &mut Clients) -> bool {
        self.lose(name, v1::LeaseEnd::Revoked, Kind::Revoked, now, clients)
    }

    /// Releases a lease. Its lock is still to be served, after the answer.
    pub(super) fn release(&mut self, request: &v1::ReleaseRequest, clients: &mut Clients) -> v1::ReleaseResponse {
        if self.lock(&request.lock_name).find(&request.lease_id).is_some() {
            self.end(&request.lock_name, v1::LeaseEnd::Released, Kind::Released, clients);
        }
        let lock = self.lock(&request.lock_name);
        let end = lock.end_of(&request.lease_id);
        let successor_token = if end == v1::LeaseEnd::Released { 0 } else { lock.successor() };
        v1::ReleaseResponse { end: end.into(), successor_token }
    }

    /// Ends the leases and the waits that are over.
    pub(super) fn expire(&mut self, now: Moment, clients: &mut Clients) {
        let mut over = Vec::new();
        for (name, lock) in &mut self.by_name {
            while let Some(place) = lock.queue.iter().position(|waiter| waiter.until <= now) {
                lock.withdraw(place, Outcome::TimedOut, now, clients);
            }
            if lock.current.as_ref().is_some_and(|grant| grant.until <= now) {
                over.push(name.clone());
            }
        }
        for name in over {
            self.lose(&name, v1::LeaseEnd::Expired, Kind::Expired, now, clients);
        }
    }

    /// The shortest TTLs of the leases that streams keep alive.
    pub(super) fn shortest_ttls(&self) -> HashMap<u64, Duration> {
        let mut shortest = HashMap::new();
        for grant in self.by_name.values().filter_map(|lock| lock.current.as_ref()) {
            if let Some(keeper) = grant.keeper {
                let ttl = shortest.entry(keeper.stream).or_insert(grant.ttl);
                *ttl = grant.ttl.min(*ttl);
            }
        }
        shortest
    }

    /// A stream has ended. Its leases last until their TTLs end.
    pub(super) fn leave_stream(&mut self, gone: u64, now: Moment) {
        for grant in self.grants().filter(|grant| grant.keeper.is_some_and(|keeper| keeper.stream == gone)) {
            grant.keeper = None;
        }
        self.leave(now, |caller| matches!(caller, Caller::Operation { stream, .. } if stream == gone));
    }

    /// Callers are gone. Their queue positions are kept for a while.
    pub(super) fn leave(&mut self, now: Moment, is_gone: impl Fn(Caller) -> bool) {
        let waiters = self.by_name.values_mut().flat_map(|lock| &mut lock.queue);
        for waiter in waiters.filter(|waiter| waiter.caller.is_some_and(&is_gone)) {
            (waiter.caller, waiter.until) = (None, now.plus(PLACE_KEPT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::Receiver;

    type Answer = Receiver<Result<v1::AcquireResponse, tonic::Status>>;

    /// Locks that a unary call has acquired.
    struct Held {
        locks: Locks,
        clients: Clients,
        now: Moment,
    }

    impl Held {
        fn new() -> Self {
            let mut held = Self { locks: Locks::default(), clients: Clients::default(), now: Moment::now() };
            let (_, mut answer) = held.acquire("holder", 1);
            assert_eq!(token(&mut answer), Some(1));
            held
        }

        fn acquire(&mut self, request_id: &str, attempt: u32) -> (Caller, Answer) {
            let (call, answer) = self.clients.open_call();
            let request = v1::AcquireRequest {
                lock_name: "x".to_owned(),
                wait_timeout: crate::proto::wire(Duration::from_secs(60)),
                request_id: request_id.to_owned(),
                attempt,
                ..Default::default()
            };
            self.locks.acquire(request, Caller::Call(call), self.now, &mut self.clients);
            (Caller::Call(call), answer)
        }

        fn leave(&mut self, gone: Caller) {
            self.locks.leave(self.now, |caller| caller == gone);
        }

        fn revoke(&mut self) {
            assert!(self.locks.revoke("x", self.now, &mut self.clients));
        }
    }

    /// The token of a grant; `None` without an answer.
    fn token(answer: &mut Answer) -> Option<u64> {
        Some(answer.try_recv().ok()?.unwrap().lease.unwrap().fencing_token)
    }

    #[test]
    fn a_caller_who_returns_has_its_place_and_one_who_is_gone_is_passed_over() {
        let mut held = Held::new();
        let (first, _) = held.acquire("first", 1);
        let (_, mut second) = held.acquire("second", 1);
        let (_, mut third) = held.acquire("third", 1);
        held.leave(first);
        held.revoke();
        assert_eq!(token(&mut second), Some(2));
        let (_, mut first) = held.acquire("first", 2);
        held.revoke();
        assert_eq!((token(&mut first), token(&mut third)), (Some(3), None));
    }

    #[test]
    fn the_place_of_a_caller_who_is_gone_is_kept_for_a_while() {
        let mut held = Held::new();
        let (first, _) = held.acquire("first", 1);
        held.leave(first);
        for (passed, waiters) in [(PLACE_KEPT / 2, 1), (PLACE_KEPT, 0)] {
            held.locks.expire(held.now.plus(passed), &mut held.clients);
            assert_eq!(held.locks.lock("x").queue.len(), waiters);
        }
    }

    #[test]
    fn the_newest_attempt_gets_the_answer() {
        let mut held = Held::new();
        let (_, mut old) = held.acquire("first", 1);
        let (_, mut new) = held.acquire("first", 2);
        assert_eq!(old.try_recv().unwrap().unwrap_err().code(), tonic::Code::Aborted);
        let (_, mut late) = held.acquire("first", 1);
        assert_eq!(late.try_recv().unwrap().unwrap_err().code(), tonic::Code::Aborted);
        held.revoke();
        assert_eq!(token(&mut new), Some(2));
        held.revoke();
        let (_, mut ended) = held.acquire("first", 3);
        assert!(ended.try_recv().unwrap().unwrap_err().message().contains("REQUEST_ENDED"));
    }
}
