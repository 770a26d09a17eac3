//! Rebuilds after a majority of the nodes lost its memory: the real code for a partition, and the lists that each
//! rebuild has to itself.

use super::{
    mistake::Mistake,
    node::Redis,
    world::{State, World},
};
use fencepost::testing::store::quorum::{
    config::disaster_recovery::partition::{Rebuilding, Step},
    paxos::{
        ballot::{Ballot, Position, ServerId, TransferId, majority},
        message::{Answer, Request},
        node::{ClusterId, Mark, NodeAnswer},
    },
};
use std::fmt::Write;

/// A rebuild. It may stop at any time, and go on later.
#[derive(Clone, Debug)]
pub(crate) struct Rebuild {
    /// The list that it has to itself.
    list: u64,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Waits,
    /// Gives the nodes its own list, or at the end the next one: those that have it.
    Marks {
        ends: bool,
        has: Vec<bool>,
    },
    /// What each node is asked next, and what it has answered so far.
    Sends {
        it: Box<Rebuilding>,
        ballot: Ballot,
        next: Vec<Option<Request>>,
        answers: Vec<Vec<Answer>>,
    },
    Over,
}

impl Rebuild {
    pub(crate) fn new() -> Self {
        Self { list: 0, phase: Phase::Waits }
    }

    /// The nodes to which it may send a request next.
    fn nodes(&self) -> Vec<usize> {
        match &self.phase {
            Phase::Marks { has, .. } => (0..has.len()).filter(|node| !has[*node]).collect(),
            Phase::Sends { next, .. } => (0..next.len()).filter(|node| next[*node].is_some()).collect(),
            Phase::Waits | Phase::Over => vec![],
        }
    }

    /// What of it concerns each node, and what is common.
    pub(crate) fn parts(&self, texts: &mut [String]) -> String {
        match &self.phase {
            Phase::Waits => "waits".into(),
            Phase::Over => "over".into(),
            Phase::Marks { ends, has } => {
                texts.iter_mut().zip(has).for_each(|(text, has)| text.push(if *has { '+' } else { '-' }));
                format!("{} {ends}", self.list)
            }
            // All else follows from the answers.
            Phase::Sends { ballot, answers, next, .. } => {
                for ((text, answers), next) in texts.iter_mut().zip(answers).zip(next) {
                    let _ = write!(text, "{answers:?} {next:?}");
                }
                format!("{} {ballot:?}", self.list)
            }
        }
    }
}

impl World {
    pub(crate) fn rebuilds(&self, state: &State, actions: &mut Vec<super::world::Action>) {
        use super::world::Action::Rebuild as Does;
        for (number, it) in state.rebuilds.iter().enumerate() {
            let is_needed = voters(state) < majority(state.nodes.len()) || state.nodes.iter().any(Redis::is_rebuilt);
            if matches!(it.phase, Phase::Waits) && is_needed {
                actions.push(Does(number, None));
            }
            actions.extend(it.nodes().into_iter().map(|node| Does(number, Some(node))));
        }
    }

    /// A rebuild begins, or sends a node a request.
    pub(crate) fn rebuild(&self, state: &mut State, number: usize, node: Option<usize>) {
        let mut it = std::mem::replace(&mut state.rebuilds[number], Rebuild::new());
        let none = vec![false; state.nodes.len()];
        match (&mut it.phase, node) {
            (Phase::Waits, _) => {
                it.list = state.nodes.iter().filter_map(Redis::list).max().unwrap_or(0) + 1;
                it.phase = Phase::Marks { ends: false, has: none };
                if self.mistake == Some(Mistake::RebuildsUnfenced) {
                    it.list = 0;
                    it.begins_to_send(self, state, number);
                }
            }
            (Phase::Marks { ends, has }, Some(node)) => {
                let (ends, number_of_list) = (*ends, it.list + u64::from(*ends));
                let name = if self.mistake == Some(Mistake::RebuildsShareList) { 0 } else { number as u64 };
                let rebuild = (!ends).then_some(name);
                let mark =
                    Mark { cluster: ClusterId(0), partitions: 1, list: number_of_list, members: [].into(), rebuild };
                let answer = state.nodes[node].mark(&mark);
                has[node] = true;
                let count = has.iter().filter(|has| **has).count();
                if answer != NodeAnswer::Marked {
                    it.phase = Phase::Over;
                } else if ends && count >= majority(state.nodes.len()) {
                    // Servers go by it from now on.
                    state.known.insert(number_of_list);
                }
                if let Phase::Marks { has, .. } = &it.phase
                    && has.iter().all(|has| *has)
                {
                    if ends {
                        it.phase = Phase::Over;
                    } else {
                        it.begins_to_send(self, state, number);
                    }
                }
            }
            (Phase::Sends { next, answers, .. }, Some(node)) => {
                let Some(request) = next[node].take() else { return };
                match state.nodes[node].say_to(it.list, &request) {
                    Some(answer) => {
                        answers[node].push(answer.clone());
                        it.hears(self, state, node, answer);
                    }
                    None => it.phase = Phase::Over,
                }
            }
            _ => {}
        }
        state.rebuilds[number] = it;
    }
}

impl Rebuild {
    fn begins_to_send(&mut self, world: &World, state: &State, number: usize) {
        if voters(state) >= majority(state.nodes.len()) {
            self.ends(world, state);
            return;
        }
        let promised = state.nodes.iter().filter_map(Redis::stands).map(|stands| stands.promised);
        self.begins_above(state, number, promised.max().unwrap_or_default());
    }

    /// With a ballot above this one. (A server has its round, so this rebuild comes between two servers.)
    fn begins_above(&mut self, state: &State, number: usize, seen: Ballot) {
        let id = u8::try_from(number + 1).expect("a small number");
        let mut ballot = Ballot { round: seen.round + number as u64, server: ServerId([id; 12]) };
        if ballot <= seen {
            ballot.round += 1;
        }
        let nodes = state.nodes.len();
        let (it, step) = Rebuilding::new(ballot, 0, TransferId(u128::MAX), nodes);
        let mut next = vec![None; nodes];
        if let Step::Send(requests) = step {
            requests.into_iter().for_each(|(node, request)| next[node] = Some(request));
        }
        self.phase = Phase::Sends { it: Box::new(it), ballot, next, answers: vec![vec![]; nodes] };
    }

    fn hears(&mut self, world: &World, state: &mut State, node: usize, mut answer: Answer) {
        let Phase::Sends { it, ballot, next, answers } = &mut self.phase else { return };
        if let (Some(Mistake::RebuildsFromFirst), Answer::Piece { position, .. }) = (world.mistake, &mut answer) {
            *position = Position::default();
        }
        let has_read = matches!(answer, Answer::Piece { .. });
        match it.answered(node, answer) {
            Step::Send(requests) => {
                for (node, request) in requests {
                    if has_read && let Some(history) = given(&request) {
                        let history = history.to_vec();
                        // What it has read shows in what it gives.
                        answers.iter_mut().for_each(Vec::clear);
                        state.decides(Position { ballot: *ballot, seq: 1 }, &history);
                    }
                    next[node] = Some(request);
                }
            }
            Step::Wait => {}
            Step::Done(_) => self.ends(world, state),
            // Two that share a list would go on with that for ever.
            Step::Above(_) | Step::Changed(_) => self.phase = Phase::Over,
        }
    }

    fn ends(&mut self, world: &World, state: &State) {
        self.phase = match world.mistake {
            Some(Mistake::RebuildsUnfenced) => Phase::Over,
            _ => Phase::Marks { ends: true, has: vec![false; state.nodes.len()] },
        };
    }
}

/// The history that a node is given.
fn given(request: &Request) -> Option<&[u8]> {
    match request {
        Request::Stage { piece, .. } => piece.first().map(|(_, history)| &**history),
        Request::Admit { .. } => Some(&[]),
        _ => None,
    }
}

fn voters(state: &State) -> usize {
    state.nodes.iter().filter(|node| node.stands().is_some()).count()
}

impl State {
    /// A rebuild has decided how the history goes on. What all have forgotten is gone; what any node has is not.
    fn decides(&mut self, position: Position, history: &[u8]) {
        let is_there = |(_, kept): (Position, Vec<u8>)| kept.starts_with(&self.committed.1);
        if self.nodes.iter().filter_map(Redis::kept).any(is_there) && !history.starts_with(&self.committed.1) {
            self.breach = Some("a rebuild forgets what a node has");
        }
        self.committed = (position, history.to_vec());
    }
}
