//! The store: commands in, outcomes out.

use super::{
    ballot::ServerId,
    carried::Carried,
    courier::Courier,
    elect::{Election, Known},
    exit::Exit,
    node::Mark,
    nodes::{Carrier, Wake},
    one_node::Loss,
    share::{Place, Share},
    trouble::Troubles,
};
use crate::{
    clock::Clock,
    domain::{
        command::{Acquire, Command, Outcome},
        ids::Call,
        limits::Limits,
        name::LockName,
        outcome::AcquireOutcome,
    },
    store::{
        Answer, Notices, Page, Store, StoreError, Timed,
        chores::{Chore, Chores, DoChore},
    },
    sync::{AtomicU64, Mutex, Notify, Ordering},
    telemetry::{metrics::PartitionMetrics, seldom::Seldom},
};
use futures_util::future::{join, join_all, join3, join4};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

/// How long a partition may have no leader before the server is not ready: longer than a change of the leader takes.
const LEADERLESS_TIME_MAX: Duration = Duration::from_secs(5);

/// A node that refuses this cluster is logged so often.
pub(super) const REFUSAL_PERIOD: Duration = Duration::from_secs(60);

/// Locks in partitions. Each partition is led by a server and kept by the nodes.
pub struct QuorumStore<C> {
    pub(super) carrier: C,
    pub(super) mark: Mark,
    pub(super) me: ServerId,
    pub(super) parts: Box<[Part]>,
    pub(super) wake: Box<[Wake]>,
    /// Notified when a beat at the node was lost, for the task of a node to which nothing else is sent.
    pub(super) beat_lost: Box<[Notify]>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) notices: Arc<dyn Notices>,
    pub(super) courier: Arc<Courier>,
    pub(super) election: Mutex<Election>,
    /// Notified when a partition has another leader.
    pub(super) led_anew: Notify,
    /// Has this server beat at all nodes before it is time.
    pub(super) beat_soon: Notify,
    /// With one node: what the last beat showed, if the node has lost its memory.
    pub(super) loss: watch::Sender<Option<Arc<Loss>>>,
    /// The number of beats so far.
    pub(super) beats: Arc<AtomicU64>,
    /// Whether this server hands all over, and leads nothing any more.
    pub(super) leaves: Arc<AtomicBool>,
    /// Whether it has left.
    pub(super) left: AtomicBool,
    /// When each partition had a leader that this server knew.
    pub(super) all_led_at: Mutex<Option<Instant>>,
    pub(super) metrics: Arc<PartitionMetrics>,
    pub(super) chores: Arc<Chores>,
    pub(super) troubles: Troubles,
    /// Nodes that refuse this cluster.
    pub(super) refusals: Seldom,
    /// What the keys of classic clients begin with; empty if there are none. Nothing, where that is not known.
    pub(super) prefix: Option<Arc<str>>,
    /// The newest list that a node has shown, if it is newer than that of this store.
    pub(super) newer: watch::Sender<Option<Mark>>,
}

/// A partition, as far as this server has to do with it. Who locks several of these locks them in this order, and
/// [`QuorumStore::election`] after them.
pub(super) struct Part {
    pub(super) share: Mutex<Share>,
    /// The calls that wait through this server.
    pub(super) carried: Arc<Mutex<Carried>>,
    /// The other server that leads, if one is known.
    pub(super) leader: Mutex<Option<Known>>,
}

/// An acquire in flight. Dropped so, or with an unknown outcome, it is cleaned up.
struct Asking<'a> {
    chores: &'a Chores,
    name: &'a LockName,
    call: Call,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.chores.add(Chore(self.name.clone(), Command::DropCall(self.call)));
        }
    }
}

impl<C: Carrier> QuorumStore<C> {
    /// A store of the cluster that `mark` describes, which leads nothing yet: [`Self::run`] asks for the lead.
    pub fn new(carrier: C, mark: Mark, clock: Arc<dyn Clock>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        let me = ServerId(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 12]));
        let nodes = mark.members.len();
        let part = |number| Part {
            share: Mutex::new(Share::new(number, me, nodes, limits.waiters_per_lock)),
            carried: Arc::default(),
            leader: Mutex::default(),
        };
        Self {
            parts: (0..mark.partitions).map(part).collect(),
            wake: (0..nodes).map(|_| Wake::default()).collect(),
            beat_lost: (0..nodes).map(|_| Notify::new()).collect(),
            election: Mutex::new(Election::new(me, nodes, mark.partitions, Instant::now())),
            carrier,
            mark,
            me,
            clock,
            notices,
            courier: Arc::new(Courier::new()),
            led_anew: Notify::new(),
            beat_soon: Notify::new(),
            loss: watch::Sender::new(None),
            beats: Arc::default(),
            leaves: Arc::default(),
            left: AtomicBool::new(false),
            all_led_at: Mutex::default(),
            metrics: Arc::default(),
            chores: Arc::default(),
            troubles: Troubles::of(nodes),
            refusals: Seldom::new(REFUSAL_PERIOD),
            newer: watch::Sender::new(None),
            prefix: None,
        }
    }

    /// The same, sharing locks with classic clients unless the prefix is empty. For one node, which has the same prefix
    /// for all servers. To be called before [`Self::run`].
    #[must_use]
    pub fn beside_classic(mut self, prefix: &str) -> Self {
        let prefix: Arc<str> = prefix.into();
        if !prefix.is_empty() {
            self.parts.iter_mut().for_each(|part| part.share.get_mut().beside_classic(&prefix));
        }
        Self { prefix: Some(prefix), ..self }
    }

    /// Leads partitions, talks with the servers that lead the others, and does chores. Never ends; one task is to poll
    /// it for as long as the store is used.
    pub async fn run(&self) {
        join(self.run_without_chores(), self.chores.run(self)).await;
    }

    /// The same, where something else does the chores.
    pub(super) async fn run_without_chores(&self) {
        let nodes = 0..self.mark.members.len();
        let each = nodes.clone().map(|node| join3(self.serve_node(node), self.beat(node), self.hear(node)));
        let courier = self.courier.run(self.me, &self.carrier, nodes.len());
        join4(join_all(each), courier, self.tend(), self.begin_memberships()).await;
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: Arc<PartitionMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Whether calls can be answered here: this server hears a majority of the nodes, and knows a leader of each
    /// partition, or did a moment ago. A change of a leader makes no server unready: all would be at the same time.
    pub fn is_ready(&self) -> bool {
        let now = self.clock.now();
        let is_heard = |part: &Part| part.share.lock().lead().is_none_or(|lead| lead.is_heard(now));
        let led_lately = self.all_led_at.lock().is_some_and(|at| at.elapsed() < LEADERLESS_TIME_MAX);
        led_lately && self.election.lock().hears_majority(Instant::now()) && self.parts.iter().all(is_heard)
    }

    /// Notes who leads, for health and metrics.
    pub(super) fn measure(&self) {
        let (mut led, mut without) = (0, 0);
        for part in &self.parts {
            if part.share.lock().lead().is_some() {
                led += 1;
            } else if part.leader.lock().is_none() {
                without += 1;
            }
        }
        if without == 0 {
            *self.all_led_at.lock() = Some(Instant::now());
        }
        let peers = self.election.lock().living(Instant::now()).count() - 1;
        self.metrics.led.set(led);
        self.metrics.without_leader.set(without);
        self.metrics.peers.set(i64::try_from(peers).unwrap_or(i64::MAX));
    }

    /// How many partitions this server leads.
    pub fn leads(&self) -> usize {
        self.parts.iter().filter(|part| part.share.lock().lead().is_some()).count()
    }

    /// Resolves when nothing that was posted is left to do.
    pub async fn chores_done(&self) {
        self.chores.done().await;
    }

    /// To be taken before the clock is read for what it is used for.
    pub(super) fn exit(&self, partition: usize) -> Exit<'_> {
        let carried = &self.parts[partition].carried;
        let since = Instant::now();
        Exit { me: self.me, notices: &*self.notices, courier: &self.courier, carried, since }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    pub(super) fn place(&self, name: &LockName) -> Place {
        Place::of(name, self.mark.partitions)
    }

    async fn acquire(&self, name: &LockName, acquire: Acquire) -> Answer {
        // A partition's time is no date, so this server's clock bounds what a client may demand.
        if let Some(refusal) = acquire.refusal(self.clock.now()) {
            return Ok(Timed::act(|| refusal.into()));
        }
        let mut asking = Asking { chores: &self.chores, name, call: acquire.call, is_over: false };
        let answer = self.carry_out(name, Command::Acquire(acquire)).await;
        asking.is_over = answer.as_ref().map_or_else(StoreError::is_nothing_done, |_| true);
        answer
    }

    /// Claims. While the leader changes a claim may fail; the call waits on, and claims again when a leader is known.
    async fn claim(&self, name: &LockName, call: Call, claim: Command) -> Answer {
        let sent = Instant::now();
        match self.claim_once(name, call, claim).await {
            Err(StoreError::Unavailable(_) | StoreError::TooLate | StoreError::OutcomeUnknown(_))
                if self.parts[self.place(name).partition].carried.lock().claim_failed(call) =>
            {
                Ok(Timed { sent, outcome: AcquireOutcome::Queued.into() })
            }
            answer => answer,
        }
    }

    /// A leader that does not know the request may be a new one, to which it was not presented yet.
    async fn claim_once(&self, name: &LockName, call: Call, claim: Command) -> Answer {
        let answer = self.carry_out(name, claim).await?;
        if answer.outcome != Outcome::Acquire(AcquireOutcome::Unknown) {
            return Ok(answer);
        }
        let part = &self.parts[self.place(name).partition];
        let acquire = part.carried.lock().get(call).cloned();
        match acquire {
            Some(acquire) => self.carry_out(name, Command::Acquire(acquire)).await,
            None => Ok(answer),
        }
    }

    /// Gives up. To a leader that does not know the request the call may be about to be presented, or be on its way: it
    /// must not be granted the lock there when nobody waits any more.
    async fn give_up(&self, name: &LockName, call: Call) -> Answer {
        let answer = self.carry_out(name, Command::GiveUp(call)).await?;
        if answer.outcome == Outcome::Acquire(AcquireOutcome::Unknown) {
            self.post(name, Command::DropCall(call));
        }
        Ok(answer)
    }
}

impl<C: Carrier> DoChore for QuorumStore<C> {
    async fn do_chore(&self, Chore(name, command): &Chore) -> Result<(), StoreError> {
        self.carry_out(name, command.clone()).await.map(drop)
    }
}

impl<C: Carrier> Store for QuorumStore<C> {
    async fn run(&self, name: &LockName, command: Command) -> Answer {
        match command {
            Command::Acquire(acquire) => self.acquire(name, acquire).await,
            Command::Claim(call, _) => self.claim(name, call, command).await,
            Command::GiveUp(call) => self.give_up(name, call).await,
            command => self.carry_out(name, command).await,
        }
    }

    fn post(&self, name: &LockName, command: Command) {
        if let Command::DropCall(call) = command {
            self.parts[self.place(name).partition].carried.lock().drop_call(call, Instant::now());
        }
        self.chores.add(Chore(name.clone(), command));
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        let Place { partition, hash } = self.place(name);
        let part = &self.parts[partition];
        match part.share.lock().lead() {
            Some(lead) => lead.ahead(name, hash, call),
            None => part.carried.lock().ahead(call),
        }
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.watch_all().await
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.list_page(prefix, from, limit).await
    }
}
