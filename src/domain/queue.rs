//! The waiters of one lock, first come, first served.

use super::{
    binding::{Binding, Bound, Unbound},
    ids::{Call, ReplicaId, RequestId},
    lease::Terms,
    limits::{DROP_GRACE, MISSED_GRACE},
    mode::{Mode, ModeName, PermitLimit},
    time::StoreTime,
};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The state of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaiterState {
    /// It may be offered the lock.
    Waiting,
    /// It has been offered the lock, and has until the end of the claim window to claim it.
    Offered,
    /// It let an offer lapse. It is skipped until it claims or acquires again, and keeps its position until this
    /// moment: by then its call has claimed, or there is none. (A server that is killed cleans up after no call. A call
    /// of the same attempt that came through another server does not know of that one when it leaves.)
    Missed(StoreTime),
    /// Its calls were dropped. It keeps its position for a retry until this moment, and is skipped.
    Dropped(StoreTime),
}

/// One queued request.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// Its queue position: arrival order.
    pub position: u64,
    /// The calls that wait for it.
    pub binding: Binding,
    /// What the request asks for.
    pub terms: Terms,
    /// When it was queued.
    pub since: StoreTime,
    state: WaiterState,
}

impl Waiter {
    /// Whether it may be offered the lock.
    pub fn state(&self) -> WaiterState {
        self.state
    }
}

/// Queues longer than this are not checked by [`Queue::check`].
const CHECKED_WHOLE: usize = 32;

/// The waiters of one replica that may be offered the lock or have missed their offer, by position.
#[derive(Clone, Debug, Default)]
struct ServerWaiters {
    waiting: BTreeMap<u64, RequestId>,
    missed: BTreeMap<u64, RequestId>,
}

/// The waiters of one lock.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiters: HashMap<RequestId, Waiter>,
    /// The waiters by server, so that a silent server is skipped in one step, however many waiters it has.
    by_server: BTreeMap<ReplicaId, ServerWaiters>,
    /// Dropped waiters, by the time until which they are kept and by position.
    dropped: BTreeMap<(StoreTime, u64), RequestId>,
    /// The same of those that have missed their offer.
    missed: BTreeMap<(StoreTime, u64), RequestId>,
    next_position: u64,
    /// How many requests would share the lock.
    shared: usize,
    /// How many requests ask for permits.
    semaphores: usize,
    /// The limit that these have agreed on.
    permit_limit: Option<PermitLimit>,
}

impl Queue {
    /// The number of queued requests, including skipped ones.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many waiters are filed under servers that are not alive.
    pub fn at_dead_servers(&self, alive: impl Fn(ReplicaId) -> bool) -> usize {
        let dead = self.by_server.iter().filter(|(replica, _)| !alive(**replica));
        dead.map(|(_, server)| server.waiting.len() + server.missed.len()).sum()
    }

    /// The waiter of this request.
    pub fn get(&self, request: RequestId) -> Option<&Waiter> {
        self.waiters.get(&request)
    }

    /// Adds a request at the end of the queue.
    pub fn push(&mut self, call: Call, replica: ReplicaId, terms: Terms, now: StoreTime) {
        let position = self.next_position;
        self.next_position += 1;
        let binding = Binding::first(call, replica);
        let waiter = Waiter { position, binding, terms, since: now, state: WaiterState::Waiting };
        if let Some(count) = self.counted(&waiter.terms.mode) {
            *count += 1;
        }
        self.file(call.request, &waiter);
        let before = self.waiters.insert(call.request, waiter);
        assert!(before.is_none(), "a request is queued once");
    }

    /// Binds another call of a queued request, which keeps its position.
    pub fn bind(&mut self, call: Call, replica: ReplicaId) -> Option<Bound> {
        let mut waiter = self.take(call.request)?;
        let bound = waiter.binding.bind(call, replica);
        self.file(call.request, &waiter);
        self.waiters.insert(call.request, waiter);
        Some(bound)
    }

    /// A queued request waits on this replica from now on, and keeps its position.
    pub fn move_to(&mut self, request: RequestId, replica: ReplicaId) {
        let Some(mut waiter) = self.take(request) else { return };
        waiter.binding.move_to(replica);
        self.file(request, &waiter);
        self.waiters.insert(request, waiter);
    }

    /// Unbinds a call from its request, if the request is queued.
    pub fn unbind(&mut self, call: Call) -> Option<Unbound> {
        self.waiters.get_mut(&call.request).map(|waiter| waiter.binding.unbind(call))
    }

    /// The request that is next among the waiters of live servers.
    pub fn first(&self, alive: impl Fn(ReplicaId) -> bool) -> Option<(RequestId, &Waiter)> {
        let servers = self.by_server.iter().filter(|(replica, _)| alive(**replica));
        let (_, request) = servers.filter_map(|(_, server)| server.waiting.first_key_value()).min()?;
        self.waiters.get(request).map(|waiter| (*request, waiter))
    }

    /// The lowest position in the queue, of any server.
    pub fn first_position(&self) -> Option<u64> {
        self.by_server
            .values()
            .filter_map(|server| server.waiting.first_key_value())
            .map(|(position, _)| *position)
            .min()
    }

    /// A waiter of a replica that is gone.
    pub fn first_gone(&self, gone: impl Fn(ReplicaId) -> bool) -> Option<RequestId> {
        let server = self.by_server.iter().find(|(replica, _)| gone(**replica))?.1;
        server.waiting.values().chain(server.missed.values()).next().copied()
    }

    /// Changes whether a waiter may be offered the lock. It keeps its position.
    pub fn set_state(&mut self, request: RequestId, state: WaiterState) {
        let Some(mut waiter) = self.take(request) else { return };
        waiter.state = state;
        self.file(request, &waiter);
        self.waiters.insert(request, waiter);
    }

    /// Removes a waiter.
    pub fn remove(&mut self, request: RequestId) -> Option<Waiter> {
        let waiter = self.take(request)?;
        if let Some(count) = self.counted(&waiter.terms.mode) {
            *count -= 1;
        }
        self.permit_limit = self.permit_limit.filter(|_| self.semaphores > 0);
        Some(waiter)
    }

    /// Takes out a waiter, which is put back or no longer counted.
    fn take(&mut self, request: RequestId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&request)?;
        match waiter.state {
            WaiterState::Dropped(until) => drop(self.dropped.remove(&(until, waiter.position))),
            WaiterState::Missed(until) => drop(self.missed.remove(&(until, waiter.position))),
            WaiterState::Waiting | WaiterState::Offered => {}
        }
        let replica = waiter.binding.replica();
        if let Some(server) = self.by_server.get_mut(&replica) {
            match waiter.state {
                WaiterState::Waiting => drop(server.waiting.remove(&waiter.position)),
                WaiterState::Missed(_) => drop(server.missed.remove(&waiter.position)),
                WaiterState::Offered | WaiterState::Dropped(_) => {}
            }
            if server.waiting.is_empty() && server.missed.is_empty() {
                self.by_server.remove(&replica);
            }
        }
        Some(waiter)
    }

    fn counted(&mut self, mode: &Mode) -> Option<&mut usize> {
        match mode {
            Mode::Exclusive => None,
            Mode::Shared => Some(&mut self.shared),
            Mode::Semaphore(_) => Some(&mut self.semaphores),
        }
    }

    /// A mode that is waited for: if there is any, one that excludes readers.
    pub fn wanted_mode(&self) -> Option<ModeName> {
        let exclusive = self.waiters.len() - self.shared - self.semaphores;
        let modes =
            [(exclusive, ModeName::Exclusive), (self.semaphores, ModeName::Semaphore), (self.shared, ModeName::Shared)];
        modes.into_iter().find(|(count, _)| *count > 0).map(|(_, mode)| mode)
    }

    /// The waiters from this position on, in order and at most `max`. `offered` are those that are offered the lock.
    pub fn from_position(
        &self,
        position: u64,
        offered: impl Iterator<Item = RequestId>,
        max: usize,
    ) -> Vec<(RequestId, &Waiter)> {
        let filed = self.by_server.values().flat_map(|server| {
            let waiting = server.waiting.range(position..).take(max);
            waiting.chain(server.missed.range(position..).take(max))
        });
        let requests = filed.map(|(_, request)| *request).chain(self.dropped.values().copied()).chain(offered);
        let found = requests.filter_map(|request| Some((request, self.waiters.get(&request)?)));
        let mut waiters: Vec<_> = found.filter(|(_, waiter)| position <= waiter.position).collect();
        waiters.sort_unstable_by_key(|(_, waiter)| waiter.position);
        waiters.truncate(max);
        waiters
    }

    /// Whether a request would share the lock.
    pub fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// Whether a request asks for permits.
    pub fn has_semaphores(&self) -> bool {
        self.semaphores > 0
    }

    /// The limit that the requests for permits have agreed on; `None` if there are none.
    pub fn permit_limit(&self) -> Option<PermitLimit> {
        self.permit_limit
    }

    /// The requests for permits agree on this limit. Changes nothing if there are none.
    pub fn agree(&mut self, limit: PermitLimit) {
        self.permit_limit = (self.semaphores > 0).then_some(limit);
    }

    /// Adds a waiter to the index of its state.
    fn file(&mut self, request: RequestId, waiter: &Waiter) {
        let (replica, position) = (waiter.binding.replica(), waiter.position);
        match waiter.state {
            WaiterState::Waiting => drop(self.by_server.entry(replica).or_default().waiting.insert(position, request)),
            WaiterState::Missed(until) => {
                self.missed.insert((until, position), request);
                self.by_server.entry(replica).or_default().missed.insert(position, request);
            }
            WaiterState::Dropped(until) => drop(self.dropped.insert((until, position), request)),
            WaiterState::Offered => {}
        }
    }

    /// Repairs times after the clock stepped back: keeps no dropped waiter for longer than [`DROP_GRACE`] from now, and
    /// none that missed its offer for longer than [`MISSED_GRACE`].
    pub fn heal(&mut self, now: StoreTime) {
        let latest = now.after(DROP_GRACE);
        while let Some((_, request)) = self.dropped.last_key_value().filter(|((until, _), _)| latest < *until) {
            self.set_state(*request, WaiterState::Dropped(latest));
        }
        let latest = now.after(MISSED_GRACE);
        while let Some((_, request)) = self.missed.last_key_value().filter(|((until, _), _)| latest < *until) {
            self.set_state(*request, WaiterState::Missed(latest));
        }
    }

    /// Removes one dropped waiter whose time for a retry is over, and returns that time.
    pub fn pop_abandoned(&mut self, now: StoreTime) -> Option<(RequestId, Waiter, StoreTime)> {
        let (&(until, _), &request) = self.dropped.first_key_value()?;
        if now < until {
            return None;
        }
        self.remove(request).map(|waiter| (request, waiter, until))
    }

    /// Removes one waiter that missed its offer and has not been heard of since, when it is kept no longer.
    pub fn pop_missed(&mut self, now: StoreTime) -> Option<Waiter> {
        let (&(until, _), &request) = self.missed.first_key_value()?;
        if now < until { None } else { self.remove(request) }
    }

    /// The requests of which no call is bound any more, whose positions are kept for a retry.
    pub fn kept(&self) -> impl Iterator<Item = (RequestId, &Waiter)> {
        let dropped = self.dropped.values().filter_map(|request| Some((*request, self.waiters.get(request)?)));
        dropped.filter(|(_, waiter)| !waiter.binding.is_bound())
    }

    /// What the waiters ask for.
    pub fn terms(&self) -> impl Iterator<Item = &Terms> {
        self.waiters.values().map(|waiter| &waiter.terms)
    }

    /// How many waiters are kept no longer and are not removed yet.
    pub fn overdue(&self, now: StoreTime) -> usize {
        let until_now = ..=(now, u64::MAX);
        self.dropped.range(until_now).count() + self.missed.range(until_now).count()
    }

    /// When the next waiter is kept no longer.
    pub fn next_due(&self) -> Option<StoreTime> {
        let first = [&self.dropped, &self.missed].map(|kept| kept.first_key_value().map(|((until, _), _)| *until));
        first.into_iter().flatten().min()
    }

    /// Checks the invariants. A long queue is not checked, because each command would then cost its length.
    pub fn check(&self, offered: usize) {
        assert_eq!(
            self.permit_limit.is_some(),
            self.semaphores > 0,
            "those who ask for permits have agreed on a limit"
        );
        if self.waiters.len() > CHECKED_WHOLE {
            return;
        }
        let of_mode = |is: fn(&Mode) -> bool| self.waiters.values().filter(|waiter| is(&waiter.terms.mode)).count();
        let counts = (of_mode(|it| *it == Mode::Shared), of_mode(|it| matches!(it, Mode::Semaphore(_))));
        assert_eq!(counts, (self.shared, self.semaphores), "each mode is counted");
        let mut filed = 0;
        for (replica, server) in &self.by_server {
            assert!(!(server.waiting.is_empty() && server.missed.is_empty()), "a server without waiters is removed");
            for (positions, is_missed) in [(&server.waiting, false), (&server.missed, true)] {
                for (position, request) in positions {
                    let filed_right = self.waiters.get(request).is_some_and(|waiter| {
                        let state = match waiter.state {
                            WaiterState::Waiting => !is_missed,
                            WaiterState::Missed(until) => is_missed && self.missed.contains_key(&(until, *position)),
                            WaiterState::Offered | WaiterState::Dropped(_) => false,
                        };
                        state && waiter.position == *position && waiter.binding.replica() == *replica
                    });
                    assert!(filed_right, "a waiter is filed under its server");
                    filed += 1;
                }
            }
        }
        for ((until, position), request) in &self.dropped {
            let waiter = self.waiters.get(request);
            assert!(
                waiter
                    .is_some_and(|waiter| waiter.position == *position && waiter.state == WaiterState::Dropped(*until)),
                "a waiter that is kept for a retry is queued as dropped"
            );
        }
        let count = |of: fn(WaiterState) -> bool| self.waiters.values().filter(|waiter| of(waiter.state)).count();
        let filed_states = count(|it| matches!(it, WaiterState::Waiting | WaiterState::Missed(_)));
        assert_eq!(
            filed_states, filed,
            "a waiter that is neither offered the lock nor dropped is filed under its server"
        );
        assert_eq!(count(|it| it == WaiterState::Offered), offered, "nobody waits for an offer that is none");
        let kept =
            (count(|it| matches!(it, WaiterState::Dropped(_))), count(|it| matches!(it, WaiterState::Missed(_))));
        assert_eq!(kept, (self.dropped.len(), self.missed.len()), "no waiter is kept for ever");
    }
}
