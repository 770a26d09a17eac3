//! A server: the real candidate and leader, and what it does with their words.

use super::{
    mistake::Mistake,
    node::stamp,
    world::{For, Sent, State, World, ballot, stamp_of},
};
use fencepost::testing::store::{
    content::{Bytes, Changes, Content},
    quorum::paxos::{
        acceptor::Incarnation,
        ballot::{Position, TransferId},
        candidate::{Candidate, Question, Step},
        leader::{Heard, Leader, Purpose},
        message::{Answer, Request},
    },
};

#[derive(Clone, Debug)]
pub(crate) enum Server {
    /// It is a candidate, has asked this beside the first round, and has heard of the nodes in these lives.
    Candidate(Candidate, Vec<Sent>, Vec<Incarnation>),
    Leads(Leads),
    /// It was a candidate, and gets no majority any more. Its promises are under way still.
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Leads {
    pub(crate) leader: Leader,
    /// The history of the commands at each of its batches.
    pub(crate) histories: Vec<Vec<u8>>,
    /// The life of each node in which it heard of it last.
    pub(crate) connected: Vec<Incarnation>,
}

/// The content with this history.
pub(crate) fn records(history: &[u8]) -> Vec<(Bytes, Bytes)> {
    if history.is_empty() { vec![] } else { vec![(b"history".as_slice().into(), history.into())] }
}

fn history(content: &Content) -> Vec<u8> {
    content.0.values().next().map(|record| record.to_vec()).unwrap_or_default()
}

impl World {
    /// A leader of the first, wrong protocol writes what it adopted to those that had promised, and no more yet.
    pub(crate) fn may_go_on(&self, leader: &Leader) -> bool {
        self.mistake != Some(Mistake::SameLifeOnly) || leader.committed() > 0
    }

    pub(crate) fn may_arrive(&self, state: &State, sent: &Sent) -> bool {
        let Server::Leads(leads) = &state.servers[sent.server] else { return true };
        self.may_go_on(&leads.leader)
            || matches!(sent.purpose, For::Leader(Purpose::Write { .. }))
            || state.nodes[sent.node].stands().is_some()
                && stamp_of(&sent.request).is_some()
                && is_of_this_life(state, sent)
    }

    pub(crate) fn command(&self, state: &mut State, server: usize) {
        let Server::Leads(Leads { leader, histories, .. }) = &mut state.servers[server] else { return };
        let mut history = histories.last().cloned().unwrap_or_default();
        history.push(u8::try_from(server * 16 + histories.len()).expect("a small number"));
        leader.write(Changes { time: 0, token: history.len() as u64, put: records(&history), gone: vec![] });
        histories.push(history);
        self.send(state, server);
    }

    pub(crate) fn stage(&self, state: &mut State, server: usize, node: usize) {
        let local = self.local(server, node);
        let Server::Leads(Leads { leader, histories, .. }) = &mut state.servers[server] else { return };
        // The same snapshot has the same name: staged twice, it is the same.
        let transfer = TransferId(histories.len() as u128);
        leader.stage(local, transfer, records(histories.last().expect("a first batch")));
        self.send(state, server);
    }

    pub(crate) fn reconnect(&self, state: &mut State, server: usize, node: usize) {
        let (local, incarnation) = (self.local(server, node), state.nodes[node].incarnation);
        let Server::Leads(Leads { leader, connected, .. }) = &mut state.servers[server] else { return };
        leader.reconnected(local);
        connected[local] = incarnation;
        self.send(state, server);
    }

    /// A leader sends all that it has to send.
    fn send(&self, state: &mut State, server: usize) {
        let Server::Leads(Leads { leader, histories, .. }) = &mut state.servers[server] else { return };
        for (local, node) in self.servers[server].0.1.iter().enumerate() {
            let mut pieces = Vec::new();
            while let Some((purpose, request)) = leader.next(local) {
                if matches!(request, Request::Stage { .. }) {
                    pieces.push(request);
                    continue;
                }
                let pieces = std::mem::take(&mut pieces);
                let mut sent = Sent { server, node: *node, purpose: For::Leader(purpose), pieces, request };
                if let Some(mistake) = self.mistake {
                    mistake.sends(&mut sent, leader, histories);
                }
                state.sent.insert(sent);
            }
        }
    }

    fn step(&self, state: &mut State, server: usize, step: Step) {
        match step {
            Step::Send(requests) => {
                let Server::Candidate(_, asked, _) = &mut state.servers[server] else { return };
                let members = self.servers[server].0.1;
                *asked = Vec::from_iter(requests.into_iter().map(|(local, question, request)| Sent {
                    server,
                    node: members[local],
                    purpose: For::Candidate(question),
                    pieces: vec![],
                    request,
                }));
                self.read(state, server);
                if self.mistake.is_some_and(Mistake::asks_once) {
                    self.skip_second_round(state, server);
                }
            }
            Step::Wait => {}
            Step::Lead { mut leader, content } => {
                let first = history(&content);
                leader.write(Changes { token: leader.token_and_time().0, ..Changes::default() });
                let Server::Candidate(_, _, lives) = &state.servers[server] else { return };
                // It asks the others now.
                let nodes = self.servers[server].0.1.iter().zip(lives);
                let present =
                    nodes.map(|(node, life)| if life.0 == 0 { state.nodes[*node].incarnation } else { *life });
                let connected = present.collect();
                state.servers[server] = Server::Leads(Leads { leader: *leader, histories: vec![first], connected });
                self.send(state, server);
            }
            Step::GiveUp(_) => unreachable!("such answers are lost"),
        }
    }

    /// A candidate reads at once: what it reads is frozen, and if it fails now it fails for ever.
    fn read(&self, state: &mut State, server: usize) {
        let Server::Candidate(_, asked, _) = &mut state.servers[server] else { return };
        if asked.iter().any(|sent| sent.purpose == For::Candidate(Question::Read)) {
            let sent = asked.remove(0);
            state.servers[server] = match self.deliver(&mut state.nodes[sent.node], &sent) {
                Some(answer @ Answer::Piece { .. }) => return self.hear(state, &sent, answer),
                _ => Server::Over,
            };
        }
    }

    /// A candidate takes the second question for answered.
    fn skip_second_round(&self, state: &mut State, server: usize) {
        let Server::Candidate(_, asked, _) = &state.servers[server] else { return };
        for sent in asked.clone() {
            if sent.purpose != For::Candidate(Question::Second) {
                return;
            }
            // Of the stamps that the node may have promised with, the right one counts.
            for life in 1..=state.nodes[sent.node].incarnation.0 {
                let (stamp, accepted) = (stamp(life), Position::default());
                self.hear(state, &sent, Answer::Promised { stamp, accepted });
            }
        }
    }

    pub(crate) fn hear(&self, state: &mut State, sent: &Sent, answer: Answer) {
        let (server, local) = (sent.server, self.local(sent.server, sent.node));
        let answer = if self.mistake == Some(Mistake::BestBySequence) {
            Mistake::by_sequence(ballot(server), answer)
        } else {
            answer
        };
        match (&mut state.servers[server], sent.purpose) {
            (Server::Candidate(candidate, _, lives), For::Candidate(question)) => {
                if question == Question::First && matches!(answer, Answer::Promised { .. }) {
                    lives[local] = state.nodes[sent.node].incarnation;
                }
                // A server that goes on does all that one does that gives up, and more.
                let step = candidate.clone().answered(local, question, answer.clone());
                if !matches!(step, Step::GiveUp(_)) {
                    candidate.answered(local, question, answer);
                    self.step(state, server, step);
                }
            }
            (Server::Leads(leads), For::Leader(purpose)) => {
                if matches!(answer, Answer::No(promised) if promised > ballot(server)) {
                    return;
                }
                if matches!(answer, Answer::Stranger(_) | Answer::Promised { .. }) {
                    leads.connected[local] = state.nodes[sent.node].incarnation;
                }
                if purpose == Purpose::Look && matches!(answer, Answer::Promised { .. } | Answer::Stranger(_)) {
                    state.sent.remove(sent);
                }
                assert_eq!(leads.leader.answered(local, purpose, answer.clone()), Heard::Leads);
                if let (Some(mistake), Answer::Stranger(next)) = (self.mistake, answer) {
                    mistake.believes(&mut leads.leader, local, next);
                }
                if let Some(seq) = leads.leader.committed().checked_sub(1) {
                    let history = leads.histories[usize::try_from(seq).expect("a small number")].clone();
                    state.commits(Position { ballot: ballot(server), seq: seq + 1 }, &history);
                }
                state.check_content(sent.node);
                self.send(state, server);
            }
            _ => {}
        }
    }

    /// Forgets the requests of leaders that have no effect any more. (What they would tell their leader, its connection
    /// tells it, which broke when the node lost its memory.)
    pub(crate) fn prune(&self, before: Option<&State>, state: &mut State, server: Option<usize>) {
        if state.exact {
            return;
        }
        let is_changed = |state: &State, node: usize| before.is_none_or(|old| old.nodes[node] != state.nodes[node]);
        let is_changed: Vec<bool> = (0..state.nodes.len()).map(|node| is_changed(state, node)).collect();
        for server in 0..state.servers.len() {
            if let Server::Candidate(_, asked, lives) = &state.servers[server] {
                // It needs an answer of the same membership of each, which heeds no higher ballot.
                let is_lost = |sent: &Sent| {
                    let (redis, local) = (&state.nodes[sent.node], self.local(server, sent.node));
                    redis.incarnation != lives[local]
                        || redis.stands().is_some_and(|stands| stands.promised > ballot(server))
                };
                if !self.promises_fall() && asked.iter().any(is_lost) {
                    state.servers[server] = Server::Over;
                }
            }
            let last_loss = before.is_none_or(|old| old.losses_left != state.losses_left);
            for node in (0..state.nodes.len()).filter(|node| last_loss || is_changed[*node]) {
                state.deaf[server][node] = self.is_deaf(state, server, node);
            }
        }
        let sent = std::mem::take(&mut state.sent);
        let may_differ = |sent: &Sent| is_changed[sent.node] || server == Some(sent.server) || before.is_none();
        state.sent = sent.into_iter().filter(|sent| !may_differ(sent) || self.is_alive(state, sent)).collect();
    }

    fn is_alive(&self, state: &State, sent: &Sent) -> bool {
        let (Server::Leads(leads), For::Leader(purpose)) = (&state.servers[sent.server], sent.purpose) else {
            return false;
        };
        let local = self.local(sent.server, sent.node);
        let is_news = |answer: Answer| {
            let mut leader = leads.leader.clone();
            leader.answered(local, purpose, answer);
            // What it sends again is under way.
            while leader.next(local).is_some() {}
            leader != leads.leader
        };
        if matches!(purpose, Purpose::Look | Purpose::Confirm { .. }) {
            // A later life of the node may promise what this one refuses.
            let (stamp, accepted) = (stamp(0), Position::default());
            return is_news(Answer::Promised { stamp, accepted });
        }
        let mut redis = state.nodes[sent.node].clone();
        let answer = self.deliver(&mut redis, sent);
        match answer {
            _ if redis != state.nodes[sent.node] => true,
            // It becomes effective with the node's promise.
            Some(Answer::No(promised)) => promised < ballot(sent.server) && is_of_this_life(state, sent),
            Some(Answer::Stranger(_)) | None => false,
            // It becomes effective when the batches before it have arrived.
            Some(Answer::At(accepted)) if is_beyond(&sent.request, accepted) => true,
            Some(answer) => is_news(answer),
        }
    }
}

/// Whether a request was sent in the present life of its node, as far as it tells. A connection does not outlive its
/// node: what was sent before is never answered, though it may arrive.
pub(crate) fn is_of_this_life(state: &State, sent: &Sent) -> bool {
    stamp_of(&sent.request).is_none_or(|life| life == state.nodes[sent.node].incarnation.0)
}

fn is_beyond(write: &Request, accepted: Position) -> bool {
    matches!(write, Request::Write { position, .. } if *position > accepted)
}
