//! A small and correct lock service with its clients, in virtual time: what it writes down is legal by construction.

use super::{
    index::SECOND,
    story::{BEGIN, token},
};
use crate::history::{
    Acquire, AcquireEnd, Bounds, Fault, Final, Grant, Leaves, Lost, Nanos, Record, Release, ReleaseEnd, Renewed, Rest,
    Revoked, Run, StoreStep,
};
use proptest::prelude::*;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The TTL of all leases.
pub(crate) const TTL: Nanos = 2 * SECOND;

const MILLI: Nanos = 1_000_000;

/// What one client, which asks once, will do. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    asks: u64,
    /// How long a message takes to the server, and back.
    out: u64,
    back: u64,
    wait: u64,
    holds: u64,
    renews: bool,
    /// The first answer is lost, and the request sent again.
    answer_lost: bool,
    /// It is sent once more after it was answered.
    sent_twice: bool,
    end: End,
    /// It writes once more after all is over.
    writes_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Releases,
    ReleasesUnheard,
    Forgets,
    IsRevoked,
    IsKilled,
}

pub(crate) fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let end = prop_oneof![
        12 => Just(End::Releases), 2 => Just(End::ReleasesUnheard), 3 => Just(End::Forgets),
        2 => Just(End::IsRevoked), 1 => Just(End::IsKilled)
    ];
    let back = prop_oneof![20 => 1..60_u64, 1 => 1_500..2_500_u64];
    let wait = prop_oneof![1 => Just(0_u64), 4 => 500..30_000_u64];
    let odd = || prop::bool::weighted(0.1);
    let plan = (0..40_000_u64, 1..60_u64, back, wait, 1..4_000_u64, any::<bool>(), (odd(), odd()), end, odd())
        .prop_map(|(asks, out, back, wait, holds, renews, (answer_lost, sent_twice), end, writes_late)| Plan {
            asks,
            out,
            back,
            wait,
            holds,
            renews,
            answer_lost,
            sent_twice,
            end,
            writes_late,
        });
    prop::collection::vec(plan, 4..60)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A transmission of this client, sent then, reaches the server.
    Arrives(usize, u32, Nanos),
    TimesOut(usize, u32, Nanos),
    Expires,
    Has(usize),
    Beat(usize),
    RenewArrives(usize, Nanos),
    RenewHeard(usize, Nanos),
    Deadline(usize),
    HoldOver(usize),
    EndArrives(usize),
    Told(usize),
    Steps(usize, bool),
}

/// What a client knows.
#[derive(Clone, Default)]
struct Client {
    token: u64,
    valid_until: Nanos,
    is_over: bool,
    /// What it read of the control.
    read: u64,
}

struct Sim {
    plans: Vec<Plan>,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(Nanos, usize, Event)>>,
    now: Nanos,
    queue: VecDeque<(usize, u32, Nanos, Nanos)>,
    /// Who holds it, and until when.
    held: Option<(usize, Nanos)>,
    tokens: u64,
    store: StoreStep,
    writes: (u64, u64),
    records: Vec<Record>,
}

/// Runs the plans and writes down what happened.
pub(crate) fn run(plans: &[Plan]) -> Vec<Record> {
    let store = StoreStep {
        client: 0,
        lock: "lock".into(),
        token: 0,
        grant: String::new(),
        at: 0,
        seq: 0,
        write: false,
        highest: 0,
        accepted: false,
        fenced: 0,
        control: 0,
    };
    let bounds = Bounds { claim_window: 3 * SECOND, poll: SECOND, slack: SECOND };
    let (seed, topology, end) = (0, "sim".to_owned(), BEGIN + 200 * SECOND);
    let mut sim = Sim {
        clients: vec![Client::default(); plans.len()],
        plans: plans.to_vec(),
        events: BinaryHeap::new(),
        now: BEGIN,
        queue: VecDeque::new(),
        held: None,
        tokens: 0,
        store,
        writes: (0, 0),
        records: vec![Record::Run(Run { seed, topology, args: Vec::new(), begin: BEGIN, end, bounds })],
    };
    for (who, plan) in plans.iter().enumerate() {
        let sent = BEGIN + plan.asks * MILLI;
        sim.at(sent + plan.out * MILLI, Event::Arrives(who, 1, sent));
    }
    while let Some(Reverse((at, _, event))) = sim.events.pop() {
        sim.now = at;
        sim.happens(event);
    }
    let (writes_accepted, writes_all) = sim.writes;
    let (fenced, control, lock) = (sim.store.fenced, sim.store.control, "lock".to_owned());
    let none = Vec::new;
    sim.records.push(Record::Final(Final {
        lock,
        writes_accepted,
        fenced,
        writes_all,
        control,
        waiters: 0,
        held: false,
    }));
    sim.records.push(Record::Rest(Rest { at: end, leaked_keys: none(), crashed: none(), log_errors: none() }));
    sim.records
}

impl Sim {
    fn at(&mut self, time: Nanos, event: Event) {
        let number = self.events.len();
        self.events.push(Reverse((time, number, event)));
    }

    fn out(&self, who: usize) -> Nanos {
        self.plans[who].out * MILLI
    }

    fn back(&self, who: usize) -> Nanos {
        self.plans[who].back * MILLI
    }

    fn id(who: usize) -> u32 {
        u32::try_from(who).unwrap() + 1
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives(who, attempt, sent) => self.arrives(who, attempt, sent),
            Event::TimesOut(who, attempt, sent) => {
                let before = self.queue.len();
                self.queue.retain(|waiter| waiter.0 != who);
                if self.queue.len() < before {
                    self.answer(who, attempt, sent, AcquireEnd::TimedOut);
                }
            }
            Event::Expires if self.held.is_some_and(|(_, until)| until <= self.now) => self.frees(),
            Event::Has(who) => self.has(who),
            Event::Beat(who) if self.plans[who].renews && !self.clients[who].is_over => {
                self.at(self.now + self.out(who), Event::RenewArrives(who, self.now));
            }
            Event::RenewArrives(who, sent) if self.held.is_some_and(|(holder, _)| holder == who) => {
                self.holds(who, self.now + TTL);
                self.at(self.now + self.back(who), Event::RenewHeard(who, sent));
            }
            Event::RenewHeard(who, sent) if !self.clients[who].is_over => {
                let (valid_until, token, at) = (reckoned(sent, TTL), self.clients[who].token, self.now);
                let (client, lock) = (Self::id(who), "lock".to_owned());
                self.records.push(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
                self.believes(who, valid_until);
                self.at(self.now + TTL / 3, Event::Beat(who));
            }
            Event::Deadline(who) if !self.clients[who].is_over && self.clients[who].valid_until <= self.now => {
                self.loses(who, "deadline");
            }
            Event::HoldOver(who) if !self.clients[who].is_over => self.hold_over(who),
            Event::EndArrives(who) if self.held.is_some_and(|(holder, _)| holder == who) => self.frees(),
            Event::Told(who) if !self.clients[who].is_over => self.loses(who, "revoked"),
            Event::Steps(who, write) => self.steps(who, write),
            _ => {}
        }
    }

    fn arrives(&mut self, who: usize, attempt: u32, sent: Nanos) {
        let wait = self.plans[who].wait * MILLI;
        match self.held {
            Some((holder, until)) if holder == who => {
                // A retry arms the TTL anew.
                let until = if attempt > 1 { self.now + TTL } else { until };
                self.holds(who, until);
                self.answer_granted(who, attempt, sent, until - self.now);
            }
            _ if self.clients[who].token != 0 => self.answer(who, attempt, sent, AcquireEnd::Aborted),
            None => self.grants(who, attempt, sent, self.now),
            Some(_) if wait == 0 => self.answer(who, attempt, sent, AcquireEnd::Contended),
            Some(_) => {
                self.queue.push_back((who, attempt, sent, self.now));
                self.at(self.now + wait, Event::TimesOut(who, attempt, sent));
            }
        }
    }

    fn holds(&mut self, who: usize, until: Nanos) {
        self.held = Some((who, until));
        self.at(until, Event::Expires);
    }

    fn frees(&mut self) {
        self.held = None;
        if let Some((who, attempt, sent, arrived)) = self.queue.pop_front() {
            self.grants(who, attempt, sent, arrived);
        }
    }

    fn grants(&mut self, who: usize, attempt: u32, sent: Nanos, arrived: Nanos) {
        self.tokens += 1;
        self.clients[who].token = token(self.tokens);
        self.holds(who, self.now + TTL);
        if self.plans[who].answer_lost {
            self.answer(who, attempt, sent, AcquireEnd::Unknown("reset".into()));
            let again = self.now + self.back(who) + MILLI;
            self.at(again + self.out(who), Event::Arrives(who, attempt + 1, again));
            return;
        }
        let held_for = self.now - arrived;
        self.answer_held(who, attempt, sent, held_for, TTL);
    }

    fn answer_granted(&mut self, who: usize, attempt: u32, sent: Nanos, left: Nanos) {
        self.answer_held(who, attempt, sent, 0, left);
    }

    fn answer_held(&mut self, who: usize, attempt: u32, sent: Nanos, held_for: Nanos, left: Nanos) {
        let (valid_until, ret) = (reckoned(sent + held_for, left), self.now + self.back(who));
        let (token, usable) = (self.clients[who].token, ret < valid_until);
        let grant = Grant { token, grant: format!("g{token}"), valid_until, held_for, left, usable };
        self.answer(who, attempt, sent, AcquireEnd::Acquired(grant));
        if usable && self.clients[who].valid_until == 0 {
            self.clients[who].valid_until = valid_until;
            self.at(ret, Event::Has(who));
        }
    }

    fn answer(&mut self, who: usize, attempt: u32, sent: Nanos, end: AcquireEnd) {
        self.records.push(Record::Acquire(Acquire {
            client: Self::id(who),
            lock: "lock".into(),
            request: format!("request-{who}"),
            attempt,
            server: 0,
            ttl: TTL,
            wait: self.plans[who].wait * MILLI,
            min_token: 0,
            invoke: sent,
            ret: self.now + self.back(who),
            end,
        }));
    }

    fn believes(&mut self, who: usize, valid_until: Nanos) {
        let until = self.clients[who].valid_until.max(valid_until);
        self.clients[who].valid_until = until;
        self.at(until, Event::Deadline(who));
    }

    fn has(&mut self, who: usize) {
        let plan = self.plans[who].clone();
        self.believes(who, 0);
        self.at(self.now, Event::Steps(who, false));
        self.at(self.now + plan.holds * MILLI / 2, Event::Steps(who, true));
        self.at(self.now + plan.holds * MILLI, Event::HoldOver(who));
        if plan.writes_late {
            self.at(self.now + (plan.holds + 2_500) * MILLI, Event::Steps(who, true));
        }
        if plan.renews {
            self.at(self.now + TTL / 3, Event::Beat(who));
        }
        if plan.sent_twice {
            self.at(self.now + self.out(who), Event::Arrives(who, 1, self.now));
        }
    }

    fn loses(&mut self, who: usize, cause: &str) {
        self.clients[who].is_over = true;
        let (client, lock, token) = (Self::id(who), "lock".to_owned(), self.clients[who].token);
        let successor = self.held.map(|(holder, _)| self.clients[holder].token).filter(|newer| *newer > token);
        self.records.push(Record::Lost(Lost { client, lock, token, at: self.now, cause: cause.into(), successor }));
    }

    fn hold_over(&mut self, who: usize) {
        let (client, lock, token, invoke) = (Self::id(who), "lock".to_owned(), self.clients[who].token, self.now);
        let arrives = invoke + self.out(who);
        let ret = arrives + self.back(who);
        let is_held = self.held.is_some_and(|(holder, _)| holder == who);
        match self.plans[who].end {
            // Enough of the lease is left for the Release to find it.
            End::Releases if is_held && self.clients[who].valid_until > arrives => {
                self.clients[who].is_over = true;
                self.at(arrives, Event::EndArrives(who));
                let end = ReleaseEnd::Released;
                self.records.push(Record::Release(Release { client, lock, token, invoke, ret, end }));
            }
            End::Releases | End::ReleasesUnheard => {
                self.clients[who].is_over = true;
                if token.is_multiple_of(2) {
                    self.at(arrives, Event::EndArrives(who));
                }
                let end = ReleaseEnd::Unknown("UNAVAILABLE".into());
                self.records.push(Record::Release(Release { client, lock, token, invoke, ret, end }));
            }
            End::Forgets => self.plans[who].renews = false,
            End::IsRevoked if is_held => {
                self.at(arrives, Event::EndArrives(who));
                self.at(ret, Event::Told(who));
                self.records.push(Record::Revoked(Revoked { lock, token, invoke, ret, certain: is_held }));
            }
            End::IsRevoked => {}
            End::IsKilled => {
                self.clients[who].is_over = true;
                let (kind, target, leaves) = ("sigkill-client".to_owned(), format!("client {client}"), Leaves::All);
                self.records.push(Record::Fault(Fault { kind, target, begin: invoke, end: invoke, leaves }));
            }
        }
    }

    fn steps(&mut self, who: usize, write: bool) {
        let token = self.clients[who].token;
        let (highest, accepted) = (self.store.highest, token >= self.store.highest);
        self.writes = (self.writes.0 + u64::from(write && accepted), self.writes.1 + u64::from(write));
        self.store.fenced += u64::from(write && accepted);
        if write {
            self.store.control = self.clients[who].read + 1;
        }
        self.clients[who].read = self.store.control;
        let (client, grant, at) = (Self::id(who), format!("g{token}"), self.now);
        self.records.push(Record::Store(StoreStep {
            client,
            token,
            grant,
            at,
            write,
            highest,
            accepted,
            ..self.store.clone()
        }));
        self.store.seq += 1;
        self.store.highest = highest.max(token);
    }
}

fn reckoned(sent: Nanos, ttl: Nanos) -> Nanos {
    sent + ttl - (ttl / 100 + (ttl / 20).max(20 * MILLI))
}
