//! The part of the oracle for what others see of the lock, and for when that changes.

use super::{
    holder,
    oracle::Oracle,
    state::{MEMORY, Pause, State},
    terms::Kind,
};
use fencepost::testing::domain::{
    outcome::{Contention, DelayView, LockView, SemaphoreView, SharedView, TokenStatus},
    time::StoreTime,
    token::FencingToken,
};
use std::time::Duration;

/// How many holders of shared leases are shown.
const SHOWN: usize = 8;

impl Oracle {
    pub(super) fn contention(&self, now: StoreTime) -> Box<Contention> {
        Box::new(Contention {
            current: self.exclusive().map(|held| held.view(now)),
            classic: None,
            waiters: self.queue.len(),
            delay: self.delay(now),
            shared: self.shared(None, now),
        })
    }

    /// What is not free although nobody holds it: of permits, those that are free first; else the place that is free
    /// last, because who is kept out waits for all.
    fn delay(&self, now: StoreTime) -> Option<DelayView> {
        let order = |pause: &&Pause| (pause.end(), pause.token);
        let of_permits = self.pauses.iter().filter(|pause| pause.kind.permits().is_some()).min_by_key(order);
        let pause = of_permits.or_else(|| self.pauses.iter().max_by_key(order))?;
        Some(DelayView { holder: holder(pause.request), token: pause.token, left: pause.end().since(now) })
    }

    fn shared(&self, token: Option<FencingToken>, now: StoreTime) -> Option<Box<SharedView>> {
        let is_used = self.pauses.iter().any(|pause| pause.kind.permits().is_some());
        if self.held.is_empty() && !is_used || self.exclusive().is_some() {
            return None;
        }
        Some(Box::new(SharedView {
            holders: self.held.iter().take(SHOWN).map(|held| held.view(now)).collect(),
            count: self.held.len(),
            has_token: token.is_some_and(|token| self.is_live(token)),
            semaphore: self.semaphore(),
        }))
    }

    /// What leases use of the semaphore, also such that have ended, if the lock is one.
    fn semaphore(&self) -> Option<SemaphoreView> {
        let held = self.held.iter().map(|held| held.kind);
        let used: Option<u32> = held.chain(self.pauses.iter().map(|pause| pause.kind)).map(Kind::permits).sum();
        Some(SemaphoreView { used: used?.into(), limit: self.limit? })
    }

    /// The state as it would be after a command at `now`.
    pub(super) fn at(&self, now: StoreTime) -> Self {
        let mut later = self.clone();
        later.apply_time(now, &mut Vec::new());
        later
    }

    /// The expected view for a caller that asks about this token. Time has been applied.
    pub(super) fn view(&self, now: StoreTime, token: Option<FencingToken>) -> LockView {
        let (newest, last) = (self.held.last(), self.last);
        LockView {
            current: self.exclusive().map(|held| held.view(now)),
            classic: None,
            waiters: self.queue.len(),
            previous_end: newest.map_or(last.map(|last| last.handed_on), |held| held.before),
            newest_token: self.newest_token(),
            delay: self.delay(now),
            shared: self.shared(token, now),
        }
    }

    pub(super) fn newest_token(&self) -> Option<FencingToken> {
        let paused = self.pauses.iter().map(|pause| pause.token);
        self.tokens().chain(self.last.map(|last| last.token)).chain(paused).max()
    }

    /// The tokens of the leases that hold the lock.
    pub(super) fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        self.held.iter().map(|held| held.token)
    }

    fn is_live(&self, token: FencingToken) -> bool {
        self.tokens().any(|it| it == token)
    }

    pub(super) fn token_status(&self, token: FencingToken) -> TokenStatus {
        match self.newest_token() {
            _ if self.is_live(token) => TokenStatus::Current,
            Some(newest) if token < newest => TokenStatus::Stale,
            Some(newest) if token == newest => TokenStatus::Ended,
            _ => TokenStatus::Unknown,
        }
    }

    pub(super) fn is_in_use(&self) -> bool {
        !self.held.is_empty() || !self.pauses.is_empty() || !self.queue.is_empty()
    }

    /// When a lease, an offer or a queue position next ends by time.
    pub(super) fn change(&self) -> Option<StoreTime> {
        self.changes().min()
    }

    fn changes(&self) -> impl Iterator<Item = StoreTime> {
        let positions = self.queue.iter().filter_map(|it| match it.state {
            State::Gone(until) => Some(until),
            _ => None,
        });
        let leases = self.held.iter().map(|held| held.end);
        let offers = self.offers.iter().map(|(_, until)| *until);
        positions.chain(leases).chain(offers).chain(self.pauses.iter().map(Pause::end))
    }

    /// When anything next expires, the memory of an end included.
    pub(super) fn edge(&self, now: StoreTime) -> Option<StoreTime> {
        let past = self.past.iter().map(|it| it.at.after(MEMORY));
        let tombstones = self.tombstones.iter().map(|it| it.3.after(Duration::from_micros(1)));
        self.changes().chain(past).chain(tombstones).filter(|edge| now < *edge).min()
    }
}
