//! Nodes that are Redis servers.

use super::{
    ballot::ServerId,
    frame::PARCEL_BYTES_MAX,
    node::Ask,
    nodes::{Answers, Carrier, Lost},
    wire,
};
use crate::{
    node::{CONNECTIONS_PER_NODE, Connection, Header, Node, NodeError, Pushes, RedisUrl},
    sync::Mutex,
    telemetry::{metrics::StoreMetrics, traces::Traces},
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
    /// All parcels go over this one, likewise.
    parcels: Mutex<Option<Arc<Connection>>>,
}

impl RedisNode {
    /// The connection for parcels: not that for requests, where a snapshot would hold them up, unless it is the only
    /// one.
    fn parcels(&self) -> Result<Arc<Connection>, NodeError> {
        let of_requests = self.connection.lock().clone();
        let is_other = |it: &Arc<Connection>| of_requests.as_ref().is_none_or(|other| !Arc::ptr_eq(it, other));
        let mut kept = self.parcels.lock();
        if let Some(open) = kept.as_ref().filter(|it| it.closed().is_none() && is_other(it)) {
            return Ok(Arc::clone(open));
        }
        let mut others = (1..CONNECTIONS_PER_NODE).filter_map(|number| self.node.connection(number).ok());
        *kept = others.find(is_other);
        kept.clone().map_or_else(|| self.node.connection(1), Ok)
    }
}

/// The channel of parcels to a server.
fn channel(server: ServerId) -> String {
    server.0.iter().fold("fp:q:to:".to_owned(), |channel, byte| format!("{channel}{byte:02x}"))
}

impl RedisNodes {
    /// Nodes at these addresses, without connections: [`Self::run`] makes them.
    pub fn new<'a>(urls: impl IntoIterator<Item = &'a RedisUrl>) -> Self {
        let node = |url| {
            let node = Node::new(url, |_, _| Header::default());
            RedisNode { node, connection: Mutex::new(None), parcels: Mutex::new(None) }
        };
        Self(urls.into_iter().map(node).collect())
    }

    /// The same, measured by these metrics and these traces. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: &Arc<StoreMetrics>, traces: &Traces) -> Self {
        let measured = |it: RedisNode| RedisNode { node: it.node.measured(metrics.clone(), traces.clone()), ..it };
        Self(self.0.into_iter().map(measured).collect())
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
        let RedisNode { node, connection, .. } = &self.0[node];
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

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        if parcel.len() > PARCEL_BYTES_MAX {
            return Err(Lost(format!("a parcel of {} bytes is too large", parcel.len())));
        }
        let published = match self.0[node].parcels() {
            Ok(connection) => connection.publish(&channel(to), &parcel).await,
            Err(why) => Err(why),
        };
        match published {
            Ok(listeners) => Ok(listeners > 0),
            // Nothing was sent.
            Err(NodeError::Unavailable(_)) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.0[node].node.subscribe(&channel(me))
    }
}

impl From<NodeError> for Lost {
    fn from(why: NodeError) -> Self {
        Self(why.to_string())
    }
}
