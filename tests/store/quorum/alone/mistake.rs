//! Deliberate mistakes, made between the real code and the node. Each must lead to a breach: the world is large enough
//! to show why its rule is there.

use super::{
    attempt::{Attempt, Granted, Leads, Mem, Sent},
    state::{Heartbeat, Server, Stage, State},
    world::{World, server_id},
};
use fencepost::testing::store::quorum::paxos::{
    acceptor::Incarnation,
    ballot::{Ballot, Position, ServerId, Stamp, TransferId},
    leader::Purpose,
    message::{Answer, Request},
    recovery::{Admission, Renumbering, StrangerReport},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The highest ballot that a server reports as written is one that was only promised.
    KnownByPromise,
    /// A leader drops its memory when it is refused, before its successor has read.
    ForgetsAtNo,
    /// A server drops its memory when it sees a higher ballot promised.
    DropsAtPromise,
    /// A leader that hands over leaves before the first batch of its successor is seen.
    LeavesAtOnce,
    /// A server says that it has the memory only when its first batch is acknowledged.
    ClaimsAtAck,
    /// A leader begins the next membership without waiting for what the others report.
    AsksNobody,
    /// What servers reported before the loss counts.
    ReportsBefore,
    /// A leader begins the next membership with what is acknowledged, under its old ballot: answers may be late.
    AdmitsCommitted,
    /// A leader begins the next membership under its old ballot.
    SameBallot,
    /// The same, and what a server reads counts although it reported that it has no memory of it.
    SameBallotLate,
    /// Only who goes on with what the node kept skips tokens.
    NoSkipByLeader,
    /// A grant that was not answered before the loss keeps its token.
    KeepsTokens,
    /// A node that votes gives way to a second snapshot of the same membership.
    OverStanding,
}

impl Mistake {
    /// Whether it makes servers drop memory themselves. Then a loss is one fault all the same.
    pub(crate) fn forgets(self, state: &State, world: &World) -> bool {
        let nobody_crashed = state.left.crashes == world.faults.crashes;
        match self {
            Self::ForgetsAtNo | Self::DropsAtPromise | Self::ClaimsAtAck => {
                nobody_crashed && state.left.leaves == world.faults.leaves
            }
            Self::LeavesAtOnce => nobody_crashed,
            _ => false,
        }
    }

    pub(crate) fn admits_with_its_ballot(self) -> bool {
        matches!(self, Self::SameBallot | Self::SameBallotLate | Self::AdmitsCommitted)
    }

    /// A server has seen where the node stands.
    pub(crate) fn sees(self, world: &World, server: &mut Server, promised: Ballot, written: Ballot) {
        match self {
            Self::DropsAtPromise if server.alone.memory().is_some_and(|memory| memory < promised) => server.forgets(),
            // It leads, and has no memory that it could drop.
            Self::ClaimsAtAck if server.works_with.is_some_and(|attempt| world.ballot(attempt) < written) => {
                server.works_with = None;
            }
            Self::ReportsBefore => {
                let memory = server.alone.memory();
                server.report = Some(Heartbeat(StrangerReport {
                    partition: 0,
                    next: Stamp(0),
                    memory,
                    written: server.seen.max(memory.unwrap_or_default()),
                    highest: server.alone.highest().max(server.attempted),
                    token: server.token,
                }));
            }
            _ => {}
        }
    }

    /// A server looks at what the others reported for this membership.
    pub(crate) fn listens(
        self,
        state: &State,
        server: usize,
        next: Stamp,
        reports: &mut BTreeMap<ServerId, StrangerReport>,
        living: &mut BTreeSet<ServerId>,
    ) {
        match self {
            Self::ReportsBefore => reports.values_mut().for_each(|report| report.next = next),
            Self::AsksNobody => {
                let (it, me) = (&state.servers[server], server_id(server));
                if let (Some(_), Some(mine)) = (state.leads(it), it.alone.report(0, it.known())) {
                    (*reports, *living) = ([(me, mine)].into(), [me].into());
                }
            }
            _ => {}
        }
    }

    /// The node takes a snapshot of its present membership as if it were a stranger, if that is of a later batch.
    pub(crate) fn makes_way(state: &mut State, request: &Request) {
        let Request::Admit { position, stamp, .. } = request else { return };
        let Some(header) = state.stands() else { return };
        if position.ballot >= header.promised && *position > header.accepted {
            let life = Incarnation(state.life);
            let node = Arc::make_mut(&mut state.node);
            (node.header, node.next) = (None, Some((life, *stamp)));
        }
    }
}

impl World {
    /// A leader begins the next membership under its own ballot.
    pub(crate) fn admit_anew(&self, state: &mut State, server: usize, old: &Leads, admission: Admission) -> Option<()> {
        let attempt = state.servers[server].has.filter(|has| state.servers[server].works_with == Some(*has))?;
        let (mut leads, life) = (old.clone(), state.life);
        // It is on its way.
        if leads.begins == Some((admission.next, life)) {
            return None;
        }
        leads.stamp = admission.next;
        leads.begins = Some((leads.stamp, life));
        let seq = if self.is(Mistake::AdmitsCommitted) {
            old.leader.committed().max(1)
        } else {
            leads.renumber(state, admission.skip);
            old.batches.len() as u64
        };
        let mem = leads.batches[usize::try_from(seq).ok()? - 1];
        let position = Position { ballot: self.ballot(attempt), seq };
        let (transfer, stamp, records) = (TransferId(u128::MAX), admission.next, mem.records());
        let purpose = Purpose::Admit { stamp, position, transfer };
        let request = Request::Admit { position, transfer, count: records.len(), time: 0, token: mem.counter, stamp };
        let pieces = vec![Request::Stage { position, transfer, piece: records.into() }];
        leads.sent.push(Sent { purpose, pieces, request });
        leads.leader.answered(0, Purpose::Look, Answer::Stranger(stamp));
        *state.attempt(attempt) = Attempt::Leads(Box::new(leads));
        Some(())
    }
}

impl Leads {
    /// Skips tokens, for a grant that was not answered too.
    fn renumber(&mut self, state: &mut State, skip: u64) {
        let renumbering = Renumbering::of(&self.leader, skip.max(self.last().counter));
        let renumbered = |token| renumbering.token(token).expect("tokens are left");
        for Granted { client, token, .. } in &mut self.grants {
            if state.clients[*client].stage == Stage::CarriedOut {
                *token = renumbered(*token);
                state.clients[*client].token = *token;
                state.drawn = state.drawn.max(*token);
            }
        }
        let mem = self.last();
        let holder = mem.holder.map(|(client, token)| (client, renumbered(token)));
        let counter = renumbered(mem.counter).max(skip);
        *self.batches.last_mut().expect("a first batch") = Mem { holder, counter };
    }
}
