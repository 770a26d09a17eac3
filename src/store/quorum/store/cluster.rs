//! The store of a server: finds the configuration at the nodes, and follows changes of it.

use super::QuorumStore;
use crate::{
    clock::Clock,
    domain::{command::Command, ids::Call, limits::Limits, name::LockName},
    store::{
        Answer, Notices, Page, Store, StoreError,
        chores::{Chore, DoChore},
        failures::measure,
        quorum::{
            config::{
                bootstrap::{CreateError, create_of_one},
                discovery::FindError,
                search::Search,
            },
            nodes::{
                addresses::{Connect, Connected},
                classic_prefix::{self, PrefixError},
                client::{Lost, NodeClient},
            },
            paxos::{node::Mark, wall_clocks::WallClocks},
        },
    },
    sync::{Mutex, RwLock},
    telemetry::metrics::{PartitionMetrics, StoreMetrics},
};
use futures_util::future::join;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// The target of what is logged here: it is of one Redis as well, which is no cluster.
const TARGET: &str = "fencepost::store";
/// The pause before the nodes are asked again which cluster they belong to.
const FIND_PAUSE: Duration = Duration::from_millis(500);
/// How long the only node has to belong to no cluster before this server makes one there. A server that knows a cluster
/// of it, of which the node has forgotten all, tells it much sooner.
const EMPTY_TIME: Duration = Duration::from_secs(3);
/// How often it is checked whether the store can be used, and how much this server leads.
const READY_PERIOD: Duration = Duration::from_millis(100);

type Present<C> = Arc<QuorumStore<<C as Connect>::Nodes>>;

/// A [`QuorumStore`] that finds out by itself which cluster its nodes belong to, and who its members are now. Until it
/// knows, it is unavailable. When a node is replaced, it goes on with the new one.
pub struct ClusterStore<C: Connect> {
    connect: C,
    /// The members that the operator named.
    given: Vec<Arc<str>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    notices: Arc<dyn Notices>,
    /// What the keys of classic clients begin with; empty if there are none.
    prefix: Arc<str>,
    /// Why this server cannot go by that.
    refused: RwLock<Option<PrefixError>>,
    store: RwLock<Option<Present<C>>>,
    /// Why there is none yet.
    why: Mutex<String>,
    up: watch::Sender<bool>,
    metrics: Arc<PartitionMetrics>,
    failures: Arc<StoreMetrics>,
}

impl<C: Connect> ClusterStore<C> {
    /// A store on these nodes, or on those that replaced them, which knows nothing yet: [`Self::run`] asks them.
    pub fn new(
        connect: C,
        given: Vec<Arc<str>>,
        clock: Arc<dyn Clock>,
        limits: &Limits,
        notices: Arc<dyn Notices>,
    ) -> Self {
        let (store, up) = (RwLock::new(None), watch::Sender::new(false));
        let why = Mutex::new(match given.len() {
            1 => "Redis has not said yet which store it keeps".to_owned(),
            _ => "no majority of the Redis servers has said yet which store it keeps".to_owned(),
        });
        let (limits, metrics, failures) = (limits.clone(), Arc::default(), Arc::default());
        let (prefix, refused) = ("".into(), RwLock::new(None));
        Self { connect, given, clock, limits, notices, prefix, refused, store, why, up, metrics, failures }
    }

    /// The same, sharing locks with classic clients unless the prefix is empty: the lock `NAME` is theirs as the key
    /// `prefix` + `NAME` of the only node. To be called before [`Self::run`].
    #[must_use]
    pub fn beside_classic(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: Arc<PartitionMetrics>, failures: Arc<StoreMetrics>) -> Self {
        Self { metrics, failures, ..self }
    }

    /// Finds the cluster, and then runs its store. Never ends; one task is to poll it for as long as the store is used.
    pub async fn run(&self) {
        let (connected, mark) = self.find(&self.given, &self.given, 0).await;
        self.fix_prefix(&connected.nodes, &mark).await;
        let (nodes, clock) = (connected.nodes.clone(), Arc::clone(&self.clock));
        let store = QuorumStore::new(nodes, mark, clock, &self.limits, Arc::clone(&self.notices));
        let store = store.measured(Arc::clone(&self.metrics)).beside_classic(&self.prefix);
        let chores = Arc::clone(&store.chores);
        join(self.follow(store, connected), chores.run(self)).await;
    }

    /// Waits until this server may go by its prefix of classic keys.
    async fn fix_prefix(&self, nodes: &C::Nodes, mark: &Mark) {
        while let Err(why) = classic_prefix::fix(nodes, mark, &self.prefix).await {
            match why {
                PrefixError::Lost(why) => tracing::debug!(target: TARGET, %why, "the classic prefix is not known yet"),
                why => self.refuse(why),
            }
            sleep(FIND_PAUSE).await;
        }
        *self.refused.write() = None;
    }

    fn refuse(&self, why: PrefixError) {
        let mut refused = self.refused.write();
        if refused.as_ref() != Some(&why) {
            tracing::error!(target: TARGET, %why, "the store cannot be used with this classic prefix");
            *refused = Some(why);
        }
    }

    /// Whether the store can be used, for health.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// The public id of the store, if this server knows it: servers with the same id share their locks. It stays the
    /// same when Redis loses its memory and a server gives it back.
    pub fn id(&self) -> Option<u128> {
        self.store().ok().map(|store| store.driver.mark.cluster.0)
    }

    /// Resolves when nothing that was posted is left to do.
    pub async fn chores_done(&self) {
        if let Ok(store) = self.store() {
            store.chores_done().await;
        }
    }

    /// Hands over what this server leads ([`QuorumStore::leave`]).
    pub async fn leave(&self) {
        if let Ok(store) = self.store() {
            store.leave().await;
        }
    }

    /// The number of the list of members that this server goes by, if it knows one.
    pub fn list_number(&self) -> Option<u64> {
        self.store().ok().map(|store| store.driver.mark.list)
    }

    /// Runs the store, and its successor when the cluster has a newer list. Never ends.
    async fn follow(&self, mut store: QuorumStore<C::Nodes>, mut connected: Connected<C::Nodes>) {
        loop {
            self.log_configuration(&store.driver.mark);
            let present = Arc::new(store);
            *self.store.write() = Some(Arc::clone(&present));
            let (next, mark) = tokio::select! {
                newer = self.newer_than(&present) => newer,
                // Never ends.
                _ = join(present.run_without_chores(), self.watch_readiness(&present)) => std::future::pending().await,
            };
            // By now nothing of the store before runs, and its connections close.
            drop(std::mem::replace(&mut connected, next));
            store = QuorumStore::succeed(&present, connected.nodes.clone(), mark);
        }
    }

    async fn watch_readiness(&self, store: &QuorumStore<C::Nodes>) {
        loop {
            let ready = store.is_ready();
            self.up.send_if_modified(|up| std::mem::replace(up, ready) != ready);
            sleep(READY_PERIOD).await;
        }
    }

    /// Waits until a majority of its members has a newer list than this store.
    async fn newer_than(&self, store: &QuorumStore<C::Nodes>) -> (Connected<C::Nodes>, Mark) {
        let mut newer = store.driver.newer();
        // It cannot fail: this store has the sender.
        let Ok(shown) =
            newer.wait_for(Option::is_some).await.map(|shown| shown.clone().unwrap_or(store.driver.mark.clone()))
        else {
            return std::future::pending().await;
        };
        tracing::info!(target: TARGET, list = shown.list, "redis node has a newer member list");
        self.find(&store.driver.mark.members, &shown.members, store.driver.mark.list + 1).await
    }

    /// The nodes of the cluster's list, which has at least this number. `given` were members at some time; these
    /// `names` are asked first.
    async fn find(&self, given: &[Arc<str>], names: &[Arc<str>], list_min: u64) -> (Connected<C::Nodes>, Mark) {
        let (mut search, mut logged) = (Search::new(&self.connect, names), None);
        let mut empty_since = None;
        loop {
            let agreed = search.look().await.and_then(|sight| sight.agreed(given));
            let found = match agreed {
                Ok(mark) if mark.list < list_min => {
                    Err(FindError::no_majority(mark.members.len(), &format!("a majority still has list {}", mark.list)))
                }
                Ok(mark) => search.connected(&mark.members).map(|connected| (connected, mark)),
                Err(why) => Err(why),
            };
            let is_empty = matches!(found, Err(FindError::NoCluster));
            let since = *empty_since.insert(empty_since.filter(|_| is_empty).unwrap_or_else(Instant::now));
            let found = match (found, given, search.nodes()) {
                (Err(FindError::NoCluster), [only], Some(Connected { nodes, .. })) => {
                    match self.make_first(nodes, only, since.elapsed()).await {
                        // Another server was first: it is found by the next look.
                        Ok(()) | Err(CreateError::InUse { .. }) => {
                            sleep(FIND_PAUSE).await;
                            continue;
                        }
                        Err(why) => Err(FindError::NotMade(why)),
                    }
                }
                (found, ..) => found,
            };
            if let Err(why) = &found {
                *self.why.lock() = why.to_string();
            }
            match found {
                Ok(found) => return found,
                Err(why) if logged.as_ref() == Some(&why) => {}
                Err(why) if list_min > 0 => {
                    let advice = "if a replacement or a rebuild was interrupted, repeat the command";
                    tracing::warn!(target: TARGET, %why, advice, "this server cannot use the newer member list yet");
                    logged = Some(why);
                }
                Err(why) => {
                    tracing::warn!(target: TARGET, %why, "the store cannot be used yet");
                    logged = Some(why);
                }
            }
            sleep(FIND_PAUSE).await;
        }
    }

    /// Makes the first store of the only node, when it has been empty for long enough. It may not be the first one.
    async fn make_first(&self, nodes: &C::Nodes, only: &Arc<str>, empty_for: Duration) -> Result<(), CreateError> {
        let no_clock = || CreateError::Lost { member: only.to_string(), why: Lost("no answer to TIME".into()) };
        let shown = nodes.wall_clock(0).await.ok_or_else(no_clock)?;
        let clocks = WallClocks::of(self.clock.now(), [shown]);
        let apart = clocks.apart();
        if EMPTY_TIME.max(apart) <= empty_for {
            create_of_one(nodes, only, clocks.tokens_above(empty_for)).await?;
            let advice = "if this Redis has a store with locks, servers use it with the --store-prefix of that store";
            tracing::info!(target: TARGET, member = %only, advice, "created a store without locks");
            return Ok(());
        }
        *self.why.lock() = if apart <= EMPTY_TIME {
            format!("{only} is empty: if it stays empty, the server creates its first store in a moment")
        } else {
            if empty_for < FIND_PAUSE {
                tracing::warn!(
                    differ_by = ?apart,
                    "redis is empty, and its clock differs from this server's: synchronize the clocks. The server \
                     waits for that long before it creates the first store, so that tokens rise"
                );
            }
            format!(
                "{only} is empty, and its clock differs from this server's by {} s: the server waits for that long \
                 before it creates the first store, so that tokens rise",
                apart.as_secs()
            )
        };
        Ok(())
    }

    /// Logs the configuration.
    fn log_configuration(&self, mark: &Mark) {
        let Mark { cluster, list, members, .. } = mark;
        let store = format_args!("{:032x}", cluster.0);
        if members.iter().all(|member| self.given.contains(member)) {
            tracing::info!(target: TARGET, %store, list, "found the store");
        } else {
            let (members, given) = (members.join(","), self.given.join(","));
            tracing::warn!(
                target: TARGET, %store, list, members, given,
                "the store has other Redis servers than --store names, because some were replaced: update --store"
            );
        }
    }

    fn store(&self) -> Result<Present<C>, StoreError> {
        let unknown = || match &*self.refused.read() {
            Some(why) => StoreError::Unavailable(why.to_string()),
            None => StoreError::Unavailable(self.why.lock().clone()),
        };
        self.store.read().clone().ok_or_else(unknown)
    }
}

impl<C: Connect> DoChore for ClusterStore<C> {
    async fn do_chore(&self, chore: &Chore) -> Result<(), StoreError> {
        self.store()?.do_chore(chore).await
    }
}

impl<C: Connect> Store for ClusterStore<C> {
    #[expect(clippy::manual_async_fn, reason = "an async function moves its parameters, and so copies the command")]
    fn run(&self, name: &LockName, command: Command) -> impl Future<Output = Answer> + Send {
        async move {
            let answer = match self.store() {
                Ok(store) => Store::run(&*store, name, command).await,
                Err(why) => Err(why),
            };
            measure(&self.failures, &answer);
            answer
        }
    }

    async fn renew_each(&self, renewals: Vec<(&LockName, Command)>) -> Vec<Answer> {
        let answers = match self.store() {
            Ok(store) => Store::renew_each(&*store, renewals).await,
            Err(why) => vec![Err(why); renewals.len()],
        };
        answers.iter().for_each(|answer| measure(&self.failures, answer));
        answers
    }

    fn post(&self, name: &LockName, command: Command) {
        // Without a store nothing was done that could be left behind.
        if let Ok(store) = self.store() {
            store.post(name, command);
        }
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.store().ok()?.ahead(name, call)
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.store()?.watch().await
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let page = async { self.store()?.list(prefix, from, limit).await }.await;
        measure(&self.failures, &page);
        page
    }
}
