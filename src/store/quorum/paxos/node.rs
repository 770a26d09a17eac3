//! A node as a whole: the cluster that it belongs to, and its share of each partition.

use super::{
    acceptor::{Acceptor, Incarnation, Seen},
    ballot::{ServerId, Stamp},
    message::{Answer, Request},
};
use crate::store::content::Bytes;
use std::{collections::BTreeMap, sync::Arc};

/// Names a cluster. Drawn at random when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u128);

/// What a node knows of its cluster. It does not know itself which of the members it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// The cluster.
    pub cluster: ClusterId,
    /// The number of its partitions, which never changes.
    pub partitions: u16,
    /// The number of the list of members. Each replacement of a node makes a list with the next number,
    /// and a rebuild makes two.
    pub list: u64,
    /// The addresses of the nodes.
    pub members: Arc<[Arc<str>]>,
    /// The rebuild that alone goes by this list, if there is one; servers do not. Drawn at random for each.
    pub rebuild: Option<u64>,
}

/// A request of a server to a node: about the configuration, one partition, or all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeRequest {
    /// Tells the node its cluster, or a newer list of it. Answers: Marked, Other, List.
    Mark(Mark),
    /// A request about a partition. The node carries it out only if server and node have the same list: otherwise an
    /// old and a new list could have a majority each. Answers: OfPartition, Unmarked, Other, List.
    OfPartition {
        /// The cluster that the server means.
        cluster: ClusterId,
        /// The server's list.
        list: u64,
        /// The partition, from 0 on.
        partition: u16,
        /// The stamp of the node's next membership, should it be a stranger without one. Drawn for this request.
        fresh: Stamp,
        /// The request.
        request: Request,
    },
    /// Fixes the prefix of classic keys, if none is fixed. Answers: Prefix, Denied, Unmarked, Other, List.
    Prefix {
        /// The cluster that the server means.
        cluster: ClusterId,
        /// The server's list.
        list: u64,
        /// The server's prefix; empty if it goes by none.
        prefix: Arc<str>,
    },
    /// A server tells the others that it lives, and reads what they tell. Answers: Heartbeats, Unmarked, Other, List.
    Heartbeat {
        /// The cluster that the server means.
        cluster: ClusterId,
        /// The server's list.
        list: u64,
        /// The number of partitions.
        partitions: u16,
        /// The stamp of the next membership in each partition where the node is a stranger without one.
        fresh: Stamp,
        /// The server.
        server: ServerId,
        /// What it tells the other servers. Nodes do not decode it.
        payload: Bytes,
        /// Servers that have been silent for long: their payloads are deleted.
        gone: Vec<ServerId>,
    },
}

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAnswer {
    /// It is marked as the server wants it, now or before.
    Marked,
    /// The answer of its share of the partition.
    OfPartition(Answer),
    /// The answer to a heartbeat.
    Heartbeats {
        /// Where the node stands in each partition, by its number.
        partitions: Vec<Seen>,
        /// The payload of the last heartbeat of each server, the sender too.
        servers: Vec<(ServerId, Bytes)>,
    },
    /// The prefix that is fixed.
    Prefix(Arc<str>),
    /// Nothing was done: the user of the node may not run this command on classic keys.
    Denied(Arc<str>),
    /// Nothing was done: the node is not marked, or with an older list than the server's. It has to be marked first.
    Unmarked,
    /// Nothing was done: the node belongs to this other cluster.
    Other(ClusterId),
    /// Nothing was done: the node has this newer list. To a mark also: it has another list with the same number. Each
    /// node takes one list of a number, so that of two replacements at a time one finds no majority.
    List(Mark),
}

/// What a node keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// The cluster that it belongs to.
    pub mark: Option<Mark>,
    /// Its share of each partition of which it ever got a request.
    pub partitions: BTreeMap<u16, Acceptor>,
    /// The payload of the last heartbeat of each server.
    pub servers: BTreeMap<ServerId, Bytes>,
    /// Partitions whose data somebody has damaged, and how. Nothing is done there; the others are not affected.
    pub damaged: BTreeMap<u16, Arc<str>>,
    /// The prefix of classic keys, once it is fixed.
    pub prefix: Option<Arc<str>>,
}

impl Node {
    /// A node that never got a request.
    pub const fn unmarked() -> Self {
        Self {
            mark: None,
            partitions: BTreeMap::new(),
            servers: BTreeMap::new(),
            damaged: BTreeMap::new(),
            prefix: None,
        }
    }

    /// Executes a request, unless it is about a partition whose data is damaged: then the error says how.
    /// `present` is the node's incarnation.
    pub fn execute(&mut self, present: Incarnation, request: &NodeRequest) -> Result<NodeAnswer, Arc<str>> {
        if let NodeRequest::OfPartition { cluster, list, partition, .. } = request
            && let Some(why) = self.damaged.get(partition)
            && self.refusal(*cluster, *list).is_none()
        {
            return Err(Arc::clone(why));
        }
        Ok(self.answer(present, request))
    }

    /// The same where nothing is damaged. (A heartbeat is answered anyway: it says where something is.)
    pub fn answer(&mut self, present: Incarnation, request: &NodeRequest) -> NodeAnswer {
        match request {
            NodeRequest::Mark(new) => match &self.mark {
                Some(mark) if mark.cluster != new.cluster => NodeAnswer::Other(mark.cluster),
                Some(mark) if mark == new => NodeAnswer::Marked,
                Some(mark) if mark.list >= new.list => NodeAnswer::List(mark.clone()),
                _ => {
                    self.mark = Some(new.clone());
                    NodeAnswer::Marked
                }
            },
            NodeRequest::OfPartition { cluster, list, partition, fresh, request } => {
                self.refusal(*cluster, *list).unwrap_or_else(|| {
                    let acceptor = self.partitions.entry(*partition).or_default();
                    NodeAnswer::OfPartition(acceptor.answer(present, *fresh, request))
                })
            }
            NodeRequest::Prefix { cluster, list, prefix } => self.refusal(*cluster, *list).unwrap_or_else(|| {
                NodeAnswer::Prefix(Arc::clone(self.prefix.get_or_insert_with(|| Arc::clone(prefix))))
            }),
            NodeRequest::Heartbeat { cluster, list, partitions, fresh, server, payload, gone } => {
                self.refusal(*cluster, *list).unwrap_or_else(|| {
                    self.servers.retain(|server, _| !gone.contains(server));
                    self.servers.insert(*server, payload.clone());
                    let see = |at| match self.damaged.get(&at) {
                        Some(why) => Seen::Broken(Arc::clone(why)),
                        None => self.partitions.entry(at).or_default().seen(present, *fresh),
                    };
                    let partitions = (0..*partitions).map(see).collect();
                    NodeAnswer::Heartbeats { partitions, servers: self.servers.clone().into_iter().collect() }
                })
            }
        }
    }

    /// Why a server of this cluster with this list is not served, if it is not.
    fn refusal(&self, cluster: ClusterId, list: u64) -> Option<NodeAnswer> {
        match &self.mark {
            Some(mark) if mark.cluster != cluster => Some(NodeAnswer::Other(mark.cluster)),
            Some(mark) if mark.list > list => Some(NodeAnswer::List(mark.clone())),
            Some(mark) if mark.list == list => None,
            _ => Some(NodeAnswer::Unmarked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::quorum::paxos::ballot::Ballot;

    fn mark(cluster: u128, list: u64) -> Mark {
        Mark { cluster: ClusterId(cluster), partitions: 1, list, members: [].into(), rebuild: None }
    }

    fn request(cluster: u128, list: u64) -> NodeRequest {
        let request = Request::Promise(Ballot::default());
        NodeRequest::OfPartition { cluster: ClusterId(cluster), list, partition: 0, fresh: Stamp(1), request }
    }

    #[test]
    fn a_node_takes_one_list_of_a_number() {
        let (mut node, present) = (Node::default(), Incarnation(1));
        let of = |member: &str| Mark { members: [Arc::from(member)].into(), ..mark(1, 2) };
        assert_eq!(node.answer(present, &NodeRequest::Mark(of("a"))), NodeAnswer::Marked);
        assert_eq!(node.answer(present, &NodeRequest::Mark(of("b"))), NodeAnswer::List(of("a")));
        assert_eq!(node.answer(present, &NodeRequest::Mark(of("a"))), NodeAnswer::Marked);
        assert_eq!(node.mark, Some(of("a")));
    }

    #[test]
    fn a_node_serves_servers_with_its_own_list_only() {
        let (mut node, present) = (Node::default(), Incarnation(1));
        assert_eq!(node.answer(present, &request(1, 1)), NodeAnswer::Unmarked);
        assert_eq!(node.answer(present, &NodeRequest::Mark(mark(1, 1))), NodeAnswer::Marked);
        assert_eq!(node.answer(present, &NodeRequest::Mark(mark(1, 1))), NodeAnswer::Marked);
        assert_eq!(node.answer(present, &request(1, 1)), NodeAnswer::OfPartition(Answer::Stranger(Stamp(1))));
        assert_eq!(node.answer(present, &request(1, 2)), NodeAnswer::Unmarked);
        assert_eq!(node.answer(present, &NodeRequest::Mark(mark(1, 2))), NodeAnswer::Marked);
        for old in [request(1, 1), NodeRequest::Mark(mark(1, 1))] {
            assert_eq!(node.answer(present, &old), NodeAnswer::List(mark(1, 2)));
        }
        for stray in [request(2, 9), NodeRequest::Mark(mark(2, 9))] {
            assert_eq!(node.answer(present, &stray), NodeAnswer::Other(ClusterId(1)));
        }
    }
}
