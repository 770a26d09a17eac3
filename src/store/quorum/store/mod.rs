//! The store: takes commands and returns outcomes.

mod cluster;
mod forgotten;
mod handler;
mod heartbeat;
mod leaders;
mod leave;
mod list;
mod maintenance;
mod partitions;
mod reconfigure;
mod renewals;
mod router;
mod shedding;
mod single_node;
mod waiters;

pub use cluster::ClusterStore;

use crate::{
    clock::Clock,
    domain::{command::Command, ids::Call, limits::Limits, name::LockName},
    store::{
        Answer, Notices, Page, Store, StoreError, Timed,
        chores::{Chore, Chores, DoChore},
        quorum::{
            membership::{election::Election, member::Membership},
            nodes::{client::NodeClient, driver::Driver},
            paxos::{ballot::ServerId, node::Mark},
            proposer::{
                delivery::{Delivery, Exit},
                route::Route,
            },
        },
    },
    telemetry::metrics::PartitionMetrics,
};
use forgotten::Forgotten;
use futures_util::future::{join, join_all, join3, join4};
use partitions::{Part, Partitions};
use single_node::Loss;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

/// How long a partition may have no leader before the server is not ready: longer than a change of the leader takes.
const LEADERLESS_TIME_MAX: Duration = Duration::from_secs(5);

/// Locks in partitions. Each partition is led by a server and kept by the nodes.
pub struct QuorumStore<C> {
    /// The nodes, and what is on its way to them.
    driver: Driver<C>,
    /// The partitions, and this server's part in each.
    parts: Partitions,
    /// Which servers live, and whether this one leaves.
    membership: Membership,
    /// Where outcomes and notices go: to calls here, and to other servers.
    delivery: Delivery,
    /// Cleanups that no call waits for.
    chores: Arc<Chores>,
    clock: Arc<dyn Clock>,
    /// With several nodes: whether a majority of them has lost its memory.
    forgotten: Forgotten,
    /// With one node: what the last heartbeat showed, if the node has lost its memory.
    loss: watch::Sender<Option<Arc<Loss>>>,
}

impl<C: NodeClient> QuorumStore<C> {
    /// A store of the cluster that `mark` describes, which leads nothing yet: [`Self::run`] campaigns for the lead.
    pub fn new(client: C, mark: Mark, clock: Arc<dyn Clock>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        let me = ServerId(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 12]));
        let (nodes, partitions) = (mark.members.len(), mark.partitions);
        Self {
            driver: Driver::new(client, mark),
            parts: Partitions::new(partitions, me, nodes, limits.waiters_per_lock),
            membership: Membership::of(Election::new(me, nodes, partitions, Instant::now())),
            delivery: Delivery::new(me, notices),
            chores: Arc::default(),
            clock,
            forgotten: Forgotten::default(),
            loss: watch::Sender::new(None),
        }
    }

    /// The same, sharing locks with classic clients unless the prefix is empty. For one node, which has the same prefix
    /// for all servers. To be called before [`Self::run`].
    #[must_use]
    pub fn beside_classic(mut self, prefix: &str) -> Self {
        let prefix: Arc<str> = prefix.into();
        if !prefix.is_empty() {
            self.parts.iter_mut().for_each(|part| part.proposer.get_mut().beside_classic(&prefix));
        }
        self.driver.prefix = Some(prefix);
        self
    }

    /// Leads partitions, talks with the servers that lead the others, and does chores. Never ends; one task is to poll
    /// it for as long as the store is used.
    pub async fn run(&self) {
        join(self.run_without_chores(), self.chores.run(self)).await;
    }

    /// The same, where something else does the chores.
    async fn run_without_chores(&self) {
        let nodes = self.driver.nodes();
        let each = (0..nodes).map(|node| join3(self.driver.serve(node, self), self.heartbeat(node), self.hear(node)));
        let transport = self.delivery.transport.run(self.delivery.me, &self.driver.client, nodes);
        join4(join_all(each), transport, self.tend(), self.begin_memberships()).await;
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(mut self, metrics: Arc<PartitionMetrics>) -> Self {
        self.parts.metrics = metrics;
        self
    }

    /// Whether calls can be answered here: this server hears a majority of the nodes, and knows a leader of each
    /// partition, or did a moment ago. A change of a leader makes no server unready: all would be at the same time.
    pub fn is_ready(&self) -> bool {
        let now = self.clock.now();
        let is_heard = |part: &Part| part.proposer.lock().lead().is_none_or(|lead| lead.is_heard(now));
        let led_lately = self.parts.all_led_at.lock().is_some_and(|at| at.elapsed() < LEADERLESS_TIME_MAX);
        led_lately && self.membership.election.lock().hears_majority(Instant::now()) && self.parts.iter().all(is_heard)
    }

    /// Notes who leads, for health and metrics.
    fn measure(&self) {
        let (mut led, mut without) = (0, 0);
        for part in self.parts.iter() {
            if part.proposer.lock().lead().is_some() {
                led += 1;
            } else if part.leader.lock().is_none() {
                without += 1;
            }
        }
        if without == 0 {
            *self.parts.all_led_at.lock() = Some(Instant::now());
        }
        let peers = self.membership.election.lock().living(Instant::now()).count() - 1;
        self.report_forgotten();
        self.parts.metrics.led.set(led);
        self.parts.metrics.without_leader.set(without);
        self.parts.metrics.peers.set(i64::try_from(peers).unwrap_or(i64::MAX));
    }

    /// How many partitions this server leads.
    pub fn leads(&self) -> usize {
        self.parts.iter().filter(|part| part.proposer.lock().lead().is_some()).count()
    }

    /// Resolves when nothing that was posted is left to do.
    pub async fn chores_done(&self) {
        self.chores.done().await;
    }

    /// The ways out of a partition. To be taken before the clock is read for what it is used for.
    fn exit(&self, partition: usize) -> Exit<'_> {
        self.exit_since(partition, Instant::now())
    }

    /// The same for work that began before.
    fn exit_since(&self, partition: usize, since: Instant) -> Exit<'_> {
        let Delivery { me, notices, transport } = &self.delivery;
        let local_waiters = &self.parts[partition].local_waiters;
        Exit { me: *me, notices: &**notices, transport, local_waiters, since }
    }

    fn route(&self, name: &LockName) -> Route {
        Route::of(name, self.driver.mark.partitions)
    }
}

impl<C: NodeClient> DoChore for QuorumStore<C> {
    async fn do_chore(&self, Chore(name, command): &Chore) -> Result<(), StoreError> {
        self.execute(name, command).await.map(drop)
    }
}

impl<C: NodeClient> Store for QuorumStore<C> {
    #[expect(clippy::manual_async_fn, reason = "an async function moves its parameters, and so copies the command")]
    fn run(&self, name: &LockName, command: Command) -> impl Future<Output = Answer> + Send {
        async move {
            let refusal = match &command {
                // A partition's time is no date, so this server's clock bounds what a client may demand.
                Command::Acquire(acquire) => acquire.refusal(self.clock.now()),
                Command::Claim(call, _) => return self.claim(name, *call, &command).await,
                Command::GiveUp(call) => return self.give_up(name, *call, &command).await,
                _ => None,
            };
            match refusal {
                Some(refusal) => Ok(Timed::act(|| refusal.into())),
                None => self.execute(name, &command).await,
            }
        }
    }

    async fn renew_each(&self, renewals: Vec<(&LockName, Command)>) -> Vec<Answer> {
        self.renew_all(renewals).await
    }

    fn post(&self, name: &LockName, command: Command) {
        if let Command::DropCall(call) = command {
            self.drop_call(name, call);
        }
        self.chores.add(Chore(name.clone(), command));
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.ahead_of(name, call)
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.watch_all().await
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.list_page(prefix, from, limit).await
    }
}
