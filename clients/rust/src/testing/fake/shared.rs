//! The state of a fake server, and its pauses.

use super::clients::Clients;
use super::locks::Locks;
use crate::clock::Moment;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The pause between two looks at the clock.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) locks: Locks,
    pub(super) clients: Clients,
}

impl State {
    /// Ends what is over, and sends the beats that are due.
    fn tick(&mut self, now: Moment) {
        self.locks.expire(now, &mut self.clients);
        self.clients.beat(&self.locks.shortest_ttls(), now);
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Locked for one change only, never across an await.
    state: Mutex<State>,
    /// Changed with the state locked.
    paused: watch::Sender<bool>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), paused: watch::Sender::new(false) }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pause(&self) {
        let _unchanged = self.state();
        self.paused.send_replace(true);
    }

    pub(super) fn resume(&self) {
        let mut state = self.state();
        // Before a late message renews a lease that has run out.
        change(&mut state, State::tick);
        self.paused.send_replace(false);
    }

    /// Changes the state, paused or not: for tests.
    pub(super) fn change<R>(&self, act: impl FnOnce(&mut State, Moment) -> R) -> R {
        change(&mut self.state(), act)
    }

    /// Changes the state once the server is not paused: for clients. Dropped before that, it changes nothing.
    pub(super) async fn serve<R>(&self, act: impl FnOnce(&mut State, Moment) -> R) -> R {
        loop {
            self.running().await;
            let mut state = self.state();
            if !*self.paused.borrow() {
                return change(&mut state, act);
            }
        }
    }

    /// Waits for the end of a pause. Cancel-safe.
    pub(super) async fn running(&self) {
        let mut paused = self.paused.subscribe();
        // An error is impossible: the sender is in `self`.
        let _running = paused.wait_for(|paused| !paused).await;
    }

    /// Looks at the clock for ever, except during pauses.
    pub(super) async fn tick(&self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.serve(State::tick).await;
        }
    }
}

fn change<R>(state: &mut State, act: impl FnOnce(&mut State, Moment) -> R) -> R {
    let now = Moment::now();
    let result = act(state, now);
    for stream in state.clients.take_broken() {
        state.locks.leave_stream(stream, now);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::clients::Messages;
    use super::super::lock::Caller;
    use super::*;
    use crate::proto::wire;
    use crate::v1;

    /// Acquires a lock on a new stream. Returns the stream and its messages.
    fn acquire(shared: &Shared, name: &str, ttl: Duration) -> (u64, Messages<v1::SessionResponse>) {
        shared.change(|state, now| {
            let (stream, messages) = state.clients.open_stream();
            let caller = Caller::Operation { stream, operation: 1, handle: 1 };
            let request = v1::AcquireRequest { lock_name: name.to_owned(), ttl: wire(ttl), ..Default::default() };
            state.locks.acquire(request, caller, now, &mut state.clients);
            (stream, messages)
        })
    }

    fn is_held(shared: &Shared, name: &str) -> bool {
        shared.change(|state, _| state.locks.lock(name).current.is_some())
    }

    #[test]
    fn a_lease_that_ran_out_during_a_pause_has_ended_before_late_messages_are_read() {
        let shared = Shared::default();
        let _over = acquire(&shared, "over", Duration::ZERO);
        let _held = acquire(&shared, "held", Duration::from_secs(60));
        shared.pause();
        assert!(is_held(&shared, "over") && is_held(&shared, "held"));
        shared.resume();
        assert!(!is_held(&shared, "over") && is_held(&shared, "held"));
    }

    #[test]
    fn no_stream_keeps_a_lease_whose_grant_was_dropped() {
        let shared = Shared::default();
        let kept = acquire(&shared, "kept", Duration::from_secs(60));
        shared.change(|state, _| state.clients.drop_reply());
        let dropped = acquire(&shared, "dropped", Duration::from_secs(60));
        assert!(is_held(&shared, "dropped"));
        let keepers: Vec<_> = shared.change(|state, _| state.locks.shortest_ttls().into_keys().collect());
        assert_eq!(keepers, [kept.0]);
        assert!(!shared.change(|state, _| state.clients.is_open(dropped.0)));
    }
}
