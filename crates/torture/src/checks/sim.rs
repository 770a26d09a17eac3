//! A small and correct lock service with its clients, in virtual time: its histories are legal by construction.

use super::{
    builder::{BEGIN, token},
    index::SECOND,
};
use crate::{
    history::{
        Acquire, AcquireEnd, Bounds, Fault, Final, Grant, Guarantees, Leftovers, Lost, Nanos, Record, Release,
        ReleaseEnd, Renewed, Revoked, Run,
    },
    steps::{StepKind, StoreStep},
};
use proptest::prelude::*;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The TTL of all leases.
pub(crate) const TTL: Nanos = 2 * SECOND;

const MILLI: Nanos = 1_000_000;

/// The behaviour of one client, which sends one request. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    asks: u64,
    /// How long a message takes to the server, and back.
    out: u64,
    back: u64,
    wait: u64,
    holds: u64,
    renews: bool,
    /// The first answer is lost, and the request is sent again.
    answer_lost: bool,
    /// The request is sent once more after its answer.
    sent_twice: bool,
    end: Ending,
    /// The client writes once more after its lease has ended.
    writes_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Releases,
    ReleasesWithoutAnswer,
    Forgets,
    IsRevoked,
    IsKilled,
}

pub(crate) fn plans() -> impl Strategy<Value = Vec<ClientPlan>> {
    let end = prop_oneof![
        12 => Just(Ending::Releases), 2 => Just(Ending::ReleasesWithoutAnswer), 3 => Just(Ending::Forgets),
        2 => Just(Ending::IsRevoked), 1 => Just(Ending::IsKilled)
    ];
    let back = prop_oneof![20 => 1..60_u64, 1 => 1_500..2_500_u64];
    let wait = prop_oneof![1 => Just(0_u64), 4 => 500..30_000_u64];
    let odd = || prop::bool::weighted(0.1);
    let plan = (0..40_000_u64, 1..60_u64, back, wait, 1..4_000_u64, any::<bool>(), (odd(), odd()), end, odd())
        .prop_map(|(asks, out, back, wait, holds, renews, (answer_lost, sent_twice), end, writes_late)| ClientPlan {
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
    /// A transmission of this client, sent at this time, reaches the server.
    Arrives(usize, u32, Nanos),
    TimesOut(usize, u32, Nanos),
    Expires,
    Granted(usize),
    Beat(usize),
    RenewArrives(usize, Nanos),
    RenewHeard(usize, Nanos),
    Deadline(usize),
    HoldEnds(usize),
    EndArrives(usize),
    LossReported(usize),
    Steps(usize, bool),
}

/// The state of a client.
#[derive(Clone, Default)]
struct Client {
    token: u64,
    valid_until: Nanos,
    is_over: bool,
    /// The last value that it read from the control.
    read: u64,
}

struct Sim {
    plans: Vec<ClientPlan>,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(Nanos, usize, Event)>>,
    now: Nanos,
    queue: VecDeque<(usize, u32, Nanos, Nanos)>,
    /// The holder, and until when.
    held: Option<(usize, Nanos)>,
    tokens: u64,
    store: StoreStep,
    writes: (u64, u64),
    records: Vec<Record>,
}

/// Runs the clients and returns the history.
pub(crate) fn run(plans: &[ClientPlan]) -> Vec<Record> {
    let store = StoreStep {
        client: 0,
        lock: "lock".into(),
        token: 0,
        grant: String::new(),
        at: 0,
        seq: 0,
        kind: StepKind::Read,
        writer: 0,
        shared: 0,
        accepted: false,
        fenced: 0,
        control: 0,
    };
    let bounds = Bounds { claim_window: 3 * SECOND, beats: SECOND, slack: SECOND };
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
        sim.handle(event);
    }
    let (writes_accepted, writes_all) = sim.writes;
    let (fenced, control, lock) = (sim.store.fenced, sim.store.control, "lock".to_owned());
    let none = Vec::new;
    let last = Final { lock, writes_accepted, fenced, writes_all, control, ..Final::default() };
    sim.records.push(Record::Final(last));
    sim.records.push(Record::Leftovers(Leftovers {
        at: end,
        leaked_keys: none(),
        crashed: none(),
        log_errors: none(),
    }));
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

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(who, attempt, sent) => self.arrive(who, attempt, sent),
            Event::TimesOut(who, attempt, sent) => {
                let before = self.queue.len();
                self.queue.retain(|waiter| waiter.0 != who);
                if self.queue.len() < before {
                    self.answer(who, attempt, sent, AcquireEnd::TimedOut);
                }
            }
            Event::Expires if self.held.is_some_and(|(_, until)| until <= self.now) => self.free(),
            Event::Granted(who) => self.start_holding(who),
            Event::Beat(who) if self.plans[who].renews && !self.clients[who].is_over => {
                self.at(self.now + self.out(who), Event::RenewArrives(who, self.now));
            }
            Event::RenewArrives(who, sent) if self.held.is_some_and(|(holder, _)| holder == who) => {
                self.hold(who, self.now + TTL);
                self.at(self.now + self.back(who), Event::RenewHeard(who, sent));
            }
            Event::RenewHeard(who, sent) if !self.clients[who].is_over => {
                let (valid_until, token, at) = (valid_until(sent, TTL), self.clients[who].token, self.now);
                let (client, lock) = (Self::id(who), "lock".to_owned());
                self.records.push(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
                self.set_validity(who, valid_until);
                self.at(self.now + TTL / 3, Event::Beat(who));
            }
            Event::Deadline(who) if !self.clients[who].is_over && self.clients[who].valid_until <= self.now => {
                self.lose(who, "deadline");
            }
            Event::HoldEnds(who) if !self.clients[who].is_over => self.end_holding(who),
            Event::EndArrives(who) if self.held.is_some_and(|(holder, _)| holder == who) => self.free(),
            Event::LossReported(who) if !self.clients[who].is_over => self.lose(who, "revoked"),
            Event::Steps(who, write) => self.step(who, write),
            _ => {}
        }
    }

    fn arrive(&mut self, who: usize, attempt: u32, sent: Nanos) {
        let wait = self.plans[who].wait * MILLI;
        match self.held {
            Some((holder, until)) if holder == who => {
                // A retry renews the TTL.
                let until = if attempt > 1 { self.now + TTL } else { until };
                self.hold(who, until);
                self.answer_granted(who, attempt, sent, until - self.now);
            }
            _ if self.clients[who].token != 0 => self.answer(who, attempt, sent, AcquireEnd::Aborted),
            None => self.grant(who, attempt, sent, self.now),
            Some(_) if wait == 0 => self.answer(who, attempt, sent, AcquireEnd::Contended),
            Some(_) => {
                self.queue.push_back((who, attempt, sent, self.now));
                self.at(self.now + wait, Event::TimesOut(who, attempt, sent));
            }
        }
    }

    fn hold(&mut self, who: usize, until: Nanos) {
        self.held = Some((who, until));
        self.at(until, Event::Expires);
    }

    fn free(&mut self) {
        self.held = None;
        if let Some((who, attempt, sent, arrived)) = self.queue.pop_front() {
            self.grant(who, attempt, sent, arrived);
        }
    }

    fn grant(&mut self, who: usize, attempt: u32, sent: Nanos, arrived: Nanos) {
        self.tokens += 1;
        self.clients[who].token = token(self.tokens);
        self.hold(who, self.now + TTL);
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
        let (valid_until, ret) = (valid_until(sent + held_for, left), self.now + self.back(who));
        let (token, usable) = (self.clients[who].token, ret < valid_until);
        let grant = Grant { token, grant: format!("g{token}"), valid_until, held_for, left, slot: 0, usable };
        self.answer(who, attempt, sent, AcquireEnd::Acquired(grant));
        if usable && self.clients[who].valid_until == 0 {
            self.clients[who].valid_until = valid_until;
            self.at(ret, Event::Granted(who));
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
            shared: false,
            permits: 0,
            min_hold: 0,
            lock_delay: 0,
            max_hold: 0,
            invoke: sent,
            ret: self.now + self.back(who),
            end,
        }));
    }

    fn set_validity(&mut self, who: usize, valid_until: Nanos) {
        let until = self.clients[who].valid_until.max(valid_until);
        self.clients[who].valid_until = until;
        self.at(until, Event::Deadline(who));
    }

    fn start_holding(&mut self, who: usize) {
        let plan = self.plans[who].clone();
        self.set_validity(who, 0);
        self.at(self.now, Event::Steps(who, false));
        self.at(self.now + plan.holds * MILLI / 2, Event::Steps(who, true));
        self.at(self.now + plan.holds * MILLI, Event::HoldEnds(who));
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

    fn lose(&mut self, who: usize, cause: &str) {
        self.clients[who].is_over = true;
        let (client, lock, token) = (Self::id(who), "lock".to_owned(), self.clients[who].token);
        let successor = self.held.map(|(holder, _)| self.clients[holder].token).filter(|newer| *newer > token);
        self.records.push(Record::Lost(Lost { client, lock, token, at: self.now, cause: cause.into(), successor }));
    }

    fn end_holding(&mut self, who: usize) {
        let (client, lock, token, invoke) = (Self::id(who), "lock".to_owned(), self.clients[who].token, self.now);
        let arrives = invoke + self.out(who);
        let ret = arrives + self.back(who);
        let is_held = self.held.is_some_and(|(holder, _)| holder == who);
        match self.plans[who].end {
            // The lease lasts until the Release arrives.
            Ending::Releases if is_held && self.clients[who].valid_until > arrives => {
                self.clients[who].is_over = true;
                self.at(arrives, Event::EndArrives(who));
                let end = ReleaseEnd::Released;
                self.records.push(Record::Release(Release { client, lock, token, invoke, ret, end }));
            }
            Ending::Releases | Ending::ReleasesWithoutAnswer => {
                self.clients[who].is_over = true;
                if token.is_multiple_of(2) {
                    self.at(arrives, Event::EndArrives(who));
                }
                let end = ReleaseEnd::Unknown("UNAVAILABLE".into());
                self.records.push(Record::Release(Release { client, lock, token, invoke, ret, end }));
            }
            Ending::Forgets => self.plans[who].renews = false,
            Ending::IsRevoked if is_held => {
                self.at(arrives, Event::EndArrives(who));
                self.at(ret, Event::LossReported(who));
                self.records.push(Record::Revoked(Revoked { lock, token, invoke, ret, certain: is_held }));
            }
            Ending::IsRevoked => {}
            Ending::IsKilled => {
                self.clients[who].is_over = true;
                let (kind, target, guarantees) =
                    ("sigkill-client".to_owned(), format!("client {client}"), Guarantees::All);
                self.records.push(Record::Fault(Fault { kind, target, begin: invoke, end: invoke, guarantees }));
            }
        }
    }

    fn step(&mut self, who: usize, write: bool) {
        let token = self.clients[who].token;
        let (writer, accepted) = (self.store.writer, token >= self.store.writer);
        self.writes = (self.writes.0 + u64::from(write && accepted), self.writes.1 + u64::from(write));
        self.store.fenced += u64::from(write && accepted);
        if write {
            self.store.control = self.clients[who].read + 1;
        }
        self.clients[who].read = self.store.control;
        let (client, grant, at) = (Self::id(who), format!("g{token}"), self.now);
        let kind = if write { StepKind::Write } else { StepKind::Read };
        let step = StoreStep { client, token, grant, at, kind, writer, accepted, ..self.store.clone() };
        self.records.push(Record::Store(step));
        self.store.seq += 1;
        self.store.writer = writer.max(token);
    }
}

fn valid_until(sent: Nanos, ttl: Nanos) -> Nanos {
    sent + ttl - (ttl / 100 + (ttl / 20).max(20 * MILLI))
}
