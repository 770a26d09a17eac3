//! The status of the nodes of a cluster, for operators.

use crate::store::quorum::{
    nodes::client::{Lost, NodeClient},
    paxos::{
        ballot::{Ballot, Stamp},
        message::{Answer, Request},
        node::{Mark, NodeAnswer, NodeRequest},
    },
};
use uuid::Uuid;

/// A node in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPartition {
    /// It votes, and heeds no lower ballot.
    Votes(Ballot),
    /// It lost its memory, and votes when the partition's leader has brought it up to date.
    Stranger,
    /// It cannot say, for this reason.
    Broken(String),
}

/// Asks a node about each partition. Binds it to nothing: the lowest ballot, which servers never use, is the lowest
/// promise.
pub async fn survey(client: &impl NodeClient, node: usize, mark: &Mark) -> Result<Vec<InPartition>, Lost> {
    let Mark { cluster, list, partitions, .. } = *mark;
    let lowest = Ballot::default();
    let request = |partition| {
        let (fresh, request) = (Stamp(Uuid::new_v4().as_u128()), Request::Promise(lowest));
        NodeRequest::OfPartition { cluster, list, partition, fresh, request }
    };
    let answers = client.send(node, (0..partitions).map(request).collect()).await?;
    Ok(answers
        .into_iter()
        .map(|answer| match answer {
            Ok(NodeAnswer::OfPartition(Answer::Promised { .. })) => InPartition::Votes(lowest),
            Ok(NodeAnswer::OfPartition(Answer::No(promised))) => InPartition::Votes(promised),
            Ok(NodeAnswer::OfPartition(Answer::Stranger(_))) => InPartition::Stranger,
            Ok(other) => InPartition::Broken(format!("unexpected answer {other:?}")),
            Err(why) => InPartition::Broken(why),
        })
        .collect())
}
