//! The open connections of the admin port. A new one takes the place of the one that has been idle for longest, so that
//! clients that occupy the port delay no probe.

use crate::api::peer::Peer;
use parking_lot::Mutex;
use std::{collections::HashMap, future::Future, sync::Arc};
use tokio::{
    task::{AbortHandle, Id, JoinSet},
    time::Instant,
};

/// Open connections: a scraper, a few probes and an operator need a handful.
const CONNECTIONS_MAX: usize = 64;

/// Open connections. Dropped, they end.
#[derive(Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// Those whose tasks have not ended.
    open: HashMap<Id, Open>,
}

struct Open {
    peer: Peer,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl Connections {
    /// Serves a connection. If there are too many, another one is closed; returns its peer.
    pub(super) fn add<F>(&mut self, peer: Peer, serve: impl FnOnce(Arc<Activity>) -> F) -> Option<Peer>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let closed = if self.open.len() < CONNECTIONS_MAX { None } else { self.close_idle() };
        let activity = Arc::new(Activity::begin_connection());
        let task = self.tasks.spawn(serve(activity.clone()));
        self.open.insert(task.id(), Open { peer, activity, task });
        closed
    }

    /// Closes the connection that has been idle for longest; if none is idle, the one with the oldest request.
    fn close_idle(&mut self) -> Option<Peer> {
        let (id, _) = self.open.iter().min_by_key(|(_, open)| open.activity.rank())?;
        let Open { peer, task, .. } = self.open.remove(&id.clone())?;
        task.abort();
        Some(peer)
    }

    /// Waits until a connection has ended; `None` if there is none. Dropped, it changes nothing.
    pub(super) async fn next_end(&mut self) -> Option<()> {
        let id = match self.tasks.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
        Some(())
    }
}

/// What happens on a connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    requests: u64,
    under_way: usize,
    /// When the connection, or a request, began or ended.
    last: Instant,
}

impl Activity {
    fn begin_connection() -> Self {
        Self(Mutex::new(State { requests: 0, under_way: 0, last: Instant::now() }))
    }

    /// A request has begun, until the returned value is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> UnderWay {
        let mut state = self.0.lock();
        state.requests += 1;
        state.under_way += 1;
        state.last = Instant::now();
        UnderWay(self.clone())
    }

    /// The number of requests that have begun.
    pub(super) fn requests(&self) -> u64 {
        self.0.lock().requests
    }

    /// The lowest is closed first.
    fn rank(&self) -> (bool, Instant) {
        let state = self.0.lock();
        (state.under_way > 0, state.last)
    }
}

/// A request under way. Dropped, it has been answered, but for the reading of the answer.
pub(super) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.under_way -= 1;
        state.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, time::Duration};
    use tokio::time::advance;

    fn peer(port: usize) -> Peer {
        Peer::Tcp(([127, 0, 0, 1], u16::try_from(port).unwrap()).into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_makes_room() {
        let mut connections = Connections::default();
        let mut activities = Vec::new();
        for port in 0..CONNECTIONS_MAX {
            let closed = connections.add(peer(port), |activity| {
                activities.push(activity);
                pending()
            });
            assert_eq!(closed, None);
            advance(Duration::from_secs(1)).await;
        }
        // The first one has a request under way, and the second one had one just now.
        let under_way = activities[0].begin_request();
        drop(activities[1].begin_request());
        advance(Duration::from_secs(1)).await;
        assert_eq!(connections.add(peer(100), |_| pending()), Some(peer(2)));
        assert_eq!(connections.next_end().await, Some(()));
        advance(Duration::from_secs(1)).await;
        assert_eq!(connections.add(peer(101), |_| pending()), Some(peer(3)));
        drop(under_way);
        let busy: Vec<_> = activities.iter().map(Activity::begin_request).collect();
        assert_eq!(connections.add(peer(102), |_| pending()), Some(peer(100)));
        assert_eq!(connections.open.len(), CONNECTIONS_MAX);
        drop(busy);
    }
}
