//! What there is in a world at one moment.

use super::{
    attempt::{Attempt, Leads, Mem},
    world::{Faults, TOKENS_FROM, World, server_id},
};
use fencepost::testing::store::quorum::paxos::{
    acceptor::{Acceptor, Header, Incarnation},
    ballot::{Ballot, ServerId, Stamp},
    message::{Answer, Request},
    recovery::{Alone, StrangerReport},
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) life: u64,
    pub(crate) node: Arc<Acceptor>,
    pub(crate) snapshot: Option<Arc<Acceptor>>,
    /// By ballot.
    pub(crate) attempts: Vec<Arc<Attempt>>,
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) clients: [Client; 2],
    /// Stamps that were named.
    pub(crate) stamps: u64,
    /// The highest token that was drawn, and the highest that a client has heard of.
    pub(crate) drawn: u64,
    pub(crate) heard: u64,
    /// All tokens that clients have heard of.
    pub(crate) all_heard: u64,
    pub(crate) left: Faults,
    pub(crate) breach: Option<&'static str>,
    pub(crate) key: Key,
}

/// What tells states apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) is_exact: bool,
    /// What old leaders have sent may arrive against the rules.
    pub(crate) all_arrives: bool,
    /// Old batches may be sent again.
    pub(crate) has_old_batches: bool,
    /// The clock is above all tokens that servers report.
    pub(crate) has_no_told_tokens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) is_paused: bool,
    pub(crate) alone: Alone,
    /// The attempt that it works with: it campaigns, or leads.
    pub(crate) works_with: Option<usize>,
    /// The attempt whose memory it keeps.
    pub(crate) has: Option<usize>,
    /// The highest ballot that it has attempted.
    pub(crate) attempted: Ballot,
    /// The highest ballot of a batch that it has seen, as the real code knows it.
    pub(crate) seen: Ballot,
    /// The highest token that it has drawn or read.
    pub(crate) token: u64,
    /// What it reported last about a loss of memory.
    pub(crate) report: Option<Heartbeat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat(pub(crate) StrangerReport);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// Its token, and the highest that any client had heard of when its command was carried out.
    pub(crate) token: u64,
    pub(crate) floor: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    #[default]
    Idle,
    CarriedOut,
    Answered,
    Holds,
    Done,
}

impl State {
    pub(crate) fn server(&mut self, server: usize) -> &mut Server {
        Arc::make_mut(&mut self.servers[server])
    }

    pub(crate) fn attempt(&mut self, attempt: usize) -> &mut Attempt {
        Arc::make_mut(&mut self.attempts[attempt])
    }

    /// What this server leads with.
    pub(crate) fn leads(&self, server: &Server) -> Option<&Leads> {
        match &*self.attempts[server.works_with?] {
            Attempt::Leads(leads) => Some(leads),
            _ => None,
        }
    }

    /// The header, if the node votes.
    pub(crate) fn stands(&self) -> Option<&Header> {
        self.node.header.as_ref().filter(|header| header.incarnation == Incarnation(self.life))
    }

    /// The next membership, if the node has named it.
    pub(crate) fn named(&self) -> Option<Stamp> {
        self.node.next.filter(|(life, _)| life.0 == self.life).map(|(_, next)| next)
    }

    /// The node carries a request out. A stamp is named when a server looks at it.
    pub(crate) fn deliver(&mut self, request: &Request) -> Answer {
        Arc::make_mut(&mut self.node).answer(Incarnation(self.life), Stamp(0), request)
    }

    pub(crate) fn kept(&self) -> Mem {
        Mem::of(&self.node.content, self.node.token.unwrap_or_default().max(TOKENS_FROM))
    }

    /// What servers have reported.
    pub(crate) fn reports(&self) -> BTreeMap<ServerId, StrangerReport> {
        let report = |(server, it): (usize, &Arc<Server>)| Some((server_id(server), it.report?.0));
        self.servers.iter().enumerate().filter_map(report).collect()
    }

    /// A client hears that it has the lock.
    pub(crate) fn reaches(&mut self, world: &World, client: usize) {
        let Client { token, floor, .. } = self.clients[client];
        let bit = 1 << (token - TOKENS_FROM);
        if world.is_apart && self.clients.iter().any(|other| other.stage == Stage::Holds) {
            self.breach = Some("two clients hold the lock");
        } else if token <= floor {
            self.breach = Some("a token is not above one that was known when its command was carried out");
        } else if self.all_heard & bit != 0 {
            self.breach = Some("two clients have one token");
        }
        self.heard = self.heard.max(token);
        self.all_heard |= bit;
        self.clients[client].stage = Stage::Holds;
    }
}
