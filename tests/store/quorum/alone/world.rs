//! A world of servers that lead one partition in turn, and of the one node that keeps it and loses its memory.

use super::{
    attempt::{Attempt, Leads, begin},
    mistake::Mistake,
    state::{Client, Key, Server, Stage, State},
};
use crate::search::Promises;
use fencepost::testing::{
    domain::time::StoreTime,
    store::quorum::paxos::{
        acceptor::Seen,
        ballot::{Ballot, Position, ServerId},
        recovery::Alone,
    },
};
use stateright::{Model, Property};
use std::sync::Arc;

/// The size of a world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) servers: usize,
    /// For each ballot, in rising order: the server that may use it, once. Server 0 leads with the first one.
    pub(crate) owners: &'static [usize],
    /// Batches of one leader, at most.
    pub(crate) batches: usize,
    pub(crate) faults: Faults,
    /// A fault begins only when all is well: all servers run, and one of them has what the node has. Only then is
    /// exclusion promised.
    pub(crate) is_apart: bool,
    /// Whether the wall clocks are above all tokens that were drawn.
    pub(crate) has_clock: bool,
    pub(crate) mistake: Option<Mistake>,
    /// Explores states that differ by what has no effect any more one by one.
    pub(crate) is_exact: bool,
}

/// How often each may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// The node loses its memory: it restarts empty, is flushed, or comes back with a snapshot.
    pub(crate) losses: u8,
    pub(crate) snapshots: u8,
    pub(crate) crashes: u8,
    pub(crate) pauses: u8,
    pub(crate) leaves: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The node gives a promise to an attempt.
    Promise(usize),
    /// The node is read for an attempt.
    Read(usize),
    /// What a leader has sent arrives.
    Arrive(usize, usize),
    Campaign(usize),
    Lead(usize),
    Grant(usize),
    LetGo(usize),
    /// A leader hears that a batch has arrived.
    Acknowledge(usize),
    /// A leader hears a refusal.
    Refuse(usize),
    /// A server sees where the node stands.
    See(usize),
    /// It sees that the node lost its memory, and reports what it has.
    Report(usize),
    /// It begins the next membership of the node, if that is for it to do.
    Admit(usize),
    Crash(usize),
    Pause(usize),
    Wake(usize),
    Leave(usize),
    /// A client's answer reaches it.
    Answer(usize),
    Finish(usize),
    Lose,
    Flush,
    Restore,
    Snapshot,
}

/// Tokens begin above this, the skip of a clock that stands at zero.
pub(crate) const TOKENS_FROM: u64 = 60_000_000;

/// When beats are sent, and when memories began.
pub(crate) const LATER: StoreTime = StoreTime::from_micros(1);
pub(crate) const EARLIER: StoreTime = StoreTime::from_micros(0);

pub(crate) fn server_id(server: usize) -> ServerId {
    let mut id = ServerId::default();
    id.0[11] = u8::try_from(server).expect("a small number");
    id
}

impl World {
    pub(crate) fn ballot(&self, attempt: usize) -> Ballot {
        Ballot { round: attempt as u64 + 1, server: server_id(self.owners[attempt]) }
    }

    /// The next attempt of a server with a ballot above this one.
    pub(crate) fn next_attempt(&self, state: &State, server: usize, above: Ballot) -> Option<usize> {
        let is_free = |attempt: &usize| {
            self.owners[*attempt] == server
                && matches!(*state.attempts[*attempt], Attempt::Unused)
                && self.ballot(*attempt) > above
        };
        (0..self.owners.len()).find(is_free)
    }

    pub(crate) fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// A server that knows nothing.
    pub(crate) fn fresh(&self, server: usize) -> Server {
        let mut alone = Alone::new(server_id(server));
        // From here on all replies are of one time.
        let (promised, accepted) = (Ballot::default(), Position::default());
        alone.sees(&Seen::Votes { promised, accepted }, LATER, LATER);
        Server {
            is_paused: false,
            alone,
            works_with: None,
            has: None,
            attempted: Ballot::default(),
            seen: Ballot::default(),
            token: TOKENS_FROM,
            report: None,
        }
    }

    /// Nothing is at fault that a further fault could add to.
    fn is_well(&self, state: &State) -> bool {
        !self.is_apart || state.stands().is_some()
    }

    fn may_lose(&self, state: &State) -> bool {
        let is_kept = match state.stands() {
            None => true,
            Some(header) => state.servers.iter().any(|server| {
                server.has.is_some_and(|has| {
                    self.ballot(has) == header.accepted.ballot
                        || header.promised == self.ballot(has)
                            && matches!(&*state.attempts[has], Attempt::Leads(leads) if leads.stamp == header.stamp)
                })
            }),
        };
        // Some mistakes make that false themselves.
        let is_kept = is_kept || self.mistake.is_some_and(|mistake| mistake.forgets(state, self));
        state.left.losses > 0 && (!self.is_apart || is_kept && state.servers.iter().all(|it| !it.is_paused))
    }

    fn server_actions(&self, state: &State, server: usize, actions: &mut Vec<Action>) {
        let it = &state.servers[server];
        if it.is_paused {
            actions.push(Action::Wake(server));
            return;
        }
        let leads = state.leads(it).is_some();
        if state.stands().is_some() {
            actions.push(Action::See(server));
            if !leads {
                actions.push(Action::Campaign(server));
            }
        } else {
            actions.extend([Action::Report(server), Action::Admit(server)]);
        }
        if leads {
            let all = [Action::Grant, Action::LetGo, Action::Acknowledge, Action::Refuse];
            actions.extend(all.map(|action| action(server)));
        } else if it.works_with.is_some() {
            actions.push(Action::Lead(server));
        }
        let is_well = self.is_well(state);
        let none_is_paused = !self.is_apart || state.servers.iter().all(|it| !it.is_paused);
        if state.left.crashes > 0 && is_well && none_is_paused {
            actions.push(Action::Crash(server));
        }
        if state.left.pauses > 0 && is_well {
            actions.push(Action::Pause(server));
        }
        if state.left.leaves > 0 && state.stands().is_some() && self.may_leave(state, it) {
            actions.push(Action::Leave(server));
        }
    }

    /// A server leaves when it has no memory that somebody might need.
    fn may_leave(&self, state: &State, server: &Server) -> bool {
        let is_flushed = |leads: &Leads| leads.leader.committed() == leads.batches.len() as u64;
        server.has.is_none() && server.works_with.is_none()
            || self.is(Mistake::LeavesAtOnce) && state.leads(server).is_some_and(is_flushed)
    }

    fn node_action(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Promise(attempt) => self.promise(state, attempt),
            Action::Read(attempt) => self.read(state, attempt),
            Action::Arrive(attempt, sent) => self.arrive(state, attempt, sent),
            _ => None,
        }
    }

    fn server_action(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Campaign(server) => self.campaign(state, server),
            Action::Lead(server) => self.lead(state, server),
            Action::Grant(server) => self.grant(state, server),
            Action::LetGo(server) => self.let_go(state, server),
            Action::Acknowledge(server) => self.acknowledge(state, server),
            Action::Refuse(server) => self.refuse(state, server),
            Action::See(server) => self.see(state, server),
            Action::Report(server) => self.report(state, server),
            Action::Admit(server) => self.admit(state, server),
            Action::Crash(server) => {
                state.left.crashes -= 1;
                self.gives_up(state, server);
                state.servers[server] = Arc::new(self.fresh(server));
                Some(())
            }
            Action::Leave(server) => {
                state.left.leaves -= 1;
                state.servers[server] = Arc::new(self.fresh(server));
                Some(())
            }
            Action::Pause(server) => {
                state.left.pauses -= 1;
                state.server(server).is_paused = true;
                Some(())
            }
            Action::Wake(server) => {
                state.server(server).is_paused = false;
                Some(())
            }
            _ => None,
        }
    }

    fn loses(&self, state: &mut State, action: Action) {
        let node = match action {
            Action::Restore => state.snapshot.clone().unwrap_or_default(),
            _ => Arc::default(),
        };
        state.node = node;
        state.life += u64::from(action != Action::Flush);
        state.left.losses -= 1;
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            life: 1,
            node: Arc::default(),
            snapshot: None,
            attempts: self.owners.iter().map(|_| Arc::new(Attempt::Unused)).collect(),
            servers: (0..self.servers).map(|server| Arc::new(self.fresh(server))).collect(),
            clients: [Client::default(); 2],
            stamps: 1,
            drawn: TOKENS_FROM,
            heard: TOKENS_FROM,
            all_heard: 0,
            left: self.faults,
            breach: None,
            key: Key {
                is_exact: self.is_exact,
                all_arrives: self.is(Mistake::OverStanding),
                has_old_batches: self.mistake.is_some_and(Mistake::admits_with_its_ballot),
                has_no_told_tokens: self.has_clock && self.mistake.is_none(),
            },
        };
        begin(self, &mut state);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, attempt) in state.attempts.iter().enumerate() {
            match &**attempt {
                Attempt::Campaigns { .. } => actions.push(Action::Promise(at)),
                Attempt::Promised { .. } => actions.push(Action::Read(at)),
                Attempt::Leads(leads) => actions.extend((0..leads.sent.len()).map(|sent| Action::Arrive(at, sent))),
                Attempt::Unused | Attempt::Read { .. } | Attempt::Over => {}
            }
        }
        for server in 0..self.servers {
            self.server_actions(state, server, actions);
        }
        for (client, it) in state.clients.iter().enumerate() {
            match it.stage {
                Stage::Idle | Stage::Done => {}
                Stage::Answered => actions.extend([Action::Answer(client), Action::Finish(client)]),
                Stage::CarriedOut | Stage::Holds => actions.push(Action::Finish(client)),
            }
        }
        if self.may_lose(state) {
            actions.extend([Action::Lose, Action::Flush]);
            if state.snapshot.is_some() {
                actions.push(Action::Restore);
            }
        }
        if state.left.snapshots > 0 && state.left.losses > 0 {
            actions.push(Action::Snapshot);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Promise(_) | Action::Read(_) | Action::Arrive(..) => self.node_action(&mut state, action)?,
            Action::Answer(client) => state.reaches(self, client),
            // Who has not heard gives up too: its lease ends.
            Action::Finish(client) => state.clients[client].stage = Stage::Done,
            Action::Lose | Action::Flush | Action::Restore => self.loses(&mut state, action),
            Action::Snapshot => {
                state.snapshot = Some(Arc::clone(&state.node));
                state.left.snapshots -= 1;
            }
            _ => self.server_action(&mut state, action)?,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("promises", |_, state: &State| state.breach.is_none())]
    }
}

impl Promises for World {
    fn breach(state: &State) -> Option<&'static str> {
        state.breach
    }
}
