//! Liveness: if no more faults occur and no more hints arrive, beats alone must serve every waiter.

use super::{
    model::Protocol,
    state::{Message, State},
    store::SECOND,
};
use std::time::Duration;

impl Protocol {
    /// Whether each waiting call is answered in bounded time, even if holders do not release the lock before their
    /// leases end.
    pub(super) fn serves_all_waiters(&self, state: &State) -> bool {
        let waiting: Vec<_> = calls(state).collect();
        if waiting.is_empty() {
            return true;
        }
        let mut state = state.clone();
        // Each live waiter may hold the lock for its TTL and leave a delay, each dead one may let its offer lapse, and
        // the silence of a dead replica must be noticed first.
        let each = self.ttl + self.lock_delay + 3 * SECOND + 2 * self.tick;
        let bound = 3 * SECOND + each * (1 + u64::from(self.clients) * u64::from(self.requests));
        for _ in 0..bound / self.tick {
            self.come_to_rest(&mut state);
            if !calls(&state).any(|call| waiting.contains(&call)) {
                return true;
            }
            self.pass(&mut state, Duration::from_micros(self.tick));
        }
        false
    }

    /// Delivers all messages but hints, and sends all beats.
    fn come_to_rest(&self, state: &mut State) {
        loop {
            if let Some(message) = state.network.first() {
                match message {
                    Message::Hint { .. } => Self::lose(state, 0),
                    _ => self.deliver(state, 0),
                }
            } else if let Some(replica) = (0..self.replicas).find(|at| state.replicas[usize::from(*at)].beat_due) {
                self.beat(state, replica);
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
