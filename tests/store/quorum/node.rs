//! A node: the real code, and its present life.

use fencepost::testing::store::quorum::paxos::{
    acceptor::Incarnation,
    ballot::{Ballot, Position, ServerId, Stamp, TransferId},
    message::{Answer, Cursor, Request},
    node::{ClusterId, Mark, Node, NodeAnswer, NodeRequest},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Redis {
    pub(crate) incarnation: Incarnation,
    node: Node,
    /// What follows from the node: the number of its list, and where it stands, if it votes.
    list: Option<u64>,
    stands: Option<Stands>,
}

/// Where a voting node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stands {
    pub(crate) stamp: Stamp,
    pub(crate) promised: Ballot,
    pub(crate) accepted: Position,
}

/// The stamp of the membership that begins in a life of a node. Nobody compares stamps of different nodes.
pub(crate) fn stamp(life: u64) -> Stamp {
    Stamp(u128::from(life))
}

impl Redis {
    /// A member with nothing in it.
    pub(crate) fn created(mark: &Mark, incarnation: Incarnation) -> Self {
        let mut it = Self::unknown(incarnation);
        it.rewrite(mark, (Position::default(), vec![]));
        it
    }

    /// It belongs to no cluster.
    pub(crate) fn unknown(incarnation: Incarnation) -> Self {
        Self { incarnation, node: Node::default(), list: None, stands: None }
    }

    /// Makes it a member with this content, and with the promise of the content's ballot.
    pub(crate) fn rewrite(&mut self, mark: &Mark, (position, records): (Position, Vec<(super::Bytes, super::Bytes)>)) {
        *self = Self::unknown(self.incarnation);
        let (count, transfer, stamp) = (records.len(), TransferId(0), stamp(self.incarnation.0));
        let token = records.first().map_or(0, |(_, history)| history.len() as u64);
        self.execute(mark, &Request::Stage { position, transfer, piece: records.into() }, false);
        self.execute(mark, &Request::Admit { position, transfer, count, time: 0, token, stamp }, false);
    }

    /// Carries a request out of a server that goes by this list; marks the node first if it says so.
    pub(crate) fn execute(&mut self, mark: &Mark, request: &Request, old_list_is_heard: bool) -> Option<Answer> {
        let (fresh, cluster) = (stamp(self.incarnation.0), mark.cluster);
        let mut list = mark.list;
        loop {
            let request = request.clone();
            match self
                .node
                .answer(self.incarnation, &NodeRequest::OfPartition { cluster, list, partition: 0, fresh, request })
            {
                NodeAnswer::OfPartition(answer) => {
                    self.stands = self.looks();
                    return Some(answer);
                }
                NodeAnswer::Unmarked => {
                    self.mark(mark);
                }
                NodeAnswer::List(newer) if old_list_is_heard => list = newer.list,
                NodeAnswer::List(_) => return None,
                answer => unreachable!("{answer:?}"),
            }
        }
    }

    pub(crate) fn mark(&mut self, mark: &Mark) -> NodeAnswer {
        let answer = self.node.answer(self.incarnation, &NodeRequest::Mark(mark.clone()));
        if answer == NodeAnswer::Marked {
            self.list = Some(mark.list);
        }
        answer
    }

    /// Carries a request out of a rebuild that goes by this list, and marks nobody for that.
    pub(crate) fn say_to(&mut self, list: u64, request: &Request) -> Option<Answer> {
        let (fresh, cluster, request) = (stamp(self.incarnation.0), ClusterId(0), request.clone());
        let request = NodeRequest::OfPartition { cluster, list, partition: 0, fresh, request };
        match self.node.answer(self.incarnation, &request) {
            NodeAnswer::OfPartition(answer) => {
                self.stands = self.looks();
                Some(answer)
            }
            _ => None,
        }
    }

    /// Whether it has the list of a rebuild.
    pub(crate) fn is_rebuilt(&self) -> bool {
        self.node.mark.as_ref().is_some_and(|mark| mark.rebuild.is_some())
    }

    /// The number of its list.
    pub(crate) fn list(&self) -> Option<u64> {
        self.list
    }

    /// Where it stands; `None` if it does not vote.
    pub(crate) fn stands(&self) -> Option<Stands> {
        self.stands
    }

    fn looks(&self) -> Option<Stands> {
        let highest = Ballot { round: u64::MAX, server: ServerId::default() };
        let Answer::Promised { stamp, accepted } = self.would_say(Request::Promise(highest))? else { return None };
        let promised = match self.would_say(Request::Promise(Ballot::default()))? {
            Answer::No(promised) => promised,
            _ => Ballot::default(),
        };
        Some(Stands { stamp, promised, accepted })
    }

    fn would_say(&self, request: Request) -> Option<Answer> {
        let (fresh, cluster, list) = (stamp(self.incarnation.0), ClusterId(0), self.list?);
        let request = NodeRequest::OfPartition { cluster, list, partition: 0, fresh, request };
        match self.node.clone().answer(self.incarnation, &request) {
            NodeAnswer::OfPartition(answer) => Some(answer),
            answer => unreachable!("{answer:?}"),
        }
    }

    /// The batch and the history that a voting node has.
    pub(crate) fn kept(&self) -> Option<(Position, Vec<u8>)> {
        let Stands { stamp, promised: ballot, .. } = self.stands()?;
        let read = Request::Read { stamp, ballot, from: Cursor::default() };
        let Answer::Piece { position, records, .. } = self.would_say(read)? else { return None };
        Some((position, records.first().map(|(_, history)| history.to_vec()).unwrap_or_default()))
    }

    pub(crate) fn lose(&mut self) {
        *self = Self::unknown(Incarnation(self.incarnation.0 + 1));
    }
}
