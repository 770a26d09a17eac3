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
    items: VecDeque<Item>,
    /// How many events were lost for want of room after the last one in `items`, if any.
    missed: Option<u64>,
}

#[derive(Debug)]
enum Item {
    /// Shared by the watchers: a thousand of them may each be thousands of events behind.
    Event(Arc<Event>),
    /// The store lost events here.
    Gap,
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
    pub(super) fn publish_gap(&self) {
        self.list.read().iter().for_each(|watcher| watcher.push_gap());
    }

    pub(super) fn publish(&self, event: &Event) {
        let mut shared = None;
        for watcher in self.list.read().iter().filter(|watcher| event.name.as_str().starts_with(&watcher.prefix)) {
            watcher.push(shared.get_or_insert_with(|| Arc::new(event.clone())));
        }
    }
}

impl Watcher {
    fn push(&self, event: &Arc<Event>) {
        let mut backlog = self.backlog.lock();
        if backlog.has_room() {
            backlog.items.push_back(Item::Event(event.clone()));
        } else {
            *backlog.missed.get_or_insert(0) += 1;
        }
        drop(backlog);
        self.more.notify_one();
    }

    /// Notes a gap at its place: the events after it are not lost.
    fn push_gap(&self) {
        let mut backlog = self.backlog.lock();
        if backlog.has_room() {
            if !matches!(backlog.items.back(), Some(Item::Gap)) {
                backlog.items.push_back(Item::Gap);
            }
        } else {
            backlog.missed.get_or_insert(0);
        }
        drop(backlog);
        self.more.notify_one();
    }

    fn pop(&self) -> Option<WatchItem> {
        let mut backlog = self.backlog.lock();
        match backlog.items.pop_front() {
            Some(Item::Event(event)) => Some(WatchItem::Event(Arc::unwrap_or_clone(event))),
            Some(Item::Gap) => Some(WatchItem::Missed(0)),
            None => backlog.missed.take().map(WatchItem::Missed),
        }
    }
}

impl Backlog {
    /// Whether the next item is kept. A watcher for which there was no room once loses all events until it has read its
    /// backlog: one gap instead of many.
    fn has_room(&self) -> bool {
        self.missed.is_none() && self.items.len() < WATCH_BACKLOG_MAX
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
            name: LockName::new(name).unwrap(),
            holder: String::new(),
            grant_id: GrantId(uuid::Uuid::nil()),
            token: FencingToken::new(token).unwrap(),
            max_hold: None,
            identity: None,
        }
    }

    #[tokio::test]
    async fn a_watcher_gets_the_events_of_its_prefix_and_learns_of_a_gap() {
        let watchers = Watchers::default();
        let watching = watchers.watch("a/".into(), CancellationToken::new()).unwrap();
        watchers.publish(&event("b/1", 1));
        for token in 1..=WATCH_BACKLOG_MAX as u64 + 3 {
            watchers.publish(&event("a/1", token));
        }
        for token in 1..=WATCH_BACKLOG_MAX as u64 {
            assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/1", token))));
        }
        assert_eq!(watching.next().await, Some(WatchItem::Missed(3)));
        watchers.publish(&event("a/2", 9));
        watchers.publish_gap();
        watchers.publish_gap();
        watchers.publish(&event("a/2", 10));
        assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/2", 9))));
        assert_eq!(watching.next().await, Some(WatchItem::Missed(0)), "what the store lost, nobody counts");
        assert_eq!(watching.next().await, Some(WatchItem::Event(event("a/2", 10))));
        drop(watching);
        assert!(!watchers.any());
    }

    #[test]
    fn an_event_is_kept_once_however_many_watch() {
        let watchers = Watchers::default();
        let all: Vec<_> = (0..3).map(|_| watchers.watch(String::new(), CancellationToken::new()).unwrap()).collect();
        watchers.publish(&event("a", 1));
        let kept: Vec<_> = all.iter().filter_map(|one| one.watcher.backlog.lock().items.pop_front()).collect();
        assert!(matches!(&kept[..], [Item::Event(a), Item::Event(b), Item::Event(c)]
            if Arc::ptr_eq(a, b) && Arc::ptr_eq(a, c)));
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
