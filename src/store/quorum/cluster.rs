//! The store of a cluster that its nodes tell of: what a server uses.

use super::{QuorumStore, find, nodes::Carrier};
use crate::{
    clock::Clock,
    domain::{command::Command, ids::Call, limits::Limits, name::LockName},
    store::{Answer, Notices, Page, Store, StoreError},
    telemetry::metrics::PartitionMetrics,
};
use futures_util::future::join;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// The pause before the nodes are asked again which cluster they belong to.
const FIND_PAUSE: Duration = Duration::from_millis(500);
/// How often it is checked whether the store can be used, and how much this server leads.
const READY_PERIOD: Duration = Duration::from_millis(100);

/// A [`QuorumStore`] that finds out by itself which cluster its nodes belong to. Until it knows, it is unavailable.
pub struct ClusterStore<C> {
    carrier: Arc<C>,
    members: Vec<Arc<str>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    notices: Arc<dyn Notices>,
    store: OnceLock<QuorumStore<Arc<C>>>,
    up: watch::Sender<bool>,
    metrics: Arc<PartitionMetrics>,
}

impl<C: Carrier> ClusterStore<C> {
    /// A store on these nodes, which knows nothing yet: [`Self::run`] asks them.
    pub fn new(
        carrier: Arc<C>,
        members: Vec<Arc<str>>,
        clock: Arc<dyn Clock>,
        limits: &Limits,
        notices: Arc<dyn Notices>,
    ) -> Self {
        let (store, up) = (OnceLock::new(), watch::Sender::new(false));
        Self { carrier, members, clock, limits: limits.clone(), notices, store, up, metrics: Arc::default() }
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: Arc<PartitionMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Finds the cluster, and then runs its store. Never ends; one task is to poll it for as long as the store is used.
    pub async fn run(&self) {
        let store = self.find().await;
        let watch = async {
            loop {
                let ready = store.is_ready();
                self.up.send_if_modified(|up| std::mem::replace(up, ready) != ready);
                sleep(READY_PERIOD).await;
            }
        };
        join(store.run(), watch).await;
    }

    /// Whether the store can be used, for health.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Resolves when nothing that was posted is left to do.
    pub async fn chores_done(&self) {
        if let Some(store) = self.store.get() {
            store.chores_done().await;
        }
    }

    /// Hands over what this server leads ([`QuorumStore::leave`]).
    pub async fn leave(&self) {
        if let Some(store) = self.store.get() {
            store.leave().await;
        }
    }

    async fn find(&self) -> &QuorumStore<Arc<C>> {
        let mut told = None;
        let mark = loop {
            let marks = find::marks(&self.carrier, self.members.len()).await;
            match find::agreed(&marks, &self.members) {
                Ok(mark) => break mark,
                Err(why) if told.as_ref() == Some(&why) => {}
                Err(why) => {
                    tracing::warn!(%why, "the store cannot be used yet");
                    told = Some(why);
                }
            }
            sleep(FIND_PAUSE).await;
        };
        tracing::info!(cluster = %format_args!("{:032x}", mark.cluster.0), list = mark.list, "the cluster is known");
        self.store.get_or_init(|| {
            let (carrier, clock) = (Arc::clone(&self.carrier), Arc::clone(&self.clock));
            QuorumStore::new(carrier, mark, clock, &self.limits, Arc::clone(&self.notices))
                .measured(Arc::clone(&self.metrics))
        })
    }

    fn store(&self) -> Result<&QuorumStore<Arc<C>>, StoreError> {
        let unknown =
            || StoreError::Unavailable("no majority of the nodes has said which cluster it belongs to".into());
        self.store.get().ok_or_else(unknown)
    }
}

impl<C: Carrier> Store for ClusterStore<C> {
    async fn run_unless(&self, name: &LockName, command: Command, stop: impl Future<Output = ()> + Send) -> Answer {
        self.store()?.run_unless(name, command, stop).await
    }

    fn post(&self, name: &LockName, command: Command) {
        // Without a store nothing was done that could be left behind.
        if let Some(store) = self.store.get() {
            store.post(name, command);
        }
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.store.get()?.ahead(name, call)
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.store()?.watch().await
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.store()?.list(prefix, from, limit).await
    }
}
