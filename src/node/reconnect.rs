//! Keeps the connections of a node up: makes them at the start, checks them, and replaces those that failed.

use super::{
    CHECK_PERIOD, Connection, Node,
    backoff::{Backoff, LONGEST, jittered},
    dial::{Pooled, discard},
};
use crate::telemetry::metrics::RoundTrip;
use std::sync::Arc;
use tokio::time::Instant;

/// A connection in its slot. Dropped, it empties the slot, so that no connection stays there without a keeper.
struct Installed<'a> {
    node: &'a Node,
    slot: usize,
    connection: Arc<Connection>,
}

impl<'a> Installed<'a> {
    fn new(node: &'a Node, slot: usize, connection: Arc<Connection>) -> Self {
        *node.connections[slot].write() = Some(Arc::clone(&connection));
        node.metrics.connections.inc();
        node.report_up(&connection);
        Self { node, slot, connection }
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        *self.node.connections[self.slot].write() = None;
        self.node.metrics.connections.dec();
        match self.connection.closed() {
            Some(why) => self.node.report_down(why),
            // Nothing is wrong with the connection, the server stops: no news for the log.
            None => {
                self.node.mark_down("the server is stopping");
            }
        }
    }
}

/// Why a connection was given up.
enum End {
    /// It does not answer. The pool checks it once more before it makes another.
    Silent,
    /// It answers, and leads to the wrong address.
    Wrong,
}

/// Keeps a connection in this slot. Never ends. Dropped, it empties the slot.
pub(super) async fn keep_connected(node: &Node, slot: usize) {
    let mut backoff = Backoff::new();
    let mut primary = node.dialer.finder.changes();
    let mut lost = 0;
    loop {
        match node.dialer.connect(&node.metrics).await {
            Ok((mut pooled, connection)) => {
                node.metrics.reconnects.inc_by(lost);
                let made = Instant::now();
                let installed = Installed::new(node, slot, Arc::new(connection));
                let end = watch_over(node, &mut pooled, &installed.connection).await;
                // Connections that fail soon, again and again, are made with growing pauses.
                if made.elapsed() >= LONGEST {
                    backoff.reset();
                }
                drop(installed);
                lost = 1;
                // The others may have met the same: they are checked now, not when their time comes.
                node.dialer.broken.send_modify(|count| *count += 1);
                match end {
                    End::Silent => drop(pooled),
                    End::Wrong => discard(pooled),
                }
            }
            Err(why) => node.report_down(&why),
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = primary.changed() => {}
        }
    }
}

/// Checks a connection from time to time, and when there is a reason to. Closes it and returns when it has to be
/// replaced.
async fn watch_over(node: &Node, pooled: &mut Pooled, connection: &Connection) -> End {
    let mut broken = node.dialer.broken.subscribe();
    let mut primary = node.dialer.finder.changes();
    loop {
        if let Err(why) = node.dialer.finder.still_names(connection.address()) {
            connection.retire(&why);
            return End::Wrong;
        }
        tokio::select! {
            () = connection.attention() => {}
            _ = broken.changed() => {}
            () = primary.changed() => continue,
            () = tokio::time::sleep(jittered(CHECK_PERIOD)) => {}
        }
        if connection.closed().is_some() {
            return End::Wrong;
        }
        node.metrics.round_trips.of(RoundTrip::Check).inc();
        match node.dialer.greet(pooled).await {
            Ok(info) if info.incarnation() == connection.incarnation() => {}
            Ok(_) => {
                connection
                    .retire("Redis was restarted, promoted or replaced, or got its first replica; connecting again");
                return End::Wrong;
            }
            Err(why) => {
                connection.retire(&why);
                return End::Silent;
            }
        }
    }
}
