//! The driver of each node: takes requests from the partitions, sends them to the node, and passes the replies back.

mod pace;
#[cfg(test)]
mod tests;

use super::{
    classic_prefix,
    client::{Answers, Lost, NodeClient, SEND_FULL_FROM_BYTES},
    health::Health,
};
use crate::{
    domain::limits::COMMANDS_BEGUN_AT_ONCE,
    store::{
        content::Bytes,
        quorum::paxos::{
            acceptor::Seen,
            ballot::{ServerId, Stamp},
            message::{Answer, Request},
            node::{Mark, NodeAnswer, NodeRequest},
        },
    },
    sync::{AtomicUsize, Notify, Ordering},
    telemetry::seldom::Seldom,
};
use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use pace::Pace;
use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::watch;
use uuid::Uuid;

/// Requests of one send, at most.
const REQUESTS_PER_SEND_MAX: usize = 256;
/// A node that refuses this store is logged so often.
const REFUSAL_PERIOD: Duration = Duration::from_secs(60);

/// Where the requests to nodes come from, and where the answers go.
pub(crate) trait Partitions: Sync {
    /// What a request is for. It comes back with the answer.
    type Tag: Copy + Send;

    /// What a node was asked before is lost.
    fn reconnected(&self, node: usize);

    /// Gives `take` the requests for a node, with their partitions, beginning with partition `first`, until it returns
    /// false. Returns the partition to begin with next time.
    fn requests(&self, node: usize, first: usize, take: impl FnMut(usize, Self::Tag, Request) -> bool) -> usize;

    /// Gives `take` requests for a node that show others which partitions this server leads: one for each that it has
    /// written nothing in lately. They go with a heartbeat.
    fn idle_batches(&self, node: usize, take: impl FnMut(usize, Self::Tag, Request));

    /// A node answered a request.
    fn answered(&self, node: usize, partition: usize, tag: Self::Tag, answer: Answer);

    /// A node could not carry out a request of a partition. It counts as silent there, and is asked again after a
    /// while. Returns whether this is new.
    fn broke(&self, node: usize, partition: usize) -> bool;
}

/// What a heartbeat showed: how far each partition is, and the last payload of each server.
pub(crate) type Heartbeats = (Vec<Seen>, Vec<(ServerId, Bytes)>);

/// The nodes of a store, with what is on its way to them.
pub(crate) struct Driver<C> {
    pub(crate) client: C,
    pub(crate) mark: Mark,
    pub(crate) health: Health,
    wake: Box<[Wake]>,
    /// Whether the requests of partitions go to the node: not while it is away.
    is_served: Box<[AtomicBool]>,
    /// Notified when a heartbeat at the node was lost, for the task of a node to which nothing else is sent.
    heartbeat_lost: Box<[Notify]>,
    /// Nodes that refuse this store.
    refusals: Seldom,
    /// The newest list that a node has shown, if it is newer than that of this store.
    newer: watch::Sender<Option<Mark>>,
    /// What the keys of classic clients begin with; empty if there are none. Nothing, where that is not known.
    pub(crate) prefix: Option<Arc<str>>,
}

/// Wakes the task of a node: there may be requests for it.
#[derive(Default)]
struct Wake {
    notify: Notify,
    /// Commands that were submitted since the task last looked.
    submitted: AtomicUsize,
}

impl Wake {
    /// How many commands were submitted since this was last asked.
    fn submitted(&self) -> usize {
        self.submitted.swap(0, Ordering::Relaxed)
    }
}

/// What was sent, to be matched with the answers.
type Sent<T> = Vec<(usize, T)>;

impl<C: NodeClient> Driver<C> {
    pub(crate) fn new(client: C, mark: Mark) -> Self {
        let nodes = mark.members.len();
        Self {
            client,
            mark,
            health: Health::of(nodes),
            wake: (0..nodes).map(|_| Wake::default()).collect(),
            is_served: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            heartbeat_lost: (0..nodes).map(|_| Notify::new()).collect(),
            refusals: Seldom::new(REFUSAL_PERIOD),
            newer: watch::Sender::new(None),
            prefix: None,
        }
    }

    /// The number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.mark.members.len()
    }

    /// The newest list that a node shows, once there is a newer one than this store's.
    pub(crate) fn newer(&self) -> watch::Receiver<Option<Mark>> {
        self.newer.subscribe()
    }

    /// Sends to one node what there is for it. Never ends.
    pub(crate) async fn serve(&self, node: usize, partitions: &impl Partitions) {
        loop {
            self.client.up(node).await;
            // What was lost before does not matter any more.
            let _ = self.heartbeat_lost[node].notified().now_or_never();
            partitions.reconnected(node);
            self.is_served[node].store(true, Ordering::Relaxed);
            let why = self.serve_connection(node, partitions).await;
            self.is_served[node].store(false, Ordering::Relaxed);
            self.health.lost(node, &why.0);
            tracing::debug!(node, %why, "redis node did not answer requests");
        }
    }

    /// Ends when answers were lost: nothing is known of what the node has then.
    async fn serve_connection<P: Partitions>(&self, node: usize, partitions: &P) -> Lost {
        let (mut under_way, mut pace, mut first) = (FuturesUnordered::new(), Pace::default(), 0);
        loop {
            pace.waiting += self.wake[node].submitted();
            if pace.may_send() && pace.waiting < COMMANDS_BEGUN_AT_ONCE {
                // Tasks that are ready submit their commands first, so that they go together.
                tokio::task::yield_now().await;
                pace.waiting += self.wake[node].submitted();
            }
            let mut answered = None;
            while pace.may_send() && answered.is_none() {
                let (sent, requests) = self.collect(node, &mut first, partitions);
                if requests.is_empty() {
                    // What was submitted wrote nothing.
                    pace.waiting = 0;
                    break;
                }
                let size = pace.sends();
                under_way.push(self.send(node, sent, requests, partitions).map(|done| (size, done)));
                // Sends it, before anything else is sent.
                answered = under_way.next().now_or_never().flatten();
            }
            let (size, done) = match answered {
                Some(answered) => answered,
                None => tokio::select! {
                    Some(answered) = under_way.next() => answered,
                    () = self.wake[node].notify.notified(), if pace.has_room() => continue,
                    () = self.heartbeat_lost[node].notified(), if pace.is_idle() => {
                        return Lost("a heartbeat was lost".to_owned());
                    }
                },
            };
            if let Err(lost) = done {
                return lost;
            }
            pace.answered(size);
        }
    }

    async fn send<P: Partitions>(
        &self,
        node: usize,
        sent: Sent<P::Tag>,
        requests: Vec<NodeRequest>,
        partitions: &P,
    ) -> Result<(), Lost> {
        let answers = self.ask(node, requests).await?;
        self.health.answered(node);
        self.take_answers(node, sent, answers, partitions).await?;
        self.wake_all();
        Ok(())
    }

    /// As many answers as there are requests.
    async fn ask(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        let count = requests.len();
        let answers = self.client.send(node, requests).await?;
        if answers.len() != count {
            return Err(Lost(format!("the node sent {} answers to {count} requests", answers.len())));
        }
        Ok(answers)
    }

    async fn take_answers<P: Partitions>(
        &self,
        node: usize,
        sent: Sent<P::Tag>,
        answers: impl IntoIterator<Item = Result<NodeAnswer, String>>,
        partitions: &P,
    ) -> Result<(), Lost> {
        for ((at, tag), answer) in sent.into_iter().zip(answers) {
            match answer {
                // The other requests go on.
                Err(why) => {
                    self.health.refused(node, at, &why.to_string());
                    if partitions.broke(node, at) {
                        tracing::warn!(node, partition = at, %why, "redis node cannot process a request");
                    }
                }
                Ok(NodeAnswer::OfPartition(answer)) => partitions.answered(node, at, tag, answer),
                Ok(NodeAnswer::Unmarked) => return self.mark(node).await,
                Ok(refused) => return Err(self.refused(refused)),
            }
        }
        Ok(())
    }

    /// Sends a heartbeat to a node, and the batches that are due with it. None if it did not answer, or does not serve
    /// this store.
    pub(crate) async fn heartbeat(
        &self,
        node: usize,
        heartbeat: NodeRequest,
        partitions: &impl Partitions,
    ) -> Option<Heartbeats> {
        let (mut sent, mut requests) = (Sent::new(), vec![heartbeat]);
        // While a node is away, each try would write empty batches, until the node needed a snapshot.
        if self.is_served[node].load(Ordering::Relaxed) {
            partitions.idle_batches(node, |at, tag, request| self.add(&mut sent, &mut requests, (at, tag, request)));
        }
        let answers = match self.ask(node, requests).await {
            Ok(answers) => answers,
            Err(why) => {
                self.health.lost(node, &why.0);
                self.heartbeat_lost[node].notify_one();
                return None;
            }
        };
        let mut answers = answers.into_iter();
        let shown = answers.next()?;
        let batches = self.take_answers(node, sent, answers, partitions).await;
        if batches.is_err() {
            // The partitions ask again.
            self.heartbeat_lost[node].notify_one();
        }
        match shown {
            Ok(NodeAnswer::Heartbeats { partitions, servers }) => {
                self.health.answered(node);
                return Some((partitions, servers));
            }
            // With batches, it has been marked for them.
            Ok(NodeAnswer::Unmarked) if batches.is_ok() => {
                // Where nobody leads, nobody else would find out. The next heartbeat follows in a moment, whether it is
                // marked or not.
                let _ = self.mark(node).await;
            }
            Ok(refused) => {
                self.refused(refused);
            }
            Err(why) => self.health.lost(node, &why),
        }
        None
    }

    /// Tells a node its cluster. What it was asked before is asked again, as if it had been lost.
    async fn mark(&self, node: usize) -> Result<(), Lost> {
        let answers = self.client.send(node, vec![NodeRequest::Mark(self.mark.clone())]).await?;
        match answers.into_iter().next() {
            Some(Ok(NodeAnswer::Marked)) => {
                if let Some(prefix) = &self.prefix
                    && let Err(why) = classic_prefix::fix(&self.client, &self.mark, prefix).await
                {
                    tracing::error!(%why, "redis node lost its data and now has another classic prefix");
                }
                Err(Lost("the node was empty; this server told it which store it belongs to".to_owned()))
            }
            Some(Ok(refused)) => Err(self.refused(refused)),
            Some(Err(why)) => {
                self.log_refusal(&why);
                Err(Lost(why))
            }
            None => Err(Lost("the node did not confirm its store".to_owned())),
        }
    }

    /// Without an operator that does not end: another store has taken the node.
    fn log_refusal(&self, why: &str) {
        if self.refusals.count(1).is_some() {
            let advice = "restart this server if the other store is the right one, else empty the node";
            tracing::error!(%why, advice, "redis node no longer serves the store of this server");
        }
    }

    /// Notes what a node has that does not serve this list.
    fn refused(&self, answer: NodeAnswer) -> Lost {
        let lost = Lost(Refused(&answer).to_string());
        if let NodeAnswer::Other(_) = answer {
            self.log_refusal(&lost.0);
        }
        if let NodeAnswer::List(mark) = answer {
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
    fn collect<P: Partitions>(
        &self,
        node: usize,
        first: &mut usize,
        partitions: &P,
    ) -> (Sent<P::Tag>, Vec<NodeRequest>) {
        let (mut sent, mut requests, mut bytes) = (Sent::new(), Vec::new(), 0);
        *first = partitions.requests(node, *first, |at, tag, request| {
            bytes += request.bytes();
            self.add(&mut sent, &mut requests, (at, tag, request));
            requests.len() < REQUESTS_PER_SEND_MAX && bytes < SEND_FULL_FROM_BYTES
        });
        (sent, requests)
    }

    fn add<T>(&self, sent: &mut Sent<T>, requests: &mut Vec<NodeRequest>, (at, tag, request): (usize, T, Request)) {
        let Mark { cluster, list, .. } = self.mark;
        let Ok(partition) = u16::try_from(at) else { return };
        sent.push((at, tag));
        requests.push(NodeRequest::OfPartition { cluster, list, partition, fresh: fresh(), request });
    }

    /// Looks for requests for all nodes.
    pub(crate) fn wake_all(&self) {
        self.wake.iter().for_each(|wake| wake.notify.notify_one());
    }

    /// The same, after so many commands were submitted.
    pub(crate) fn submitted(&self, commands: usize) {
        for wake in &self.wake {
            wake.submitted.fetch_add(commands, Ordering::Relaxed);
            wake.notify.notify_one();
        }
    }
}

fn fresh() -> Stamp {
    Stamp(Uuid::new_v4().as_u128())
}

/// A node that serves another cluster, or a newer list.
struct Refused<'a>(&'a NodeAnswer);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NodeAnswer::Other(cluster) => write!(out, "the node keeps another store, {:032x}", cluster.0),
            NodeAnswer::List(mark) => write!(out, "the node has list {}: {}", mark.list, mark.members.join(", ")),
            answer => write!(out, "the node answered {answer:?}"),
        }
    }
}
