//! What comes of a state when faults end, but no hint ever arrives again: polls alone must serve everybody who waits.

use super::{
    model::Protocol,
    state::{Message, State},
    store::SECOND,
};
use std::time::Duration;

impl Protocol {
    /// Whether each call that waits is answered in bounded time, even if no holder gives the lock back before its lease
    /// ends.
    pub(super) fn serves_all(&self, state: &State) -> bool {
        let waiting: Vec<_> = calls(state).collect();
        if waiting.is_empty() {
            return true;
        }
        let calm = Self { hints: false, ..*self };
        let mut state = state.clone();
        // Each who is served may hold the lock for its TTL, each who is dead may let its offer lapse, and a dead
        // replica is noticed.
        let each = self.ttl + 3 * SECOND + 2 * self.tick;
        let bound = 3 * SECOND + each * (1 + u64::from(self.clients) * u64::from(self.requests));
        for _ in 0..bound / self.tick {
            calm.settle(&mut state);
            if !calls(&state).any(|call| waiting.contains(&call)) {
                return true;
            }
            calm.pass(&mut state, Duration::from_micros(self.tick));
        }
        false
    }

    /// All messages arrive, and all polls are done.
    fn settle(&self, state: &mut State) {
        loop {
            if let Some(message) = state.network.first() {
                match message {
                    Message::Hint { .. } => drop(state.network.remove(0)),
                    _ => self.deliver(state, 0),
                }
            } else if let Some(replica) = (0..self.replicas).find(|at| state.replicas[usize::from(*at)].poll_due) {
                self.poll(state, replica);
            } else {
                return;
            }
        }
    }
}

fn calls(state: &State) -> impl Iterator<Item = (usize, super::store::Attempt, u8)> {
    let replicas = state.replicas.iter().enumerate();
    replicas.flat_map(|(at, replica)| replica.calls.iter().map(move |call| (at, call.attempt, call.copy)))
}
