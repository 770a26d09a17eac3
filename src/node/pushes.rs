//! Listens to one channel. What arrives is a hint; that hints were lost is told, because then everybody has to ask.

use super::{
    CHECK_PERIOD,
    backoff::{Backoff, jittered},
    dial::Dialer,
    handshake,
};
use deadpool_redis::redis::{PushInfo, PushKind, Value};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{Notify, mpsc};

/// Messages that may wait to be taken; at it they are lost, and the listener is told.
pub const PUSHES_BACKLOG_MAX: usize = 4_096;

/// What a listener gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// What somebody published on the channel.
    Message(Vec<u8>),
    /// Messages may have been lost: listening began, was interrupted, or the backlog was full.
    Resync,
}

/// The listener's end. Dropped, listening ends.
#[derive(Debug)]
pub struct Pushes {
    queue: mpsc::Receiver<Push>,
    lost: Arc<AtomicBool>,
}

impl Pushes {
    /// The next message; none when [`super::Links::pushes`] was called again, which ends this listener. Dropped, it
    /// takes nothing.
    pub async fn recv(&mut self) -> Option<Push> {
        if self.lost.swap(false, Ordering::AcqRel) {
            return Some(Push::Resync);
        }
        self.queue.recv().await
    }
}

/// The other end: who wants to hear what.
#[derive(Clone, Debug)]
pub(super) struct Order {
    channel: String,
    queue: mpsc::Sender<Push>,
    lost: Arc<AtomicBool>,
}

pub(super) fn order(channel: &str) -> (Order, Pushes) {
    let (sender, queue) = mpsc::channel(PUSHES_BACKLOG_MAX);
    let lost = Arc::new(AtomicBool::new(false));
    (Order { channel: channel.to_owned(), queue: sender, lost: Arc::clone(&lost) }, Pushes { queue, lost })
}

impl Order {
    fn deliver(&self, push: Push) {
        if self.queue.try_send(push).is_err() {
            self.lost.store(true, Ordering::Release);
            // Between the two the listener may have emptied the queue and gone to sleep. If this fails too, it has not.
            let _ = self.queue.try_send(Push::Resync);
        }
    }
}

/// Listens until nobody wants to hear it. Dropped, the connection closes.
pub(super) async fn keep(dialer: &Dialer, order: &Order) {
    let mut backoff = Backoff::new();
    while !order.queue.is_closed() {
        let mut has_begun = false;
        let listened = tokio::select! {
            listened = listen(dialer, order, &mut backoff, &mut has_begun) => listened,
            () = order.queue.closed() => return,
        };
        // That Redis is away is logged where the links are kept.
        if let Err(why) = listened {
            tracing::debug!(why, "not listening to redis");
        }
        // A try that failed loses nothing that was not lost, and told, before it.
        // mutant: gap told at each try
        if has_begun {
            order.deliver(Push::Resync);
        }
        backoff.wait().await;
    }
}

/// One connection's life.
async fn listen(dialer: &Dialer, order: &Order, backoff: &mut Backoff, has_begun: &mut bool) -> Result<(), String> {
    let ended = Arc::new(Notify::new());
    let mut connection = dialer.listener(sink(order.clone(), Arc::clone(&ended))).await?;
    handshake::greet(&mut connection).await?;
    connection.subscribe(order.channel.as_str()).await.map_err(|error| super::reply::why_not_connected(&error))?;
    backoff.reset();
    *has_begun = true;
    order.deliver(Push::Resync);
    loop {
        tokio::select! {
            () = ended.notified() => return Ok(()),
            () = tokio::time::sleep(jittered(CHECK_PERIOD)) => {}
        }
        // A peer that vanished sends no word of it; one that became a replica may hear nothing any more.
        handshake::greet(&mut connection).await?;
    }
}

/// Runs within the connection: it must not wait.
fn sink(order: Order, ended: Arc<Notify>) -> impl Fn(PushInfo) + Send + Sync + 'static {
    move |push| match push.kind {
        PushKind::Message => {
            if let Some(Value::BulkString(payload)) = push.data.into_iter().nth(1) {
                order.deliver(Push::Message(payload));
            }
        }
        PushKind::Disconnection | PushKind::Unsubscribe => ended.notify_one(),
        // Confirmations, and what was not asked for.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_backlog_is_told() {
        let (order, mut pushes) = order("c");
        for _ in 0..PUSHES_BACKLOG_MAX {
            order.deliver(Push::Message(b"kept".to_vec()));
        }
        order.deliver(Push::Message(b"lost".to_vec()));
        assert_eq!(pushes.recv().await, Some(Push::Resync), "before all that waits");
        for _ in 0..PUSHES_BACKLOG_MAX {
            assert_eq!(pushes.recv().await, Some(Push::Message(b"kept".to_vec())));
        }
        order.deliver(Push::Message(b"next".to_vec()));
        assert_eq!(pushes.recv().await, Some(Push::Message(b"next".to_vec())));
        drop(order);
        assert_eq!(pushes.recv().await, None);
    }
}
