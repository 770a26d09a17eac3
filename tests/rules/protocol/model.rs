//! The model: a configuration, its events, and the invariants.

use super::{
    ghost::Invariant,
    modes::{Asks, TWO, may_be_together},
    state::{Budget, Message, Phase, REQUESTS_PER_CLIENT, Replica, Reply, State},
};
use stateright::{Model, Property};
use std::time::Duration;

/// A configuration of the protocol: participants, their actions, and faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) clients: u8,
    /// What each client asks for.
    pub(crate) asks: [Asks; 3],
    pub(crate) replicas: u8,
    /// Requests for each client, and attempts for each request.
    pub(crate) requests: u8,
    pub(crate) attempts: u32,
    pub(crate) renewals: u8,
    /// In microseconds. A tick is longer than the timeout of a command to the store.
    pub(crate) ttl: u64,
    pub(crate) tick: u64,
    /// How long its place is kept from others after a lease that its client did not release, in microseconds.
    pub(crate) lock_delay: u64,
    /// Whether requests wait.
    pub(crate) wait: bool,
    /// Whether clients may cancel, waits may time out, and clients release.
    pub(crate) cancels: bool,
    pub(crate) timeouts: bool,
    pub(crate) releases: bool,
    /// Whether calls to a replica take time.
    pub(crate) slow_calls: bool,
    /// How far the clock of a store that restarts is behind, in microseconds.
    pub(crate) behind: u64,
    pub(crate) budget: Budget,
    pub(crate) bug: Option<Bug>,
}

/// A deliberate bug in the clients or replicas, which the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Replicas that have waiters send no beats.
    NoBeats,
    /// Only the replica that carries the first waiter sends beats.
    OnlyHeadBeats,
    /// A replica ignores that hints to it were lost.
    IgnoresLostHints,
    /// The store does not tell a replica that it was silent, so that its waiters may have been skipped or deleted.
    IgnoresSilence,
    /// Validity counts from the arrival of the reply to a call, or to a renewal.
    ValidFromReply,
    RenewedFromReply,
    /// A client works until it receives the answer to its release.
    WorksUntilReleased,
    /// Commands may act at any time.
    NoNotAfter,
    /// A cleanup names the attempt and not the call, so it drops another call of the same attempt.
    CleansUpByAttempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Begin {
        client: usize,
        replica: u8,
    },
    Retry {
        client: usize,
        replica: u8,
    },
    Cancel {
        client: usize,
    },
    /// Through a replica that hands over to its own waiter, or through one without waiters (`None`).
    Release {
        client: usize,
        through: Option<u8>,
    },
    Renew {
        client: usize,
    },
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    GiveUp {
        replica: u8,
        call: usize,
    },
    Beat {
        replica: u8,
    },
    Crash {
        replica: u8,
    },
    Suspect {
        replica: u8,
    },
    Tick,
    Leap,
    RestartStore,
}

const LEAP: Duration = Duration::from_secs(31);

impl Protocol {
    /// What the client of this request asks for. Of what no client sends, it does not matter.
    pub(super) fn asks_of(&self, request: u8) -> Asks {
        self.asks.get(usize::from(request / REQUESTS_PER_CLIENT)).copied().unwrap_or(Asks::Alone)
    }

    pub(super) fn deliver(&self, state: &mut State, at: usize) {
        match state.network.remove(at) {
            Message::Call { to, attempt, copy, sent } => self.take_call(state, to, attempt, copy, sent),
            Message::Cancel { to, attempt } => {
                // A call and its cancellation use the same connection, which keeps their order.
                let is_its_call = |it: &Message| match it {
                    Message::Call { to: other, attempt: its, .. } => (to, attempt) == (*other, *its),
                    _ => false,
                };
                state.network.retain(|message| !is_its_call(message));
                let calls = &state.replicas[usize::from(to)].calls;
                if let Some(index) = calls.iter().position(|call| call.attempt == attempt) {
                    self.drop_call(state, to, index);
                }
            }
            Message::ToStore { command, copy, sent } => self.reach_store(state, &command, copy, sent),
            Message::FromStore { to, attempt, copy, outcome, hints } => {
                hints.iter().for_each(|hint| self.take_hint(state, to, *hint));
                self.take_answer(state, to, attempt, copy, outcome);
            }
            Message::HandOver { to, attempt, copy, outcome, sent } => {
                self.take_hand_over(state, to, (attempt, copy), outcome, sent);
            }
            Message::Hint { to, attempt } => self.take_hint(state, to, attempt),
            Message::Reply { attempt, reply } => self.take_reply(state, attempt, reply),
            Message::Renewed { request, from, left } => self.take_renewed(state, request, from, left),
            Message::Released { request } => Self::take_released(state, request),
        }
    }

    /// Loses a message. Hints are numbered, so that their replica misses one that does not come. A leader that hands
    /// over to a call of its own and is deposed before the next one knows: the call is presented to that one.
    pub(super) fn lose(state: &mut State, at: usize) {
        let to = match state.network.remove(at) {
            Message::Hint { to, .. } | Message::HandOver { to, .. } => to,
            Message::FromStore { to, hints, .. } if !hints.is_empty() => to,
            _ => return,
        };
        state.replicas[usize::from(to)].misses = true;
    }

    pub(super) fn pass(&self, state: &mut State, span: Duration) {
        state.now = state.now.after(span);
        self.run_timer(state);
        for at in 0..self.replicas {
            // The answers in flight have timed out.
            while let Some(index) =
                state.replicas[usize::from(at)].calls.iter().position(|it| it.awaiting_since.is_some())
            {
                let attempt = state.replicas[usize::from(at)].calls[index].attempt;
                self.drop_call(state, at, index);
                state.send(Message::Reply { attempt, reply: Reply::Failed });
            }
            let replica = &mut state.replicas[usize::from(at)];
            replica.beat_due = replica.alive && !replica.calls.is_empty() && self.bug != Some(Bug::NoBeats);
        }
        for client in &mut state.clients {
            if matches!(client.phase, Phase::Holding { until } if until <= state.now) {
                client.phase = Phase::Idle;
            }
        }
    }

    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Begin { client, replica } => self.begin(state, client, replica),
            Action::Retry { client, replica } => self.retry(state, client, replica),
            Action::Cancel { client } => self.cancel(state, client),
            Action::Release { client, through } => self.release(state, client, through),
            Action::Renew { client } => self.renew(state, client),
            Action::Deliver(at) => self.deliver(state, at),
            Action::Lose(at) => {
                state.budget.losses -= 1;
                Self::lose(state, at);
            }
            Action::Repeat(at) => {
                state.budget.repeats -= 1;
                let again = match state.network[at].clone() {
                    Message::Call { to, attempt, sent, .. } => {
                        state.ghost.repeated = true;
                        Message::Call { to: (to + 1) % self.replicas, attempt, copy: 1, sent }
                    }
                    other => other,
                };
                state.send(again);
            }
            Action::GiveUp { replica, call } => self.give_up(state, replica, call),
            Action::Beat { replica } => self.beat(state, replica),
            Action::Crash { replica } => {
                state.budget.crashes -= 1;
                let dead = &mut state.replicas[usize::from(replica)];
                *dead = Replica { alive: false, calls: vec![], beat_due: false, misses: false };
            }
            Action::Suspect { replica } => {
                state.budget.suspicions -= 1;
                self.suspect(state, replica);
            }
            Action::Tick => {
                let late = !state.network.is_empty() || state.replicas.iter().any(|replica| replica.beat_due);
                state.budget.delays -= u8::from(late);
                state.budget.ticks = state.budget.ticks.map(|left| left - 1);
                self.pass(state, Duration::from_micros(self.tick));
            }
            Action::Leap => {
                state.budget.leaps -= 1;
                self.pass(state, LEAP);
            }
            Action::RestartStore => {
                state.budget.restarts -= 1;
                state.ghost.store_forgot = true;
                // Commands in flight to the old store are lost with its connections.
                state.network.retain(|message| !matches!(message, Message::ToStore { .. }));
                state.store.restart(state.now, self.behind);
            }
        }
    }

    /// Checks the invariants of a single state.
    fn check(&self, state: &mut State) {
        let now = state.now;
        let valid = |phase: Phase| matches!(phase, Phase::Holding { until } if now < until);
        let holders = (0..state.clients.len()).filter(|client| valid(state.clients[*client].phase));
        let requests: Vec<u8> = holders.map(|client| state.request_of(client)).collect();
        let asks: Vec<Asks> = requests.iter().map(|request| self.asks_of(*request)).collect();
        // A limit that was lowered takes nothing from those who hold.
        let are_together = may_be_together(&asks, TWO.permits) && state.ghost.have_slots_of_their_own(&requests);
        state.ghost.check(Invariant::Exclusion, are_together || state.ghost.store_forgot);
    }

    /// Whether every waiter is served in time if no more faults occur, even without hints.
    fn loses_no_waiter(&self, state: &State) -> bool {
        state.ghost.store_forgot || !state.network.is_empty() || self.serves_all_waiters(state)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(self.requests <= REQUESTS_PER_CLIENT && self.tick >= 500_000);
        vec![State::new(self.clients, self.replicas, self.renewals, self.budget)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.of_clients(state, actions);
        self.of_replicas(state, actions);
        self.of_network(state, actions);
        self.of_time(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        self.act(&mut after, action);
        self.check(&mut after);
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("tokens rise", |_, state: &State| state.ghost.holds(Invariant::TokensRise)),
            Property::<Self>::always("exclusion", |_, state: &State| state.ghost.holds(Invariant::Exclusion)),
            Property::<Self>::always("room", |_, state: &State| state.ghost.holds(Invariant::Room)),
            Property::always("no lost waiter", |model: &Self, state: &State| model.loses_no_waiter(state)),
            Property::<Self>::always("in order", |_, state: &State| state.ghost.holds(Invariant::InOrder)),
            Property::<Self>::always("once per request", |_, state: &State| {
                state.ghost.holds(Invariant::OncePerRequest)
            }),
            Property::<Self>::always("no revival", |_, state: &State| state.ghost.holds(Invariant::NoRevival)),
            Property::<Self>::always("dropped is final", |_, state: &State| {
                state.ghost.holds(Invariant::DroppedIsFinal)
            }),
            Property::<Self>::always("timeout is final", |_, state: &State| {
                state.ghost.holds(Invariant::TimeoutIsFinal)
            }),
            Property::always("nothing left", |model: &Self, state: &State| {
                state.ghost.store_forgot || !state.is_quiet() || !state.store.leaves_behind(model, state.now)
            }),
        ]
    }
}
