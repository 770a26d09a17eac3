//! Making a cluster of nodes that are empty.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId},
    message::{Answer, Request},
    node::{Ask, Mark, Said},
    nodes::{Carrier, Lost},
};
use uuid::Uuid;

/// Why a cluster was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// A node did not answer. What was done so far stays; the same command may be repeated.
    #[error("{member}: {why}; repeat the command when the node is there")]
    Lost {
        /// The node.
        member: String,
        /// Why there is no answer.
        why: Lost,
    },
    /// A node serves a cluster, this one or another. Nothing was done to it.
    #[error("{member} belongs to a cluster already: empty it, if it is not used any more, or leave it out")]
    InUse {
        /// The node.
        member: String,
    },
}

/// Makes each node a voting member of each partition, without locks. Tokens begin above `token`.
///
/// All nodes have to be there and empty. It may be repeated with the same mark until it succeeds; servers of the
/// cluster are started only then.
pub async fn create(carrier: &impl Carrier, mark: &Mark, token: u64) -> Result<(), CreateError> {
    for (node, member) in mark.members.iter().enumerate() {
        let in_use = || CreateError::InUse { member: member.to_string() };
        let lost = |why| CreateError::Lost { member: member.to_string(), why };
        let said = carrier.carry(node, vec![Ask::Mark(mark.clone())]).await.map_err(lost)?;
        if said != [Ok(Said::Marked)] {
            return Err(in_use());
        }
        // The lowest ballot: nobody has promised a lower one, and a candidate has a higher one.
        let look = of_each(mark, |_| Request::Promise(Ballot::default()));
        let said = carrier.carry(node, look).await.map_err(lost)?;
        let mut stamps = Vec::with_capacity(said.len());
        for said in said {
            match said {
                Ok(Said::OfPartition(Answer::Stranger(stamp))) => stamps.push(Some(stamp)),
                // An earlier try has made it.
                Ok(Said::OfPartition(Answer::Promised { .. })) => stamps.push(None),
                _ => return Err(in_use()),
            }
        }
        let admit = of_each(mark, |partition| Request::Admit {
            position: Position::default(),
            transfer: TransferId(Uuid::new_v4().as_u128()),
            count: 0,
            time: 0,
            token,
            stamp: stamps.get(usize::from(partition)).copied().flatten().unwrap_or(Stamp(0)),
        });
        let made = admit.into_iter().zip(&stamps).filter(|(_, stamp)| stamp.is_some()).map(|(ask, _)| ask).collect();
        let said = carrier.carry(node, made).await.map_err(lost)?;
        if said.iter().any(|said| *said != Ok(Said::OfPartition(Answer::Done))) {
            return Err(in_use());
        }
    }
    Ok(())
}

fn of_each(mark: &Mark, request: impl Fn(u16) -> Request) -> Vec<Ask> {
    let Mark { cluster, list, .. } = *mark;
    let ask = |partition| Ask::OfPartition {
        cluster,
        list,
        partition,
        fresh: Stamp(Uuid::new_v4().as_u128()),
        request: request(partition),
    };
    (0..mark.partitions).map(ask).collect()
}
