//! A server replica: a model of `src/locks/wait.rs` and a store behind it.

use super::{
    model::{Bug, Protocol},
    state::{Call, CallOutcome, Message, Reply, State},
    store::{Answer, Attempt, CommandKind, StoreCommand},
};
use fencepost::domain::{
    command::Outcome,
    limits::COMMAND_WINDOW,
    outcome::{AcquireOutcome, RenewOutcome},
    time::StoreTime,
};

impl Protocol {
    /// Handles a call.
    pub(super) fn take_call(&self, state: &mut State, to: u8, attempt: Attempt, copy: u8, sent: StoreTime) {
        if !state.replicas[usize::from(to)].alive {
            return;
        }
        let now = state.now;
        let call = Call { attempt, copy, sent, arrived: now, awaiting_since: Some(now), queued: false, hinted: false };
        state.replicas[usize::from(to)].calls.push(call);
        state.replicas[usize::from(to)].calls.sort_unstable();
        self.send_command(state, to, CommandKind::Acquire, attempt, copy);
    }

    /// Sends a command to the store.
    pub(super) fn send_command(&self, state: &mut State, from: u8, kind: CommandKind, attempt: Attempt, copy: u8) {
        let clock = state.store.clock(state.now);
        let mut not_after = clock.after(COMMAND_WINDOW);
        if self.bug == Some(Bug::NoNotAfter) && kind != CommandKind::Drop {
            not_after = clock.after(COMMAND_WINDOW * 100);
        }
        let id = if self.bug == Some(Bug::CleansUpByAttempt) { 0 } else { copy };
        let command = StoreCommand { kind, from, attempt, copy: id, not_after, next: None };
        // The answer to a cleanup is ignored.
        let copy = (kind != CommandKind::Drop).then_some(copy);
        state.send(Message::ToStore { command, copy, sent: state.now });
    }

    /// Runs a command at the store, and sends its answer and hints.
    pub(super) fn reach_store(&self, state: &mut State, command: &StoreCommand, copy: Option<u8>, sent: StoreTime) {
        let (answer, caused) = state.store.run(state.now, self.ttl, self.wait, command);
        let clock = state.store.clock(state.now);
        state.ghost.watch(clock, command, &answer, &caused, &state.store);
        let StoreCommand { kind, from, attempt, .. } = *command;
        let mut own = Vec::new();
        for (replica, hinted) in caused.hints {
            if replica == from && copy.is_some() {
                own.push(hinted);
            } else if self.hints {
                state.send(Message::Hint { to: replica, attempt: hinted });
            }
        }
        if let (Answer::Released(Some(outcome)), Some((attempt, copy))) = (&answer, command.next) {
            state.send(Message::HandOver {
                to: from,
                attempt,
                copy,
                outcome: Self::outcome_for_call(outcome, CommandKind::Claim),
                sent,
            });
        }
        match (kind, answer, copy) {
            (CommandKind::Renew, Answer::Of(Outcome::Renew(RenewOutcome::Renewed(renewed))), _) => {
                let left = fencepost::domain::time::micros(renewed.left);
                state.send(Message::Renewed { request: attempt.request, from: sent, left });
            }
            (CommandKind::Release, ..) if self.bug == Some(Bug::WorksUntilReleased) => {
                state.send(Message::Released { request: attempt.request });
            }
            (_, Answer::Of(Outcome::Acquire(outcome)), Some(copy)) => {
                let outcome = Self::outcome_for_call(&outcome, kind);
                let returned = caused.returned;
                state.send(Message::FromStore { to: from, attempt, copy, outcome, hints: own, returned });
            }
            _ => {}
        }
    }

    /// Handles an answer of the store. Without its call, it is ignored.
    pub(super) fn take_answer(&self, state: &mut State, to: u8, attempt: Attempt, copy: u8, outcome: CallOutcome) {
        let replica = &mut state.replicas[usize::from(to)];
        let Some(index) = replica.calls.iter().position(|it| (it.attempt, it.copy) == (attempt, copy)) else { return };
        let call = &mut replica.calls[index];
        let Some(sent) = call.awaiting_since.take() else { return };
        if outcome == CallOutcome::Queued {
            call.queued = true;
            if std::mem::take(&mut call.hinted) {
                self.claim(state, to, index);
            }
            return;
        }
        self.end_call(state, to, index, outcome, sent);
    }

    /// Handles the outcome of a claim by a release through this replica. Without its call, it is ignored: the cleanup
    /// of the call has been sent.
    pub(super) fn take_hand_over(
        &self,
        state: &mut State,
        to: u8,
        its: (Attempt, u8),
        outcome: CallOutcome,
        sent: StoreTime,
    ) {
        let calls = &state.replicas[usize::from(to)].calls;
        if let Some(index) = calls.iter().position(|call| (call.attempt, call.copy) == its) {
            self.end_call(state, to, index, outcome, sent);
        }
    }

    /// Ends a call with the outcome of a command that was sent at `sent`.
    fn end_call(&self, state: &mut State, to: u8, index: usize, outcome: CallOutcome, sent: StoreTime) {
        let call = state.replicas[usize::from(to)].calls[index];
        let attempt = call.attempt;
        let reply = match outcome {
            CallOutcome::Granted { left } => {
                // DESIGN 5: validity counts from the sending of this attempt, plus the time that the server held it
                // before it sent the command.
                let held_for = sent.since(call.arrived);
                let from = call.sent.after(held_for);
                Reply::Acquired { from, left }
            }
            CallOutcome::TimedOut => Reply::TimedOut,
            CallOutcome::Ended => Reply::Over,
            CallOutcome::Failed | CallOutcome::TooLate | CallOutcome::Queued => Reply::Failed,
        };
        state.replicas[usize::from(to)].calls.remove(index);
        if outcome == CallOutcome::TooLate {
            self.send_command(state, to, CommandKind::Drop, attempt, call.copy);
        }
        state.send(Message::Reply { attempt, reply });
    }

    /// Handles a hint. An offer without a call lapses; only the Redis store declines it.
    pub(super) fn take_hint(&self, state: &mut State, to: u8, attempt: Attempt) {
        for index in 0..state.replicas[usize::from(to)].calls.len() {
            if state.replicas[usize::from(to)].calls[index].attempt == attempt {
                self.claim(state, to, index);
            }
        }
    }

    /// Claims for a call, now or when its outstanding answer arrives.
    fn claim(&self, state: &mut State, replica: u8, index: usize) {
        let now = state.now;
        let call = &mut state.replicas[usize::from(replica)].calls[index];
        if call.awaiting_since.is_some() {
            call.hinted = true;
            return;
        }
        call.awaiting_since = Some(now);
        let (attempt, copy) = (call.attempt, call.copy);
        self.send_command(state, replica, CommandKind::Claim, attempt, copy);
    }

    /// Ends the wait of a call.
    pub(super) fn give_up(&self, state: &mut State, replica: u8, index: usize) {
        let now = state.now;
        let call = &mut state.replicas[usize::from(replica)].calls[index];
        let (attempt, copy) = (call.attempt, call.copy);
        call.awaiting_since = Some(now);
        self.send_command(state, replica, CommandKind::GiveUp, attempt, copy);
    }

    /// Drops a call: its client has gone, or its answer has timed out.
    pub(super) fn drop_call(&self, state: &mut State, replica: u8, index: usize) {
        let call = state.replicas[usize::from(replica)].calls.remove(index);
        self.send_command(state, replica, CommandKind::Drop, call.attempt, call.copy);
    }

    /// Polls for the waiters of a replica. The answer arrives at once, because an event in between is equivalent to one
    /// before or after.
    pub(super) fn poll(&self, state: &mut State, replica: u8) {
        let at = usize::from(replica);
        state.replicas[at].poll_due = false;
        let clock = state.store.clock(state.now);
        let (not_after, attempt) = (clock.after(COMMAND_WINDOW), Attempt { request: 0xff, number: 0 });
        let poll = StoreCommand { kind: CommandKind::Poll, from: replica, attempt, copy: 0, not_after, next: None };
        if self.bug == Some(Bug::OnlyHeadPolls) && state.ghost.head().is_some_and(|head| head != replica) {
            return;
        }
        let (answer, caused) = state.store.run(state.now, self.ttl, self.wait, &poll);
        state.ghost.watch(clock, &poll, &answer, &caused, &state.store);
        let Answer::Polled(polled) = answer else { unreachable!("a poll has its own answer") };
        if self.hints {
            for (to, attempt) in caused.hints.into_iter().filter(|(to, _)| *to != replica) {
                state.send(Message::Hint { to, attempt });
            }
        }
        if let Some((request, number)) = polled.offered {
            let request = request.0.as_bytes()[0];
            self.take_hint(state, replica, Attempt { request, number });
        }
        let mut queued: Vec<_> = state.replicas[at].calls.iter().filter(|it| it.queued).map(|it| it.attempt).collect();
        queued.dedup();
        let missing = polled.waiters + usize::from(polled.offered.is_some()) < queued.len();
        let again = std::mem::replace(&mut state.replicas[at].missing, missing) && missing;
        if (caused.returned || again) && self.bug != Some(Bug::IgnoresDeletion) {
            queued.into_iter().for_each(|attempt| self.take_hint(state, replica, attempt));
        }
    }

    /// Handles the effects of a command on other calls of its replica.
    pub(super) fn take_effects(&self, state: &mut State, to: u8, own: Attempt, hints: &[Attempt], returned: bool) {
        hints.iter().for_each(|hint| self.take_hint(state, to, *hint));
        if returned && self.bug != Some(Bug::IgnoresDeletion) {
            let calls = state.replicas[usize::from(to)].calls.clone();
            let others = calls.iter().filter(|it| it.queued && it.attempt != own);
            others.for_each(|call| self.take_hint(state, to, call.attempt));
        }
    }

    /// The outcome for a call.
    fn outcome_for_call(outcome: &AcquireOutcome, kind: CommandKind) -> CallOutcome {
        match outcome {
            AcquireOutcome::Granted(grant) => {
                CallOutcome::Granted { left: fencepost::domain::time::micros(grant.left) }
            }
            AcquireOutcome::Queued => CallOutcome::Queued,
            AcquireOutcome::TimedOut(_) => CallOutcome::TimedOut,
            AcquireOutcome::Contended(_) | AcquireOutcome::Ended => CallOutcome::Ended,
            AcquireOutcome::TooLate(_) if kind != CommandKind::Acquire => CallOutcome::TooLate,
            _ => CallOutcome::Failed,
        }
    }
}
