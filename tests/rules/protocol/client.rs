//! A client: asks, asks again through another replica, cancels, and reckons by itself how long it holds the lock.

use super::{
    model::{Bug, Protocol},
    state::{Message, Phase, Reply, State},
    store::{Ask, Asking, Attempt, NOBODY, NONE_KNOWN},
};
use fencepost::domain::{limits::COMMAND_WINDOW, time::StoreTime};
use std::time::Duration;

impl Protocol {
    /// Sends a transmission of the client's request through a replica.
    pub(super) fn call(&self, state: &mut State, client: usize, number: u32, replica: u8) {
        state.clients[client].phase = Phase::Asking { attempt: number, failed: false, replica };
        let attempt = Attempt { request: state.request_of(client), number };
        let sent = state.now;
        if self.slow_calls {
            state.send(Message::Call { to: replica, attempt, copy: 0, sent });
        } else {
            self.take_call(state, replica, attempt, 0, sent);
        }
    }

    /// The client begins a request.
    pub(super) fn begin(&self, state: &mut State, client: usize, replica: u8) {
        state.clients[client].begun += 1;
        self.call(state, client, 1, replica);
    }

    /// The client sends its request again. The old call goes with its connection, if it is still there.
    pub(super) fn retry(&self, state: &mut State, client: usize, replica: u8) {
        let Phase::Asking { attempt, .. } = state.clients[client].phase else { return };
        self.cancel_call(state, client);
        self.call(state, client, attempt + 1, replica);
    }

    /// The client does not want the lock any more.
    pub(super) fn cancel(&self, state: &mut State, client: usize) {
        self.cancel_call(state, client);
        state.clients[client].phase = Phase::Idle;
    }

    fn cancel_call(&self, state: &mut State, client: usize) {
        let Phase::Asking { attempt, failed, replica } = state.clients[client].phase else { return };
        let attempt = Attempt { request: state.request_of(client), number: attempt };
        if !failed {
            state.send(Message::Cancel { to: replica, attempt });
        }
    }

    /// A reply arrives. Those to older transmissions are not waited for any more.
    pub(super) fn take_reply(&self, state: &mut State, to: Attempt, reply: Reply) {
        let Some(client) = state.client_of(to.request) else { return };
        let Phase::Asking { attempt, replica, .. } = state.clients[client].phase else { return };
        if attempt != to.number {
            return;
        }
        // A proxy that had repeated the call lets go of the other one.
        for (other, it) in (0..self.replicas).zip(&state.replicas.clone()) {
            if it.calls.iter().any(|call| call.attempt == to) {
                state.send(Message::Cancel { to: other, attempt: to });
            }
        }
        let phase = match reply {
            Reply::Acquired { from, left } => {
                let from = if self.bug == Some(Bug::ValidFromReply) { state.now } else { from };
                let until = from.after(Duration::from_micros(left));
                // What is no longer valid on arrival is lost.
                if until <= state.now { Phase::Idle } else { Phase::Holding { until } }
            }
            Reply::TimedOut => {
                state.ghost.tell_over(to.request);
                Phase::Idle
            }
            Reply::Over => Phase::Idle,
            Reply::Failed if attempt < self.attempts => Phase::Asking { attempt, failed: true, replica },
            Reply::Failed => Phase::Idle,
        };
        state.clients[client].phase = phase;
    }

    /// The client gives the lock back; it stops its work before.
    pub(super) fn release(&self, state: &mut State, client: usize, through: Option<u8>) {
        self.send_lease_command(state, client, Ask::Release, through);
        if self.bug != Some(Bug::WorksUntilReleased) {
            state.clients[client].phase = Phase::Idle;
        }
    }

    /// The client renews its lease.
    pub(super) fn renew(&self, state: &mut State, client: usize) {
        state.clients[client].renewals -= 1;
        self.send_lease_command(state, client, Ask::Renew, None);
    }

    fn send_lease_command(&self, state: &mut State, client: usize, ask: Ask, through: Option<u8>) {
        let attempt = Attempt { request: state.request_of(client), number: 0 };
        let not_after = state.store.clock(state.now).after(COMMAND_WINDOW);
        let replica = through.map(|it| &state.replicas[usize::from(it)]);
        let (next, known_token) = replica.map_or((None, NONE_KNOWN), |it| (it.next(), it.known_token));
        let from = through.unwrap_or(NOBODY);
        let command = Asking { ask, from, attempt, copy: 0, not_after, life: state.store.life, known_token, next };
        state.send(Message::ToStore { command, copy: None, sent: state.now });
    }

    /// A renewal's answer: it replaces what the client reckons with only by more.
    pub(super) fn take_renewed(&self, state: &mut State, request: u8, from: StoreTime, left: u64) {
        let Some(client) = state.client_of(request) else { return };
        if let Phase::Holding { until } = &mut state.clients[client].phase {
            let from = if self.bug == Some(Bug::RenewedFromReply) { state.now } else { from };
            *until = (*until).max(from.after(Duration::from_micros(left)));
        }
    }

    pub(super) fn take_released(state: &mut State, request: u8) {
        let Some(client) = state.client_of(request) else { return };
        if matches!(state.clients[client].phase, Phase::Holding { .. }) {
            state.clients[client].phase = Phase::Idle;
        }
    }
}
