//! The subscription to one channel. Messages may be lost; then the subscriber is told so, and has to ask for what it
//! may have missed.

use super::{
    CHECK_PERIOD,
    backoff::{Backoff, jittered},
    dial::Dialer,
    reply::connect_error,
};
use deadpool_redis::redis::{self, PushInfo, PushKind, Value, aio::MultiplexedConnection};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::{Notify, mpsc};

/// Messages that may wait for the subscriber. More are lost, and the subscriber learns that.
pub const PUSHES_BACKLOG_MAX: usize = 4_096;
/// Their bytes, likewise. A message is taken from Redis as soon as it comes, so that it waits here and not there: Redis
/// closes a subscription for which it keeps more than 32 MiB, or more than 8 MiB for a minute
/// (`client-output-buffer-limit pubsub`).
pub const PUSHES_BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One item of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// A message that was published on the channel.
    Message(Vec<u8>),
    /// Messages may have been lost: the subscription began, was interrupted, or its backlog was full.
    Resync,
}

/// The subscriber's end. Dropped, the subscription ends.
#[derive(Debug)]
pub struct Pushes {
    backlog: mpsc::Receiver<Push>,
    shared: Arc<Shared>,
}

/// The sender's end of a subscription.
#[derive(Clone, Debug)]
pub struct PushSender {
    backlog: mpsc::Sender<Push>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// A message was lost since the subscriber looked last.
    lost: AtomicBool,
    /// Bytes of the messages that wait.
    bytes: AtomicUsize,
}

impl Pushes {
    /// Both ends of a subscription that no Redis is behind.
    pub fn channel() -> (PushSender, Self) {
        let (sender, backlog) = mpsc::channel(PUSHES_BACKLOG_MAX);
        let shared = Arc::<Shared>::default();
        (PushSender { backlog: sender, shared: Arc::clone(&shared) }, Self { backlog, shared })
    }

    /// The next item; none when [`super::Node::subscribe`] was called again, which ends this subscription. Dropped, it
    /// takes nothing.
    pub async fn recv(&mut self) -> Option<Push> {
        if self.shared.lost.swap(false, Ordering::AcqRel) {
            return Some(Push::Resync);
        }
        let push = self.backlog.recv().await?;
        self.shared.bytes.fetch_sub(push.bytes(), Ordering::Relaxed);
        Some(push)
    }
}

impl Push {
    fn bytes(&self) -> usize {
        if let Self::Message(message) = self { message.len() } else { 0 }
    }
}

impl PushSender {
    /// Hands an item to the subscriber, at once. If it has no room for it, the item is lost, and the subscriber learns
    /// that.
    pub fn deliver(&self, push: Push) {
        let Shared { lost, bytes } = &*self.shared;
        let more = push.bytes();
        let fits = bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= PUSHES_BACKLOG_BYTES_MAX;
        if !fits || self.backlog.try_send(push).is_err() {
            bytes.fetch_sub(more, Ordering::Relaxed);
            lost.store(true, Ordering::Release);
            // The subscriber may have emptied the backlog before the flag was set, and sleep now: this wakes it. If the
            // backlog is still full, it does not sleep.
            let _ = self.backlog.try_send(Push::Resync);
        }
    }

    /// Whether the subscriber is gone.
    pub fn is_closed(&self) -> bool {
        self.backlog.is_closed()
    }
}

/// The connection's end.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    channel: String,
    sender: PushSender,
}

/// Both ends of a subscription to a channel.
pub(super) fn subscription(channel: &str) -> (Subscription, Pushes) {
    let (sender, pushes) = Pushes::channel();
    (Subscription { channel: channel.to_owned(), sender }, pushes)
}

/// Keeps the subscription up until its subscriber is gone. Dropped, the connection closes.
pub(super) async fn keep_subscribed(dialer: &Dialer, subscription: &Subscription) {
    let mut backoff = Backoff::new();
    while !subscription.sender.is_closed() {
        let mut has_begun = false;
        let listened = tokio::select! {
            listened = listen(dialer, subscription, &mut backoff, &mut has_begun) => listened,
            () = subscription.sender.backlog.closed() => return,
        };
        // An outage of Redis is logged for the connections that carry commands.
        if let Err(why) = listened {
            tracing::debug!(why, "subscription to redis ended");
        }
        // An attempt that failed loses no more than was reported before it.
        if has_begun {
            subscription.sender.deliver(Push::Resync);
        }
        backoff.wait().await;
    }
}

/// Listens until its connection ends.
async fn listen(
    dialer: &Dialer,
    subscription: &Subscription,
    backoff: &mut Backoff,
    has_begun: &mut bool,
) -> Result<(), String> {
    let ended = Arc::new(Notify::new());
    let mut made = dialer.connect_outside(sink(subscription.sender.clone(), Arc::clone(&ended))).await?;
    let mut primary = dialer.finder.changes();
    dialer.greet(&mut made).await?;
    subscribe(&mut made.connection, &subscription.channel, dialer.is_in_cluster()).await?;
    backoff.reset();
    *has_begun = true;
    subscription.sender.deliver(Push::Resync);
    loop {
        // Where it is not the primary any more, nothing is published.
        dialer.finder.still_names(&made.address)?;
        tokio::select! {
            () = ended.notified() => return Ok(()),
            () = primary.changed() => continue,
            () = tokio::time::sleep(jittered(CHECK_PERIOD)) => {}
        }
        // A peer that vanished closes nothing; a Redis that became a replica may get no messages any more.
        dialer.greet(&mut made).await?;
    }
}

/// The command that publishes. In a Redis Cluster messages stay with the slot of their channel, and the members do not
/// send them to each other.
pub(super) fn publish(in_cluster: bool) -> &'static str {
    if in_cluster { "SPUBLISH" } else { "PUBLISH" }
}

async fn subscribe(connection: &mut MultiplexedConnection, channel: &str, in_cluster: bool) -> Result<(), String> {
    let subscribed = if in_cluster {
        // Its one confirmation is its answer.
        let mut command = redis::cmd("SSUBSCRIBE");
        command.arg(channel);
        connection.send_packed_command(&command).await.and_then(Value::extract_error).map(drop)
    } else {
        connection.subscribe(channel).await
    };
    subscribed.map_err(|error| connect_error(&error))
}

/// Takes the pushes of a connection. It runs within that connection's task: it must not wait.
fn sink(sender: PushSender, ended: Arc<Notify>) -> impl Fn(PushInfo) + Send + Sync + 'static {
    move |push| match push.kind {
        PushKind::Message | PushKind::SMessage => {
            if let Some(Value::BulkString(payload)) = push.data.into_iter().nth(1) {
                sender.deliver(Push::Message(payload));
            }
        }
        // Where its slot has moved to another member, Redis ends the subscription.
        PushKind::Disconnection | PushKind::Unsubscribe | PushKind::SUnsubscribe => ended.notify_one(),
        // Confirmations, and pushes that nobody asked for.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &[u8]) -> Push {
        Push::Message(text.to_vec())
    }

    #[tokio::test]
    async fn a_full_backlog_is_reported() {
        let (sender, mut pushes) = Pushes::channel();
        for _ in 0..PUSHES_BACKLOG_MAX {
            sender.deliver(message(b"kept"));
        }
        sender.deliver(message(b"lost"));
        assert_eq!(pushes.recv().await, Some(Push::Resync), "before all that waits");
        for _ in 0..PUSHES_BACKLOG_MAX {
            assert_eq!(pushes.recv().await, Some(message(b"kept")));
        }
        sender.deliver(message(b"next"));
        assert_eq!(pushes.recv().await, Some(message(b"next")));
        drop(sender);
        assert_eq!(pushes.recv().await, None);
    }

    #[tokio::test]
    async fn the_bytes_of_the_backlog_are_bounded() {
        const HALF: usize = PUSHES_BACKLOG_BYTES_MAX / 2;
        let (sender, mut pushes) = Pushes::channel();
        let half = || Push::Message(vec![7; HALF]);
        // The bytes of the next item; `None` of a resync.
        let mut next = async || match pushes.recv().await.unwrap() {
            Push::Message(message) => Some(message.len()),
            Push::Resync => None,
        };
        sender.deliver(half());
        sender.deliver(half());
        sender.deliver(message(b"lost"));
        assert_eq!(next().await, None, "before all that waits");
        assert_eq!(next().await, Some(HALF));
        sender.deliver(half());
        sender.deliver(message(b"lost"));
        assert_eq!(next().await, None);
        // Each loss has left an item that wakes the subscriber.
        for expected in [Some(HALF), None, Some(HALF), None] {
            assert_eq!(next().await, expected);
        }
        sender.deliver(half());
        sender.deliver(half());
        assert_eq!(next().await, Some(HALF), "all bytes were given back");
        assert_eq!(next().await, Some(HALF));
    }
}
