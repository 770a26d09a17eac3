//! Ghost state: an observer of the whole protocol, which checks the invariants.

use super::store::{Answer, Attempt, Caused, CommandKind, Store, StoreCommand};
use fencepost::testing::domain::{
    command::Outcome,
    outcome::{AcquireOutcome, RenewOutcome},
    time::StoreTime,
};
use std::{collections::BTreeSet, time::Duration};

/// An invariant. C1 to C7 are the names of the verification plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Invariant {
    /// C1 and C2: a later grant has a higher token.
    TokensRise,
    /// C3: at most one client believes that it holds the lock.
    Exclusion,
    /// C6: first come, first served. Only waiters that were silent, dropped, or let their offer lapse are skipped.
    InOrder,
    /// C7: a request is granted the lock once.
    OncePerRequest,
    /// An ended lease stays ended.
    NoRevival,
    /// A message in flight does not bring a dropped call back.
    DroppedIsFinal,
    /// A request whose client received a timeout is not granted the lock afterwards.
    TimeoutIsFinal,
}

/// A queued request, according to the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    request: u8,
    attempt: u32,
    replica: u8,
    /// An offer to it lapsed, and it has sent nothing since.
    missed: bool,
    dropped: bool,
}

/// The observations so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    pub(crate) broken: BTreeSet<Invariant>,
    pub(crate) highest_token: u64,
    granted: BTreeSet<u8>,
    /// Requests whose lease ended, and when.
    ended: Vec<(u8, StoreTime)>,
    dropped: BTreeSet<Attempt>,
    /// Requests whose client received a timeout.
    timed_out: BTreeSet<u8>,
    queue: Vec<Waiter>,
    /// The request that the lock is offered to, and until when (on the store's clock).
    offered: Option<(u8, StoreTime)>,
    /// When the store heard of each replica last.
    heartbeats: Vec<(u8, StoreTime)>,
    /// Replicas that were found dead, and not heard of since.
    dead: BTreeSet<u8>,
    /// The store has lost its memory. From then on only the tokens are checked.
    pub(crate) store_forgot: bool,
    /// A proxy repeats calls, so attempts do not identify calls.
    pub(crate) repeated: bool,
}

const SILENT: Duration = Duration::from_secs(3);
const GONE: Duration = Duration::from_secs(30);

impl Ghost {
    /// Observes a command that the store runs.
    pub(crate) fn watch(
        &mut self,
        now: StoreTime,
        command: &StoreCommand,
        answer: &Answer,
        caused: &Caused,
        store: &Store,
    ) {
        if let Some((_, token)) = caused.granted {
            self.check(Invariant::TokensRise, token > self.highest_token);
            self.highest_token = self.highest_token.max(token);
        }
        if self.store_forgot {
            return;
        }
        self.ended.extend(&caused.ended);
        let before = self.offered;
        self.update(now, command, answer);
        if let Some((request, _)) = caused.granted {
            let first = self.granted.insert(request);
            self.check(Invariant::OncePerRequest, first);
            self.check(Invariant::NoRevival, self.ended_at(request).is_none());
            self.check(Invariant::TimeoutIsFinal, !self.timed_out.contains(&request));
            if before.is_none_or(|(offered, _)| offered != request) {
                self.check_order(request, now);
            }
            if let Some((next, _)) = command.next {
                self.check(Invariant::DroppedIsFinal, self.repeated || !self.dropped.contains(&next));
            }
            self.queue.retain(|waiter| waiter.request != request);
        }
        self.check_answer(command, answer);
        self.check_offer(now, before, store.offered());
    }

    /// A replica is heard of, at `now` on the store's clock.
    pub(crate) fn hear_of(&mut self, now: StoreTime, replica: u8) {
        self.heartbeats.retain(|(it, _)| *it != replica);
        self.heartbeats.push((replica, now));
        self.heartbeats.sort_unstable();
        self.dead.remove(&replica);
    }

    /// A replica is found dead.
    pub(crate) fn found_dead(&mut self, replica: u8) {
        self.dead.insert(replica);
    }

    /// Updates the queue.
    fn update(&mut self, now: StoreTime, command: &StoreCommand, answer: &Answer) {
        let Attempt { request, number } = command.attempt;
        self.heartbeats.retain(|(_, at)| now.since(*at) < GONE);
        let heartbeats = &self.heartbeats;
        self.queue.retain(|waiter| waiter.dropped || heartbeats.iter().any(|(replica, _)| *replica == waiter.replica));
        match (command.kind, answer) {
            (CommandKind::Acquire, Answer::Of(Outcome::Acquire(AcquireOutcome::Queued))) => {
                let waiter = Waiter { request, attempt: number, replica: command.from, missed: false, dropped: false };
                match self.queue.iter_mut().find(|waiter| waiter.request == request) {
                    Some(old) => *old = waiter,
                    None => self.queue.push(waiter),
                }
            }
            (CommandKind::Claim, Answer::Of(Outcome::Acquire(AcquireOutcome::Queued))) => {
                self.queue
                    .iter_mut()
                    .filter(|waiter| waiter.request == request)
                    .for_each(|waiter| waiter.missed = false);
            }
            (CommandKind::Acquire | CommandKind::GiveUp, Answer::Of(Outcome::Acquire(AcquireOutcome::TimedOut(_)))) => {
                self.queue.retain(|waiter| waiter.request != request);
            }
            (CommandKind::Drop, _) => {
                let bound = self.queue.iter_mut().filter(|it| it.request == request && it.attempt == number);
                bound.for_each(|waiter| waiter.dropped = true);
                self.dropped.insert(command.attempt);
            }
            _ => {}
        }
    }

    fn check_answer(&mut self, command: &StoreCommand, answer: &Answer) {
        let request = command.attempt.request;
        let in_force = matches!(
            answer,
            Answer::Of(
                Outcome::Acquire(AcquireOutcome::Granted(_) | AcquireOutcome::Queued)
                    | Outcome::Renew(RenewOutcome::Renewed(_))
            )
        );
        if !in_force {
            return;
        }
        self.check(Invariant::NoRevival, self.ended_at(request).is_none());
        if matches!(answer, Answer::Of(Outcome::Acquire(_))) {
            self.check(Invariant::TimeoutIsFinal, !self.timed_out.contains(&request));
            self.check(Invariant::DroppedIsFinal, self.repeated || !self.dropped.contains(&command.attempt));
        }
    }

    /// Checks the offer after a command.
    fn check_offer(&mut self, now: StoreTime, before: Option<(u8, StoreTime)>, after: Option<(u8, StoreTime)>) {
        self.offered = after;
        if let Some((was, until)) = before
            && after.is_none_or(|(is, _)| is != was)
            && let Some(waiter) = self.queue.iter_mut().find(|waiter| waiter.request == was)
            && !waiter.dropped
        {
            // An offer that is neither claimed nor declined lasts for the whole claim window, unless its server is
            // silent.
            waiter.missed = until <= now;
            let (has_lapsed, replica) = (waiter.missed, waiter.replica);
            self.check(Invariant::InOrder, has_lapsed || !self.is_live(replica, now));
        }
        if let Some((next, _)) = after
            && before != after
        {
            self.check_order(next, now);
        }
    }

    /// Checks that each waiter ahead of `next` has a reason to be skipped.
    fn check_order(&mut self, next: u8, now: StoreTime) {
        let ahead = self.queue.iter().take_while(|waiter| waiter.request != next);
        let is_skipped = |it: &&Waiter| !it.missed && !it.dropped && self.is_live(it.replica, now);
        let skipped = ahead.filter(is_skipped).count();
        self.check(Invariant::InOrder, skipped == 0);
    }

    /// Whether a replica was heard of lately, and not found dead since.
    fn is_live(&self, replica: u8, now: StoreTime) -> bool {
        let is_heard = self.heartbeats.iter().any(|(it, at)| *it == replica && now.since(*at) < SILENT);
        is_heard && !self.dead.contains(&replica)
    }

    /// A client receives a timeout of its request.
    pub(crate) fn report_timeout(&mut self, request: u8) {
        self.timed_out.insert(request);
    }

    pub(crate) fn holds(&self, promise: Invariant) -> bool {
        !self.broken.contains(&promise)
    }

    pub(crate) fn check(&mut self, promise: Invariant, held: bool) {
        if !held {
            self.broken.insert(promise);
        }
    }

    pub(crate) fn ended_at(&self, request: u8) -> Option<StoreTime> {
        self.ended.iter().find(|(it, _)| *it == request).map(|(_, at)| *at)
    }

    /// The replica of the first waiter that is not dropped.
    pub(crate) fn head(&self) -> Option<u8> {
        self.queue.iter().find(|waiter| !waiter.dropped).map(|waiter| waiter.replica)
    }

    /// The part that distinguishes states. Tokens are not, because only their order matters.
    pub(crate) fn for_key(&self) -> impl std::fmt::Debug {
        let Self { broken, granted, ended, dropped, timed_out, queue, offered, heartbeats, dead, .. } = self;
        let flags = (self.store_forgot, self.repeated, dead);
        (broken, granted, ended, dropped, timed_out, queue, offered, heartbeats, flags)
    }
}
