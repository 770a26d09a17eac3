//! Observing: the states of one lock, conflated to the newest. However many observe a lock here, one task reads it for
//! them after each event.
//!
//! A watch begins before the first read, so no change is missed in between; and a read begins after the event that it
//! answers, so no state is older than the one before it.

use super::{Locks, LocksError, WatchItem, Watching};
use crate::{
    domain::{name::LockName, outcome::LockView},
    store::Store,
    sync::{Mutex, Notify},
};
use hashbrown::HashMap;
use std::sync::Arc;

/// The state of a lock, or why it cannot be read: the last word then.
type State = Result<Arc<LockView>, LocksError>;

/// The locks that are observed on this server.
type Groups = Mutex<HashMap<LockName, Arc<Group>>>;

/// The locks that are observed on this server.
#[derive(Debug, Default)]
pub(super) struct Observed(Arc<Groups>);

/// Those who observe one lock.
#[derive(Debug, Default)]
struct Group {
    inner: Mutex<Inner>,
    /// Notified when one joins, when the last one leaves, and when the state is doubtful.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Those who came before the last read began.
    observers: Vec<Arc<Observer>>,
    /// Those who came since. Their first state is that of a read which begins after they came.
    new: Vec<Arc<Observer>>,
    /// Whether the store may have changed, or become unreadable, without an event.
    is_doubtful: bool,
}

impl Inner {
    fn is_left(&self) -> bool {
        self.observers.is_empty() && self.new.is_empty()
    }
}

#[derive(Debug, Default)]
struct Observer {
    /// What it has not taken yet. A newer state replaces it.
    next: Mutex<Option<State>>,
    more: Notify,
}

impl Observer {
    fn tell(&self, state: &State) {
        *self.next.lock() = Some(state.clone());
        self.more.notify_one();
    }
}

/// An observer of a lock. Dropped, it ends.
#[derive(Debug)]
pub struct Observing {
    group: Arc<Group>,
    observer: Arc<Observer>,
}

impl Observing {
    /// The next state. An error is the last word. Dropped, nothing is lost.
    pub async fn next(&mut self) -> Result<LockView, LocksError> {
        loop {
            let next = self.observer.next.lock().take();
            if let Some(state) = next {
                return state.map(Arc::unwrap_or_clone);
            }
            self.observer.more.notified().await;
        }
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        let mut inner = self.group.inner.lock();
        let Inner { observers, new, .. } = &mut *inner;
        for list in [observers, new] {
            list.retain(|observer| !Arc::ptr_eq(observer, &self.observer));
        }
        if inner.is_left() {
            self.group.changed.notify_one();
        }
    }
}

impl Group {
    fn join(self: &Arc<Self>) -> Observing {
        let observer = Arc::<Observer>::default();
        self.inner.lock().new.push(observer.clone());
        self.changed.notify_one();
        Observing { group: self.clone(), observer }
    }

    /// Those who are new. From now on they are among the others.
    fn seat_new(&self) -> Vec<Arc<Observer>> {
        let mut inner = self.inner.lock();
        let new = std::mem::take(&mut inner.new);
        inner.is_doubtful = false;
        inner.observers.extend_from_slice(&new);
        new
    }

    /// Tells those who came before the read began.
    fn tell(&self, state: &State) {
        self.inner.lock().observers.iter().for_each(|observer| observer.tell(state));
    }
}

impl<S: Store> Locks<S> {
    /// Observes a lock, from its present state on.
    pub async fn observe(&self, name: &LockName) -> Result<Observing, LocksError> {
        let group = self.observed.0.lock().get(name).map(Group::join);
        if let Some(observing) = group {
            return Ok(observing);
        }
        // Its watch begins before it is read.
        let watching = self.watch(name.as_str().to_owned()).await?;
        let mut observed = self.observed.0.lock();
        // Another call may have been faster.
        if let Some(group) = observed.get(name) {
            return Ok(group.join());
        }
        let group = Arc::<Group>::default();
        let observing = group.join();
        observed.insert(name.clone(), group.clone());
        drop(observed);
        let (store, observed) = (self.store.clone(), self.observed.0.clone());
        drop(tokio::task::spawn(Task { name: name.clone(), group, watching, store, observed }.run()));
        Ok(observing)
    }

    /// Reads all observed locks again. To be called when the store is lost, and when it is back: who knows nothing of a
    /// lock any more must not look like one that does.
    pub fn doubt_observed(&self) {
        for group in self.observed.0.lock().values() {
            group.inner.lock().is_doubtful = true;
            group.changed.notify_one();
        }
    }
}

/// Reads one lock for its observers.
struct Task<S> {
    name: LockName,
    group: Arc<Group>,
    watching: Watching,
    store: Arc<S>,
    observed: Arc<Groups>,
}

impl<S: Store> Task<S> {
    /// Ends when nobody observes the lock, when it cannot be read, or with the server.
    async fn run(self) {
        let mut is_changed = true;
        loop {
            let new = self.group.seat_new();
            let state = super::read(&*self.store, &self.name, None).await.map(Arc::new);
            match &state {
                Err(_) => return self.end(&state),
                Ok(_) if is_changed => self.group.tell(&state),
                // The others know it.
                Ok(_) => new.iter().for_each(|observer| observer.tell(&state)),
            }
            is_changed = loop {
                let item = tokio::select! {
                    biased;
                    item = self.watching.next() => item,
                    () = self.group.changed.notified() => match self.standing() {
                        Standing::Left => return,
                        Standing::Doubtful => break true,
                        Standing::New => break false,
                        Standing::Known => continue,
                    },
                };
                match item {
                    // Its name begins with that of this one.
                    Some(WatchItem::Event(event)) if event.name != self.name => {}
                    Some(WatchItem::Event(_) | WatchItem::Missed(_)) => break true,
                    None => return self.end(&Err(LocksError::Draining)),
                }
            };
        }
    }

    /// Those that observe the lock from now on begin anew.
    fn end(&self, last: &State) {
        self.forget(&mut self.observed.lock());
        self.group.seat_new();
        self.group.tell(last);
    }

    /// Who observes the lock. If nobody does, nobody joins any more.
    fn standing(&self) -> Standing {
        let mut observed = self.observed.lock();
        let inner = self.group.inner.lock();
        if inner.is_left() {
            self.forget(&mut observed);
            return Standing::Left;
        }
        match (inner.is_doubtful, inner.new.is_empty()) {
            (true, _) => Standing::Doubtful,
            (false, true) => Standing::Known,
            (false, false) => Standing::New,
        }
    }

    fn forget(&self, observed: &mut HashMap<LockName, Arc<Group>>) {
        if observed.get(&self.name).is_some_and(|group| Arc::ptr_eq(group, &self.group)) {
            observed.remove(&self.name);
        }
    }
}

enum Standing {
    /// Nobody observes the lock.
    Left,
    /// The store may be unreadable, or have changed without an event.
    Doubtful,
    /// Somebody has been told nothing yet.
    New,
    /// All have been told what was read last.
    Known,
}
