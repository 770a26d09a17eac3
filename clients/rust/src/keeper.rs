//! Renews the leases of a client and carries its operations: one background task and one session for all of them.
//!
//! The server paces renewals; there is no renewal timer here. This task monitors the session. If it goes silent, or
//! beats arrive but renewals do not, or it ends or drains, the leases are attached to a session on the next server,
//! with higher attempt numbers, in order of expiry. The old session continues until the new one keeps all leases (which
//! takes a while with very many), and its in-flight operations are answered. All of this must fit into the TTL.
//!
//! The first operation opens a session. It is closed soon after the last lease ends.

mod open;

use crate::clock::Moment;
use crate::core::{Core, random_part};
use crate::facts;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::Operation;
use crate::session::Session;
use crate::timing;
use crate::v1;
use open::{OpenSession, needs_replacement};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long an unused session stays open for the next lease.
const LINGER: Duration = Duration::from_millis(facts::LINGER_MS);

/// Why a session is replaced.
const NO_MESSAGE: &str = "its session sent nothing in time";
const NO_RENEWAL: &str = "no renewal arrived in time";

pub(crate) struct Keeper {
    core: Arc<Core>,
    wake: Arc<Notify>,
    /// Never held across an await. Locked before the locks of sessions and leases.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<LeaseKey, Arc<LeaseState>>,
    /// The shortest TTL of all leases: sets the interval of checks.
    shortest: Option<Duration>,
    /// The shortest TTL of the leases on the session: sets its beat interval, by which silence is measured. Leases that
    /// did not fit on the session are renewed separately and do not count.
    pace: Option<Duration>,
    current: Option<OpenSession>,
    /// Continues until the current session keeps every lease.
    previous: Option<OpenSession>,
    /// When the current session was opened, and when operations last left a session that works.
    opened: Option<Moment>,
    moved: Option<Moment>,
    /// When to open the next session, once one is needed.
    due: Option<Moment>,
    /// Sessions opened since one worked.
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

    /// Renews a lease from now on. A lost lease is never attached.
    pub(crate) fn add(self: &Arc<Self>, lease: Arc<LeaseState>) {
        let now = Moment::now();
        let known = lease.snapshot(now);
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
                    current.session.pace_changed(now);
                }
                // A lease granted on the session is attached already.
                if !current.session.is_attached(lease.key) {
                    current.session.attach(lease.clone(), now);
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

    /// Stops renewing a lease: no renewal is sent after this.
    pub(crate) fn remove(&self, key: LeaseKey) {
        let mut state = self.state();
        state.leases.remove(&key);
        state.detach(key);
        if state.leases.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Stops renewing a lease and sends its release on a working session, if one has a free permit. No renewal is sent
    /// after this.
    pub(crate) fn release(&self, key: LeaseKey, request: &v1::ReleaseRequest) -> Option<Operation> {
        let mut state = self.state();
        state.leases.remove(&key);
        let works = |open: &&OpenSession| open.session.health().works();
        let chosen = state.current.iter().chain(&state.previous).find(works).or(state.current.as_ref());
        let operation = chosen.and_then(|open| {
            let permit = open.session.try_permit_for_release()?;
            Some(open.session.release(key, request.clone(), permit))
        });
        // Releasing also detaches the lease from that session.
        state.detach(key);
        operation
    }

    /// The session for operations: the current one, unless it is unusable and the next one is due.
    pub(crate) fn session(self: &Arc<Self>) -> Arc<Session> {
        let now = Moment::now();
        let mut state = self.state();
        state.idle_since = None;
        if let Some(current) = state.usable(self.core.servers.preferred(), now) {
            return current.clone();
        }
        let session = self.open(&mut state, now);
        if !self.runs(&mut state) {
            self.core.spawn(run(self.clone()));
        }
        session
    }

    /// Returns whether the task was running, and marks it as running.
    fn runs(&self, state: &mut State) -> bool {
        std::mem::replace(&mut state.running, true)
    }

    /// The last client and the last lock were dropped.
    pub(crate) fn client_gone(&self) {
        self.state().client_gone = true;
        self.wake.notify_one();
    }

    /// Checks leases and sessions. Returns the time until the next check; `None` if nothing is left to do.
    fn check(self: &Arc<Self>, now: Moment) -> Option<Duration> {
        let state = &mut *self.state();
        let stuck = state.check_leases(now, self.core.servers.count());
        let health = state.current.as_ref().map(|current| current.session.health());
        state.retire_previous(now);
        let Some(shortest) = state.shortest else { return state.check_idle(now) };
        state.idle_since = None;
        // A working session that drains does not reset the backoff: sessions to a draining server must not be opened
        // quickly.
        if health.is_some_and(|health| health.works() && !health.draining) {
            state.tries = 0;
        }
        let tick = timing::tick(shortest);
        if !stuck && !health.is_none_or(|health| needs_replacement(health, now, state.pace)) {
            state.due = None;
            return Some(tick);
        }
        let pause = if health.is_none() { Duration::ZERO } else { random_part(timing::pause(shortest, state.tries)) };
        let room_at = health.and_then(|health| health.room_at);
        let due = (*state.due.get_or_insert(now.plus(pause))).max(room_at.unwrap_or(now));
        if now < due {
            return Some(tick.min(due.since(now)));
        }
        // A server that refused for a quota is asked again: it has as much for the client as any other.
        if let Some(current) = state.current.as_ref().filter(|_| room_at.is_none()) {
            let why = if current.is_silent(now) { NO_MESSAGE } else { NO_RENEWAL };
            self.core.servers.failed(current.session.server, &why);
        }
        self.open(state, now);
        Some(tick)
    }

    /// Opens a session with the preferred server and attaches all leases.
    fn open(&self, state: &mut State, now: Moment) -> Arc<Session> {
        if let Some(current) = state.current.as_ref().filter(|current| current.is_silent(now)) {
            current.session.went_silent();
        }
        let server = self.core.servers.preferred();
        tracing::debug!(server, leases = state.leases.len(), tries = state.tries, "opening a session");
        let session = Session::new(self.core.clone(), server, self.wake.clone(), state.tries, now);
        let mut leases: Vec<_> = state.leases.values().filter(|lease| lease.is_on_stream()).collect();
        leases.sort_by_cached_key(|lease| lease.snapshot(now).valid_until);
        for lease in leases {
            session.attach(lease.clone(), now);
        }
        let task = self.core.spawn(session.clone().run());
        let replaced = state.current.replace(OpenSession { session: session.clone(), task });
        // Keep the replaced session if it is useful and renews at least as many leases as the previous one.
        let rest = state.previous.as_ref().map_or(0, |previous| previous.renews(now));
        if let Some(replaced) = replaced.filter(|replaced| replaced.is_useful() && replaced.renews(now) >= rest) {
            state.previous = Some(replaced);
        }
        (state.due, state.opened) = (None, Some(now));
        state.tries = state.tries.saturating_add(1);
        session
    }
}

impl State {
    /// The current session, if operations should use it rather than a new one.
    fn usable(&mut self, preferred: usize, now: Moment) -> Option<&Arc<Session>> {
        let session = &self.current.as_ref()?.session;
        let health = session.health();
        // With leases, the interval of their beats tells whether it hangs.
        let hangs = health.hangs && self.shortest.is_none();
        let works = !health.ended && !health.draining && !hangs;
        let recently = |then: Option<Moment>, pause| then.is_some_and(|then| now.since(then) < pause);
        let stays = if works {
            session.server == preferred || recently(self.moved, timing::MOVE_INTERVAL_MIN)
        } else {
            recently(self.opened, timing::SESSION_INTERVAL_MIN) || health.room_at.is_some_and(|room_at| now < room_at)
        };
        if works && !stays {
            self.moved = Some(now);
        }
        stays.then_some(session)
    }

    /// Closes the previous session when it is no longer needed.
    fn retire_previous(&mut self, now: Moment) {
        let Some(previous) = &self.previous else { return };
        let no_leases = self.shortest.is_none();
        let works = self.current.as_ref().is_some_and(|current| current.session.health().works());
        let taken_over = no_leases || self.current.as_ref().is_some_and(OpenSession::keeps_all_leases);
        let needed = (previous.session.is_busy() || !taken_over) && !previous.is_silent(now);
        if previous.session.health().ended || ((works || no_leases) && !needed) {
            self.previous = None;
        }
    }

    /// Without leases: waits for the operations, then lingers.
    fn check_idle(&mut self, now: Moment) -> Option<Duration> {
        if self.previous.is_some() || self.current.as_ref().is_some_and(|current| current.session.is_busy()) {
            self.idle_since = None;
            return Some(timing::IDLE_TICK);
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
            open.session.detach(key);
        }
    }

    /// Removes lost leases, and returns whether the session fails to renew one.
    fn check_leases(&mut self, now: Moment, servers: usize) -> bool {
        let (mut shortest, mut pace, mut stuck, mut lost) = (None, None, false, Vec::new());
        for lease in self.leases.values() {
            let known = lease.snapshot(now);
            if known.is_lost() {
                lost.push(lease.key);
                continue;
            }
            shortest = shorter(shortest, known.ttl);
            if lease.is_on_stream() {
                pace = shorter(pace, known.ttl);
            }
            if known.is_overdue(now) {
                lease.at_risk(now, NO_RENEWAL);
                // A new attachment gets its time. If the store is the cause, reopening a session to the only server
                // does not help.
                let patient = now.since(known.attached) <= timing::answer_timeout(known.ttl);
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
    while let Some(pause) = keeper.check(Moment::now()) {
        tokio::select! {
            () = keeper.wake.notified() => {}
            () = keeper.core.sleep(pause) => {}
        }
    }
}
