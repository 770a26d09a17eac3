//! Keeps the leases of a client alive: one background task, one stream for all of them.
//!
//! The server sets the pace; there is no renewal timer here. What this task does is to doubt the stream: when nothing comes
//! any more, when beats come but renewals do not, when it ends or drains, the leases are attached to a stream on the next
//! server, with higher numbers. The old stream goes on until the new one has shown that it works. The time for all this
//! is the TTL.
//!
//! The task starts with the first lease and ends soon after the last.

use crate::clock::Moment;
use crate::core::{Core, part_of};
use crate::lease::{LeaseKey, LeaseState};
use crate::link::{Health, Link};
use crate::patience;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long a stream without leases is kept for the next one.
const LINGER: Duration = Duration::from_secs(5);

pub(crate) struct Keeper {
    core: Arc<Core>,
    next_key: AtomicU64,
    wake: Arc<Notify>,
    /// Never held over an await. Taken before the locks of links and leases.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<LeaseKey, Arc<LeaseState>>,
    /// The shortest TTL among them: what everything here is measured by.
    shortest: Option<Duration>,
    current: Option<OpenLink>,
    /// Goes on until the current one has shown that it works.
    previous: Option<OpenLink>,
    /// When to open the next stream, once it is known that there must be one.
    due: Option<Moment>,
    /// How many were opened since one worked.
    tries: u32,
    idle_since: Option<Moment>,
    running: bool,
    client_gone: bool,
}

/// A stream and its read loop, which ends with it.
#[derive(Debug)]
struct OpenLink {
    link: Arc<Link>,
    task: JoinHandle<()>,
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        // The transport goes on sending for as long as the sending half says anything: dropping the reading half is not
        // enough to end a stream.
        self.link.close();
        self.task.abort();
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core, next_key: AtomicU64::new(1), wake: Arc::default(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_key(&self) -> LeaseKey {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a lease alive from now on.
    pub(crate) fn add(self: &Arc<Self>, lease: Arc<LeaseState>) {
        let now = Moment::now();
        let ttl = lease.ttl();
        let mut state = self.state();
        let quicker = state.shortest.is_none_or(|shortest| ttl < shortest);
        if quicker {
            state.shortest = Some(ttl);
        }
        if let Some(current) = &state.current {
            if quicker {
                current.link.pace_changed(now);
            }
            current.link.attach(lease.clone(), now);
        }
        state.leases.insert(lease.key, lease);
        if !state.running {
            state.running = true;
            self.core.spawn(run(self.clone()));
        } else if quicker || state.current.is_none() {
            self.wake.notify_one();
        }
    }

    /// Keeps a lease alive no more: what could renew it is not sent after this.
    pub(crate) fn remove(&self, key: LeaseKey) {
        let mut state = self.state();
        state.leases.remove(&key);
        state.detach(key);
        if state.leases.is_empty() {
            self.wake.notify_one();
        }
    }

    /// There will be no more leases.
    pub(crate) fn client_gone(&self) {
        self.state().client_gone = true;
        self.wake.notify_one();
    }

    /// Looks at everything once. Says when to look again at the latest; `None` when there is nothing left to do.
    fn look(&self, now: Moment) -> Option<Duration> {
        let state = &mut *self.state();
        let stuck = state.look_at_leases(now, self.core.servers.count());
        let Some(shortest) = state.shortest else {
            let idle_for = now.since(*state.idle_since.get_or_insert(now));
            if state.client_gone || idle_for >= LINGER {
                *state = State { client_gone: state.client_gone, ..State::default() };
                return None;
            }
            return Some(LINGER - idle_for);
        };
        state.idle_since = None;
        let health = state.current.as_ref().map(|current| current.link.health());
        if health.is_some_and(|health| health.proven && !health.ended) {
            state.previous = None;
            // One that works but drains is no end of trying: the next is opened after a growing pause.
            if !health.is_some_and(|health| health.draining) {
                state.tries = 0;
            }
        }
        if state.previous.as_ref().is_some_and(|previous| previous.link.health().ended) {
            state.previous = None;
        }
        let tick = patience::tick(shortest);
        if !stuck && !health.is_none_or(|health| is_bad(health, now, shortest)) {
            state.due = None;
            return Some(tick);
        }
        let pause = if health.is_none() { Duration::ZERO } else { part_of(patience::pause(shortest, state.tries)) };
        let due = *state.due.get_or_insert(now.plus(pause));
        if now < due {
            return Some(tick.min(due.since(now)));
        }
        self.open(state, now);
        Some(tick)
    }

    /// Opens a stream to the next server and attaches everything to it.
    fn open(&self, state: &mut State, now: Moment) {
        let servers = &self.core.servers;
        let server = state.current.as_ref().map_or(servers.preferred(), |current| servers.after(current.link.server));
        tracing::debug!(server, leases = state.leases.len(), tries = state.tries, "opening a keep-alive stream");
        let link = Link::new(self.core.clone(), server, self.wake.clone(), now);
        for lease in state.leases.values().filter(|lease| lease.is_on_stream()) {
            link.attach(lease.clone(), now);
        }
        let task = self.core.spawn(link.clone().run());
        let replaced = state.current.replace(OpenLink { link, task });
        // One that worked goes on for now; one that never did ends here.
        if let Some(replaced) = replaced.filter(|replaced| {
            let health = replaced.link.health();
            health.proven && !health.ended
        }) {
            state.previous = Some(replaced);
        }
        state.due = None;
        state.tries = state.tries.saturating_add(1);
    }
}

impl State {
    fn detach(&self, key: LeaseKey) {
        for open in self.current.iter().chain(&self.previous) {
            open.link.detach(key);
        }
    }

    /// Lets go of lost leases, and finds out whether the stream fails to renew one.
    fn look_at_leases(&mut self, now: Moment, servers: usize) -> bool {
        let (mut shortest, mut stuck, mut lost) = (None, false, Vec::new());
        for lease in self.leases.values() {
            let known = lease.look(now);
            if known.is_lost() {
                lost.push(lease.key);
                continue;
            }
            shortest = Some(shortest.map_or(known.ttl, |shortest: Duration| shortest.min(known.ttl)));
            if known.is_overdue(now) {
                lease.at_risk(now);
                // A new attachment gets its time. When the store is the trouble, the same server is no better again.
                let patient = now.since(known.attached) <= patience::first_answer(known.ttl);
                stuck |= lease.is_on_stream() && !patient && !(known.store_unreachable && servers == 1);
            }
        }
        self.shortest = shortest;
        for key in lost {
            self.leases.remove(&key);
            self.detach(key);
        }
        stuck
    }
}

/// Is a stream not, or not much longer, of use?
fn is_bad(health: Health, now: Moment, shortest: Duration) -> bool {
    let limit = if health.answers { shortest / 2 } else { patience::first_answer(shortest) };
    health.ended || health.draining || now.since(health.heard) > limit
}

/// Dropped with the runtime, it leaves the leases to their TTLs.
async fn run(keeper: Arc<Keeper>) {
    while let Some(pause) = keeper.look(Moment::now()) {
        tokio::select! {
            () = keeper.wake.notified() => {}
            () = keeper.core.sleep(pause) => {}
        }
    }
}
