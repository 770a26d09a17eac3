//! The waiters of one lock, first come, first served.

use super::{
    ids::RequestId,
    lease::{Binding, Terms},
    limits::DROP_GRACE,
    time::StoreTime,
};
use std::collections::{BTreeMap, HashMap};

/// Whether a waiter may be offered the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands in line.
    InLine,
    /// It has been offered the lock, and has until the end of the claim window to claim it.
    Offered,
    /// It let an offer lapse. It keeps its place and is skipped until it shows life.
    Missed,
    /// Its calls were dropped. It keeps its place for a retry until then, and is skipped.
    Dropped(StoreTime),
}

/// One queued request.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// Its place: arrival order.
    pub place: u64,
    /// The calls that wait for it.
    pub binding: Binding,
    /// What it asks for.
    pub terms: Terms,
    standing: Standing,
}

impl Waiter {
    /// Whether it may be offered the lock.
    pub fn standing(&self) -> Standing {
        self.standing
    }
}

/// Queues up to this length are checked whole.
const CHECKED_WHOLE: usize = 32;

/// The waiters of one lock.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiters: HashMap<RequestId, Waiter>,
    /// Those in line, by place: the first of them is next, however many are skipped before it.
    line: BTreeMap<u64, RequestId>,
    /// Those dropped, by the time until which they are kept, and their place.
    dropped: BTreeMap<(StoreTime, u64), RequestId>,
    next_place: u64,
}

impl Queue {
    /// How many requests are queued, skipped ones too.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The waiter of this request.
    pub fn get(&self, request: RequestId) -> Option<&Waiter> {
        self.waiters.get(&request)
    }

    /// The calls of this request's waiter.
    pub fn binding_mut(&mut self, request: RequestId) -> Option<&mut Binding> {
        self.waiters.get_mut(&request).map(|waiter| &mut waiter.binding)
    }

    /// Adds a request at the end of the line.
    pub fn push(&mut self, request: RequestId, attempt: u32, terms: Terms) {
        let place = self.next_place;
        self.next_place += 1;
        self.line.insert(place, request);
        let waiter = Waiter { place, binding: Binding::first(attempt), terms, standing: Standing::InLine };
        let before = self.waiters.insert(request, waiter);
        assert!(before.is_none(), "a request is queued once");
    }

    /// The request that is next, with its bound attempt.
    pub fn first(&self) -> Option<(RequestId, u32)> {
        let (_, request) = self.line.first_key_value()?;
        self.waiters.get(request).map(|waiter| (*request, waiter.binding.attempt()))
    }

    /// Changes whether a waiter may be offered the lock. Its place stays.
    pub fn set_standing(&mut self, request: RequestId, standing: Standing) {
        let Some(waiter) = self.waiters.get_mut(&request) else { return };
        match std::mem::replace(&mut waiter.standing, standing) {
            Standing::InLine => drop(self.line.remove(&waiter.place)),
            Standing::Dropped(until) => drop(self.dropped.remove(&(until, waiter.place))),
            Standing::Offered | Standing::Missed => {}
        }
        match standing {
            Standing::InLine => drop(self.line.insert(waiter.place, request)),
            Standing::Dropped(until) => drop(self.dropped.insert((until, waiter.place), request)),
            Standing::Offered | Standing::Missed => {}
        }
    }

    /// Takes a waiter out.
    pub fn remove(&mut self, request: RequestId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&request)?;
        match waiter.standing {
            Standing::InLine => drop(self.line.remove(&waiter.place)),
            Standing::Dropped(until) => drop(self.dropped.remove(&(until, waiter.place))),
            Standing::Offered | Standing::Missed => {}
        }
        Some(waiter)
    }

    /// After the clock stepped back: keeps no place of a dropped call for longer than its period, counted from now.
    pub fn heal(&mut self, now: StoreTime) {
        let latest = now.after(DROP_GRACE);
        while let Some(entry) = self.dropped.last_entry().filter(|entry| latest < entry.key().0) {
            let ((_, place), request) = entry.remove_entry();
            self.dropped.insert((latest, place), request);
            if let Some(waiter) = self.waiters.get_mut(&request) {
                waiter.standing = Standing::Dropped(latest);
            }
        }
    }

    /// Takes out one waiter whose time to come back is over, with that time.
    pub fn pop_abandoned(&mut self, now: StoreTime) -> Option<(RequestId, Waiter, StoreTime)> {
        let (&(until, _), &request) = self.dropped.first_key_value()?;
        if now < until {
            return None;
        }
        self.remove(request).map(|waiter| (request, waiter, until))
    }

    /// How many waiters' time to come back is over, though nothing has taken them out yet.
    pub fn abandoned(&self, now: StoreTime) -> usize {
        self.dropped.range(..=(now, u64::MAX)).count()
    }

    /// When the next dropped waiter's time to come back is over.
    pub fn next_due(&self) -> Option<StoreTime> {
        self.dropped.first_key_value().map(|((until, _), _)| *until)
    }

    /// Checks what must always hold. A long queue is not checked whole, or each command would cost its length.
    pub fn check(&self, offered: bool) {
        if self.waiters.len() > CHECKED_WHOLE {
            assert!(self.line.len() <= self.waiters.len(), "whoever stands in line is queued");
            return;
        }
        for (place, request) in &self.line {
            let waiter = self.waiters.get(request);
            assert!(
                waiter.is_some_and(|waiter| waiter.place == *place && waiter.standing == Standing::InLine),
                "whoever stands in line is queued there"
            );
        }
        for ((until, place), request) in &self.dropped {
            let waiter = self.waiters.get(request);
            assert!(
                waiter.is_some_and(|waiter| waiter.place == *place && waiter.standing == Standing::Dropped(*until)),
                "whoever is kept for a retry is queued as dropped"
            );
        }
        let count = |of: fn(Standing) -> bool| self.waiters.values().filter(|waiter| of(waiter.standing)).count();
        assert_eq!(count(|it| it == Standing::InLine), self.line.len(), "whoever is not skipped stands in line");
        assert_eq!(count(|it| it == Standing::Offered), usize::from(offered), "nobody waits for an offer that is none");
        assert_eq!(count(|it| matches!(it, Standing::Dropped(_))), self.dropped.len(), "no dropped call is forgotten");
    }
}
