//! A world of servers that compete for one partition, and of nodes that lose their memory and are replaced.

use super::{
    mistake::Mistake,
    node::{Redis, stamp},
    rebuild::Rebuild,
    search::Promises,
    server::{Leads, Server, is_of_this_life},
};
use fencepost::testing::store::quorum::paxos::{
    acceptor::Incarnation,
    ballot::{Ballot, Position, ServerId},
    candidate::{Candidate, Question},
    leader::Purpose,
    message::{Answer, Request},
    node::{ClusterId, Mark},
};
use stateright::{Model, Property};
use std::collections::BTreeSet;

/// The size of a world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// For each server: its list of nodes, and the number of commands that it carries out, should it lead. Each makes
    /// one attempt to lead, with a ballot above those of the servers before it.
    pub(crate) servers: Vec<(List, u8)>,
    /// How often nodes lose their memory, all together.
    pub(crate) losses: u8,
    /// How many rebuilds there may be.
    pub(crate) rebuilds: usize,
    /// How many nodes have lost their memory already.
    pub(crate) lost: usize,
    pub(crate) mistake: Option<Mistake>,
    /// Explores states that differ by the numbers of the nodes only, or by what has no effect any more, one by one.
    pub(crate) exact: bool,
}

/// A list of nodes: its number, and the nodes.
pub(crate) type List = (u64, &'static [usize]);

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) nodes: Vec<Redis>,
    pub(crate) servers: Vec<Server>,
    /// What leaders have sent and what may have an effect still. What candidates have sent follows from their state.
    pub(crate) sent: BTreeSet<Sent>,
    /// The last batch that a leader has seen acknowledged by a majority, and the history up to it.
    pub(crate) committed: (Position, Vec<u8>),
    pub(crate) losses_left: u8,
    pub(crate) rebuilds: Vec<Rebuild>,
    /// The lists of rebuilds that were done, which servers go by.
    pub(crate) known: BTreeSet<u64>,
    pub(crate) breach: Option<&'static str>,
    pub(crate) exact: bool,
    /// Of each server: its nodes.
    pub(crate) lists: Vec<&'static [usize]>,
    /// Of each server: the nodes that heed it no more.
    pub(crate) deaf: Vec<Vec<bool>>,
}

/// A request that may arrive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sent {
    pub(crate) server: usize,
    pub(crate) node: usize,
    pub(crate) purpose: For,
    /// The pieces of a snapshot arrive with it: if one does not, the snapshot is staged anew.
    pub(crate) pieces: Vec<Request>,
    pub(crate) request: Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum For {
    Candidate(Question),
    Leader(Purpose),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A leader carries out a command, and writes it.
    Command(usize),
    /// A leader makes a snapshot for a node.
    Stage(usize, usize),
    /// What was staged is gone when the node is to admit it.
    Expire(Sent),
    /// A server marks a node that has an older list, or none.
    Mark(usize, usize),
    /// A request arrives, and its answer is heard or lost.
    Arrive(Sent, bool),
    /// A leader's connection breaks.
    Reconnect(usize, usize),
    /// A node loses its memory.
    Lose(usize),
    /// A rebuild begins, or sends a node a request.
    Rebuild(usize, Option<usize>),
}

pub(crate) fn ballot(server: usize) -> Ballot {
    Ballot { round: server as u64 + 1, server: ServerId::default() }
}

impl World {
    pub(crate) fn mark(&self, server: usize) -> Mark {
        let list = self.servers[server].0.0;
        Mark { cluster: ClusterId(0), partitions: 1, list, members: [].into(), rebuild: None }
    }

    /// The index of a node in a server's list.
    pub(crate) fn local(&self, server: usize, node: usize) -> usize {
        self.servers[server].0.1.iter().position(|member| *member == node).expect("a member")
    }

    /// What candidates have sent, and what its answer may be.
    fn questions(&self, state: &State, server: usize, actions: &mut Vec<Action>) {
        let lives = match &state.servers[server] {
            Server::Candidate(_, asked, lives) => {
                actions.extend(asked.iter().map(|sent| Action::Arrive(sent.clone(), true)));
                // Answers of the first round count until it asks again.
                asked.is_empty().then_some(lives)
            }
            Server::Leads(_) | Server::Over => None,
        };
        for (local, node) in self.servers[server].0.1.iter().enumerate() {
            let stands = state.nodes[*node].stands();
            let (is_news, is_answer) = match stands {
                None => (true, false),
                Some(stands) => (stands.promised < ballot(server), stands.promised <= ballot(server)),
            };
            let is_heard =
                is_answer && lives.is_some_and(|lives| is_news || lives[local] != state.nodes[*node].incarnation);
            let (purpose, request) = (For::Candidate(Question::First), Request::Promise(ballot(server)));
            let sent = Sent { server, node: *node, purpose, pieces: vec![], request };
            if is_heard || self.exact {
                actions.push(Action::Arrive(sent.clone(), true));
            }
            if is_news || self.exact {
                actions.push(Action::Arrive(sent, false));
            }
        }
    }

    /// Whether this node heeds this server no more: a promise never falls, unless memory is lost.
    pub(crate) fn is_deaf(&self, state: &State, server: usize, node: usize) -> bool {
        state.losses_left == 0
            && !self.promises_fall()
            && state.nodes[node].stands().is_some_and(|it| it.promised > ballot(server))
    }

    pub(crate) fn promises_fall(&self) -> bool {
        matches!(self.mistake, Some(Mistake::NoPromise | Mistake::ForgetsPromise))
    }

    /// A server goes by the list of a rebuild when that is done.
    fn knows_its_list(&self, state: &State, server: usize) -> bool {
        let list = self.servers[server].0.0;
        self.rebuilds == 0 || list == 0 || state.known.contains(&list)
    }

    /// Whether there is more than one list of nodes.
    pub(crate) fn has_lists(&self) -> bool {
        self.rebuilds > 0 || self.servers.iter().any(|(list, _)| *list != self.servers[0].0)
    }

    /// A node carries a request out. `None`: it refuses the server's list.
    pub(crate) fn execute(&self, redis: &mut Redis, server: usize, request: &Request) -> Option<Answer> {
        redis.execute(&self.mark(server), request, self.mistake == Some(Mistake::OldListHeard))
    }

    /// A request arrives at its node.
    pub(crate) fn deliver(&self, redis: &mut Redis, sent: &Sent) -> Option<Answer> {
        let before = redis.clone();
        for piece in &sent.pieces {
            self.execute(redis, sent.server, piece);
        }
        let answer = match self.mistake {
            Some(mistake) => mistake.arrives(self, redis, sent),
            None => self.execute(redis, sent.server, &sent.request),
        };
        if !sent.pieces.is_empty() && answer != Some(Answer::Done) {
            // What is staged in vain expires.
            *redis = before;
            return self.execute(redis, sent.server, &sent.request);
        }
        answer
    }

    fn arrive(&self, state: &mut State, sent: &Sent, heard: bool) {
        let answer = self.deliver(&mut state.nodes[sent.node], sent);
        if let Some(answer) = answer.filter(|_| heard && is_of_this_life(state, sent)) {
            self.hear(state, sent, answer);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (oldest, _) = self.servers.iter().enumerate().min_by_key(|(_, (list, _))| list.0).expect("a server");
        let members: &[usize] = self.servers[oldest].0.1;
        let count = 1 + self.servers.iter().flat_map(|(list, _)| list.1).max().expect("nodes");
        let node = |node| match members.contains(&node) {
            true if node < self.lost => Redis::unknown(Incarnation(2)),
            // The lists after a rebuild are not there yet.
            true if self.rebuilds > 0 => Redis::created(&Mark { list: 0, ..self.mark(oldest) }, Incarnation(1)),
            true => Redis::created(&self.mark(oldest), Incarnation(1)),
            false => Redis::unknown(Incarnation(1)),
        };
        let servers = (0..self.servers.len()).map(|server| {
            // A server that begins later is one whose requests arrive later.
            let nodes = self.servers[server].0.1.len();
            Server::Candidate(Candidate::new(ballot(server), nodes).0, vec![], vec![Incarnation(0); nodes])
        });
        vec![State {
            nodes: (0..count).map(node).collect(),
            servers: servers.collect(),
            sent: BTreeSet::new(),
            committed: (Position::default(), vec![]),
            losses_left: self.losses,
            rebuilds: vec![Rebuild::new(); self.rebuilds],
            known: BTreeSet::new(),
            breach: None,
            exact: self.exact,
            deaf: vec![vec![false; count]; self.servers.len()],
            lists: self.servers.iter().map(|(list, _)| list.1).collect(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (server, is) in state.servers.iter().enumerate().filter(|(server, _)| self.knows_its_list(state, *server)) {
            self.questions(state, server, actions);
            let (list, commands) = &self.servers[server];
            for node in list.1.iter().filter(|_| self.has_lists()) {
                if state.nodes[*node].list().is_none_or(|known| known < list.0) {
                    actions.push(Action::Mark(server, *node));
                }
            }
            let Server::Leads(Leads { leader, histories, connected }) = is else { continue };
            let is_over = !self.exact && list.1.iter().all(|node| self.is_deaf(state, server, *node));
            if histories.len() <= usize::from(*commands) && self.may_go_on(leader) && !is_over {
                actions.push(Action::Command(server));
            }
            for (local, node) in list.1.iter().enumerate() {
                if leader.wants_snapshot(local) {
                    actions.push(Action::Stage(server, *node));
                }
                if connected[local] != state.nodes[*node].incarnation {
                    actions.push(Action::Reconnect(server, *node));
                }
            }
        }
        for sent in state.sent.iter().filter(|sent| self.may_arrive(state, sent)) {
            actions.push(Action::Arrive(sent.clone(), true));
            if let (Request::Admit { position, .. }, Server::Leads(leads)) =
                (&sent.request, &state.servers[sent.server])
                && position.seq < leads.histories.len() as u64
            {
                actions.push(Action::Expire(sent.clone()));
            }
        }
        self.rebuilds(state, actions);
        if state.losses_left > 0 {
            actions.extend((0..state.nodes.len()).map(Action::Lose));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        let server = match &action {
            Action::Command(server) | Action::Stage(server, _) | Action::Reconnect(server, _) => Some(*server),
            Action::Expire(sent) | Action::Arrive(sent, _) => Some(sent.server),
            Action::Mark(..) | Action::Lose(_) | Action::Rebuild(..) => None,
        };
        match action {
            Action::Command(server) => self.command(&mut state, server),
            Action::Stage(server, node) => self.stage(&mut state, server, node),
            Action::Expire(sent) => self.hear(&mut state, &sent, Answer::Again),
            Action::Mark(server, node) => {
                state.nodes[node].mark(&self.mark(server));
            }
            Action::Rebuild(number, node) => self.rebuild(&mut state, number, node),
            Action::Arrive(sent, heard) => self.arrive(&mut state, &sent, heard),
            Action::Reconnect(server, node) => self.reconnect(&mut state, server, node),
            Action::Lose(node) => {
                state.losses_left -= 1;
                let it = &mut state.nodes[node];
                match self.mistake {
                    Some(mistake) => mistake.loses(self, it),
                    None => it.lose(),
                }
                if !self.has_lists() {
                    // Somebody marks it at once; the stamp of its next membership is made.
                    self.execute(it, 0, &Request::Promise(Ballot::default()));
                }
            }
        }
        self.prune(Some(before), &mut state, server);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("one history", |_, state: &State| state.breach.is_none())]
    }
}

impl Promises for World {
    fn breach(state: &State) -> Option<&'static str> {
        state.breach
    }
}

impl State {
    /// A leader has seen a batch acknowledged by a majority: all batches before it, of whatever leader, are part of its
    /// history, and it is part of all later ones.
    pub(crate) fn commits(&mut self, position: Position, history: &[u8]) {
        let is_later = position > self.committed.0;
        let (one, other) = if is_later { (&*self.committed.1, history) } else { (history, &*self.committed.1) };
        if !other.starts_with(one) {
            self.breach = Some("an acknowledged batch is not part of a later history");
        }
        if is_later {
            self.committed = (position, history.to_vec());
        }
    }

    /// The nodes that have a batch have one content of it.
    pub(crate) fn check_content(&mut self, node: usize) {
        let Some(kept) = self.nodes[node].kept() else { return };
        if kept.0.ballot.server != ServerId::default() {
            return; // a rebuild's
        }
        let round = usize::try_from(kept.0.ballot.round).expect("a small number");
        let Some(Server::Leads(leads)) = round.checked_sub(1).map(|server| &self.servers[server]) else { return };
        let seq = usize::try_from(kept.0.seq).expect("a small number");
        if leads.histories[seq - 1] != kept.1 {
            self.breach = Some("a batch has two contents");
        }
    }
}

/// Of a request that was sent in a membership of a node: the stamp.
pub(crate) fn stamp_of(request: &Request) -> Option<u64> {
    match request {
        Request::Write { stamp: of, .. } | Request::Admit { stamp: of, .. } => (0..=9).find(|life| stamp(*life) == *of),
        _ => None,
    }
}
