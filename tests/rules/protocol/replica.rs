//! A server replica: a model of `src/locks/wait.rs` and a store behind it.

use super::{
    model::{Bug, Protocol},
    state::{Call, CallOutcome, Message, Reply, State},
    store::{Answer, Attempt, CommandKind, NextCalls, StoreCommand},
};
use fencepost::testing::domain::{
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
        let command = StoreCommand { kind, from, attempt, copy: id, not_after, next: NextCalls::default() };
        // The answer to a cleanup is ignored.
        let copy = (kind != CommandKind::Drop).then_some(copy);
        state.send(Message::ToStore { command, copy, sent: state.now });
    }

    /// Runs a command at the store, and sends its answer and hints.
    pub(super) fn reach_store(&self, state: &mut State, command: &StoreCommand, copy: Option<u8>, sent: StoreTime) {
        let StoreCommand { kind, from, attempt, not_after, .. } = *command;
        if not_after < state.store.clock(state.now) {
            return self.refuse_late(state, command, copy);
        }
        if !state.store.is_alive(state.now, from) {
            self.hear_of(state, from);
        }
        let (answer, caused) = state.store.run(self, state.now, command);
        let clock = state.store.clock(state.now);
        state.ghost.watch(self, clock, command, &answer, &caused, &state.store);
        let mut own = Vec::new();
        for (replica, hinted) in caused.hints {
            if replica == from && copy.is_some() {
                own.push(hinted);
            } else {
                state.send(Message::Hint { to: replica, attempt: hinted });
            }
        }
        if let Answer::Released(Some((attempt, copy, outcome))) = &answer {
            let outcome = Self::outcome_for_call(outcome);
            state.send(Message::HandOver { to: from, attempt: *attempt, copy: *copy, outcome, sent });
        }
        match (kind, answer, copy) {
            (CommandKind::Renew, Answer::Of(Outcome::Renew(RenewOutcome::Renewed(renewed))), _) => {
                let left = fencepost::testing::domain::time::micros(renewed.left);
                state.send(Message::Renewed { request: attempt.request, from: sent, left });
            }
            (CommandKind::Release, ..) if self.bug == Some(Bug::WorksUntilReleased) => {
                state.send(Message::Released { request: attempt.request });
            }
            (_, Answer::Of(Outcome::Acquire(outcome)), Some(copy)) => {
                let outcome = Self::outcome_for_call(&outcome);
                state.send(Message::FromStore { to: from, attempt, copy, outcome, hints: own });
            }
            _ => {}
        }
    }

    /// Refuses a command that came too late. A cleanup is repeated until it is done.
    fn refuse_late(&self, state: &mut State, command: &StoreCommand, copy: Option<u8>) {
        let StoreCommand { kind, from, attempt, .. } = *command;
        match copy {
            Some(copy) => {
                let outcome = if kind == CommandKind::Acquire { CallOutcome::Failed } else { CallOutcome::TooLate };
                state.send(Message::FromStore { to: from, attempt, copy, outcome, hints: vec![] });
            }
            None if kind == CommandKind::Drop && state.replicas[usize::from(from)].alive => {
                self.send_command(state, from, kind, attempt, command.copy);
            }
            None => {}
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
                // Validity counts from the sending of this attempt, plus the time that the server held it
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

    /// Handles a hint. An offer without a call lapses: here no server declines it.
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

    /// A replica tells the store that it is alive, and finds what it missed: then all its waiters claim. The beat
    /// arrives at once, because an event in between is equivalent to one before or after.
    pub(super) fn beat(&self, state: &mut State, replica: u8) {
        let at = usize::from(replica);
        state.replicas[at].beat_due = false;
        if self.bug == Some(Bug::OnlyHeadBeats) && state.ghost.head().is_some_and(|head| head != replica) {
            return;
        }
        self.hear_of(state, replica);
        if std::mem::take(&mut state.replicas[at].misses) && self.bug != Some(Bug::IgnoresLostHints) {
            let mut queued: Vec<_> =
                state.replicas[at].calls.iter().filter(|it| it.queued).map(|it| it.attempt).collect();
            queued.dedup();
            queued.into_iter().for_each(|attempt| self.take_hint(state, replica, attempt));
        }
    }

    /// Applies what time has brought, at once: a command that came before would apply it first.
    pub(super) fn run_timer(&self, state: &mut State) {
        if state.store.is_due(state.now) {
            let command = StoreCommand::apply_time(state.store.clock(state.now));
            self.reach_store(state, &command, None, state.now);
        }
    }

    /// The store finds a replica dead, and looks at the lock.
    pub(super) fn suspect(&self, state: &mut State, replica: u8) {
        state.store.found_dead(state.now, replica);
        state.ghost.found_dead(replica);
        let command = StoreCommand::apply_time(state.store.clock(state.now));
        self.reach_store(state, &command, None, state.now);
    }

    /// The store hears of a replica.
    fn hear_of(&self, state: &mut State, replica: u8) {
        let was_silent = state.store.hear_of(state.now, replica);
        state.ghost.hear_of(state.store.clock(state.now), replica);
        if was_silent && self.bug != Some(Bug::IgnoresSilence) {
            state.replicas[usize::from(replica)].misses = true;
        }
    }

    /// The outcome for a call.
    fn outcome_for_call(outcome: &AcquireOutcome) -> CallOutcome {
        match outcome {
            AcquireOutcome::Granted(grant) => {
                CallOutcome::Granted { left: fencepost::testing::domain::time::micros(grant.left) }
            }
            AcquireOutcome::Queued => CallOutcome::Queued,
            AcquireOutcome::TimedOut(_) => CallOutcome::TimedOut,
            // A refusal because of the mode or the limit is final as well.
            AcquireOutcome::Contended(_)
            | AcquireOutcome::Ended
            | AcquireOutcome::ModeMismatch
            | AcquireOutcome::LimitMismatch(_) => CallOutcome::Ended,
            _ => CallOutcome::Failed,
        }
    }
}
