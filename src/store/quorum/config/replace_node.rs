//! Replacing a node of a cluster by another one: the next list of members.
//!
//! The list is written to f + 1 members other than the old node, one after the other. The majorities of the list before
//! end with that, because each would have one of these; and the new list has none before, because the new node does not
//! vote until a leader has admitted it, for which it needs f + 1 others that have the new list. Each node takes one
//! list of a number, so of two replacements at a time only one finds f + 1 that take it.

use super::{
    discovery,
    search::Sight,
    status::{InPartition, survey},
};
use crate::store::quorum::{
    nodes::{
        addresses::Connected,
        client::{Lost, NodeClient},
    },
    paxos::{
        ballot::{Ballot, Position, Stamp, majority},
        message::{Answer, Cursor, Request},
        node::{Mark, NodeAnswer, NodeRequest},
    },
};
use std::sync::Arc;
use uuid::Uuid;

/// Which node is to be replaced, and by which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The node to be replaced.
    pub old: Arc<str>,
    /// The node that takes its place.
    pub new: Arc<str>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A try of it has come so far that this is the cluster's list. Other members and the new node may lack it.
    Decided(Mark),
    /// The members have this list, and are to get the next one. An earlier try may have given it to some.
    Begin {
        /// The present list.
        from: Mark,
        /// The next one.
        to: Mark,
    },
}

/// Why a node was not replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// It is not known for certain who the members are.
    #[error(transparent)]
    Unknown(#[from] discovery::FindError),
    /// The old node is no member, or the new one is one already.
    #[error("{0}")]
    Members(String),
    /// A member has a list of another replacement.
    #[error("{member} has list {list}, of {members}: another replacement is unfinished; repeat that one first")]
    Underway {
        /// The member.
        member: Arc<str>,
        /// The list that it has.
        list: u64,
        /// Its members.
        members: String,
    },
    /// A member that is to stay lacks locks.
    #[error("{member} {lacks}: nothing was done; wait until fencepost quorum status shows that it has all locks")]
    Lacks {
        /// The member.
        member: Arc<str>,
        /// What it lacks.
        lacks: String,
    },
    /// The new node is used for something.
    #[error("{member} is in use: {why}; empty it if nobody needs its data any more, or use another Redis")]
    InUse {
        /// The new node.
        member: Arc<str>,
        /// For what.
        why: String,
    },
    /// A node does not answer.
    #[error("{member}: {why}; {done}; repeat the command when the node answers")]
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
/// What is said where some members have the next list already.
const BROKEN_OFF: &str = "the replacement stopped halfway";

impl Replacement {
    /// The replacement that somebody began and has not finished, by the lists that nodes have. `agreed`: the
    /// cluster's list.
    pub fn begun(sight: &Sight, agreed: Option<&Mark>) -> Option<Self> {
        let newest = sight.lists().max_by_key(|mark| mark.list).filter(|newest| agreed != Some(newest))?;
        let before = sight.lists().find(|mark| mark.list + 1 == newest.list)?;
        let missing = |from: &Mark, of: &Mark| of.members.iter().find(|it| !from.members.contains(it)).cloned();
        Some(Self { old: missing(newest, before)?, new: missing(before, newest)? })
    }

    /// The members that an operator means who has named the new node already.
    fn before(&self, given: &[Arc<str>]) -> Vec<Arc<str>> {
        let is_after = !given.contains(&self.old);
        let swap = |member: &Arc<str>| if is_after && *member == self.new { &self.old } else { member }.clone();
        given.iter().map(swap).collect()
    }

    /// The list after this one.
    fn next(&self, Mark { cluster, partitions, list, members, .. }: &Mark) -> Mark {
        let swap = |member: &Arc<str>| Arc::clone(if *member == self.old { &self.new } else { member });
        let (cluster, partitions, list) = (*cluster, *partitions, list + 1);
        Mark { cluster, partitions, list, members: members.iter().map(swap).collect(), rebuild: None }
    }

    /// Whether the old node is in a list, and the new one is not.
    fn fits(&self, mark: &Mark) -> bool {
        mark.members.contains(&self.old) && !mark.members.contains(&self.new)
    }

    /// What is to be done, by what the nodes say. `given` are the members by the word of an operator.
    pub fn plan(&self, sight: &Sight, given: &[Arc<str>]) -> Result<Plan, ReplaceError> {
        let agreed = match sight.agreed(given).or_else(|why| sight.agreed(&self.before(given)).or(Err(why))) {
            Ok(agreed) => agreed,
            // An earlier try may have come so far that no list has a majority of members that answer.
            Err(why) => self.half_way(sight).ok_or(why)?,
        };
        let has = |member| agreed.members.contains(member);
        match (has(&self.old), has(&self.new)) {
            (true, false) => {}
            (false, true) if agreed.list > 1 => return Ok(Plan::Decided(agreed)),
            (_, true) => return Err(ReplaceError::Members(format!("{} is already a node of the store", self.new))),
            (false, false) => {
                let members = agreed.members.join(", ");
                let what = format!("{} is not a node of the store, whose nodes are {members}", self.old);
                return Err(ReplaceError::Members(what));
            }
        }
        let to = self.next(&agreed);
        for member in agreed.members.iter().filter(|member| **member != self.old) {
            let why = match sight.of(member) {
                Some(Ok(Some(mark))) if *mark == agreed || *mark == to => continue,
                Some(Ok(Some(mark))) if mark.list > agreed.list => {
                    let (member, members) = (Arc::clone(member), mark.members.join(", "));
                    return Err(ReplaceError::Underway { member, list: mark.list, members });
                }
                Some(Ok(_)) => {
                    let (member, lacks) = (Arc::clone(member), "does not know the present members".to_owned());
                    return Err(ReplaceError::Lacks { member, lacks });
                }
                Some(Err(why)) => why.clone(),
                None => not_asked(),
            };
            return Err(ReplaceError::Lost { member: Arc::clone(member), why, done: NOTHING });
        }
        Ok(Plan::Begin { from: agreed, to })
    }

    /// The list before this replacement, where a majority of its members has it, or the next one by an earlier try: who
    /// began that try saw a majority.
    fn half_way(&self, sight: &Sight) -> Option<Mark> {
        let before = |mark: &&Mark| {
            let to = self.next(mark);
            let known = |member: &Arc<str>| sight.of(member).and_then(|answer| answer.as_ref().ok()?.as_ref());
            let has = |member: &&Arc<str>| known(member).is_some_and(|known| known == *mark || *known == to);
            self.fits(mark) && mark.members.iter().filter(has).count() >= majority(mark.members.len())
        };
        sight.lists().filter(before).max_by_key(|mark| mark.list).cloned()
    }

    /// Checks that all other members have all locks, and that the new node is empty, or has the list of an earlier try.
    pub async fn check(
        &self,
        nodes: &Connected<impl NodeClient>,
        from: &Mark,
        to: &Mark,
        sight: &Sight,
    ) -> Result<(), ReplaceError> {
        let client = &nodes.nodes;
        let lost = |member: &Arc<str>, why| ReplaceError::Lost { member: Arc::clone(member), why, done: NOTHING };
        let number = |member: &Arc<str>| nodes.number_of(member).ok_or_else(|| lost(member, not_asked()));
        for member in from.members.iter().filter(|member| **member != self.old) {
            let mark = if matches!(sight.of(member), Some(Ok(Some(mark))) if mark == to) { to } else { from };
            let partitions = survey(client, number(member)?, mark).await.map_err(|why| lost(member, why))?;
            if let Some(lacks) = lacks(&partitions) {
                return Err(ReplaceError::Lacks { member: Arc::clone(member), lacks });
            }
        }
        let in_use = |why: String| ReplaceError::InUse { member: Arc::clone(&self.new), why };
        // A list that nobody goes by, as the new node is in no list of this number: it is only to look what is there.
        let look = Mark { list: from.list, ..to.clone() };
        match sight.of(&self.new) {
            Some(Ok(Some(mark))) if mark == to => return Ok(()),
            Some(Ok(Some(mark))) if *mark != look => {
                return Err(in_use(format!("it keeps the store {:032x}, list {}", mark.cluster.0, mark.list)));
            }
            Some(Ok(_)) => {}
            Some(Err(why)) => return Err(lost(&self.new, why.clone())),
            None => return Err(lost(&self.new, not_asked())),
        }
        let new = number(&self.new)?;
        let is_empty = is_empty(client, new, &look).await.map_err(|why| lost(&self.new, why))?;
        if is_empty { Ok(()) } else { Err(in_use("it has locks".to_owned())) }
    }

    /// Gives the list to the members and to the new node. The first f + 1 of them decide.
    pub async fn write(&self, nodes: &Connected<impl NodeClient>, to: &Mark) -> Result<(), ReplaceError> {
        // All who replace a node ask in this order, so that of two at a time one is refused before it has done harm.
        let (mut deciding, mut done) = (Vec::new(), NOTHING);
        deciding.extend(to.members.iter().filter(|member| **member != self.new));
        let rest = deciding.split_off(majority(to.members.len()).min(deciding.len()));
        for member in deciding.into_iter().chain([&self.new]).chain(rest) {
            let lost = |why| ReplaceError::Lost { member: Arc::clone(member), why, done };
            let node = nodes.number_of(member).ok_or_else(|| lost(not_asked()))?;
            let answers = nodes.nodes.send(node, vec![NodeRequest::Mark(to.clone())]).await.map_err(lost)?;
            match answers.into_iter().next() {
                Some(Ok(NodeAnswer::Marked)) => done = BROKEN_OFF,
                Some(Ok(NodeAnswer::List(Mark { list, members, .. }))) => {
                    let (member, members) = (Arc::clone(member), members.join(", "));
                    return Err(ReplaceError::Underway { member, list, members });
                }
                Some(Ok(answer)) => return Err(lost(Lost(format!("unexpected answer {answer:?}")))),
                Some(Err(why)) => return Err(lost(Lost(why))),
                None => return Err(lost(Lost("no answer".to_owned()))),
            }
        }
        Ok(())
    }

    /// In how many partitions the new node votes.
    pub async fn votes(&self, nodes: &Connected<impl NodeClient>, to: &Mark) -> Result<usize, Lost> {
        let node = nodes.number_of(&self.new).ok_or_else(not_asked)?;
        let partitions = discovery::when_up(&nodes.nodes, node, survey(&nodes.nodes, node, to)).await?;
        Ok(partitions.iter().filter(|it| matches!(it, InPartition::Votes(_))).count())
    }
}

fn not_asked() -> Lost {
    Lost("no request was sent".to_owned())
}

/// What a member lacks, if it does not vote in all partitions.
fn lacks(partitions: &[InPartition]) -> Option<String> {
    let broken = partitions.iter().find_map(|it| if let InPartition::Broken(why) = it { Some(why) } else { None });
    let votes = partitions.iter().filter(|it| matches!(it, InPartition::Votes(_))).count();
    match broken {
        Some(why) => Some(format!("cannot say whether it has all locks: {why}")),
        None if votes == partitions.len() => None,
        None => Some(format!("has the locks of {votes} of {} partitions", partitions.len())),
    }
}

/// Whether a node votes nowhere, and keeps nothing of an earlier use. Gives it this mark, if it has none.
async fn is_empty(client: &impl NodeClient, node: usize, look: &Mark) -> Result<bool, Lost> {
    let answers = client.send(node, vec![NodeRequest::Mark(look.clone())]).await?;
    if answers != [Ok(NodeAnswer::Marked)] {
        return Ok(false);
    }
    let Mark { cluster, list, partitions, .. } = *look;
    let request = |(partition, request)| NodeRequest::OfPartition {
        cluster,
        list,
        partition,
        fresh: Stamp(Uuid::new_v4().as_u128()),
        request,
    };
    let promises = (0..partitions).map(|at| (at, Request::Promise(Ballot::default())));
    let answers = client.send(node, promises.map(request).collect()).await?;
    let stamp = |answer: Result<NodeAnswer, String>| match answer {
        Ok(NodeAnswer::OfPartition(Answer::Stranger(stamp))) => Some(stamp),
        _ => None,
    };
    let Some(stamps) = answers.into_iter().map(stamp).collect::<Option<Vec<_>>>() else { return Ok(false) };
    let read = |stamp| Request::Read { stamp, ballot: Ballot::default(), from: Cursor::default() };
    let reads = (0..partitions).zip(stamps.into_iter().map(read));
    let answers = client.send(node, reads.map(request).collect()).await?;
    Ok(answers.iter().all(|answer| match answer {
        Ok(NodeAnswer::OfPartition(Answer::Piece { position, records, .. })) => {
            *position == Position::default() && records.is_empty()
        }
        _ => false,
    }))
}
