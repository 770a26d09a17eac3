//! The prefix of classic keys. All servers of a node use the same one: the first server fixes it at the node.

use super::client::{Lost, NodeClient};
use crate::store::quorum::paxos::node::{Mark, NodeAnswer, NodeRequest};
use std::sync::Arc;

/// Why a server cannot go by its prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PrefixError {
    #[error(
        "the other servers use the classic prefix {shared:?} (empty: none), and this server was started with {own:?}: \
         start it with the prefix of the others. To change the prefix, stop all servers, run DEL {{fp}}:classic (with \
         the name of --store-prefix in place of fp), and start all with the new one"
    )]
    Other { shared: Arc<str>, own: Arc<str> },
    #[error(
        "the Redis user of the URL may not run {command} on keys that begin with the classic prefix {own:?}, so nothing \
         was done: correct --classic-prefix, or grant the user these keys (ACL SETUSER … ~{own}*)"
    )]
    Denied { command: Arc<str>, own: Arc<str> },
    #[error(
        "classic clients can share locks only with a store of one Redis, and this store has {0}: start the server \
         without --classic-prefix"
    )]
    ManyNodes(usize),
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Fixes a server's prefix at the only node, if none is fixed there; it may be empty. A cluster of several has none.
pub(crate) async fn fix(client: &impl NodeClient, mark: &Mark, own: &Arc<str>) -> Result<(), PrefixError> {
    let (nodes, own) = (mark.members.len(), Arc::clone(own));
    if nodes > 1 {
        return if own.is_empty() { Ok(()) } else { Err(PrefixError::ManyNodes(nodes)) };
    }
    let request = NodeRequest::Prefix { cluster: mark.cluster, list: mark.list, prefix: Arc::clone(&own) };
    match client.send(0, vec![request]).await?.into_iter().next() {
        Some(Ok(NodeAnswer::Prefix(shared))) if shared == own => Ok(()),
        Some(Ok(NodeAnswer::Prefix(shared))) => Err(PrefixError::Other { shared, own }),
        Some(Ok(NodeAnswer::Denied(command))) => Err(PrefixError::Denied { command, own }),
        Some(Ok(answer)) => Err(Lost(format!("unexpected answer {answer:?}")).into()),
        Some(Err(why)) => Err(Lost(why).into()),
        None => Err(Lost("no answer to the classic prefix".to_owned()).into()),
    }
}
