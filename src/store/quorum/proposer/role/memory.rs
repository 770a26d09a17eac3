//! With one node: the copy of a partition that a server keeps in memory, even after it has stopped leading, and its use
//! when the node has lost its data. [`Alone`] has the rules.

use super::{Proposer, Role};
use crate::{
    domain::time::StoreTime,
    store::{
        partition::Renewals,
        quorum::{
            paxos::{
                acceptor::Seen,
                ballot::{Ballot, ServerId},
                candidate::Candidate,
                recovery::{Admission, Alone, Decision, Known, Sight, Situation, StrangerReport},
            },
            proposer::{delivery::Exit, leading::Lead},
        },
    },
};

/// What was begun at a node that lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Nothing, for now.
    Nothing,
    /// A membership with all that this server has in memory. It leads.
    Recalled,
    /// An attempt to lead with what the node kept.
    Kept,
}

/// More attempts to lead than there are between two heartbeats of all servers.
const ATTEMPTS_UNHEARD_MAX: u64 = 1_000;

/// What a server has of a partition that one node keeps.
pub(super) struct Memory {
    pub(super) alone: Alone,
    /// The memory, unless this server leads with it.
    kept: Option<Box<Lead>>,
    /// The highest token that this server has drawn or read. Another server may have heard of no higher one.
    token: u64,
}

impl Memory {
    pub(super) fn new(me: ServerId) -> Self {
        Self { alone: Alone::new(me), kept: None, token: 0 }
    }

    /// This lead begins. What was kept before is older.
    pub(super) fn begins(&mut self, lead: &Lead, now: StoreTime) {
        self.alone.remembers(lead.leader(), now);
        self.token = self.token.max(lead.token());
        self.kept = None;
    }

    /// This lead is over. Its memory is kept until somebody else is seen to have gone on from there.
    pub(super) fn keep(&mut self, mut lead: Box<Lead>, now: StoreTime, exit: &Exit<'_>) {
        lead.refuse_held(now, exit);
        self.token = self.token.max(lead.token());
        if lead.leader().is_over() {
            self.alone.forgets();
        }
        self.kept = (self.alone.memory() == Some(lead.ballot())).then_some(lead);
    }
}

impl Proposer {
    /// With one node: takes what a heartbeat that was sent at `sent` has seen. Returns whether a lead ended by that.
    pub(crate) fn sees(&mut self, seen: &Seen, sent: StoreTime, now: StoreTime, exit: &Exit<'_>) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        match memory.alone.sees(seen, sent, now) {
            Sight::Nothing => false,
            Sight::Outlived => {
                memory.kept = None;
                let led = matches!(self.role, Role::Leader(_));
                if led {
                    self.lose_lead(now, exit);
                }
                led
            }
            Sight::Stranger(next) => {
                if let Role::Candidate(campaign) = &self.role
                    && campaign.candidate.begins() != Some(next)
                {
                    self.role = Role::Standby;
                }
                false
            }
        }
    }

    /// With one node, which has lost its memory: what this server reports of that to the others.
    pub(crate) fn report(&self) -> Option<StrangerReport> {
        self.memory.as_ref()?.alone.report(self.partition, self.known())
    }

    fn known(&self) -> Known {
        let read = self.memory.as_ref().map_or(0, |memory| memory.token);
        let drawn = if let Role::Leader(lead) = &self.role { lead.token() } else { 0 };
        Known { highest: self.highest, token: read.max(drawn) }
    }

    /// With one node: whether another server may still need what this one has in memory.
    pub(crate) fn is_needed(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.alone.memory().is_some())
    }

    /// With one node, which has lost its memory: begins its next membership, if that is for this server to do. A server
    /// that leaves begins nothing with what the node kept.
    pub(crate) fn begins_membership(
        &mut self,
        situation: &Situation<'_>,
        (leaves, now): (bool, StoreTime),
        exit: &Exit<'_>,
    ) -> Begun {
        let known = self.known();
        let Some(memory) = &mut self.memory else { return Begun::Nothing };
        // An attempt that was not to begin this membership was given up.
        if matches!(&self.role, Role::Candidate(campaign) if now < campaign.until) {
            return Begun::Nothing;
        }
        match memory.alone.decides(known, situation) {
            Decision::Recall(admission) => self.recall(admission, now, exit),
            Decision::GoOn(admission) if !leaves => {
                self.go_on(admission, now);
                Begun::Kept
            }
            Decision::GoOn(_) | Decision::Wait => Begun::Nothing,
        }
    }

    /// A ballot above this one, and above those of attempts that nobody who reported has heard of: a server that was
    /// stopped during one must not come with a higher ballot after the next loss.
    fn ballot_above(&mut self, above: Ballot) -> Ballot {
        self.next_ballot(Ballot { round: above.round.saturating_add(ATTEMPTS_UNHEARD_MAX), ..above })
    }

    fn recall(&mut self, admission: Admission, now: StoreTime, exit: &Exit<'_>) -> Begun {
        let ballot = self.ballot_above(admission.above);
        let renewals = if self.lead().is_some() { Renewals::WRITTEN } else { Renewals::MayBeMissing };
        self.resign(now, exit);
        let Some(memory) = &mut self.memory else { return Begun::Nothing };
        let Some(kept) = memory.kept.take() else { return Begun::Nothing };
        match kept.recalled(ballot, admission, &renewals, now) {
            Ok(lead) => {
                memory.begins(&lead, now);
                self.role = Role::Leader(Box::new(lead));
                Begun::Recalled
            }
            Err(why) => {
                let partition = self.partition;
                tracing::error!(partition, %why, "this server cannot restore a partition of redis from its memory");
                memory.alone.forgets();
                Begun::Nothing
            }
        }
    }

    fn go_on(&mut self, Admission { next, above, skip }: Admission, now: StoreTime) {
        let ballot = self.ballot_above(above);
        self.begin(ballot, Candidate::of_stranger(ballot, next, skip), now);
    }
}
