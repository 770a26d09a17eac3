//! Nodes that are Redis servers.

use super::{
    node::Ask,
    nodes::{Answers, Carrier, Lost},
    wire,
};
use crate::{
    node::{Connection, Header, Node, NodeError, RedisUrl},
    sync::Mutex,
};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};

/// The pause before a node is asked again whose answers were lost.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Connections to the nodes of a cluster.
#[derive(Debug)]
pub struct RedisNodes(Vec<RedisNode>);

#[derive(Debug)]
struct RedisNode {
    node: Node,
    /// All requests go over this one, so that they arrive in order, until it is closed.
    connection: Mutex<Option<Arc<Connection>>>,
}

impl RedisNodes {
    /// Nodes at these addresses, without connections: [`Self::run`] makes them.
    pub fn new<'a>(urls: impl IntoIterator<Item = &'a RedisUrl>) -> Self {
        let node = |url| {
            let node = Node::new(url, |_, _| Header::default());
            RedisNode { node, connection: Mutex::new(None) }
        };
        Self(urls.into_iter().map(node).collect())
    }

    /// Keeps the connections up. Never ends; one task is to poll it for as long as the nodes are used.
    pub async fn run(&self) {
        join_all(self.0.iter().map(|it| it.node.run())).await;
    }
}

impl Carrier for RedisNodes {
    async fn carry(&self, node: usize, asks: Vec<Ask>) -> Result<Answers, Lost> {
        let connection = self.0[node].connection.lock().clone();
        let connection = connection.filter(|connection| connection.closed().is_none());
        let connection = connection.ok_or_else(|| Lost("the connection to the node was closed".to_owned()))?;
        let calls = wire::calls(&connection.info().run_id, &asks)?;
        let replies = connection.run_all(calls.iter().map(|call| call.script.clone()).collect()).await;
        let mut said = Vec::with_capacity(asks.len());
        for (call, reply) in calls.iter().zip(replies) {
            let each = call.said(reply?)?;
            said.extend(each.into_iter().map(|answer| answer.map_err(|why| why.to_string())));
        }
        Ok(said)
    }

    async fn up(&self, node: usize) {
        let RedisNode { node, connection } = &self.0[node];
        let mut up = node.up();
        loop {
            // An error means that the node is gone, and with it this store.
            let _ = up.wait_for(|up| *up).await;
            // Also between two tries at a node that is up and fails: nothing hammers it.
            tokio::time::sleep(RETRY_PAUSE).await;
            if let Ok(present) = node.connection(0) {
                *connection.lock() = Some(present);
                return;
            }
        }
    }
}

impl From<NodeError> for Lost {
    fn from(why: NodeError) -> Self {
        Self(why.to_string())
    }
}
