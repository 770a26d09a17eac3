//! What nobody in the protocol knows, but whoever watches all of it: the promises, checked as they are kept or broken.

use super::store::{Answer, Ask, Asking, Attempt, SetOff, Store};
use fencepost::domain::{
    command::Outcome,
    outcome::{AcquireOutcome, RenewOutcome},
    time::StoreTime,
};
use std::{collections::BTreeSet, time::Duration};

/// A promise (named as in the verification plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Promise {
    /// C1 and C2: whoever is granted later has a higher token.
    TokensRise,
    /// C3: at most one client reckons to hold the lock.
    Exclusion,
    /// C6: first come, first served; who is passed over has been silent, was dropped, or let its offer lapse.
    InOrder,
    /// C7: a request is granted once.
    OncePerRequest,
    /// A lease that ended stays so.
    NoRevival,
    /// What was on its way when its call was dropped does not bring the call back.
    DroppedIsFinal,
    /// A client that was told that its wait is over gets nothing afterwards.
    ToldIsTrue,
}

/// A request that stands in line, as the answers said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    request: u8,
    attempt: u32,
    replica: u8,
    /// An offer to it lapsed, and it has shown no life since.
    missed: bool,
    dropped: bool,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    pub(crate) broken: BTreeSet<Promise>,
    pub(crate) highest_token: u64,
    granted: BTreeSet<u8>,
    /// Requests whose lease ended, and when: what is remembered of them is remembered from then on.
    ended: Vec<(u8, StoreTime)>,
    dropped: BTreeSet<Attempt>,
    /// Requests whose client was told that they are over.
    told_over: BTreeSet<u8>,
    line: Vec<Place>,
    /// To whom the lock is on offer, and until when (on the store's clock).
    offered: Option<(u8, StoreTime)>,
    /// When each replica was last heard of.
    beats: Vec<(u8, StoreTime)>,
    /// Set when the store forgot: from then on only the tokens count.
    pub(crate) store_forgot: bool,
    pub(crate) failed_over: Option<StoreTime>,
    /// A proxy repeats calls: attempts are no longer told apart by their number.
    pub(crate) repeated: bool,
}

const SILENT: Duration = Duration::from_secs(3);
const GONE: Duration = Duration::from_secs(30);

impl Ghost {
    /// Watches the store carry out a command.
    pub(crate) fn watch(&mut self, now: StoreTime, command: &Asking, answer: &Answer, set_off: &SetOff, store: &Store) {
        if let Some((_, token)) = set_off.granted {
            self.keep(Promise::TokensRise, token > self.highest_token);
            self.highest_token = self.highest_token.max(token);
        }
        if self.store_forgot {
            return;
        }
        self.ended.extend(&set_off.ended);
        let before = self.offered;
        self.hear(now, command, answer);
        if let Some((request, _)) = set_off.granted {
            let first = self.granted.insert(request);
            self.keep(Promise::OncePerRequest, first);
            self.keep(Promise::NoRevival, self.ended_at(request).is_none());
            self.keep(Promise::ToldIsTrue, !self.told_over.contains(&request));
            if before.is_none_or(|(offered, _)| offered != request) {
                self.check_order(request, now);
            }
            if let Some((next, _)) = command.next {
                self.keep(Promise::DroppedIsFinal, self.repeated || !self.dropped.contains(&next));
            }
            self.line.retain(|place| place.request != request);
        }
        self.check_answer(command, answer);
        self.see_offer(now, before, store.offered());
    }

    /// What the command itself says of who is alive and who stands where.
    fn hear(&mut self, now: StoreTime, command: &Asking, answer: &Answer) {
        let Attempt { request, number } = command.attempt;
        self.beats.retain(|(_, at)| now.since(*at) < GONE);
        let beats = &self.beats;
        self.line.retain(|place| place.dropped || beats.iter().any(|(replica, _)| *replica == place.replica));
        match (command.ask, answer) {
            (Ask::Poll, _) => {
                self.beat(command.from, now);
                let own = self.line.iter_mut().filter(|place| place.replica == command.from);
                own.for_each(|place| place.missed = false);
            }
            (Ask::Acquire, Answer::Of(Outcome::Acquire(AcquireOutcome::Queued))) => {
                self.beat(command.from, now);
                let place = Place { request, attempt: number, replica: command.from, missed: false, dropped: false };
                match self.line.iter_mut().find(|place| place.request == request) {
                    Some(old) => *old = place,
                    None => self.line.push(place),
                }
            }
            (Ask::Acquire, Answer::Of(Outcome::Acquire(AcquireOutcome::Granted(_))))
                if self.place(request).is_some() =>
            {
                self.beat(command.from, now);
            }
            (Ask::Claim, Answer::Of(Outcome::Acquire(AcquireOutcome::Queued))) => {
                self.line.iter_mut().filter(|place| place.request == request).for_each(|place| place.missed = false);
            }
            (Ask::Acquire | Ask::GiveUp, Answer::Of(Outcome::Acquire(AcquireOutcome::TimedOut(_)))) => {
                self.line.retain(|place| place.request != request);
            }
            (Ask::Drop, _) => {
                let bound = self.line.iter_mut().filter(|it| it.request == request && it.attempt == number);
                bound.for_each(|place| place.dropped = true);
                if now <= command.not_after {
                    self.dropped.insert(command.attempt);
                }
            }
            _ => {}
        }
    }

    fn check_answer(&mut self, command: &Asking, answer: &Answer) {
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
        self.keep(Promise::NoRevival, self.ended_at(request).is_none());
        if matches!(answer, Answer::Of(Outcome::Acquire(_))) {
            self.keep(Promise::ToldIsTrue, !self.told_over.contains(&request));
            self.keep(Promise::DroppedIsFinal, self.repeated || !self.dropped.contains(&command.attempt));
        }
    }

    /// Watches who is next.
    fn see_offer(&mut self, now: StoreTime, before: Option<(u8, StoreTime)>, after: Option<(u8, StoreTime)>) {
        self.offered = after;
        if let Some((was, until)) = before
            && after.is_none_or(|(is, _)| is != was)
            && let Some(place) = self.line.iter_mut().find(|place| place.request == was)
            && !place.dropped
        {
            place.missed = true;
            // An offer that is neither claimed nor declined stands for its whole time.
            self.keep(Promise::InOrder, until <= now);
        }
        if let Some((next, _)) = after
            && before != after
        {
            self.check_order(next, now);
        }
    }

    /// Those who came before `next` must have a reason to be passed over.
    fn check_order(&mut self, next: u8, now: StoreTime) {
        let heard = |replica: u8| self.beats.iter().any(|(it, at)| *it == replica && now.since(*at) < SILENT);
        let ahead = self.line.iter().take_while(|place| place.request != next);
        let passed_over = ahead.filter(|place| !place.missed && !place.dropped && heard(place.replica)).count();
        self.keep(Promise::InOrder, passed_over == 0);
    }

    /// A client hears that its request is over.
    pub(crate) fn tell_over(&mut self, request: u8) {
        self.told_over.insert(request);
    }

    pub(crate) fn keeps(&self, promise: Promise) -> bool {
        !self.broken.contains(&promise)
    }

    pub(crate) fn keep(&mut self, promise: Promise, kept: bool) {
        if !kept {
            self.broken.insert(promise);
        }
    }

    pub(crate) fn ended_at(&self, request: u8) -> Option<StoreTime> {
        self.ended.iter().find(|(it, _)| *it == request).map(|(_, at)| *at)
    }

    fn beat(&mut self, replica: u8, now: StoreTime) {
        self.beats.retain(|(it, _)| *it != replica);
        self.beats.push((replica, now));
        self.beats.sort_unstable();
    }

    /// The replica of the first in line that may be served.
    pub(crate) fn head(&self) -> Option<u8> {
        self.line.iter().find(|place| !place.dropped).map(|place| place.replica)
    }

    /// What makes two states differ: not the tokens, which count by their order.
    pub(crate) fn for_key(&self) -> impl std::fmt::Debug {
        let Self { broken, granted, ended, dropped, told_over, line, offered, beats, .. } = self;
        let flags = (self.store_forgot, self.repeated, self.failed_over);
        (broken, granted, ended, dropped, told_over, line, offered, beats, flags)
    }

    fn place(&self, request: u8) -> Option<&Place> {
        self.line.iter().find(|place| place.request == request)
    }
}
