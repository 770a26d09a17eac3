//! Requests on their way to the nodes.

use super::{
    QuorumStore,
    ballot::{ServerId, Stamp, TransferId},
    node::{Ask, Mark, Said},
    prefix,
    share::Tag,
};
use crate::{
    domain::limits::COMMANDS_BEGUN_AT_ONCE,
    node::Pushes,
    sync::{AtomicUsize, Notify, Ordering},
};
use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use std::{fmt, sync::Arc};
use uuid::Uuid;

/// Sends that may be under way to a node at a time. More would not make it faster, but batches smaller.
pub const UNDER_WAY_MAX: usize = 4;
/// Requests of one send, at most.
pub const REQUESTS_PER_SEND_MAX: usize = 256;
/// The bytes of keys and records from which on a send takes no further request. A node answers a send as a whole, and
/// what is under way has to be answered in time: a snapshot that went in one send never would be.
pub const SEND_FULL_FROM_BYTES: usize = 1024 * 1024;

/// Wakes the task of a node: there may be requests for it.
#[derive(Default)]
pub(super) struct Wake {
    notify: Notify,
    /// Commands that were submitted since the task last looked.
    submitted: AtomicUsize,
}

/// Brings requests to nodes and answers back, and parcels to servers.
pub trait Carrier: Send + Sync + 'static {
    /// Sends these to a node, in this order, and after what was sent to it before. (They may arrive in another order:
    /// that costs time, no more.) The answers come in the order of the requests; a request that the node could not
    /// carry out has the reason for its answer. The first poll sends them: dropped after that, they may arrive.
    fn carry(&self, node: usize, asks: Vec<Ask>) -> impl Future<Output = Result<Answers, Lost>> + Send;

    /// Resolves when the node can be asked. What was asked before may have been lost.
    fn up(&self, node: usize) -> impl Future<Output = ()> + Send;

    /// The wall clock of a node, in microseconds since 1970. None if it does not answer.
    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send;

    /// Sends a parcel to a server through a node. False: the node is away, or the server does not listen there, so it
    /// gets nothing. True is no promise that it does. Parcels through one node arrive in order, except while
    /// connections to it come and go. The first poll sends it: dropped after that, it may arrive.
    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send;

    /// The parcels that come to this server through a node. The first item, and one after each interruption, says that
    /// parcels may have been lost; there is none while the node is away. A second call ends what the first one gave.
    fn listen(&self, node: usize, me: ServerId) -> Pushes;
}

impl<C: Carrier> Carrier for Arc<C> {
    fn carry(&self, node: usize, asks: Vec<Ask>) -> impl Future<Output = Result<Answers, Lost>> + Send {
        C::carry(self, node, asks)
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        C::up(self, node)
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        C::wall_clock(self, node)
    }

    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send {
        C::publish(self, node, to, parcel)
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        C::listen(self, node, me)
    }
}

/// The answers to requests, or why there is none.
pub type Answers = Vec<Result<Said, String>>;

/// Requests whose answers did not come: each may have been carried out, or may yet be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node did not answer: {0}")]
pub struct Lost(pub String);

/// What was sent, to be matched with the answers.
type Sent = Vec<(usize, Tag)>;

impl<C: Carrier> QuorumStore<C> {
    /// Sends to one node what there is for it. Never ends.
    pub(super) async fn serve_node(&self, node: usize) {
        loop {
            self.carrier.up(node).await;
            // What was lost before does not matter any more.
            let _ = self.beat_lost[node].notified().now_or_never();
            for part in &self.parts {
                part.share.lock().reconnected(node);
            }
            let why = self.serve_connection(node).await;
            self.troubles.lost(node, &why.0);
            tracing::debug!(node, %why, "requests to a node were lost");
        }
    }

    /// Ends when answers were lost: nothing is known of what the node has then.
    async fn serve_connection(&self, node: usize) -> Lost {
        let mut under_way = FuturesUnordered::new();
        let mut first = 0;
        loop {
            if self.wake[node].submitted.swap(0, Ordering::Relaxed) < COMMANDS_BEGUN_AT_ONCE {
                // Tasks that are ready submit their commands first, so that they go together.
                tokio::task::yield_now().await;
            }
            let mut answered = None;
            while under_way.len() < UNDER_WAY_MAX && answered.is_none() {
                let (sent, asks) = self.collect(node, &mut first);
                if asks.is_empty() {
                    break;
                }
                under_way.push(self.carry(node, sent, asks));
                // Sends it, before anything else is sent.
                answered = under_way.next().now_or_never().flatten();
            }
            let answered = match answered {
                Some(answered) => answered,
                None => tokio::select! {
                    Some(answered) = under_way.next() => answered,
                    () = self.wake[node].notify.notified(), if under_way.len() < UNDER_WAY_MAX => continue,
                    () = self.beat_lost[node].notified(), if under_way.is_empty() => {
                        return Lost("nor to a beat".to_owned());
                    }
                },
            };
            if let Err(lost) = answered {
                return lost;
            }
        }
    }

    async fn carry(&self, node: usize, sent: Sent, asks: Vec<Ask>) -> Result<(), Lost> {
        let count = asks.len();
        let said = self.carrier.carry(node, asks).await?;
        if said.len() != count {
            return Err(Lost(format!("{} answers to {count} requests", said.len())));
        }
        self.troubles.answered(node);
        for ((at, tag), said) in sent.into_iter().zip(said) {
            match said {
                // Without that answer the node counts as silent in this partition. The others go on.
                Err(why) => {
                    self.troubles.refused(node, &format!("partition {at}: {why}"));
                    if self.parts[at].share.lock().breaks(node, self.clock.now()) {
                        tracing::warn!(node, partition = at, %why, "a node cannot carry out a request");
                    }
                }
                Ok(Said::OfPartition(answer)) => {
                    let mut share = self.parts[at].share.lock();
                    let exit = self.exit(at);
                    // Read under the mutex: a promise that another task has taken is before it, too.
                    let now = self.clock.now();
                    let led = share.lead().is_some();
                    if share.answered(node, tag, answer, now, &exit) {
                        self.begin_to_lead(at, &mut share, now, &exit);
                    } else if led && share.lead().is_none() {
                        self.metrics.leads_lost.inc();
                        // Who was refused by this leader asks the next one, which may be known already.
                        self.led_anew.notify_waiters();
                    }
                    self.ask_heir(at, &mut share);
                }
                Ok(Said::Unmarked) => return self.mark(node).await,
                Ok(refused) => return Err(self.refused(refused)),
            }
        }
        self.wake_all();
        Ok(())
    }

    /// Tells a node its cluster. What it was asked before is asked again, as if it had been lost.
    pub(super) async fn mark(&self, node: usize) -> Result<(), Lost> {
        let said = self.carrier.carry(node, vec![Ask::Mark(self.mark.clone())]).await?;
        match said.into_iter().next() {
            Some(Ok(Said::Marked)) => {
                if let Some(prefix) = &self.prefix
                    && let Err(why) = prefix::fix(&self.carrier, &self.mark, prefix).await
                {
                    tracing::error!(%why, "a node that forgot all has another classic prefix");
                }
                Err(Lost("the node was not marked yet".to_owned()))
            }
            Some(Ok(refused)) => Err(self.refused(refused)),
            Some(Err(why)) => {
                self.log_refusal(&why);
                Err(Lost(why))
            }
            None => Err(Lost("no answer to a mark".to_owned())),
        }
    }

    /// Without an operator that does not end: another store has taken the node.
    fn log_refusal(&self, why: &str) {
        if self.refusals.count(1).is_some() {
            let advice = "restart this server if the other store is the right one, else empty the node";
            tracing::error!(%why, advice, "a node does not serve the store of this server any more");
        }
    }

    /// Notes what a node has that does not serve this list.
    pub(super) fn refused(&self, said: Said) -> Lost {
        let lost = Lost(Refused(&said).to_string());
        if let Said::Other(_) = said {
            self.log_refusal(&lost.0);
        }
        if let Said::List(mark) = said {
            self.newer.send_if_modified(|newest| {
                let known = newest.as_ref().map_or(self.mark.list, |newest| newest.list);
                let is_newer = mark.cluster == self.mark.cluster && mark.list > known;
                if is_newer {
                    *newest = Some(mark);
                }
                is_newer
            });
        }
        lost
    }

    /// Takes requests for a node from the partitions, of each in turn. When a send is full, the next one begins with
    /// the partition after, so that none waits for the snapshot of another.
    fn collect(&self, node: usize, first: &mut usize) -> (Sent, Vec<Ask>) {
        let Mark { cluster, list, .. } = self.mark;
        let (mut sent, mut asks, mut bytes) = (Sent::new(), Vec::new(), 0);
        let begin = *first;
        let glance = self.clock.now();
        for at in (0..self.parts.len()).map(|step| (begin + step) % self.parts.len()) {
            let Ok(partition) = u16::try_from(at) else { break };
            let mut share = self.parts[at].share.lock();
            if !share.may_have_next(node, glance) {
                continue;
            }
            while let Some((tag, request)) = share.next(node, self.clock.now(), transfer) {
                bytes += request.bytes();
                sent.push((at, tag));
                asks.push(Ask::OfPartition { cluster, list, partition, fresh: fresh(), request });
                if asks.len() == REQUESTS_PER_SEND_MAX || bytes >= SEND_FULL_FROM_BYTES {
                    *first = at + 1;
                    return (sent, asks);
                }
            }
        }
        (sent, asks)
    }

    /// Looks for requests for all nodes.
    pub(super) fn wake_all(&self) {
        self.wake.iter().for_each(|wake| wake.notify.notify_one());
    }

    /// The same, after a command was submitted.
    pub(super) fn submitted(&self) {
        for wake in &self.wake {
            wake.submitted.fetch_add(1, Ordering::Relaxed);
            wake.notify.notify_one();
        }
    }
}

fn transfer() -> TransferId {
    TransferId(Uuid::new_v4().as_u128())
}

fn fresh() -> Stamp {
    Stamp(Uuid::new_v4().as_u128())
}

/// A node that serves another cluster, or a newer list.
struct Refused<'a>(&'a Said);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Said::Other(cluster) => write!(out, "the node keeps another store, {:032x}", cluster.0),
            Said::List(mark) => write!(out, "the node has list {}: {}", mark.list, mark.members.join(", ")),
            said => write!(out, "the node answered {said:?}"),
        }
    }
}
