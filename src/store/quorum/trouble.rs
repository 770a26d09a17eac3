//! Why nodes do not do what they are asked. Who waits for a majority is told, and so is the log.

use super::{QuorumStore, ballot::majority, nodes::Carrier};
use crate::{store::StoreError, sync::Mutex, telemetry::seldom::Seldom};
use std::time::Duration;
use tokio::time::Instant;

/// Troubles of a node are logged so often.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// A request that was refused is asked again within a second.
const REFUSED_LATELY: Duration = Duration::from_secs(3);

/// What is wrong with each node now, as far as this server knows.
#[derive(Debug)]
pub(super) struct Troubles(Box<[OfNode]>);

#[derive(Debug)]
struct OfNode {
    /// Nothing that was sent to it last was carried out.
    lost: Mutex<Option<String>>,
    /// Why it did not carry out a request lately, and when. It carries out others meanwhile.
    refused: Mutex<Option<(Instant, String)>>,
    seldom: Seldom,
}

impl Troubles {
    pub(super) fn of(nodes: usize) -> Self {
        let of_node = || OfNode { lost: Mutex::default(), refused: Mutex::default(), seldom: Seldom::new(LOG_PERIOD) };
        Self((0..nodes).map(|_| of_node()).collect())
    }

    /// A node answered nothing of what was sent to it.
    pub(super) fn lost(&self, node: usize, why: &str) {
        let it = &self.0[node];
        *it.lost.lock() = Some(why.to_owned());
        if it.seldom.count(1).is_some() {
            tracing::warn!(node, why, "a node does not do what it is asked");
        }
    }

    /// A node did not carry out a request.
    pub(super) fn refused(&self, node: usize, why: &str) {
        *self.0[node].refused.lock() = Some((Instant::now(), why.to_owned()));
    }

    /// A node answered.
    pub(super) fn answered(&self, node: usize) {
        self.0[node].lost.lock().take();
    }

    fn why(&self, node: usize) -> Option<String> {
        let it = &self.0[node];
        let lost = it.lost.lock().clone();
        let refused = it.refused.lock().clone().filter(|(at, _)| at.elapsed() < REFUSED_LATELY).map(|(_, why)| why);
        lost.or(refused)
    }
}

impl<C: Carrier> QuorumStore<C> {
    /// The same error with what is wrong with the nodes, if so few are left that no majority can answer.
    pub(super) fn explained(&self, error: StoreError) -> StoreError {
        let members = self.mark.members.iter().enumerate();
        let each: Vec<_> = members.filter_map(|(node, name)| Some((name, self.troubles.why(node)?))).collect();
        if self.mark.members.len() - each.len() >= majority(self.mark.members.len()) {
            return error;
        }
        let each: Vec<_> = each.into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
        let with = |text: String| format!("{text}; {}", each.join("; "));
        match error {
            StoreError::Unavailable(text) => StoreError::Unavailable(with(text)),
            StoreError::OutcomeUnknown(text) => StoreError::OutcomeUnknown(with(text)),
            other => other,
        }
    }
}
