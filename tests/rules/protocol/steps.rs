//! The next actions of clients, replicas, the network and time in a state.

use super::{
    model::{Action, Protocol},
    state::{Message, Phase, State},
    store::CommandKind,
};

impl Protocol {
    pub(super) fn of_clients(&self, state: &State, actions: &mut Vec<Action>) {
        let alive: Vec<u8> = (0..self.replicas).filter(|replica| state.replicas[usize::from(*replica)].alive).collect();
        for (client, it) in state.clients.iter().enumerate() {
            match it.phase {
                Phase::Idle if it.begun < self.requests => {
                    // Symmetry: clients that ask for the same are alike, and so are replicas, so the first steps are in
                    // order.
                    let first = state.clients.iter().all(|it| it.begun == 0);
                    let alike = (0..client).rev().find(|other| self.asks[*other] == self.asks[client]);
                    if it.begun > 0 || alike.is_none_or(|other| state.clients[other].begun > 0) {
                        let through = alive.iter().take(if first { 1 } else { usize::MAX });
                        actions.extend(through.map(|replica| Action::Begin { client, replica: *replica }));
                    }
                }
                Phase::Idle => {}
                Phase::StoreCommand { attempt, failed, .. } => {
                    if attempt < self.attempts && !state.ended_long_ago(state.request_of(client)) {
                        actions.extend(alive.iter().map(|replica| Action::Retry { client, replica: *replica }));
                    }
                    if self.cancels || failed {
                        actions.push(Action::Cancel { client });
                    }
                }
                Phase::Holding { .. } => {
                    let request = state.request_of(client);
                    let in_flight = |message: &Message| match message {
                        Message::ToStore { command, .. } => {
                            command.kind == CommandKind::Release && command.attempt.request == request
                        }
                        Message::Released { request: it } => *it == request,
                        _ => false,
                    };
                    if self.releases && !state.network.iter().any(in_flight) {
                        actions.push(Action::Release { client, through: None });
                        let claiming = alive.iter().filter(|it| state.replicas[usize::from(**it)].next()[0].is_some());
                        actions.extend(claiming.map(|it| Action::Release { client, through: Some(*it) }));
                    }
                    if it.renewals > 0 {
                        actions.push(Action::Renew { client });
                    }
                }
            }
        }
    }

    pub(super) fn of_replicas(&self, state: &State, actions: &mut Vec<Action>) {
        if state.budget.suspicions > 0 {
            let alive = (0..self.replicas).filter(|replica| state.store.is_alive(state.now, *replica));
            actions.extend(alive.map(|replica| Action::Suspect { replica }));
        }
        for (at, replica) in (0..self.replicas).zip(&state.replicas).filter(|(_, replica)| replica.alive) {
            if replica.beat_due {
                actions.push(Action::Beat { replica: at });
            }
            if state.budget.crashes > 0 && !replica.calls.is_empty() {
                actions.push(Action::Crash { replica: at });
            }
            if self.timeouts {
                let waiting = replica.calls.iter().enumerate().filter(|(_, call)| call.awaiting_since.is_none());
                actions.extend(waiting.map(|(call, _)| Action::GiveUp { replica: at, call }));
            }
        }
    }

    pub(super) fn of_network(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, message) in state.network.iter().enumerate() {
            if at > 0 && state.network[at - 1] == *message {
                continue;
            }
            actions.push(Action::Deliver(at));
            if state.budget.losses > 0 {
                actions.push(Action::Lose(at));
            }
            let repeats = match message {
                Message::Call { copy, .. } => *copy == 0,
                Message::ToStore { copy, .. } => copy.is_none(),
                _ => false,
            };
            if repeats && state.budget.repeats > 0 {
                actions.push(Action::Repeat(at));
            }
        }
    }

    pub(super) fn of_time(&self, state: &State, actions: &mut Vec<Action>) {
        let budget = state.budget;
        let busy = !state.network.is_empty() || state.replicas.iter().any(|replica| replica.beat_due);
        if (!busy || budget.delays > 0) && budget.ticks != Some(0) {
            actions.push(Action::Tick);
        }
        if state.network.is_empty() && budget.leaps > 0 {
            actions.push(Action::Leap);
        }
        if budget.restarts > 0 {
            actions.push(Action::RestartStore);
        }
    }
}
