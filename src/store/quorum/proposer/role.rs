//! The role of this server in one partition: standby, candidate or leader. Pure, apart from the answers that it
//! delivers.

mod memory;

pub(crate) use memory::Begun;

use super::route::Route;
use super::{
    delivery::Exit,
    leading::{Lead, Recovered},
};
use crate::{
    domain::time::StoreTime,
    store::{
        partition::Renewals,
        quorum::{
            paxos::{
                ballot::{Ballot, LeadId, Position, ServerId, TransferId},
                candidate::{Candidate, Question, Step},
                leader::{Heard, Origin, Purpose},
                message::{Answer, Request},
            },
            rpc::messages::{HEARTBEAT_PERIOD, LastEnds},
        },
    },
};
use memory::Memory;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long an attempt to lead goes on without an answer that brings it forward. Then the next one begins, which also
/// asks the nodes again whose answers were lost.
pub(super) const ATTEMPT_SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long a server leaves a partition alone that it cannot read. Each attempt ends the lead of another server, which
/// may be of a version that can, and reads all of the partition.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(10);

/// How long a server whose attempt was refused does not campaign, unless a leader hands over to it: in this time its
/// heartbeats show which other server campaigns. It would depose that one.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);
const _: () = assert!(HEARTBEAT_PERIOD.as_millis() < REFUSAL_PAUSE.as_millis());

/// The pause before a node is asked again that could not carry out a request.
const BROKEN_PAUSE: Duration = Duration::from_secs(1);

/// What a request is for. It comes back with the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    /// The ballot of the candidate or leader. Answers to an earlier one are not heard.
    ballot: Ballot,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    Question(Question),
    Purpose(Purpose),
}

/// What a server is in a partition.
pub(crate) struct Proposer {
    partition: u16,
    me: ServerId,
    nodes: usize,
    waiters_max: usize,
    /// The highest ballot that was seen. The next attempt has a higher one.
    highest: Ballot,
    /// When an attempt was refused last, because of another server's.
    refused: Option<StoreTime>,
    /// Since when each node could not carry out a request, if so. It is asked again after [`BROKEN_PAUSE`].
    broken: Vec<Option<StoreTime>>,
    role: Role,
    /// With one node.
    memory: Option<Memory>,
    /// If locks are shared with classic clients: what the keys of these begin with.
    prefix: Option<Arc<str>>,
}

enum Role {
    Standby,
    Candidate(Box<Campaign>),
    Leader(Box<Lead>),
}

/// An attempt to lead.
struct Campaign {
    ballot: Ballot,
    candidate: Candidate,
    /// What is not sent yet, by node.
    questions: Vec<VecDeque<(Question, Request)>>,
    /// When the second promises of a majority had come, on this server's clock.
    frozen_at: Option<StoreTime>,
    /// When it is given up.
    until: StoreTime,
    /// The ends of leases as the leader before handed them over, and the batch they are as of.
    ends: Option<(Position, Renewals)>,
}

impl Proposer {
    /// Stands by.
    pub(crate) fn new(partition: u16, me: ServerId, nodes: usize, waiters_max: usize) -> Self {
        let (highest, broken) = (Ballot::default(), vec![None; nodes]);
        let memory = (nodes == 1).then(|| Memory::new(me));
        let (refused, role, prefix) = (None, Role::Standby, None);
        Self { partition, me, nodes, waiters_max, highest, refused, broken, role, memory, prefix }
    }

    /// Shares the locks with classic clients, whose keys begin with this.
    pub(crate) fn beside_classic(&mut self, prefix: &Arc<str>) {
        self.prefix = Some(Arc::clone(prefix));
    }

    /// Stands by among other nodes, of which there are as many. It is the same server, so it uses no ballot again.
    pub(crate) fn among_others(&self) -> Self {
        let (highest, prefix) = (self.highest, self.prefix.clone());
        Self { highest, prefix, ..Self::new(self.partition, self.me, self.nodes, self.waiters_max) }
    }

    /// The lead, if this server has it.
    pub(crate) fn lead(&mut self) -> Option<&mut Lead> {
        match &mut self.role {
            Role::Leader(lead) => Some(lead),
            Role::Standby | Role::Candidate(_) => None,
        }
    }

    /// Campaigns for the lead, unless it leads or campaigns already, with a ballot above this one that others have
    /// seen.
    pub(crate) fn campaign(&mut self, seen: Ballot, now: StoreTime) {
        match &self.role {
            Role::Candidate(campaign) if now < campaign.until => return,
            Role::Leader(_) => return,
            Role::Candidate(_) | Role::Standby => {}
        }
        let seen_alone = self.memory.as_ref().map(|memory| memory.alone.highest());
        let ballot = self.next_ballot(seen.max(seen_alone.unwrap_or_default()));
        self.begin(ballot, Candidate::new(ballot, self.nodes), now);
    }

    /// Whether an attempt was refused a moment ago: another server is about to lead.
    pub(crate) fn was_refused(&self, now: StoreTime) -> bool {
        self.refused.is_some_and(|refused| now.since(refused) < REFUSAL_PAUSE)
    }

    /// Campaigns for the lead that a leader hands over with these ends of leases.
    pub(crate) fn take_over(&mut self, ballot: Ballot, ends: Option<LastEnds>, now: StoreTime) {
        self.campaign(ballot, now);
        if let Role::Candidate(campaign) = &mut self.role {
            let known =
                |LastEnds { seq, ends }| (Position { ballot, seq }, Renewals::Known(ends.into_iter().collect()));
            campaign.ends = ends.map(known);
        }
    }

    /// Begins an attempt. Another one ends.
    fn begin(&mut self, ballot: Ballot, (candidate, step): (Candidate, Step), now: StoreTime) {
        let (questions, until) = (vec![VecDeque::new(); self.nodes], now.after(ATTEMPT_SILENCE_MAX));
        let mut campaign = Campaign { ballot, candidate, questions, frozen_at: None, until, ends: None };
        if let Step::Send(requests) = step {
            campaign.queue(requests, now);
        }
        self.role = Role::Candidate(Box::new(campaign));
    }

    /// A ballot that was never used, above this one and all that were seen.
    fn next_ballot(&mut self, above: Ballot) -> Ballot {
        self.highest = self.highest.max(above);
        let ballot = Ballot { round: self.highest.round.saturating_add(1), server: self.me };
        self.highest = ballot;
        ballot
    }

    /// Whether there may be a request for this node.
    pub(crate) fn may_have_next(&self, node: usize) -> bool {
        match &self.role {
            Role::Standby => false,
            Role::Candidate(_) => true,
            Role::Leader(lead) => lead.may_have_next(node),
        }
    }

    /// The next request for this node, until there is none. `transfer` was never used.
    pub(crate) fn next(
        &mut self,
        node: usize,
        now: StoreTime,
        transfer: impl FnOnce() -> TransferId,
    ) -> Option<(Tag, Request)> {
        if self.broken[node].is_some() {
            return None;
        }
        match &mut self.role {
            Role::Standby => None,
            Role::Candidate(campaign) => {
                let (question, request) = campaign.questions[node].pop_front()?;
                Some((Tag { ballot: campaign.ballot, cause: Cause::Question(question) }, request))
            }
            Role::Leader(lead) => {
                let next = lead.next(node, now, transfer)?;
                Some(Self::of_lead(lead, next))
            }
        }
    }

    /// The empty batch that a heartbeat to this node takes along, if one is due.
    pub(crate) fn idle_batch(&mut self, node: usize, now: StoreTime) -> Option<(Tag, Request)> {
        if self.broken[node].is_some() {
            return None;
        }
        let lead = self.lead()?;
        let batch = lead.idle_batch(node, now)?;
        Some(Self::of_lead(lead, batch))
    }

    fn of_lead(lead: &Lead, (purpose, request): (Purpose, Request)) -> (Tag, Request) {
        (Tag { ballot: lead.ballot(), cause: Cause::Purpose(purpose) }, request)
    }

    /// Takes a node's answer. True if by this the server leads: then no command may come before the waiters of the
    /// leaders before ([`Lead::gather`]).
    pub(crate) fn answered(&mut self, node: usize, tag: Tag, answer: Answer, now: StoreTime, exit: &Exit<'_>) -> bool {
        if let Answer::No(promised) = answer {
            self.highest = self.highest.max(promised);
        }
        match (&mut self.role, tag.cause) {
            (Role::Candidate(campaign), Cause::Question(question)) if campaign.ballot == tag.ballot => {
                match campaign.candidate.answered(node, question, answer) {
                    Step::Wait => {}
                    Step::Send(requests) => {
                        // A large partition is read in many pieces.
                        campaign.until = now.after(ATTEMPT_SILENCE_MAX);
                        campaign.queue(requests, now);
                    }
                    Step::GiveUp(higher) => {
                        self.highest = self.highest.max(higher);
                        if higher.server != self.me {
                            self.refused = Some(now);
                        }
                        self.role = Role::Standby;
                    }
                    Step::Lead { leader, content } => {
                        let of = LeadId { partition: self.partition, ballot: tag.ballot };
                        let max = self.waiters_max;
                        // Ends as of another batch are not used: the leader before went on, and may have renewed
                        // leases.
                        // mutant: ends as of another batch
                        let as_of = |(at, _): &(Position, Renewals)| leader.origin() == Origin::Read(*at);
                        let renewals = campaign.ends.take().filter(as_of).map(|(_, renewals)| renewals);
                        let renewals = renewals.as_ref().unwrap_or(&Renewals::MayBeMissing);
                        let frozen_at = campaign.frozen_at.unwrap_or(now);
                        let recovered = Recovered { content, renewals, frozen_at, now };
                        match Lead::new(of, *leader, recovered, max, Route::hash_of) {
                            Ok(lead) => {
                                let lead = lead.beside_classic(self.prefix.as_ref());
                                if let Some(memory) = &mut self.memory {
                                    memory.begins(&lead, now);
                                }
                                self.role = Role::Leader(Box::new(lead));
                                return true;
                            }
                            Err(why) => {
                                tracing::error!(%why, "this server cannot read a partition, and does not lead it");
                                // This attempt goes on without a question.
                                campaign.until = now.after(UNREADABLE_PAUSE);
                            }
                        }
                    }
                }
            }
            (Role::Leader(lead), Cause::Purpose(purpose)) if lead.ballot() == tag.ballot => {
                match lead.heard(node, purpose, answer, now, exit) {
                    Heard::Leads => return false,
                    Heard::Deposed(higher) => self.highest = self.highest.max(higher),
                    // The next attempt reads it.
                    Heard::Raised(to) => {
                        let partition = self.partition;
                        tracing::warn!(partition, to, "somebody raised a sequencer by hand: tokens continue above it");
                    }
                }
                self.lose_lead(now, exit);
            }
            _ => {}
        }
        false
    }

    /// Whether it campaigns for the lead.
    pub(crate) fn is_candidate(&self, now: StoreTime) -> bool {
        matches!(&self.role, Role::Candidate(campaign) if now < campaign.until)
    }

    /// Leads no more if another server does, to which it hands over. Whether it gave way.
    pub(crate) fn gives_way(&mut self, to: Ballot, now: StoreTime, exit: &Exit<'_>) -> bool {
        let gives_way = self.lead().is_some_and(|lead| lead.hands_over() && lead.ballot() < to);
        if gives_way {
            self.lose_lead(now, exit);
        }
        gives_way
    }

    /// Leads no more, and does not campaign.
    pub(crate) fn resign(&mut self, now: StoreTime, exit: &Exit<'_>) {
        if let Role::Leader(mut lead) = std::mem::replace(&mut self.role, Role::Standby) {
            exit.local_waiters.lock().keep(lead.kept_queue_positions(), Instant::now());
            match &mut self.memory {
                Some(memory) => memory.keep(lead, now, exit),
                None => lead.refuse_held(now, exit),
            }
        }
    }

    /// Leads no more, and does not know what the next leader tells before this server hears of it.
    fn lose_lead(&mut self, now: StoreTime, exit: &Exit<'_>) {
        self.resign(now, exit);
        exit.notices.hints_lost();
        exit.notices.events_lost();
    }

    /// A node could not carry out a request, because its data of the partition is damaged, or because it may not. It is
    /// asked again after a pause: an operator may have mended it. True if that is new.
    pub(crate) fn breaks(&mut self, node: usize, now: StoreTime) -> bool {
        self.broken[node].replace(now).is_none()
    }

    /// Asks nodes again that could not carry out a request a while ago.
    pub(crate) fn retry_broken(&mut self, now: StoreTime) {
        for node in 0..self.nodes {
            if self.broken[node].is_some_and(|since| now.since(since) >= BROKEN_PAUSE) {
                self.reconnected(node);
            }
        }
    }

    /// A connection to the node was made: what was sent before may not have arrived.
    pub(crate) fn reconnected(&mut self, node: usize) {
        self.broken[node] = None;
        if let Role::Leader(lead) = &mut self.role {
            lead.reconnected(node);
        }
    }
}

impl Campaign {
    fn queue(&mut self, requests: Vec<(usize, Question, Request)>, now: StoreTime) {
        for (node, question, request) in requests {
            if question == Question::Read {
                self.frozen_at.get_or_insert(now);
            }
            self.questions[node].push_back((question, request));
        }
    }
}
