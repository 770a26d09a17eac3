//! The subscription to one channel. Messages may be lost; then the subscriber is told so, and has to ask for what it
//! may have missed.

use super::{
    CHECK_PERIOD,
    backoff::{Backoff, jittered},
    dial::Dialer,
    handshake,
    reply::connect_error,
};
use deadpool_redis::redis::{PushInfo, PushKind, Value};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{Notify, mpsc};

/// Messages that may wait for the subscriber. More are lost, and the subscriber learns that.
pub const PUSHES_BACKLOG_MAX: usize = 4_096;

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
    lost: Arc<AtomicBool>,
}

impl Pushes {
    /// The next item; none when [`super::Node::subscribe`] was called again, which ends this subscription. Dropped, it
    /// takes nothing.
    pub async fn recv(&mut self) -> Option<Push> {
        if self.lost.swap(false, Ordering::AcqRel) {
            return Some(Push::Resync);
        }
        self.backlog.recv().await
    }
}

/// The connection's end.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    channel: String,
    backlog: mpsc::Sender<Push>,
    lost: Arc<AtomicBool>,
}

/// Both ends of a subscription.
pub(super) fn subscription(channel: &str) -> (Subscription, Pushes) {
    let (sender, backlog) = mpsc::channel(PUSHES_BACKLOG_MAX);
    let lost = Arc::new(AtomicBool::new(false));
    let subscription = Subscription { channel: channel.to_owned(), backlog: sender, lost: Arc::clone(&lost) };
    (subscription, Pushes { backlog, lost })
}

impl Subscription {
    fn deliver(&self, push: Push) {
        if self.backlog.try_send(push).is_err() {
            self.lost.store(true, Ordering::Release);
            // The subscriber may have emptied the backlog before the flag was set, and sleep now: this wakes it. If the
            // backlog is still full, it does not sleep.
            let _ = self.backlog.try_send(Push::Resync);
        }
    }
}

/// Keeps the subscription up until its subscriber is gone. Dropped, the connection closes.
pub(super) async fn keep_subscribed(dialer: &Dialer, subscription: &Subscription) {
    let mut backoff = Backoff::new();
    while !subscription.backlog.is_closed() {
        let mut has_begun = false;
        let listened = tokio::select! {
            listened = listen(dialer, subscription, &mut backoff, &mut has_begun) => listened,
            () = subscription.backlog.closed() => return,
        };
        // An outage of Redis is logged for the connections that carry commands.
        if let Err(why) = listened {
            tracing::debug!(why, "not listening to redis");
        }
        // An attempt that failed loses no more than was reported before it.
        // mutant: gap told at each try
        if has_begun {
            subscription.deliver(Push::Resync);
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
    let mut connection = dialer.connect_outside(sink(subscription.clone(), Arc::clone(&ended))).await?;
    handshake::greet(&mut connection).await?;
    connection.subscribe(subscription.channel.as_str()).await.map_err(|error| connect_error(&error))?;
    backoff.reset();
    *has_begun = true;
    subscription.deliver(Push::Resync);
    loop {
        tokio::select! {
            () = ended.notified() => return Ok(()),
            () = tokio::time::sleep(jittered(CHECK_PERIOD)) => {}
        }
        // A peer that vanished closes nothing; a Redis that became a replica may get no messages any more.
        handshake::greet(&mut connection).await?;
    }
}

/// Takes the pushes of a connection. It runs within that connection's task: it must not wait.
fn sink(subscription: Subscription, ended: Arc<Notify>) -> impl Fn(PushInfo) + Send + Sync + 'static {
    move |push| match push.kind {
        PushKind::Message => {
            if let Some(Value::BulkString(payload)) = push.data.into_iter().nth(1) {
                subscription.deliver(Push::Message(payload));
            }
        }
        PushKind::Disconnection | PushKind::Unsubscribe => ended.notify_one(),
        // Confirmations, and pushes that nobody asked for.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_backlog_is_reported() {
        let (subscription, mut pushes) = subscription("c");
        for _ in 0..PUSHES_BACKLOG_MAX {
            subscription.deliver(Push::Message(b"kept".to_vec()));
        }
        subscription.deliver(Push::Message(b"lost".to_vec()));
        assert_eq!(pushes.recv().await, Some(Push::Resync), "before all that waits");
        for _ in 0..PUSHES_BACKLOG_MAX {
            assert_eq!(pushes.recv().await, Some(Push::Message(b"kept".to_vec())));
        }
        subscription.deliver(Push::Message(b"next".to_vec()));
        assert_eq!(pushes.recv().await, Some(Push::Message(b"next".to_vec())));
        drop(subscription);
        assert_eq!(pushes.recv().await, None);
    }
}
