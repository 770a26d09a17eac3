//! Disaster recovery: continues after a majority of the nodes lost their data at once.
//!
//! No leader admits such nodes, because too few are left to confirm it: what the others have may be old. So an operator
//! decides to go on with the best copy that there is. What it lacks is forgotten: exclusion does not hold for that.
//! Tokens rise all the same, from 60 s above the clocks of the tool and of all nodes, and above each sequencer that is
//! left. From then on all promises hold again, which is what the rest of this is about.
//!
//! A rebuild has two lists of the cluster's members to itself, the same members each time:
//!
//! 1. It gives *every* member a list of the next number that names this rebuild. Servers do not go by such a list
//!    ([`discovery`](super::discovery)), and nodes do not heed those with a lower one. So when all members have it,
//!    nobody but this rebuild can change anything at any node: no leader, however old, gets one more acknowledgement,
//!    and nobody is elected. A node that loses its memory after that has no mark, or gets an older one from a server:
//!    it does not heed the rebuild, which breaks off.
//! 2. In each partition without a majority that votes, it reads what each member kept, voting or not, and gives the
//!    best of it to all ([`partition`]), as a batch with a ballot above all that is kept. Then all vote, with one
//!    content. Where a majority votes, nothing is done.
//! 3. It gives all members the list after that, which servers go by. They take over as ever: what they read from a
//!    majority is what the rebuild wrote, or what they have made of it since.
//!
//! Any answer that is not the one to be expected, or none, ends the rebuild. Until another one is done, the store stays
//! down. Each begins with a list of its own, above all lists that a member has, and each node takes one list of a
//! number: so of two at a time one is refused by a node before it has touched any partition, or it has all nodes and
//! the other one has none. A rebuild that was stopped and goes on later is refused in the same way, by its list, or by
//! the names of memberships that are over. What one leaves half done the next one reads like anything else: members
//! that it has admitted have the best content of all, so a majority among which they are has it too.
//!
//! All members have to be there: a copy that nobody asks may be the best, and a node that has not heard of the list
//! could be half of a majority of the old one. Where one is gone for good, an empty Redis at its address will do.

pub mod partition;

use super::{
    discovery::FindError,
    search::Sight,
    status::{InPartition, survey},
};
use crate::store::quorum::{
    nodes::{
        addresses::Connected,
        client::{Lost, NodeClient},
    },
    paxos::{
        ballot::{Ballot, ServerId, Stamp, TransferId, majority},
        node::{Mark, NodeAnswer, NodeRequest},
    },
};
use partition::{Rebuilding, Rebuilt, Step};
use std::{collections::VecDeque, sync::Arc};
use uuid::Uuid;

/// A rebuild that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The newest list that a member has.
    pub from: Mark,
    /// In how many partitions each member votes, in the order of the list.
    pub votes: Vec<usize>,
    /// The partitions in which no majority votes.
    pub lacking: usize,
}

/// Why a store was not rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// It is not known whose nodes these are.
    #[error(transparent)]
    Unknown(#[from] FindError),
    /// None of the nodes knows a cluster.
    #[error(
        "no node knows its store, so nothing is left to rebuild from: create a new store with fencepost quorum \
         create, whose tokens begin 60 s above all clocks"
    )]
    AllForgot,
    /// Nothing was lost.
    #[error("a majority has the locks of all partitions: there is nothing to rebuild, and nothing was done")]
    NothingLacks,
    /// What a node has is damaged.
    #[error("{member}: {why}; nothing was done. If its data is damaged, empty it (FLUSHALL), and repeat the command")]
    Damaged {
        /// The node.
        member: Arc<str>,
        /// How.
        why: String,
    },
    /// Another list was written meanwhile.
    #[error(
        "{member} has list {list} now: another rebuild or a replacement is running; wait until it ends, and repeat the \
         command"
    )]
    Underway {
        /// The node.
        member: Arc<str>,
        /// The list that it has.
        list: u64,
    },
    /// A node is not as it was when the rebuild began.
    #[error("{member} changed meanwhile ({why}), so the rebuild stopped; repeat the command")]
    Changed {
        /// The node.
        member: Arc<str>,
        /// How.
        why: String,
    },
    /// A node does not answer.
    #[error(
        "{member}: {why}; {done}. All nodes must answer: if one is gone for good, start an empty Redis in its place"
    )]
    Lost {
        /// The node.
        member: Arc<str>,
        /// Why there is no answer.
        why: Lost,
        /// What was done by then.
        done: &'static str,
    },
}

/// What is said where nothing has changed.
const NOTHING: &str = "nothing was done";
/// What is said where some members have the list of the rebuild already.
const BROKEN_OFF: &str = "the rebuild stopped halfway, and the store stays down until you repeat the command";

impl Rebuild {
    /// The rebuild of the cluster that these nodes tell of, if there is something to rebuild. `given` are the members
    /// by the word of an operator. Changes nothing.
    pub async fn plan(
        nodes: &Connected<impl NodeClient>,
        sight: &Sight,
        given: &[Arc<str>],
    ) -> Result<Self, RebuildError> {
        let from = newest(sight, given)?;
        let enough = majority(from.members.len());
        let mut voters = vec![0; usize::from(from.partitions)];
        let mut votes = Vec::with_capacity(from.members.len());
        for member in &*from.members {
            let lost = |why| RebuildError::Lost { member: Arc::clone(member), why, done: NOTHING };
            let mark = match sight.of(member) {
                Some(Ok(mark)) => mark,
                Some(Err(why)) => return Err(lost(why.clone())),
                None => return Err(lost(not_asked())),
            };
            let node = nodes.number_of(member).ok_or_else(|| lost(not_asked()))?;
            // It is asked by the list that it has, so that it takes no other one for that.
            let partitions = match mark {
                Some(mark) => survey(&nodes.nodes, node, mark).await.map_err(lost)?,
                None => Vec::new(),
            };
            let voting =
                votes_in(&partitions).map_err(|why| RebuildError::Damaged { member: Arc::clone(member), why })?;
            votes.push(voting.len());
            voting.into_iter().for_each(|at| voters[at] += 1);
        }
        let lacking = voters.iter().filter(|voters| **voters < enough).count();
        if lacking == 0 && sight.agreed(given).is_ok() {
            return Err(RebuildError::NothingLacks);
        }
        Ok(Self { from, votes, lacking })
    }

    /// Carries it out. Tokens go on above `token`. Tells how each partition without a majority goes on.
    pub async fn run(
        &self,
        nodes: &Connected<impl NodeClient>,
        token: u64,
        mut progress: impl FnMut(u16, Rebuilt),
    ) -> Result<Mark, RebuildError> {
        let list = |number, rebuild| Mark { list: number, rebuild, ..self.from.clone() };
        let own = list(self.from.list + 1, Some(random()));
        let run = Run { nodes, mark: &own, me: server_id() };
        run.mark(&own, NOTHING).await?;
        let mut partitions = Vec::new();
        for member in &*own.members {
            let node = run.node(member)?;
            let seen = survey(&nodes.nodes, node, &own).await.map_err(|why| run.lost(member, why))?;
            votes_in(&seen).map_err(|why| run.changed(member, why))?;
            partitions.push(seen);
        }
        for at in 0..own.partitions {
            let seen = || partitions.iter().filter_map(|seen| seen.get(usize::from(at)));
            let promised =
                |seen: &InPartition| if let InPartition::Votes(promised) = seen { Some(*promised) } else { None };
            if seen().filter_map(promised).count() < majority(own.members.len()) {
                let highest = seen().filter_map(promised).max().unwrap_or_default();
                progress(at, run.partition(at, highest, token).await?);
            }
        }
        let next = list(own.list + 1, None);
        run.mark(&next, BROKEN_OFF).await?;
        Ok(next)
    }
}

/// The newest list that a member has, if its members are those that the operator means.
fn newest(sight: &Sight, given: &[Arc<str>]) -> Result<Mark, RebuildError> {
    if let Err(why @ FindError::Different(_)) = sight.agreed(given) {
        return Err(why.into());
    }
    let sorted = |members: &[Arc<str>]| {
        let mut members = members.to_vec();
        members.sort();
        members
    };
    // Two that were begun at a time have lists of the same number.
    let newest = sight.lists().max_by_key(|mark| (mark.list, sorted(&mark.members) == sorted(given)));
    match newest {
        Some(newest) if sorted(&newest.members) == sorted(given) => Ok(newest.clone()),
        Some(newest) => {
            let (cluster, given) = (sorted(&newest.members).join(", "), sorted(given).join(", "));
            Err(FindError::OtherMembers { cluster, given }.into())
        }
        None => {
            let away = |member: &Arc<str>| match sight.of(member) {
                Some(Ok(_)) => None,
                Some(Err(why)) => Some((Arc::clone(member), why.clone())),
                None => Some((Arc::clone(member), not_asked())),
            };
            Err(match given.iter().find_map(away) {
                Some((member, why)) => RebuildError::Lost { member, why, done: NOTHING },
                None => RebuildError::AllForgot,
            })
        }
    }
}

/// The partitions in which a node votes. The error says what is damaged.
fn votes_in(partitions: &[InPartition]) -> Result<Vec<usize>, String> {
    let mut votes = Vec::new();
    for (at, seen) in partitions.iter().enumerate() {
        match seen {
            InPartition::Votes(_) => votes.push(at),
            InPartition::Stranger => {}
            InPartition::Broken(why) => return Err(format!("partition {at}: {why}")),
        }
    }
    Ok(votes)
}

/// A rebuild on its way.
struct Run<'a, C> {
    nodes: &'a Connected<C>,
    /// The list that this rebuild alone goes by.
    mark: &'a Mark,
    me: ServerId,
}

impl<C: NodeClient> Run<'_, C> {
    /// Gives all members a list.
    async fn mark(&self, mark: &Mark, before: &'static str) -> Result<(), RebuildError> {
        let mut done = before;
        for member in &*mark.members {
            let lost = |why| RebuildError::Lost { member: Arc::clone(member), why, done };
            match self.send(member, NodeRequest::Mark(mark.clone())).await.map_err(lost)? {
                Ok(NodeAnswer::Marked) => done = BROKEN_OFF,
                Ok(NodeAnswer::List(Mark { list, .. })) => {
                    return Err(RebuildError::Underway { member: Arc::clone(member), list });
                }
                Ok(answer) => return Err(self.changed(member, format!("unexpected answer {answer:?}"))),
                Err(why) => return Err(lost(Lost(why))),
            }
        }
        Ok(())
    }

    /// Has all members vote in a partition, where the highest promise is this one.
    async fn partition(&self, at: u16, mut highest: Ballot, token: u64) -> Result<Rebuilt, RebuildError> {
        let Mark { cluster, list, members, .. } = self.mark;
        loop {
            let ballot = Ballot { round: highest.round + 1, server: self.me };
            let (mut it, mut step) = Rebuilding::new(ballot, token, transfer(), members.len());
            let mut queue = VecDeque::new();
            loop {
                match step {
                    Step::Send(requests) => queue.extend(requests),
                    Step::Wait => {}
                    Step::Done(rebuilt) => return Ok(rebuilt),
                    Step::Above(seen) => break highest = highest.max(seen),
                    Step::Changed(node) => {
                        return Err(self.changed(&members[node], format!("partition {at}")));
                    }
                }
                let Some((node, request)) = queue.pop_front() else {
                    return Err(self.changed(&members[0], format!("partition {at}: an answer is missing")));
                };
                let (member, fresh) = (&members[node], Stamp(Uuid::new_v4().as_u128()));
                let request =
                    NodeRequest::OfPartition { cluster: *cluster, list: *list, partition: at, fresh, request };
                step = match self.send(member, request).await.map_err(|why| self.lost(member, why))? {
                    Ok(NodeAnswer::OfPartition(answer)) => it.answered(node, answer),
                    Ok(NodeAnswer::List(Mark { list, .. })) => {
                        return Err(RebuildError::Underway { member: Arc::clone(member), list });
                    }
                    Ok(NodeAnswer::Unmarked) => return Err(self.changed(member, "it lost its memory".to_owned())),
                    Ok(answer) => return Err(self.changed(member, format!("unexpected answer {answer:?}"))),
                    Err(why) => return Err(self.changed(member, format!("partition {at}: {why}"))),
                };
            }
        }
    }

    async fn send(&self, member: &Arc<str>, request: NodeRequest) -> Result<Result<NodeAnswer, String>, Lost> {
        let node = self.nodes.number_of(member).ok_or_else(not_asked)?;
        let answers = self.nodes.nodes.send(node, vec![request]).await?;
        answers.into_iter().next().ok_or_else(|| Lost("no answer".to_owned()))
    }

    fn node(&self, member: &Arc<str>) -> Result<usize, RebuildError> {
        self.nodes.number_of(member).ok_or_else(|| self.lost(member, not_asked()))
    }

    #[expect(clippy::unused_self, reason = "said of a rebuild that has begun")]
    fn lost(&self, member: &Arc<str>, why: Lost) -> RebuildError {
        RebuildError::Lost { member: Arc::clone(member), why, done: BROKEN_OFF }
    }

    #[expect(clippy::unused_self, reason = "said of a rebuild that has begun")]
    fn changed(&self, member: &Arc<str>, why: String) -> RebuildError {
        RebuildError::Changed { member: Arc::clone(member), why }
    }
}

fn not_asked() -> Lost {
    Lost("no request was sent".to_owned())
}

fn transfer() -> TransferId {
    TransferId(Uuid::new_v4().as_u128())
}

fn server_id() -> ServerId {
    ServerId(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 12]))
}

fn random() -> u64 {
    u64::from_be_bytes(*Uuid::new_v4().as_bytes().last_chunk().unwrap_or(&[0; 8]))
}
