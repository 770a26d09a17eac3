//! Watching: passes events on to watchers. A watcher that does not read loses events; it never delays a lock.

use super::LocksError;
use crate::{
    domain::limits::{WATCH_BACKLOG_MAX, WATCHERS_MAX},
    store::Event,
    sync::{AtomicUsize, Mutex, Notify, Ordering, RwLock},
};
use std::{collections::VecDeque, sync::Arc};
use tokio_util::sync::CancellationToken;

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// An event.
    Event(Event),
    /// At least this many events were lost since the previous item: the watcher did not read them in time, or the store
    /// lost them.
    Missed(u64),
}

/// The watchers of this server.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    list: Arc<RwLock<Vec<Arc<Watcher>>>>,
    count: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Watcher {
    prefix: String,
    backlog: Mutex<Backlog>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Backlog {
    /// Shared by the watchers: a thousand of them may each be thousands of events behind.
    events: VecDeque<Arc<Event>>,
    /// How many events were lost after the last one in `events`, if any.
    missed: Option<u64>,
}

/// An open watch. Dropped, it ends.
#[derive(Debug)]
pub struct Watching {
    watcher: Arc<Watcher>,
    list: Arc<RwLock<Vec<Arc<Watcher>>>>,
    count: Arc<AtomicUsize>,
    gone: CancellationToken,
}

impl Watchers {
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The number of watchers.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn watch(&self, prefix: String, gone: CancellationToken) -> Result<Watching, LocksError> {
        let watcher = Arc::new(Watcher { prefix, backlog: Mutex::default(), more: Notify::new() });
        let mut list = self.list.write();
        if list.len() >= WATCHERS_MAX {
            return Err(LocksError::WatchersFull { max: WATCHERS_MAX });
        }
        list.push(watcher.clone());
        self.count.store(list.len(), Ordering::Relaxed);
        Ok(Watching { watcher, list: self.list.clone(), count: self.count.clone(), gone })
    }

    /// Notes that the store lost events of unknown locks.
    pub(super) fn tell_gap(&self) {
        self.list.read().iter().for_each(|watcher| watcher.push_gap());
    }

    pub(super) fn tell(&self, event: &Event) {
        let mut shared = None;
        for watcher in self.list.read().iter().filter(|watcher| event.name.as_str().starts_with(&watcher.prefix)) {
            watcher.push(shared.get_or_insert_with(|| Arc::new(event.clone())));
        }
    }
}

impl Watcher {
    fn push(&self, event: &Arc<Event>) {
        let mut backlog = self.backlog.lock();
        // A watcher that has lost an event loses all events until it has read its backlog: one gap instead of many.
        if backlog.missed.is_some() || backlog.events.len() >= WATCH_BACKLOG_MAX {
            *backlog.missed.get_or_insert(0) += 1;
        } else {
            backlog.events.push_back(event.clone());
        }
        drop(backlog);
        self.more.notify_one();
    }

    fn push_gap(&self) {
        self.backlog.lock().missed.get_or_insert(0);
        self.more.notify_one();
    }

    fn pop(&self) -> Option<WatchItem> {
        let mut backlog = self.backlog.lock();
        if let Some(event) = backlog.events.pop_front() {
            return Some(WatchItem::Event(Arc::unwrap_or_clone(event)));
        }
        backlog.missed.take().map(WatchItem::Missed)
    }
}

impl Watching {
    /// What comes next; none when the server ends its streams. Dropped, nothing is lost.
    pub async fn next(&self) -> Option<WatchItem> {
        loop {
            if let Some(item) = self.watcher.pop() {
                return Some(item);
            }
            tokio::select! {
                biased;
                () = self.gone.cancelled() => return None,
                () = self.watcher.more.notified() => {}
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut list = self.list.write();
        list.retain(|watcher| !Arc::ptr_eq(watcher, &self.watcher));
        self.count.store(list.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{ids::GrantId, name::LockName, token::FencingToken},
        store::EventKind,
    };

    fn event(name: &str, token: u64) -> Event {
        Event {
            kind: EventKind::Granted,
            name: LockName::new(name.into()).unwrap(),
            holder: String::new(),
            grant_id: GrantId(uuid::Uuid::nil()),
            token: FencingToken::new(token).unwrap(),
        }
    }

    #[tokio::test]
    async fn a_watcher_gets_the_events_of_its_prefix_and_learns_of_a_gap() {
        let watchers = Watchers::default();
        let watching = watchers.watch("a/".into(), CancellationToken::new()).unwrap();
        watchers.tell(&event("b/1", 1));
        for token in 1..=WATCH_BACKLOG_MAX as u64 + 3 {
            watchers.tell(&event("a/1", token));
        }
        for token in 1..=WATCH_BACKLOG_MAX as u64 {
            assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/1", token))));
        }
        assert_eq!(watching.next().await, Some(WatchItem::Missed(3)));
        watchers.tell(&event("a/2", 9));
        watchers.tell_gap();
        watchers.tell_gap();
        assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/2", 9))));
        assert_eq!(watching.next().await, Some(WatchItem::Missed(0)), "what the store lost, nobody counts");
        watchers.tell(&event("a/2", 10));
        assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/2", 10))));
        drop(watching);
        assert!(!watchers.any());
    }

    #[test]
    fn an_event_is_kept_once_however_many_watch() {
        let watchers = Watchers::default();
        let all: Vec<_> = (0..3).map(|_| watchers.watch(String::new(), CancellationToken::new()).unwrap()).collect();
        watchers.tell(&event("a", 1));
        let kept: Vec<_> = all.iter().map(|one| one.watcher.backlog.lock().events[0].clone()).collect();
        assert!(kept.iter().all(|one| Arc::ptr_eq(one, &kept[0])));
    }

    #[tokio::test]
    async fn the_number_of_watchers_is_bounded_and_they_end_with_the_server() {
        let watchers = Watchers::default();
        let gone = CancellationToken::new();
        let mut open: Vec<_> =
            (0..WATCHERS_MAX).map(|_| watchers.watch(String::new(), gone.clone()).unwrap()).collect();
        assert_eq!(
            watchers.watch(String::new(), gone.clone()).map(|_| ()),
            Err(LocksError::WatchersFull { max: WATCHERS_MAX })
        );
        let last = open.pop().unwrap();
        drop(open);
        gone.cancel();
        assert_eq!(last.next().await, None);
    }
}
