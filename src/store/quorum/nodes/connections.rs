//! Connections to nodes that are Redis servers.

use super::{
    client::{Answers, Lost, NodeClient, PARCEL_BYTES_MAX},
    doctor,
    keys::Keys,
    layout,
    requirements::{Demands, of_primary},
    scripts,
};
use crate::{
    node::{CONNECTIONS_PER_NODE, Connection, Node, NodeError, NodeUrl, Pushes, doctor::Logged},
    store::quorum::paxos::{ballot::ServerId, node::NodeRequest},
    sync::Mutex,
    telemetry::metrics::StoreMetrics,
};
use futures_util::future::{join, join_all};
use std::{sync::Arc, time::Duration};

/// The pause before a node is asked again whose answers were lost.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The pause before a node that is refused is looked at again: an operator may have repaired it.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// How often one that is used is looked at again: an operator may have changed it.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// Connections to the nodes of a cluster.
#[derive(Debug)]
pub struct RedisNodes {
    nodes: Vec<RedisNode>,
    keys: Keys,
    allows_eviction: bool,
    /// Whether locks are shared with classic clients.
    shares: bool,
    metrics: Arc<StoreMetrics>,
}

#[derive(Debug)]
struct RedisNode {
    node: Node,
    /// All requests go over this one, so that they arrive in order, until it is closed.
    connection: Mutex<Option<Arc<Connection>>>,
    /// All parcels go over this one, likewise.
    parcels: Mutex<Option<Arc<Connection>>>,
    /// Why it is there and not used. It would vote with a part of what it was sent, if keys went missing.
    refused: Mutex<Option<String>>,
    /// The findings of the doctor that are in the log.
    logged: Logged,
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

    /// Why it cannot be asked.
    fn why_down(&self) -> Lost {
        if let Some(why) = self.refused.lock().clone() {
            return Lost(why);
        }
        match self.node.connection(0) {
            Err(NodeError::Unavailable(why)) => Lost(why),
            Err(why) => why.into(),
            Ok(_) => {
                Lost("it has not answered all questions about its settings yet: it or the network is slow".to_owned())
            }
        }
    }
}

impl RedisNodes {
    /// Nodes at these addresses, without connections: [`Self::run`] makes them.
    pub fn new(urls: impl IntoIterator<Item: Into<NodeUrl>>) -> Self {
        let node = |url: NodeUrl| {
            let node = Node::new(url);
            let (connection, parcels, refused) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
            RedisNode { node, connection, parcels, refused, logged: Logged::default() }
        };
        Self {
            nodes: urls.into_iter().map(Into::into).map(node).collect(),
            keys: Keys::default(),
            allows_eviction: false,
            shares: false,
            metrics: Arc::default(),
        }
    }

    /// The same for the store with these keys.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Uses nodes that may evict what they keep as well.
    #[must_use]
    pub fn allowing_eviction(self, allows_eviction: bool) -> Self {
        Self { allows_eviction, ..self }
    }

    /// Shares locks with classic clients if this is true.
    #[must_use]
    pub fn sharing(self, shares: bool) -> Self {
        Self { shares, ..self }
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: &Arc<StoreMetrics>) -> Self {
        let measured = |it: RedisNode| RedisNode { node: it.node.measured(metrics.clone()), ..it };
        let nodes = self.nodes.into_iter().map(measured).collect();
        Self { nodes, metrics: Arc::clone(metrics), ..self }
    }

    /// Keeps the connections up. Never ends; one task is to poll it for as long as the nodes are used.
    pub async fn run(&self) {
        join_all(self.nodes.iter().map(|it| join(it.node.run(), self.look_again(it)))).await;
    }
}

impl RedisNodes {
    /// Whether this Redis may be used; nothing, if it cannot be asked now. Logs what is found, and notes why not.
    async fn is_fit(&self, it: &RedisNode, connection: &Connection) -> Option<bool> {
        let is_only = self.nodes.len() == 1;
        let examined = Box::pin(doctor::examine_again(connection.probe(), &self.keys, is_only, self.shares));
        let findings = examined.await.ok()?;
        let findings = of_primary(findings);
        let demands = Demands { allows_eviction: self.allows_eviction };
        let news = it.logged.news(connection.incarnation(), &findings);
        news.for_each(|finding| demands.log(it.node.url(), finding));
        let refusal = demands.refusal(&findings);
        let is_fit = refusal.is_none();
        *it.refused.lock() = refusal;
        Some(is_fit)
    }

    /// Stops to use a node once it is not fit any more. Never ends.
    async fn look_again(&self, it: &RedisNode) {
        loop {
            tokio::time::sleep(LOOK_PERIOD).await;
            let present = it.connection.lock().clone();
            // One that cannot be asked now is as good as it was.
            if let Some(present) = present.filter(|it| it.closed().is_none())
                && self.is_fit(it, &present).await == Some(false)
            {
                *it.connection.lock() = None;
            }
        }
    }

    /// Why a request was not executed, and what an operator can do about data of somebody else.
    fn with_remedy(&self, why: &NodeError) -> String {
        match why {
            NodeError::Corrupt(_) => format!(
                "{why}; find out which program wrote it, then delete that key and the key {} of its partition N: \
                 running servers write it again",
                self.keys.header('N')
            ),
            _ => why.to_string(),
        }
    }

    /// The clock of a node that can be asked, in microseconds since 1970 began.
    ///
    /// # Errors
    ///
    /// There is no connection to it, or it does not tell.
    pub async fn clock(&self, node: usize) -> Result<u64, Lost> {
        let it = &self.nodes[node];
        let connection = it.connection.lock().clone().ok_or_else(|| it.why_down())?;
        match connection.probe().ask::<(u64, u64)>(&["TIME"]).await {
            Ok(Ok((seconds, micros))) => Ok(seconds.saturating_mul(1_000_000).saturating_add(micros)),
            Ok(Err(why)) => Err(Lost(format!("the node refused TIME: {why}"))),
            Err(why) => Err(Lost(why)),
        }
    }
}

impl NodeClient for RedisNodes {
    async fn send(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        let connection = self.nodes[node].connection.lock().clone();
        let connection = connection.filter(|connection| connection.closed().is_none());
        let connection = connection.ok_or_else(|| self.nodes[node].why_down())?;
        if requests.iter().any(|request| matches!(request, NodeRequest::Mark(_))) {
            layout::claim(&connection, &self.keys).await?;
        }
        let calls = scripts::calls(&self.keys, &connection.info().run_id, &requests)?;
        self.metrics.batch_size.observe(requests.len() as f64);
        let replies = connection.run_all(&calls).await;
        let mut answers = Vec::with_capacity(requests.len());
        for (call, reply) in calls.iter().zip(replies) {
            let each = call.answers(reply?)?;
            answers.extend(each.into_iter().map(|answer| answer.map_err(|why| self.with_remedy(&why))));
        }
        Ok(answers)
    }

    async fn up(&self, node: usize) {
        let it = &self.nodes[node];
        let mut up = it.node.up();
        loop {
            // An error means that the node is gone, and with it this store.
            let _ = up.wait_for(|up| *up).await;
            // Also between two tries at a node that is up and fails: nothing hammers it.
            tokio::time::sleep(RETRY_PAUSE).await;
            let Ok(present) = it.node.connection(0) else { continue };
            match self.is_fit(it, &present).await {
                Some(true) => {
                    *it.connection.lock() = Some(present);
                    return;
                }
                Some(false) => tokio::time::sleep(REFUSED_PAUSE).await,
                None => {}
            }
        }
    }

    async fn wall_clock(&self, node: usize) -> Option<u64> {
        self.clock(node).await.ok()
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        if parcel.len() > PARCEL_BYTES_MAX {
            return Err(Lost(format!("a message of {} bytes is too large", parcel.len())));
        }
        let published = match self.nodes[node].parcels() {
            Ok(connection) => connection.publish(&self.keys.channel(to), &parcel).await,
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
        self.nodes[node].node.subscribe(&self.keys.channel(me))
    }
}

impl From<NodeError> for Lost {
    fn from(why: NodeError) -> Self {
        Self(why.to_string())
    }
}
