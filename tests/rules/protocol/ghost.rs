//! Ghost state: an observer of the whole protocol, which checks the invariants.

use super::{
    model::Protocol,
    modes::may_be_together,
    store::{Answer, Attempt, Caused, CommandKind, Granted, Store, StoreCommand},
};
use fencepost::testing::domain::{
    command::Outcome,
    limits::CLAIM_WINDOW,
    mode::PermitLimit,
    outcome::{AcquireOutcome, RenewOutcome},
    time::StoreTime,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

/// An invariant. C1 to C7 are the names of the verification plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Invariant {
    /// C1 and C2: a later grant has a higher token.
    TokensRise,
    /// C3: only clients that may hold the lock together believe that they hold it.
    Exclusion,
    /// The store grants no more permits than there are, no slot twice, and nothing beside an exclusive lease, also
    /// within the delay after a lease.
    Room,
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
    /// Requests that were granted the lock, and the slots of their permits.
    granted: BTreeMap<u8, Option<NonZeroU32>>,
    /// Requests whose lease ended, and when.
    ended: Vec<(u8, StoreTime)>,
    /// Requests whose client released the lease, before or after its end: no delay keeps the lock from others then.
    released: BTreeSet<u8>,
    dropped: BTreeSet<Attempt>,
    /// Requests whose client received a timeout.
    timed_out: BTreeSet<u8>,
    queue: Vec<Waiter>,
    /// The requests that the lock is offered to, and until when (on the store's clock).
    offered: BTreeMap<u8, StoreTime>,
    /// The limit of the semaphore.
    limit: Option<PermitLimit>,
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
        model: &Protocol,
        now: StoreTime,
        command: &StoreCommand,
        answer: &Answer,
        caused: &Caused,
        store: &Store,
    ) {
        if let Some(Granted { token, .. }) = caused.granted {
            self.check(Invariant::TokensRise, token > self.highest_token);
            self.highest_token = self.highest_token.max(token);
        }
        if self.store_forgot {
            return;
        }
        self.ended.extend(&caused.ended);
        if command.kind == CommandKind::Release && model.lock_delay > 0 {
            self.released.insert(command.attempt.request);
        }
        self.update(now, command, answer);
        let before = std::mem::take(&mut self.offered);
        // An offer lasts for the claim window from the command that makes it.
        let until = |request| before.get(&request).copied().filter(|it| now < *it).unwrap_or(now.after(CLAIM_WINDOW));
        self.offered = store.offers().into_iter().map(|request| (request, until(request))).collect();
        let limit_before = std::mem::replace(&mut self.limit, store.permit_limit());
        if let Some(Granted { request, slot, .. }) = caused.granted {
            let is_first = self.granted.insert(request, slot).is_none();
            self.check(Invariant::OncePerRequest, is_first);
            self.check(Invariant::NoRevival, self.ended_at(request).is_none());
            self.check(Invariant::TimeoutIsFinal, !self.timed_out.contains(&request));
            if !before.contains_key(&request) {
                self.check_order(model, request, now);
            }
            if let Answer::Released(Some((next, ..))) = answer {
                self.check(Invariant::DroppedIsFinal, self.repeated || !self.dropped.contains(next));
            }
            self.queue.retain(|waiter| waiter.request != request);
            self.check(Invariant::Room, self.has_room(model, now));
        }
        self.check_answer(command, answer);
        let was_lowered = limit_before.zip(self.limit).is_some_and(|(before, after)| after.permits < before.permits);
        self.check_offers(model, now, &before, was_lowered);
    }

    /// Whether those that were granted the lock, and whose leases or delays have not ended, may hold it together, under
    /// the limit that is in force.
    fn has_room(&self, model: &Protocol, now: StoreTime) -> bool {
        let delay = Duration::from_micros(model.lock_delay);
        let is_over = |at: StoreTime, request| self.released.contains(&request) || at.after(delay) <= now;
        let has_place = |request: u8| self.ended_at(request).is_none_or(|at| !is_over(at, request));
        let holders: Vec<u8> = self.granted.keys().copied().filter(|request| has_place(*request)).collect();
        let asks: Vec<_> = holders.iter().map(|request| model.asks_of(*request)).collect();
        may_be_together(&asks, self.limit.map_or(0, |limit| limit.permits)) && self.have_slots_of_their_own(&holders)
    }

    /// Whether no two of these requests were granted the same slot.
    pub(crate) fn have_slots_of_their_own(&self, requests: &[u8]) -> bool {
        let slots: Vec<_> = requests.iter().filter_map(|request| *self.granted.get(request)?).collect();
        slots.iter().collect::<BTreeSet<_>>().len() == slots.len()
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
            (CommandKind::Acquire | CommandKind::GiveUp, Answer::Of(Outcome::Acquire(AcquireOutcome::TimedOut(_))))
            | (CommandKind::Claim, Answer::Of(Outcome::Acquire(AcquireOutcome::LimitMismatch(_)))) => {
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

    /// Checks the offers after a command, beside those before.
    fn check_offers(&mut self, model: &Protocol, now: StoreTime, before: &BTreeMap<u8, StoreTime>, was_lowered: bool) {
        for (was, until) in before {
            if !self.offered.contains_key(was)
                && let Some(waiter) = self.queue.iter_mut().find(|waiter| waiter.request == *was)
                && !waiter.dropped
            {
                // An offer that is neither claimed nor declined lasts for the whole claim window, unless its server is
                // silent, or there are fewer permits.
                waiter.missed = *until <= now;
                let (has_lapsed, replica) = (waiter.missed, waiter.replica);
                self.check(Invariant::InOrder, has_lapsed || was_lowered || !self.is_live(replica, now));
            }
        }
        let made: Vec<u8> =
            self.offered.iter().filter(|(it, until)| before.get(it) != Some(until)).map(|it| *it.0).collect();
        made.into_iter().for_each(|next| self.check_order(model, next, now));
    }

    /// Checks that each waiter ahead of `next` is offered the lock as well, or has a reason to be skipped.
    fn check_order(&mut self, model: &Protocol, next: u8, now: StoreTime) {
        let ahead = self.queue.iter().take_while(|waiter| waiter.request != next);
        let is_skipped = |it: &&Waiter| {
            let exceeds = model.asks_of(it.request).exceeds(self.limit);
            let is_passed = it.missed || it.dropped || exceeds || !self.is_live(it.replica, now);
            !is_passed && !self.offered.contains_key(&it.request)
        };
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
        let others = (self.store_forgot, self.repeated, dead, self.limit, &self.released);
        (broken, granted, ended, dropped, timed_out, queue, offered, heartbeats, others)
    }
}
