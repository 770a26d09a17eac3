//! An attempt to lead: the real candidate or leader, and what of it is under way. That may arrive when its server is
//! gone.

use super::{
    mistake::Mistake,
    state::State,
    world::{TOKENS_FROM, World},
};
use fencepost::testing::store::{
    content::{Bytes, Changes, Content},
    quorum::paxos::{
        acceptor::Incarnation,
        ballot::{Position, Stamp, TransferId},
        candidate::{Candidate, Question, Step},
        leader::{Leader, Purpose},
        message::{Answer, Request},
    },
};
use std::{collections::VecDeque, sync::Arc};

#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    Unused,
    /// It has asked for a promise.
    Campaigns {
        candidate: Candidate,
        is_given_up: bool,
    },
    /// The promise is on its way back.
    Promised {
        candidate: Candidate,
        answer: Answer,
    },
    /// What was read is on its way back.
    Read {
        candidate: Candidate,
        answer: Answer,
        stamp: Stamp,
    },
    Leads(Box<Leads>),
    /// It was given up.
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Leads {
    pub(crate) leader: Leader,
    /// The membership in which its batches arrive.
    pub(crate) stamp: Stamp,
    /// What its first batch is written onto.
    pub(crate) base: Position,
    /// What each of its batches leads to.
    pub(crate) batches: Vec<Mem>,
    /// Grants that no acknowledged batch has.
    pub(crate) grants: Vec<Granted>,
    /// The highest batch that has arrived.
    pub(crate) arrived: u64,
    /// The membership that it is to begin, and with which batch.
    pub(crate) begins: Option<(Stamp, u64)>,
    pub(crate) sent: Vec<Sent>,
    /// Answers on their way back, in order.
    pub(crate) answers: VecDeque<(Purpose, Answer)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Granted {
    pub(crate) batch: u64,
    pub(crate) client: usize,
    pub(crate) token: u64,
}

/// A request, and the pieces of a snapshot that arrive with it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) purpose: Purpose,
    pub(crate) pieces: Vec<Request>,
    pub(crate) request: Request,
}

/// The one lock, and the sequencer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mem {
    /// The client that holds it, and the token of its lease.
    pub(crate) holder: Option<(usize, u64)>,
    pub(crate) counter: u64,
}

impl Mem {
    pub(crate) fn of(content: &Content, counter: u64) -> Self {
        let holder = content.0.values().next().map(|record| {
            let token = u64::from_be_bytes(record[1..].try_into().expect("a token"));
            (usize::from(record[0]), token)
        });
        Self { holder, counter }
    }

    pub(crate) fn records(self) -> Vec<(Bytes, Bytes)> {
        let record = self.holder.map(|(client, token)| {
            let mut record = vec![u8::try_from(client).expect("a small number")];
            record.extend(token.to_be_bytes());
            (key(), record.into())
        });
        record.into_iter().collect()
    }

    fn changes(self) -> Changes {
        let gone = if self.holder.is_none() { vec![key()] } else { vec![] };
        Changes { time: 0, token: self.counter, put: self.records(), gone }
    }
}

fn key() -> Bytes {
    b"lock".as_slice().into()
}

/// Server 0 leads with the first ballot, the node has its first batch, and all servers have seen it.
pub(crate) fn begin(world: &World, state: &mut State) {
    let (stamp, ballot) = (Stamp(1), world.ballot(0));
    Arc::make_mut(&mut state.node).seen(Incarnation(state.life), stamp);
    let (mut candidate, step) = Candidate::of_stranger(ballot, stamp, TOKENS_FROM);
    let Step::Send(mut requests) = step else { unreachable!("{step:?}") };
    let (node, question, request) = requests.remove(0);
    let answer = state.deliver(&request);
    let Step::Lead { leader, content } = candidate.answered(node, question, answer) else { unreachable!("it is read") };
    let mut leads = Leads::new(*leader, stamp, Position::default(), &content);
    leads.stage();
    let sent = leads.sent.remove(0);
    let answer = state.deliver(&sent.request);
    leads.leader.answered(0, sent.purpose, answer);
    leads.arrived = 1;
    let server = state.server(0);
    server.remembers(0, &leads.leader);
    server.works_with = Some(0);
    server.attempted = ballot;
    *state.attempt(0) = Attempt::Leads(Box::new(leads));
    for server in 0..world.servers {
        world.see(state, server);
    }
}

impl Leads {
    /// Writes its first batch: what was read.
    pub(crate) fn new(leader: Leader, stamp: Stamp, base: Position, content: &Content) -> Self {
        let mem = Mem::of(content, leader.token_and_time().0);
        Self::with(leader, stamp, base, mem)
    }

    /// Writes its first batch: with that, its state is this one.
    pub(crate) fn with(leader: Leader, stamp: Stamp, base: Position, mem: Mem) -> Self {
        let (batches, grants, sent, answers) = (vec![], vec![], vec![], VecDeque::new());
        let mut it = Self { leader, stamp, base, batches, grants, arrived: 0, begins: None, sent, answers };
        it.write(mem);
        it
    }

    pub(crate) fn last(&self) -> Mem {
        *self.batches.last().expect("a first batch")
    }

    pub(crate) fn write(&mut self, mem: Mem) {
        let changes =
            if self.batches.is_empty() { Changes { token: mem.counter, ..Changes::default() } } else { mem.changes() };
        self.leader.write(changes);
        self.batches.push(mem);
        self.send();
    }

    /// Makes the snapshot that the node wants.
    pub(crate) fn stage(&mut self) {
        self.leader.stage(0, TransferId(0), self.last().records());
        self.send();
    }

    /// Sends all that there is to send.
    pub(crate) fn send(&mut self) {
        let mut pieces = Vec::new();
        while let Some((purpose, request)) = self.leader.next(0) {
            match request {
                Request::Stage { .. } => pieces.push(request),
                _ => self.sent.push(Sent { purpose, pieces: std::mem::take(&mut pieces), request }),
            }
        }
    }
}

impl World {
    pub(crate) fn promise(&self, state: &mut State, attempt: usize) -> Option<()> {
        let ballot = self.ballot(attempt);
        state.stands().filter(|header| header.promised < ballot)?;
        let Attempt::Campaigns { candidate, is_given_up } = (*state.attempts[attempt]).clone() else { return None };
        let answer = state.deliver(&Request::Promise(ballot));
        *state.attempt(attempt) = if is_given_up { Attempt::Over } else { Attempt::Promised { candidate, answer } };
        Some(())
    }

    /// A candidate hears of the promise, asks again, and reads, at once: what it reads is frozen, and if one of these
    /// fails now it fails for ever.
    pub(crate) fn read(&self, state: &mut State, attempt: usize) -> Option<()> {
        state.stands().filter(|header| header.promised == self.ballot(attempt))?;
        let Attempt::Promised { mut candidate, answer } = (*state.attempts[attempt]).clone() else { return None };
        let Answer::Promised { stamp, .. } = answer else { return None };
        let mut asked = (Question::First, answer);
        for _ in 0..2 {
            let Step::Send(mut requests) = candidate.answered(0, asked.0, asked.1) else { return None };
            let (_, question, request) = requests.remove(0);
            asked = (question, state.deliver(&request));
        }
        let (Question::Read, answer @ Answer::Piece { .. }) = asked else { return None };
        *state.attempt(attempt) = Attempt::Read { candidate, answer, stamp };
        Some(())
    }

    /// What a leader has sent arrives, if that changes anything.
    pub(crate) fn arrive(&self, state: &mut State, attempt: usize, sent: usize) -> Option<()> {
        let Attempt::Leads(leads) = &*state.attempts[attempt] else { return None };
        let Sent { purpose, pieces, request } = leads.sent[sent].clone();
        let before = Arc::clone(&state.node);
        if state.stands().is_none() && state.named().is_none() {
            return None;
        }
        if self.is(Mistake::OverStanding) && matches!(request, Request::Admit { .. }) {
            Mistake::makes_way(state, &request);
        }
        pieces.iter().chain([&request]).for_each(|request| drop(state.deliver(request)));
        if state.node == before || state.stands().is_none_or(|header| Some(header.accepted) != position(&request)) {
            return None;
        }
        let Attempt::Leads(leads) = state.attempt(attempt) else { return None };
        leads.arrived = leads.arrived.max(position(&request)?.seq);
        leads.answers.push_back((purpose, Answer::Done));
        Some(())
    }
}

fn position(request: &Request) -> Option<Position> {
    match request {
        Request::Write { position, .. } | Request::Admit { position, .. } => Some(*position),
        _ => None,
    }
}
