//! A node with connections, for as long as a test keeps it.

#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::testing::node::{Node, NodeError, NodeUrl, Script, Value};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Adds 1 to a key.
pub(crate) static COUNT: Script = Script::new("#!lua\nreturn redis.call('INCR', KEYS[1])");

/// A node and the task that polls it, which ends with this.
pub(crate) struct Kept {
    pub(crate) node: Arc<Node>,
    pub(crate) task: JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kept {
    /// A node that begins to connect.
    pub(crate) fn new(url: impl Into<NodeUrl>) -> Self {
        let node = Arc::new(Node::new(url));
        let own = Arc::clone(&node);
        Self { node, task: tokio::spawn(async move { own.run().await }) }
    }

    /// Where its connections lead, each address once; the reason if there are none.
    pub(crate) fn addresses(&self) -> Result<Vec<String>, NodeError> {
        let each = (0..4).map(|number| Ok(self.node.connection(number)?.address().to_owned()));
        let mut addresses = each.collect::<Result<Vec<_>, _>>()?;
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    /// Counts its calls in Redis.
    pub(crate) async fn count(&self) -> Result<i64, NodeError> {
        self.count_at("{7}n").await
    }

    /// The same in this key.
    pub(crate) async fn count_at(&self, key: &str) -> Result<i64, NodeError> {
        match self.node.connection(0)?.run(&COUNT, &[key.into()], &[]).await? {
            Value::Int(number) => Ok(number),
            other => panic!("{other:?}"),
        }
    }
}
