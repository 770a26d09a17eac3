//! Frames on their way to other servers, and commands that were forwarded and wait for their replies.
//!
//! Nothing is sent twice, and nothing waits for a server that does not answer: whether the work of a frame was done is
//! unknown then, and its caller decides.

mod outgoing;
#[cfg(test)]
mod tests;

use super::messages::{Done, Frame, HEARTBEAT_PERIOD, Refusal, Work, parcels};
use crate::{
    domain::{ids::ReplicaId, limits::PARCEL_REPLY_MAX, time::StoreTime},
    store::{
        Notice,
        lateness::{AGE_MAX, Shed},
        quorum::{
            nodes::client::NodeClient,
            paxos::ballot::{LeadId, ServerId},
        },
    },
    sync::{AtomicU64, AtomicUsize, Mutex, Notify, Ordering},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hashbrown::HashMap;
use outgoing::{Delivery, Outgoing};
use std::collections::{BTreeMap, BTreeSet};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use uuid::Uuid;

const _: () = assert!(
    PARCEL_REPLY_MAX.as_millis() <= AGE_MAX.as_millis(),
    "a silent node does not hold up an acquire until it is refused"
);

/// What a leader replied, and the partition's time then.
pub(crate) type Replied = (StoreTime, Result<Done, Refusal>);

/// Frames to and from other servers.
#[derive(Debug)]
pub(crate) struct Transport {
    outgoing: Mutex<Outgoing>,
    /// To how many servers something is under way.
    under_way: AtomicUsize,
    /// Wakes the task that sends.
    wake: Notify,
    /// What was forwarded and waits for a reply, by number.
    forwarded: Mutex<HashMap<u64, oneshot::Sender<Option<Replied>>>>,
    next_number: AtomicU64,
    /// What was not forwarded, because too much waits, since it was last asked.
    shed: NotForwarded,
    /// The node that parcels to each server go through, if it listens there; the first one, unless it is here.
    ways: Mutex<BTreeMap<ServerId, usize>>,
    /// How many notices each server has sent here, as far as they came.
    received: Mutex<HashMap<ServerId, Received>>,
    /// The other servers whose clients watch events, and the number of the first heartbeat that says so.
    watching: Mutex<BTreeMap<ServerId, u64>>,
}

/// What was refused here instead of being forwarded.
#[derive(Debug, Default)]
struct NotForwarded {
    late: AtomicU64,
    full: AtomicU64,
}

/// Notices that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many of the first ones are not to be delivered.
    pub(crate) outdated: usize,
    /// Some before them are missing.
    pub(crate) is_missing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Received {
    notices: u64,
    /// How many the sender said it had sent, one heartbeat ago.
    announced: u64,
    /// The number of that heartbeat, and when it was heard.
    heartbeat: u64,
    heard: Option<Instant>,
}

/// What was forwarded to a leader. Dropped, nobody waits for the reply any more.
#[derive(Debug)]
pub(crate) struct Forwarded<'a> {
    transport: &'a Transport,
    number: u64,
    reply: oneshot::Receiver<Option<Replied>>,
}

impl Drop for Forwarded<'_> {
    fn drop(&mut self) {
        self.transport.forwarded.lock().remove(&self.number);
    }
}

impl Forwarded<'_> {
    /// The reply. `None`: nobody listens where it was sent to, so it certainly did not arrive.
    pub(crate) async fn reply(mut self) -> Option<Replied> {
        // The sender is dropped only together with the transport.
        (&mut self.reply).await.unwrap_or(None)
    }
}

impl Transport {
    pub(crate) fn new() -> Self {
        Self {
            outgoing: Mutex::default(),
            under_way: AtomicUsize::new(0),
            wake: Notify::new(),
            forwarded: Mutex::default(),
            // A reply to an earlier process with this id cannot come: ids of servers are random.
            next_number: AtomicU64::new(1),
            shed: NotForwarded::default(),
            ways: Mutex::default(),
            received: Mutex::default(),
            watching: Mutex::default(),
        }
    }

    /// Sends a frame, as soon as the way is free. If too many wait, it is dropped, as if it had been lost on the way.
    pub(crate) fn send(&self, to: ServerId, frame: Frame) {
        self.outgoing.lock().add(to, frame);
        self.wake.notify_one();
    }

    /// Whether all that was to be sent has been.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.lock().is_empty() && self.under_way.load(Ordering::Acquire) == 0
    }

    /// Sends a notice.
    pub(crate) fn notify(&self, to: ServerId, notice: Notice) {
        self.outgoing.lock().add_notice(to, notice);
        self.wake.notify_one();
    }

    /// Counts a notice that is never sent.
    pub(crate) fn miss(&self, to: ServerId) {
        self.outgoing.lock().number(to);
    }

    /// Sends an event to all servers whose clients watch.
    pub(crate) fn notify_watching(&self, event: &Notice) {
        let watching = self.watching.lock();
        if watching.is_empty() {
            return;
        }
        let mut outgoing = self.outgoing.lock();
        for server in watching.keys() {
            outgoing.add_notice(*server, event.clone());
        }
        drop((watching, outgoing));
        self.wake.notify_one();
    }

    /// Whether clients of other servers watch events.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watching.lock().is_empty()
    }

    /// Notes whether clients of a server watch, as it was at this heartbeat of it. One that was seen late, after the
    /// server had asked for events, does not end what it did not know of.
    pub(crate) fn watches(&self, server: ServerId, heartbeat: u64, watches: bool) {
        let mut watching = self.watching.lock();
        let since = watching.get(&server).copied();
        if watches {
            watching.insert(server, since.unwrap_or(0).max(heartbeat));
        } else if since.is_some_and(|since| since < heartbeat) {
            watching.remove(&server);
        }
    }

    /// Forwards some work to the leader of a partition. If too much waits for that server, the work is refused here,
    /// and nothing is done.
    pub(crate) fn forward(
        &self,
        of: ServerId,
        LeadId { partition, ballot }: LeadId,
        not_after: StoreTime,
        work: Work,
    ) -> Forwarded<'_> {
        let (sender, reply) = oneshot::channel();
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.forwarded.lock().insert(number, sender);
        let frame = Frame::Forward { number, partition, ballot, not_after, work };
        let fits = self.outgoing.lock().add(of, frame);
        if fits {
            self.wake.notify_one();
        } else {
            self.shed.full.fetch_add(1, Ordering::Relaxed);
            self.replied(number, (StoreTime::default(), Err(Refusal::Overloaded)));
        }
        Forwarded { transport: self, number, reply }
    }

    /// What was refused here instead of being forwarded, since it was last asked.
    pub(crate) fn take_shed(&self) -> Shed {
        Shed { late: self.shed.late.swap(0, Ordering::Relaxed), full: self.shed.full.swap(0, Ordering::Relaxed) }
    }

    /// A server left what was forwarded to it without a reply. What goes through this node may not arrive, although the
    /// node takes the server for a listener: its connection may have vanished without a word.
    pub(crate) fn unanswered(&self, by: ServerId, nodes: usize) {
        let mut ways = self.ways.lock();
        let node = ways.entry(by).or_default();
        *node = (*node + 1) % nodes;
    }

    /// A parcel of a server came through this node. Others may fail that server, so what is sent to it goes the same
    /// way.
    pub(crate) fn came_through(&self, node: usize, from: ServerId) {
        self.ways.lock().insert(from, node);
    }

    /// Takes a reply.
    pub(crate) fn replied(&self, number: u64, replied: Replied) {
        if let Some(reply) = self.forwarded.lock().remove(&number) {
            // Nobody listens: the caller is gone.
            drop(reply.send(Some(replied)));
        }
    }

    /// How many notices were sent to each server, for the next heartbeat.
    pub(crate) fn notices_sent(&self) -> Vec<(ServerId, u64)> {
        self.outgoing.lock().notices()
    }

    /// Takes notices. The first ones of them are not to be delivered if newer ones came before them, through another
    /// node: they count as missing since then, and would undo what the newer ones told.
    pub(crate) fn received(&self, from: ServerId, first: u64, count: usize) -> Taken {
        let mut received = self.received.lock();
        let received = received.entry(from).or_default();
        let is_missing = first > received.notices + 1;
        let outdated = usize::try_from((received.notices + 1).saturating_sub(first)).unwrap_or(usize::MAX).min(count);
        received.notices = received.notices.max(first.saturating_add(count as u64).saturating_sub(1));
        Taken { outdated, is_missing }
    }

    /// Takes how many notices a server says it has sent by this heartbeat. True if some are missing that it had sent a
    /// heartbeat's period ago: younger ones may be on their way. (One goes to each node, so one may follow another at
    /// once.)
    pub(crate) fn announced(&self, from: ServerId, heartbeat: u64, sent: u64, now: Instant) -> bool {
        let mut received = self.received.lock();
        let received = received.entry(from).or_default();
        if heartbeat <= received.heartbeat
            || received.heard.is_some_and(|heard| now.duration_since(heard) < HEARTBEAT_PERIOD)
        {
            return false;
        }
        let is_missing = received.notices < received.announced;
        // They are missed once.
        received.notices = received.notices.max(received.announced);
        (received.announced, received.heartbeat, received.heard) = (sent, heartbeat, Some(now));
        is_missing
    }

    /// Forgets a server that has been dead for long. (One that is merely silent may be slow, and one that was never
    /// seen may be new.)
    pub(crate) fn forget(&self, server: ServerId) {
        self.outgoing.lock().forget(server);
        self.received.lock().remove(&server);
        self.ways.lock().remove(&server);
        self.watching.lock().remove(&server);
    }

    /// Sends what there is. Never ends. One parcel at a time to each server, so that they arrive in order while the
    /// nodes answer, and what comes meanwhile goes together.
    pub(crate) async fn run(&self, me: ServerId, client: &impl NodeClient, nodes: usize) {
        let mut under_way = FuturesUnordered::new();
        let mut busy = BTreeSet::new();
        loop {
            // Tasks that are ready add their frames first, so that they go together.
            tokio::task::yield_now().await;
            for (server, frames) in self.take(&busy) {
                busy.insert(server);
                under_way.push(async move {
                    self.deliver(me, server, frames, client, nodes).await;
                    server
                });
            }
            tokio::select! {
                Some(server) = under_way.next() => {
                    busy.remove(&server);
                    self.under_way.store(busy.len(), Ordering::Release);
                }
                () = self.wake.notified() => {}
            }
        }
    }

    /// What is to be sent to servers to which nothing is under way.
    fn take(&self, busy: &BTreeSet<ServerId>) -> Vec<(ServerId, Vec<Frame>)> {
        let mut outgoing = self.outgoing.lock();
        let free = outgoing.servers_but(busy);
        // Under the mutex: what is taken counts as under way at once.
        self.under_way.store(busy.len() + free.len(), Ordering::Release);
        let deliveries: Vec<_> = free.into_iter().map(|server| outgoing.take(server)).collect();
        drop(outgoing);
        let not_sent = |Delivery { to, frames, late }| {
            for number in late.iter().filter_map(number_of) {
                self.shed.late.fetch_add(1, Ordering::Relaxed);
                self.replied(number, (StoreTime::default(), Err(Refusal::Overloaded)));
            }
            (to, frames)
        };
        deliveries.into_iter().map(not_sent).collect()
    }

    async fn deliver(&self, me: ServerId, to: ServerId, frames: Vec<Frame>, client: &impl NodeClient, nodes: usize) {
        let numbers: Vec<u64> = frames.iter().filter_map(number_of).collect();
        let mut may_have_arrived = false;
        for parcel in parcels(me, frames) {
            may_have_arrived |= self.deliver_one(to, &parcel, client, nodes).await;
        }
        if !may_have_arrived {
            // Nobody listens, at any node: the callers need not wait.
            let mut forwarded = self.forwarded.lock();
            for number in numbers {
                if let Some(reply) = forwarded.remove(&number) {
                    drop(reply.send(None));
                }
            }
        }
    }

    /// Sends a parcel through the first node at which the server listens. False if it listens at none, so that the
    /// parcel certainly did not arrive.
    async fn deliver_one(&self, to: ServerId, parcel: &[u8], client: &impl NodeClient, nodes: usize) -> bool {
        let first = self.ways.lock().get(&to).copied().unwrap_or(0);
        for node in (0..nodes).map(|step| (first + step) % nodes) {
            let published = client.publish(node, to, parcel.to_vec());
            let published = if nodes == 1 { Ok(published.await) } else { timeout(PARCEL_REPLY_MAX, published).await };
            match published {
                Ok(Ok(true)) => return true,
                Ok(Ok(false)) => {}
                // It may have arrived, so it is not sent again. The next ones go through another node.
                Ok(Err(_)) | Err(_) => {
                    self.ways.lock().insert(to, (node + 1) % nodes);
                    return true;
                }
            }
        }
        false
    }
}

fn number_of(frame: &Frame) -> Option<u64> {
    if let Frame::Forward { number, .. } = frame { Some(*number) } else { None }
}

/// A server's name in the rules of locks.
pub(crate) fn replica_of(server: ServerId) -> ReplicaId {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(&server.0);
    ReplicaId(Uuid::from_bytes(bytes))
}

/// The server with this name in the rules of locks.
pub(crate) fn server_of(replica: ReplicaId) -> ServerId {
    ServerId(*replica.0.as_bytes().first_chunk().unwrap_or(&[0; 12]))
}
