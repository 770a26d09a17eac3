//! A server replica: what `src/locks/wait.rs` and `src/store/redis` do with calls, answers, hints and polls.

use super::{
    model::{Bug, Protocol},
    state::{Call, Message, Reply, Said, State},
    store::{Answer, Ask, Asking, Attempt, NONE_KNOWN},
};
use fencepost::domain::{
    command::Outcome,
    limits::COMMAND_WINDOW,
    outcome::{AcquireOutcome, RenewOutcome},
    time::StoreTime,
};

impl Protocol {
    /// A call arrives.
    pub(super) fn take_call(&self, state: &mut State, to: u8, attempt: Attempt, copy: u8, sent: StoreTime) {
        if !state.replicas[usize::from(to)].alive {
            return;
        }
        let now = state.now;
        let call = Call { attempt, copy, sent, arrived: now, asked: Some(now), queued: false, hinted: false };
        state.replicas[usize::from(to)].calls.push(call);
        state.replicas[usize::from(to)].calls.sort_unstable();
        self.ask(state, to, Ask::Acquire, attempt, copy);
    }

    /// Sends a command to the store.
    pub(super) fn ask(&self, state: &mut State, from: u8, ask: Ask, attempt: Attempt, copy: u8) {
        let clock = state.store.clock(state.now);
        let mut not_after = clock.after(COMMAND_WINDOW);
        if self.bug == Some(Bug::NoNotAfter) && ask != Ask::Drop {
            not_after = clock.after(COMMAND_WINDOW * 100);
        }
        let known_token = state.replicas.get(usize::from(from)).map_or(NONE_KNOWN, |replica| replica.known_token);
        let life = state.store.life;
        let id = if self.bug == Some(Bug::CleansUpByAttempt) { 0 } else { copy };
        let command = Asking { ask, from, attempt, copy: id, not_after, life, known_token, next: None };
        // Nobody waits for the answer to a cleanup.
        let copy = (ask != Ask::Drop).then_some(copy);
        state.send(Message::ToStore { command, copy, sent: state.now });
    }

    /// The store carries out a command that has arrived.
    pub(super) fn reach_store(&self, state: &mut State, command: &Asking, copy: Option<u8>, sent: StoreTime) {
        let (answer, set_off) = state.store.run(state.now, self.ttl, self.wait, command);
        let clock = state.store.clock(state.now);
        state.ghost.watch(clock, command, &answer, &set_off, &state.store);
        let Asking { ask, from, attempt, .. } = *command;
        let mut own = Vec::new();
        for (replica, hinted) in set_off.hints {
            if replica == from && copy.is_some() {
                own.push(hinted);
            } else if self.hints {
                state.send(Message::Hint { to: replica, attempt: hinted });
            }
        }
        if let (Answer::Released(Some(outcome)), Some((attempt, copy))) = (&answer, command.next) {
            state.send(Message::HandedOver { to: from, attempt, copy, said: self.said(outcome, Ask::Claim), sent });
        }
        match (ask, answer, copy) {
            (Ask::Renew, Answer::Of(Outcome::Renew(RenewOutcome::Renewed(renewed))), _) => {
                let left = fencepost::domain::time::micros(renewed.left);
                state.send(Message::Renewed { request: attempt.request, from: sent, left });
            }
            (Ask::Release, ..) if self.bug == Some(Bug::WorksUntilReleased) => {
                state.send(Message::Released { request: attempt.request });
            }
            (_, Answer::Of(Outcome::Acquire(outcome)), Some(copy)) => {
                let said = self.said(&outcome, ask);
                let returned = set_off.returned;
                state.send(Message::FromStore { to: from, attempt, copy, said, hints: own, returned });
            }
            _ => {}
        }
    }

    /// An answer comes back to a replica. If its call is gone, nobody reads it.
    pub(super) fn take_answer(&self, state: &mut State, to: u8, attempt: Attempt, copy: u8, said: Said) {
        let replica = &mut state.replicas[usize::from(to)];
        let Some(place) = replica.calls.iter().position(|it| (it.attempt, it.copy) == (attempt, copy)) else { return };
        let call = &mut replica.calls[place];
        let Some(asked) = call.asked.take() else { return };
        if said == Said::Queued {
            call.queued = true;
            if std::mem::take(&mut call.hinted) {
                self.claim(state, to, place);
            }
            return;
        }
        self.end_call(state, to, place, said, asked);
    }

    /// What was claimed for a call by a release that went through its replica. If the call is gone, it has been cleaned
    /// up after.
    pub(super) fn take_handed_over(&self, state: &mut State, to: u8, its: (Attempt, u8), said: Said, sent: StoreTime) {
        let calls = &state.replicas[usize::from(to)].calls;
        if let Some(place) = calls.iter().position(|call| (call.attempt, call.copy) == its) {
            self.end_call(state, to, place, said, sent);
        }
    }

    /// A call ends with what was said to a command that was sent then.
    fn end_call(&self, state: &mut State, to: u8, place: usize, said: Said, asked: StoreTime) {
        let replica = &mut state.replicas[usize::from(to)];
        let (call, attempt) = (replica.calls[place], replica.calls[place].attempt);
        let reply = match said {
            Said::Granted { token, left } => {
                replica.known_token = replica.known_token.max(token);
                // DESIGN 5: counted from the sending of this transmission, plus what it was held for before the script
                // was sent.
                let held_for = asked.since(call.arrived);
                let from = call.sent.after(held_for);
                Reply::Acquired { from, left }
            }
            Said::TimedOut => Reply::TimedOut,
            Said::Ended => Reply::Over,
            Said::Failed | Said::TooLate | Said::Queued => Reply::Failed,
        };
        state.replicas[usize::from(to)].calls.remove(place);
        if said == Said::TooLate {
            self.ask(state, to, Ask::Drop, attempt, call.copy);
        }
        state.send(Message::Reply { attempt, reply });
    }

    /// A hint arrives. (An offer that nobody here waits for is declined by Redis' scripts only: here it lapses.)
    pub(super) fn take_hint(&self, state: &mut State, to: u8, attempt: Attempt) {
        for place in 0..state.replicas[usize::from(to)].calls.len() {
            if state.replicas[usize::from(to)].calls[place].attempt == attempt {
                self.claim(state, to, place);
            }
        }
    }

    /// Claims for a call, now or as soon as its answer is here.
    fn claim(&self, state: &mut State, replica: u8, place: usize) {
        let now = state.now;
        let call = &mut state.replicas[usize::from(replica)].calls[place];
        if call.asked.is_some() {
            call.hinted = true;
            return;
        }
        call.asked = Some(now);
        let (attempt, copy) = (call.attempt, call.copy);
        self.ask(state, replica, Ask::Claim, attempt, copy);
    }

    /// A call's time is over.
    pub(super) fn give_up(&self, state: &mut State, replica: u8, place: usize) {
        let now = state.now;
        let call = &mut state.replicas[usize::from(replica)].calls[place];
        let (attempt, copy) = (call.attempt, call.copy);
        call.asked = Some(now);
        self.ask(state, replica, Ask::GiveUp, attempt, copy);
    }

    /// A call's client has gone, or its answer has not come in time.
    pub(super) fn drop_call(&self, state: &mut State, replica: u8, place: usize) {
        let call = state.replicas[usize::from(replica)].calls.remove(place);
        self.ask(state, replica, Ask::Drop, call.attempt, call.copy);
    }

    /// A replica polls for its waiters, and has the answer at once: what could come between, may as well come before or
    /// after.
    pub(super) fn poll(&self, state: &mut State, replica: u8) {
        let at = usize::from(replica);
        state.replicas[at].poll_due = false;
        let clock = state.store.clock(state.now);
        let (not_after, life) = (clock.after(COMMAND_WINDOW), state.store.life);
        let attempt = Attempt { request: 0xff, number: 0 };
        let known_token = state.replicas[at].known_token;
        let poll = Asking { ask: Ask::Poll, from: replica, attempt, copy: 0, not_after, life, known_token, next: None };
        if self.bug == Some(Bug::OnlyTheHeadPolls) && state.ghost.head().is_some_and(|head| head != replica) {
            return;
        }
        let (answer, set_off) = state.store.run(state.now, self.ttl, self.wait, &poll);
        state.ghost.watch(clock, &poll, &answer, &set_off, &state.store);
        let Answer::Polled(polled) = answer else { unreachable!("a poll is answered so") };
        if self.hints {
            for (to, attempt) in set_off.hints.into_iter().filter(|(to, _)| *to != replica) {
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
        if (set_off.returned || again) && self.bug != Some(Bug::DeafToDeletion) {
            queued.into_iter().for_each(|attempt| self.take_hint(state, replica, attempt));
        }
    }

    /// What else an answer tells its replica: of its other calls.
    pub(super) fn heed(&self, state: &mut State, to: u8, own: Attempt, hints: &[Attempt], returned: bool) {
        hints.iter().for_each(|hint| self.take_hint(state, to, *hint));
        if returned && self.bug != Some(Bug::DeafToDeletion) {
            let calls = state.replicas[usize::from(to)].calls.clone();
            let others = calls.iter().filter(|it| it.queued && it.attempt != own);
            others.for_each(|call| self.take_hint(state, to, call.attempt));
        }
    }

    /// What an answer says to the call.
    fn said(&self, outcome: &AcquireOutcome, ask: Ask) -> Said {
        match outcome {
            AcquireOutcome::Granted(grant) => {
                // Elsewhere a token says nothing that its lease does not, and would tell equal states apart.
                let token = if self.tracks_tokens() { grant.token.get() } else { 0 };
                let token = StoreTime::from_micros(token);
                Said::Granted { token, left: fencepost::domain::time::micros(grant.left) }
            }
            AcquireOutcome::Queued => Said::Queued,
            AcquireOutcome::TimedOut(_) => Said::TimedOut,
            AcquireOutcome::Contended(_) | AcquireOutcome::Ended => Said::Ended,
            AcquireOutcome::TooLate(_) | AcquireOutcome::LeftBehind if ask != Ask::Acquire => Said::TooLate,
            _ => Said::Failed,
        }
    }
}
