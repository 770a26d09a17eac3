//! Keeps the leases of a client alive and carries its operations: one background task, one session for all of them.
//!
//! The server sets the pace; there is no renewal timer here. What this task does is to doubt the session: when nothing
//! comes any more, when beats come but renewals do not, when it ends or drains, the leases are attached to a session on
//! the next server, with higher numbers, those that end first before the others. The old one goes on until the new one
//! keeps them all (that takes a while with very many), and what is under way on it is answered. The time for all this
//! is the TTL.
//!
//! The first operation opens a session, and it ends soon after the last lease.

mod open;

use crate::clock::Moment;
use crate::core::{Core, part_of};
use crate::lease::{LeaseKey, LeaseState};
use crate::link::Link;
use crate::operation::Operation;
use crate::patience;
use crate::v1;
use open::{OpenLink, is_bad};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a session that nobody uses is kept for the next one.
const LINGER: Duration = Duration::from_secs(5);

pub(crate) struct Keeper {
    core: Arc<Core>,
    wake: Arc<Notify>,
    /// Never held over an await. Taken before the locks of links and leases.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<LeaseKey, Arc<LeaseState>>,
    /// The shortest TTL among them: how often to look.
    shortest: Option<Duration>,
    /// The shortest among those that the session renews: what its pace is, and its silence is measured by. One that it
    /// had no room for is renewed by itself and says nothing of it.
    pace: Option<Duration>,
    current: Option<OpenLink>,
    /// Goes on until the current one keeps every lease.
    previous: Option<OpenLink>,
    /// When the current one was opened, and when one that works was left by operations.
    opened: Option<Moment>,
    moved: Option<Moment>,
    /// When to open the next, once it is known that there must be one.
    due: Option<Moment>,
    /// How many were opened since one worked.
    tries: u32,
    idle_since: Option<Moment>,
    running: bool,
    client_gone: bool,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core, wake: Arc::default(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease alive from now on. One that is lost is never attached.
    pub(crate) fn add(self: &Arc<Self>, lease: Arc<LeaseState>) {
        let now = Moment::now();
        let known = lease.look(now);
        if known.is_lost() {
            return;
        }
        let ttl = known.ttl;
        let mut state = self.state();
        let quicker = state.shortest.is_none_or(|shortest| ttl < shortest);
        if quicker {
            state.shortest = Some(ttl);
        }
        if lease.is_on_stream() {
            let sets_pace = state.pace.is_none_or(|pace| ttl < pace);
            if sets_pace {
                state.pace = Some(ttl);
            }
            if let Some(current) = &state.current {
                if sets_pace {
                    current.link.pace_changed(now);
                }
                // Granted there, it is attached already.
                if !current.link.is_attached(lease.key) {
                    current.link.attach(lease.clone(), now);
                }
            }
        }
        state.leases.insert(lease.key, lease);
        if !self.runs(&mut state) {
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

    /// Keeps a lease alive no more and hands its release over to a session that works, if one has room at this moment.
    /// What could renew it is not sent after this.
    pub(crate) fn release(&self, key: LeaseKey, request: &v1::ReleaseRequest) -> Option<Operation> {
        let mut state = self.state();
        state.leases.remove(&key);
        let works = |open: &&OpenLink| open.link.health().works();
        let chosen = state.current.iter().chain(&state.previous).find(works).or(state.current.as_ref());
        let operation = chosen.and_then(|open| {
            let room = open.link.room_to_release()?;
            Some(open.link.release(key, request.clone(), room))
        });
        // Where the release goes, the lease is not attached any more.
        state.detach(key);
        operation
    }

    /// The session that operations go to: the current one, unless it is of no use and it is time for the next.
    pub(crate) fn link(self: &Arc<Self>) -> Arc<Link> {
        let now = Moment::now();
        let mut state = self.state();
        state.idle_since = None;
        if let Some(current) = state.usable(self.core.servers.preferred(), now) {
            return current.clone();
        }
        let link = self.open(&mut state, now);
        if !self.runs(&mut state) {
            self.core.spawn(run(self.clone()));
        }
        link
    }

    /// Does the task run? It will from now on.
    fn runs(&self, state: &mut State) -> bool {
        std::mem::replace(&mut state.running, true)
    }

    /// There will be no more leases.
    pub(crate) fn client_gone(&self) {
        self.state().client_gone = true;
        self.wake.notify_one();
    }

    /// Looks at everything once. Says when to look again at the latest; `None` when there is nothing left to do.
    fn look(self: &Arc<Self>, now: Moment) -> Option<Duration> {
        let state = &mut *self.state();
        let stuck = state.look_at_leases(now, self.core.servers.count());
        let health = state.current.as_ref().map(|current| current.link.health());
        state.look_at_previous(now);
        let Some(shortest) = state.shortest else { return state.look_at_nothing(now) };
        state.idle_since = None;
        // One that works but drains is no end of trying: the next is opened after a growing pause.
        if health.is_some_and(|health| health.works() && !health.draining) {
            state.tries = 0;
        }
        let tick = patience::tick(shortest);
        if !stuck && !health.is_none_or(|health| is_bad(health, now, state.pace)) {
            state.due = None;
            return Some(tick);
        }
        let pause = if health.is_none() { Duration::ZERO } else { part_of(patience::pause(shortest, state.tries)) };
        let due = *state.due.get_or_insert(now.plus(pause));
        if now < due {
            return Some(tick.min(due.since(now)));
        }
        if let Some(current) = &state.current {
            self.core.servers.failed(current.link.server);
        }
        self.open(state, now);
        Some(tick)
    }

    /// Opens a session with the server to talk to and attaches everything to it.
    fn open(&self, state: &mut State, now: Moment) -> Arc<Link> {
        let server = self.core.servers.preferred();
        tracing::debug!(server, leases = state.leases.len(), tries = state.tries, "opening a session");
        let link = Link::new(self.core.clone(), server, self.wake.clone(), now);
        let mut leases: Vec<_> = state.leases.values().filter(|lease| lease.is_on_stream()).collect();
        leases.sort_by_cached_key(|lease| lease.look(now).valid_until);
        for lease in leases {
            link.attach(lease.clone(), now);
        }
        let task = self.core.spawn(link.clone().run());
        let replaced = state.current.replace(OpenLink { link: link.clone(), task });
        // One that is of use goes on for now; one that never was ends here. So does one that did not get far, if the
        // one before it still renews more.
        let rest = state.previous.as_ref().map_or(0, |previous| previous.renews(now));
        if let Some(replaced) = replaced.filter(|replaced| replaced.is_of_use() && replaced.renews(now) >= rest) {
            state.previous = Some(replaced);
        }
        (state.due, state.opened) = (None, Some(now));
        state.tries = state.tries.saturating_add(1);
        link
    }
}

impl State {
    /// The current session, if operations had better go there than to a new one.
    fn usable(&mut self, preferred: usize, now: Moment) -> Option<&Arc<Link>> {
        let link = &self.current.as_ref()?.link;
        let health = link.health();
        let works = !health.ended && !health.draining;
        let recently = |then: Option<Moment>, pause| then.is_some_and(|then| now.since(then) < pause);
        let stays = if works {
            link.server == preferred || recently(self.moved, patience::BETWEEN_MOVES)
        } else {
            recently(self.opened, patience::BETWEEN_SESSIONS)
        };
        if works && !stays {
            self.moved = Some(now);
        }
        stays.then_some(link)
    }

    /// Lets go of the previous session when it is of no use any more.
    fn look_at_previous(&mut self, now: Moment) {
        let Some(previous) = &self.previous else { return };
        let no_leases = self.shortest.is_none();
        let works = self.current.as_ref().is_some_and(|current| current.link.health().works());
        let taken_over = no_leases || self.current.as_ref().is_some_and(OpenLink::has_taken_over);
        let needed = (previous.link.is_busy() || !taken_over) && !previous.is_silent(now);
        if previous.link.health().ended || ((works || no_leases) && !needed) {
            self.previous = None;
        }
    }

    /// No leases: waits for the operations, and a little longer.
    fn look_at_nothing(&mut self, now: Moment) -> Option<Duration> {
        if self.previous.is_some() || self.current.as_ref().is_some_and(|current| current.link.is_busy()) {
            self.idle_since = None;
            return Some(patience::IDLE_TICK);
        }
        let idle_for = now.since(*self.idle_since.get_or_insert(now));
        if self.client_gone || idle_for >= LINGER {
            *self = Self { client_gone: self.client_gone, ..Self::default() };
            return None;
        }
        Some(LINGER - idle_for)
    }

    fn detach(&self, key: LeaseKey) {
        for open in self.current.iter().chain(&self.previous) {
            open.link.detach(key);
        }
    }

    /// Lets go of lost leases, and finds out whether the session fails to renew one.
    fn look_at_leases(&mut self, now: Moment, servers: usize) -> bool {
        let (mut shortest, mut pace, mut stuck, mut lost) = (None, None, false, Vec::new());
        for lease in self.leases.values() {
            let known = lease.look(now);
            if known.is_lost() {
                lost.push(lease.key);
                continue;
            }
            shortest = shorter(shortest, known.ttl);
            if lease.is_on_stream() {
                pace = shorter(pace, known.ttl);
            }
            if known.is_overdue(now) {
                lease.at_risk(now);
                // A new attachment gets its time. When the store is the trouble, the same server is no better again.
                let patient = now.since(known.attached) <= patience::first_answer(known.ttl);
                stuck |= lease.is_on_stream() && !patient && !(known.store_unreachable && servers == 1);
            }
        }
        (self.shortest, self.pace) = (shortest, pace);
        for key in lost {
            self.leases.remove(&key);
            self.detach(key);
        }
        stuck
    }
}

fn shorter(shortest: Option<Duration>, ttl: Duration) -> Option<Duration> {
    Some(shortest.map_or(ttl, |shortest| shortest.min(ttl)))
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
