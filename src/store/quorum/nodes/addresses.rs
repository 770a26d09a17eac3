//! Connections to nodes by the names that the configuration has for them.

use super::{client::NodeClient, connections::RedisNodes, keys::Keys};
use crate::{node::NodeUrl, telemetry::metrics::StoreMetrics};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Makes connections to nodes by their names.
pub trait Connect: Send + Sync + 'static {
    /// Brings requests to the nodes.
    type Nodes: NodeClient + Clone;

    /// The nodes with these names, in this order, and what keeps the connections to them up: it never ends, and one
    /// task is to poll it. The error says what an operator has to do.
    fn connect(&self, members: &[Arc<str>])
    -> Result<(Self::Nodes, impl Future<Output = ()> + Send + 'static), String>;
}

/// Nodes with the names by which they were reached. Dropped, it closes the connections.
#[derive(Debug)]
pub struct Connected<N> {
    /// The nodes.
    pub nodes: N,
    /// Their names, in the same order.
    pub members: Vec<Arc<str>>,
    /// Ends the task when it is dropped.
    _runs: JoinSet<()>,
}

impl<N> Connected<N> {
    /// Makes the connections, from a task of their own.
    pub fn to(connect: &impl Connect<Nodes = N>, members: &[Arc<str>]) -> Result<Self, String> {
        let (nodes, run) = connect.connect(members)?;
        let mut runs = JoinSet::new();
        runs.spawn(run);
        Ok(Self { nodes, members: members.to_vec(), _runs: runs })
    }

    /// The number of the node with this name.
    pub fn number_of(&self, member: &str) -> Option<usize> {
        self.members.iter().position(|it| &**it == member)
    }
}

/// The Redis servers that an operator named, or the only one by its Sentinels. What a list of members says is an
/// address only, so a node that was not named is entered as the named ones are.
#[derive(Clone, Debug)]
pub struct Addresses {
    given: Vec<NodeUrl>,
    keys: Keys,
    allows_eviction: bool,
    shares: bool,
    metrics: Arc<StoreMetrics>,
}

impl Addresses {
    /// These servers.
    pub fn new(given: impl IntoIterator<Item: Into<NodeUrl>>) -> Self {
        let given = given.into_iter().map(Into::into).collect();
        Self { given, keys: Keys::default(), allows_eviction: false, shares: false, metrics: Arc::default() }
    }

    /// The same, for the store with this name.
    #[must_use]
    pub fn of_store(self, store_prefix: &str) -> Self {
        Self { keys: Keys::of(store_prefix), ..self }
    }

    /// The same, where nodes that may evict are used if this is true.
    #[must_use]
    pub fn allowing_eviction(self, allows_eviction: bool) -> Self {
        Self { allows_eviction, ..self }
    }

    /// The same, whose locks are shared with classic clients if this is true.
    #[must_use]
    pub fn sharing(self, shares: bool) -> Self {
        Self { shares, ..self }
    }

    /// The same, whose connections are measured by these metrics.
    #[must_use]
    pub fn measured(self, metrics: &Arc<StoreMetrics>) -> Self {
        Self { metrics: Arc::clone(metrics), ..self }
    }

    /// What a list of members calls the servers that were given.
    pub fn members(&self) -> Vec<Arc<str>> {
        self.given.iter().map(|url| url.address().into()).collect()
    }

    /// The URL of a member.
    pub fn of(&self, member: &str) -> Result<NodeUrl, String> {
        if let Some(given) = self.given.iter().find(|url| url.address() == member) {
            return Ok(given.clone());
        }
        match self.given.split_first() {
            Some((NodeUrl::Redis(first), rest))
                if rest.iter().all(|url| matches!(url, NodeUrl::Redis(url) if url.is_entered_like(first))) =>
            {
                first.at(member).map(NodeUrl::Redis)
            }
            _ => Err(format!(
                "{member} is a node of the store and not in --store, whose URLs differ in user, password or TLS, so \
                 the server cannot tell which of them to use: add the node to --store"
            )),
        }
    }
}

impl Connect for Addresses {
    type Nodes = Arc<RedisNodes>;

    fn connect(
        &self,
        members: &[Arc<str>],
    ) -> Result<(Self::Nodes, impl Future<Output = ()> + Send + 'static), String> {
        let url = |member: &Arc<str>| Ok(self.of(member)?.tagged(self.keys.store_prefix()));
        let urls = members.iter().map(url).collect::<Result<Vec<NodeUrl>, String>>()?;
        let nodes = RedisNodes::new(&urls)
            .with_keys(self.keys.clone())
            .allowing_eviction(self.allows_eviction)
            .sharing(self.shares);
        let nodes = Arc::new(nodes.measured(&self.metrics));
        let runs = Arc::clone(&nodes);
        Ok((nodes, async move { runs.run().await }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::RedisUrl;

    #[test]
    fn a_node_that_was_not_named_is_entered_as_the_others_are() {
        let url = |text: &str| RedisUrl::parse(text).unwrap();
        let same = Addresses::new(vec![url("redis://:s3cret@a"), url("redis://:s3cret@b"), url("redis://:s3cret@c/1")]);
        assert_eq!(same.members(), ["a:6379".into(), "b:6379".into(), Arc::from("c:6379/1")]);
        assert_eq!(same.of("c:6379/1").unwrap().to_string(), "redis://:***@c:6379/1");
        assert_eq!(same.of("d:7000").unwrap().to_string(), "redis://:***@d:7000");
        let differ = Addresses::new(vec![url("redis://:s3cret@a"), url("redis://:other@b"), url("redis://:s3cret@c")]);
        assert_eq!(differ.of("b:6379").unwrap().to_string(), "redis://:***@b:6379");
        let said = differ.of("d:7000").unwrap_err();
        assert!(said.starts_with("d:7000 is a node of the store and not in --store"), "{said}");
    }
}
