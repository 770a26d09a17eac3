//! A client: acquires, retries through another replica, cancels, and computes the validity of its lease.

use super::{
    model::{Bug, Protocol},
    state::{Message, Phase, Reply, State},
    store::{Attempt, CommandKind, NO_REPLICA, StoreCommand},
};
use fencepost::testing::domain::{limits::COMMAND_WINDOW, time::StoreTime};
use std::time::Duration;

impl Protocol {
    /// Sends an attempt of the client's request through a replica.
    pub(super) fn call(&self, state: &mut State, client: usize, number: u32, replica: u8) {
        state.clients[client].phase = Phase::StoreCommand { attempt: number, failed: false, replica };
        let attempt = Attempt { request: state.request_of(client), number };
        let sent = state.now;
        if self.slow_calls {
            state.send(Message::Call { to: replica, attempt, copy: 0, sent });
        } else {
            self.take_call(state, replica, attempt, 0, sent);
        }
    }

    /// Begins a request.
    pub(super) fn begin(&self, state: &mut State, client: usize, replica: u8) {
        state.clients[client].begun += 1;
        self.call(state, client, 1, replica);
    }

    /// Retries the request. The old call is cancelled, if it is still open.
    pub(super) fn retry(&self, state: &mut State, client: usize, replica: u8) {
        let Phase::StoreCommand { attempt, .. } = state.clients[client].phase else { return };
        self.cancel_call(state, client);
        self.call(state, client, attempt + 1, replica);
    }

    /// Cancels the request.
    pub(super) fn cancel(&self, state: &mut State, client: usize) {
        self.cancel_call(state, client);
        state.clients[client].phase = Phase::Idle;
    }

    fn cancel_call(&self, state: &mut State, client: usize) {
        let Phase::StoreCommand { attempt, failed, replica } = state.clients[client].phase else { return };
        let attempt = Attempt { request: state.request_of(client), number: attempt };
        if !failed {
            state.send(Message::Cancel { to: replica, attempt });
        }
    }

    /// Handles a reply. Replies to older attempts are ignored.
    pub(super) fn take_reply(&self, state: &mut State, to: Attempt, reply: Reply) {
        let Some(client) = state.client_of(to.request) else { return };
        let Phase::StoreCommand { attempt, replica, .. } = state.clients[client].phase else { return };
        if attempt != to.number {
            return;
        }
        // A proxy that repeated the call cancels the other copy.
        for (other, it) in (0..self.replicas).zip(&state.replicas.clone()) {
            if it.calls.iter().any(|call| call.attempt == to) {
                state.send(Message::Cancel { to: other, attempt: to });
            }
        }
        let phase = match reply {
            Reply::Acquired { from, left } => {
                let from = if self.bug == Some(Bug::ValidFromReply) { state.now } else { from };
                let until = from.after(Duration::from_micros(left));
                // A lease that is no longer valid on arrival is lost.
                if until <= state.now { Phase::Idle } else { Phase::Holding { until } }
            }
            Reply::TimedOut => {
                state.ghost.report_timeout(to.request);
                Phase::Idle
            }
            Reply::Over => Phase::Idle,
            Reply::Failed if attempt < self.attempts => Phase::StoreCommand { attempt, failed: true, replica },
            Reply::Failed => Phase::Idle,
        };
        state.clients[client].phase = phase;
    }

    /// Releases the lock. The client stops its work before.
    pub(super) fn release(&self, state: &mut State, client: usize, through: Option<u8>) {
        self.send_lease_command(state, client, CommandKind::Release, through);
        if self.bug != Some(Bug::WorksUntilReleased) {
            state.clients[client].phase = Phase::Idle;
        }
    }

    /// Renews the lease.
    pub(super) fn renew(&self, state: &mut State, client: usize) {
        state.clients[client].renewals -= 1;
        self.send_lease_command(state, client, CommandKind::Renew, None);
    }

    fn send_lease_command(&self, state: &mut State, client: usize, kind: CommandKind, through: Option<u8>) {
        let attempt = Attempt { request: state.request_of(client), number: 0 };
        let not_after = state.store.clock(state.now).after(COMMAND_WINDOW);
        let next = through.map(|it| state.replicas[usize::from(it)].next()).unwrap_or_default();
        let from = through.unwrap_or(NO_REPLICA);
        let command = StoreCommand { kind, from, attempt, copy: 0, not_after, next };
        state.send(Message::ToStore { command, copy: None, sent: state.now });
    }

    /// Handles the answer to a renewal, which never shortens the validity.
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
