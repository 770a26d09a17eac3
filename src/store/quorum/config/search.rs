//! Search for the present configuration of a cluster, starting from present or former members.

use super::discovery::{self, FindError};
use crate::store::quorum::{
    nodes::{
        addresses::{Connect, Connected},
        client::Lost,
    },
    paxos::node::Mark,
};
use std::sync::Arc;

/// Nodes that are asked, at most: members of several lists.
const NODES_MAX: usize = 32;

/// A search, with the connections that it has made.
#[derive(Debug)]
pub struct Search<'a, C: Connect> {
    connect: &'a C,
    /// The nodes to be asked.
    names: Vec<Arc<str>>,
    connected: Option<Connected<C::Nodes>>,
}

/// What each node said of its cluster.
#[derive(Clone, Debug)]
pub struct Sight {
    names: Vec<Arc<str>>,
    marks: Vec<Result<Option<Mark>, Lost>>,
}

impl Sight {
    /// What a node said, if it was asked.
    pub fn of(&self, member: &str) -> Option<&Result<Option<Mark>, Lost>> {
        let mut all = self.names.iter().zip(&self.marks);
        all.find(|(name, _)| &***name == member).map(|(_, mark)| mark)
    }

    /// The lists that nodes have.
    pub fn lists(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter_map(|mark| mark.as_ref().ok()?.as_ref())
    }

    /// The cluster's present list, where an operator says that these are, or were, its members.
    pub fn agreed(&self, given: &[Arc<str>]) -> Result<Mark, FindError> {
        discovery::agreed(&self.names, &self.marks, given)
    }
}

impl<'a, C: Connect> Search<'a, C> {
    /// A search that begins with the nodes of these names.
    pub fn new(connect: &'a C, names: &[Arc<str>]) -> Self {
        Self { connect, names: names.to_vec(), connected: None }
    }

    /// The nodes of the last look. Those that answered can be asked more.
    pub fn nodes(&self) -> Option<&Connected<C::Nodes>> {
        self.connected.as_ref()
    }

    /// Has this node asked as well.
    pub fn also(&mut self, name: &Arc<str>) {
        if !self.names.contains(name) {
            self.names.push(Arc::clone(name));
        }
    }

    /// Asks the nodes, and those that they tell of if it is not certain otherwise what the present list is.
    pub async fn look(&mut self) -> Result<Sight, FindError> {
        loop {
            let names = &self.names;
            let connected = match &mut self.connected {
                Some(connected) if connected.members == *names => connected,
                connected => connected.insert(Connected::to(self.connect, names).map_err(FindError::Access)?),
            };
            let marks = discovery::marks(&connected.nodes, names.len()).await;
            let sight = Sight { names: names.clone(), marks };
            let newest = sight.lists().max_by_key(|mark| mark.list);
            let present = discovery::present(&sight.names, &sight.marks);
            // The only node is always the one that was named.
            let is_open = |newest: &&Mark| newest.members.len() > 1 && present.as_ref() != Ok(*newest);
            let Some(newest) = newest.filter(is_open) else { return Ok(sight) };
            let others: Vec<_> = newest.members.iter().filter(|member| !names.contains(member)).cloned().collect();
            if others.is_empty() || names.len() + others.len() > NODES_MAX {
                return Ok(sight);
            }
            self.names.extend(others);
        }
    }

    /// Connections to these nodes: those of the search, if they are to the same.
    pub fn connected(&mut self, members: &[Arc<str>]) -> Result<Connected<C::Nodes>, FindError> {
        let is_same = |it: &mut Connected<C::Nodes>| {
            it.members.len() == members.len() && members.iter().all(|member| it.members.contains(member))
        };
        match self.connected.take_if(is_same) {
            Some(connected) => Ok(connected),
            None => Connected::to(self.connect, members).map_err(FindError::Access),
        }
    }
}
