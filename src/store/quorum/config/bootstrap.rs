//! Bootstrap: creates a cluster from empty nodes.

use crate::store::quorum::{
    nodes::client::{Lost, NodeClient},
    paxos::{
        ballot::{Ballot, Position, Stamp, TransferId},
        message::{Answer, Cursor, Request},
        node::{ClusterId, Mark, NodeAnswer, NodeRequest},
    },
};
use std::sync::Arc;
use uuid::Uuid;

/// The partitions of a store whose operator chose no other number: enough for four servers. A pair takes a server about
/// twice the CPU that it takes Redis, which has one thread, so a few servers use up a Redis. More partitions cost each
/// server more, because a batch has a header for each of its partitions: with 8, a pair costs Redis 1.3 times as much.
pub const PARTITIONS: u16 = 4;

/// Why a cluster was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// A node did not answer. What was done so far stays; the same command may be repeated.
    #[error("{member}: {why}; repeat the command when the node answers")]
    Lost {
        /// The node.
        member: String,
        /// Why there is no answer.
        why: Lost,
    },
    /// A node refuses to belong to a cluster. No node was made a member.
    #[error("{member}: {why}")]
    Refused {
        /// The node.
        member: String,
        /// Why.
        why: String,
    },
    /// A node serves a cluster, this one or another. No node was made a member.
    #[error("{member} already keeps a store: empty it if that store is not used any more, or leave it out")]
    InUse {
        /// The node.
        member: String,
    },
}

/// Makes each node a voting member of each partition, without locks. Tokens begin above `token`.
///
/// All nodes have to be there and empty. It may be repeated with the same mark until it succeeds; servers of the
/// cluster are started only then.
pub async fn create(client: &impl NodeClient, mark: &Mark, token: u64) -> Result<(), CreateError> {
    let in_use = |member: &Arc<str>| CreateError::InUse { member: member.to_string() };
    let lost = |member: &Arc<str>, why| CreateError::Lost { member: member.to_string(), why };
    // All are asked before one is made a member: a node that is empty because it forgot is found out by the others.
    let mut stamps_of_nodes = Vec::with_capacity(mark.members.len());
    for (node, member) in mark.members.iter().enumerate() {
        let answers =
            client.send(node, vec![NodeRequest::Mark(mark.clone())]).await.map_err(|why| lost(member, why))?;
        match answers.into_iter().next() {
            Some(Ok(NodeAnswer::Marked)) => {}
            Some(Err(why)) => return Err(CreateError::Refused { member: member.to_string(), why }),
            _ => return Err(in_use(member)),
        }
        // The lowest ballot: nobody has promised a lower one, and a candidate has a higher one.
        let look = (0..mark.partitions).map(|at| of_partition(mark, at, Request::Promise(Ballot::default()))).collect();
        let answers = client.send(node, look).await.map_err(|why| lost(member, why))?;
        let mut stamps = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Ok(NodeAnswer::OfPartition(Answer::Stranger(stamp))) => stamps.push(Some(stamp)),
                // An earlier try has made it.
                Ok(NodeAnswer::OfPartition(Answer::Promised { .. })) => stamps.push(None),
                _ => return Err(in_use(member)),
            }
        }
        // A node that was restarted does not vote, but it may keep what was written to it.
        let look = of_strangers(mark, &stamps, |stamp| Request::Read {
            stamp,
            ballot: Ballot::default(),
            from: Cursor::default(),
        });
        let answers = client.send(node, look).await.map_err(|why| lost(member, why))?;
        let is_empty = |answer: &Result<NodeAnswer, String>| match answer {
            Ok(NodeAnswer::OfPartition(Answer::Piece { position, records, .. })) => {
                *position == Position::default() && records.is_empty()
            }
            _ => false,
        };
        if !answers.iter().all(is_empty) {
            return Err(in_use(member));
        }
        stamps_of_nodes.push(stamps);
    }
    for (node, (member, stamps)) in mark.members.iter().zip(stamps_of_nodes).enumerate() {
        let admit = of_strangers(mark, &stamps, |stamp| Request::Admit {
            position: Position::default(),
            transfer: TransferId(Uuid::new_v4().as_u128()),
            count: 0,
            time: 0,
            token,
            stamp,
        });
        let answers = client.send(node, admit).await.map_err(|why| lost(member, why))?;
        if answers.iter().any(|answer| *answer != Ok(NodeAnswer::OfPartition(Answer::Done))) {
            return Err(in_use(member));
        }
    }
    Ok(())
}

/// Makes a cluster of the only node, which is empty. Tokens begin above `token`.
pub(crate) async fn create_of_one(client: &impl NodeClient, member: &Arc<str>, token: u64) -> Result<(), CreateError> {
    let members = [Arc::clone(member)].into();
    let mark =
        Mark { cluster: ClusterId(Uuid::new_v4().as_u128()), partitions: PARTITIONS, list: 1, members, rebuild: None };
    create(client, &mark, token).await
}

/// A request to each partition in which the node does not vote, with the stamp that it has named.
fn of_strangers(mark: &Mark, stamps: &[Option<Stamp>], request: impl Fn(Stamp) -> Request) -> Vec<NodeRequest> {
    let of_stranger = |(at, stamp): (u16, &Option<Stamp>)| stamp.map(|stamp| of_partition(mark, at, request(stamp)));
    (0..mark.partitions).zip(stamps).filter_map(of_stranger).collect()
}

fn of_partition(mark: &Mark, partition: u16, request: Request) -> NodeRequest {
    let Mark { cluster, list, .. } = *mark;
    NodeRequest::OfPartition { cluster, list, partition, fresh: Stamp(Uuid::new_v4().as_u128()), request }
}
