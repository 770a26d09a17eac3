//! The partitions from the view of this server.

use super::{QuorumStore, shedding::SHED_LOG_PERIOD};
use crate::{
    store::quorum::{
        membership::known::Known,
        nodes::{client::NodeClient, driver},
        paxos::{
            ballot::{ServerId, TransferId},
            message::{Answer, Request},
        },
        proposer::{
            local_waiters::LocalWaiters,
            role::{Proposer, Tag},
        },
    },
    sync::{Mutex, Notify},
    telemetry::{metrics::PartitionMetrics, seldom::Seldom},
};
use std::{ops::Deref, sync::Arc};
use tokio::time::Instant;
use uuid::Uuid;

/// A partition, as far as this server has to do with it. A task that locks several of these mutexes locks them in this
/// order, and that of the election after them.
pub(super) struct Part {
    pub(super) proposer: Mutex<Proposer>,
    /// The calls that wait on this server.
    pub(super) local_waiters: Arc<Mutex<LocalWaiters>>,
    /// The other server that leads, if one is known.
    pub(super) leader: Mutex<Option<Known>>,
}

/// All partitions of the store.
pub(super) struct Partitions {
    each: Box<[Part]>,
    /// Notified when a partition has another leader.
    pub(super) led_anew: Notify,
    /// When each partition had a leader that this server knew.
    pub(super) all_led_at: Mutex<Option<Instant>>,
    pub(super) metrics: Arc<PartitionMetrics>,
    pub(super) shed_log: Seldom,
}

impl Partitions {
    /// Partitions in which this server stands by.
    pub(super) fn new(partitions: u16, me: ServerId, nodes: usize, waiters_max: usize) -> Self {
        let part = |number| Part {
            proposer: Mutex::new(Proposer::new(number, me, nodes, waiters_max)),
            local_waiters: Arc::default(),
            leader: Mutex::default(),
        };
        Self::of((0..partitions).map(part).collect(), Arc::default())
    }

    pub(super) fn of(each: Box<[Part]>, metrics: Arc<PartitionMetrics>) -> Self {
        let shed_log = Seldom::new(SHED_LOG_PERIOD);
        Self { each, led_anew: Notify::new(), all_led_at: Mutex::default(), metrics, shed_log }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.each.iter_mut()
    }
}

impl Deref for Partitions {
    type Target = [Part];

    fn deref(&self) -> &[Part] {
        &self.each
    }
}

impl<C: NodeClient> driver::Partitions for QuorumStore<C> {
    type Tag = Tag;

    fn reconnected(&self, node: usize) {
        self.parts.iter().for_each(|part| part.proposer.lock().reconnected(node));
    }

    fn requests(&self, node: usize, first: usize, mut take: impl FnMut(usize, Tag, Request) -> bool) -> usize {
        for at in (0..self.parts.len()).map(|step| (first + step) % self.parts.len()) {
            let mut proposer = self.parts[at].proposer.lock();
            if !proposer.may_have_next(node) {
                continue;
            }
            if let Some(lead) = proposer.lead().filter(|lead| lead.has_acquires()) {
                // Leases count from before the time of their turns.
                let exit = self.exit(at);
                lead.admit_acquires(self.clock.now(), &exit);
            }
            while let Some((tag, request)) = proposer.next(node, self.clock.now(), transfer) {
                if !take(at, tag, request) {
                    return at + 1;
                }
            }
        }
        first
    }

    fn idle_batches(&self, node: usize, mut take: impl FnMut(usize, Tag, Request)) {
        for (at, part) in self.parts.iter().enumerate() {
            if let Some((tag, request)) = part.proposer.lock().idle_batch(node, self.clock.now()) {
                take(at, tag, request);
            }
        }
    }

    fn answered(&self, node: usize, at: usize, tag: Tag, answer: Answer) {
        let mut proposer = self.parts[at].proposer.lock();
        let exit = self.exit(at);
        // Read under the mutex: a promise that another task has taken is before it, too.
        let now = self.clock.now();
        let led = proposer.lead().is_some();
        if proposer.answered(node, tag, answer, now, &exit) {
            self.begin_to_lead(at, &mut proposer, now, &exit);
        } else if led && proposer.lead().is_none() {
            self.parts.metrics.leads_lost.inc();
            // A call that was refused by this leader asks the next one, which may be known already.
            self.parts.led_anew.notify_waiters();
        }
        self.send_hand_over(at, &mut proposer);
    }

    fn broke(&self, node: usize, at: usize) -> bool {
        self.parts[at].proposer.lock().breaks(node, self.clock.now())
    }
}

fn transfer() -> TransferId {
    TransferId(Uuid::new_v4().as_u128())
}
