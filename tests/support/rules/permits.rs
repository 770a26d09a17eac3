//! The part of the oracle for semaphores: the limit in force, who fits within it, and slots.

use super::{
    oracle::Oracle,
    state::{How, OracleEffect, Past, State, UNHEARD},
    terms::{Kind, kind},
};
use fencepost::testing::domain::{
    mode::{Mode, PermitLimit, Permits},
    outcome::{AcquireOutcome, HeldPermits},
    time::StoreTime,
    token::FencingToken,
};
use std::num::NonZeroU32;

/// The permits that a lease was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    count: u32,
    /// The number of a lease with one permit.
    pub(super) slot: Option<NonZeroU32>,
    /// The limit in force at its grant.
    limit: PermitLimit,
}

impl Granted {
    pub(super) fn view(self) -> HeldPermits {
        HeldPermits { count: self.count, slot: self.slot }
    }

    /// The mode of the lease.
    pub(super) fn mode(self) -> Mode {
        Mode::Semaphore(Box::new(Permits { count: self.count, limit: self.limit, slot: self.slot }))
    }
}

impl Oracle {
    /// The refusal of a later attempt is remembered: earlier ones are too late then.
    pub(super) fn remember_refused(&mut self, request: u8, attempt: u32, now: StoreTime) {
        if attempt > 1 {
            self.past.push(Past { request, how: How::Refused(attempt), at: now });
        }
    }

    /// Refuses a new request that does not go with those that have the lock, are offered it or wait for it. Otherwise
    /// brings the limit that it names in force, if that is newer.
    pub(super) fn agree(
        &mut self,
        request: u8,
        now: StoreTime,
        effects: &mut Vec<OracleEffect>,
    ) -> Result<(), AcquireOutcome> {
        self.forget_limit();
        let kind_of = kind(request);
        let is_mismatch = self.involved().any(|other| match (kind_of, other) {
            (Kind::Shared, other) => other.permits().is_some(),
            (one, other) => one.permits().is_some() && other == Kind::Shared,
        });
        if is_mismatch {
            return Err(AcquireOutcome::ModeMismatch);
        }
        let Kind::Semaphore(count, named) = kind_of else { return Ok(()) };
        let Some(in_force) = self.limit else {
            self.limit = Some(named);
            return Ok(());
        };
        if named.version > in_force.version {
            self.replace_limit(in_force, named, now, effects);
        } else if named.version == in_force.version && named.permits != in_force.permits || count > in_force.permits {
            return Err(AcquireOutcome::LimitMismatch(in_force));
        }
        Ok(())
    }

    fn replace_limit(&mut self, old: PermitLimit, new: PermitLimit, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        self.limit = Some(new);
        if new.permits < old.permits {
            self.offers.retain(|(request, _)| kind(*request).permits().is_none());
        }
        self.offer_to_next(now, effects);
    }

    /// The kinds of those that have the lock or a part of it, also after their lease, are offered it or wait for it.
    fn involved(&self) -> impl Iterator<Item = Kind> {
        self.occupying().chain(self.queue.iter().map(|it| kind(it.request)))
    }

    /// Once nobody has permits or waits for any, the next request names the limit anew.
    pub(super) fn forget_limit(&mut self) {
        if self.involved().all(|it| it.permits().is_none()) {
            self.limit = None;
        }
    }

    /// Whether this request asks for more permits than there are.
    pub(super) fn asks_too_much(&self, request: u8) -> bool {
        kind(request).permits().zip(self.limit).is_some_and(|(count, limit)| count > limit.permits)
    }

    /// Whether this request can have the lock beside those that hold it, are offered it, or still occupy a part of it.
    pub(super) fn fits(&self, request: u8) -> bool {
        let others = || self.occupying();
        match kind(request) {
            Kind::Exclusive => others().next().is_none(),
            Kind::Shared => others().all(|other| other == Kind::Shared),
            Kind::Semaphore(count, _) => {
                let used: Option<u32> = others().map(Kind::permits).sum();
                used.zip(self.limit).is_some_and(|(used, limit)| used + count <= limit.permits)
            }
        }
    }

    /// The permits of a lease that is granted now.
    pub(super) fn permits_now(&self, request: u8) -> Option<Granted> {
        let count = kind(request).permits()?;
        let paused = self.pauses.iter().filter_map(|pause| pause.permits);
        let permits: Vec<_> = self.held.iter().filter_map(|held| held.permits).chain(paused).collect();
        let taken = |slot| permits.iter().any(|it| it.slot == NonZeroU32::new(slot));
        let slot = (1..).find(|slot| !taken(*slot)).and_then(NonZeroU32::new).filter(|_| count == 1);
        Some(Granted { count, slot, limit: self.limit.unwrap() })
    }

    /// The modes of the leases.
    pub(super) fn modes(&self) -> impl Iterator<Item = Mode> {
        self.held.iter().map(|held| mode(held.kind, held.permits))
    }

    /// What leases that have ended go on occupying, but the one of an exclusive lease: their tokens, modes and ends.
    pub(super) fn ghosts(&self) -> Vec<(FencingToken, Mode, StoreTime)> {
        let ghosts = self.pauses.iter().filter(|pause| pause.kind != Kind::Exclusive);
        let mut ghosts: Vec<_> =
            ghosts.map(|pause| (pause.token, mode(pause.kind, pause.permits), pause.end())).collect();
        ghosts.sort_unstable_by_key(|(token, ..)| *token);
        ghosts
    }

    /// A claim for more permits than there are by now ends the wait.
    pub(super) fn refuse_claim(
        &mut self,
        request: u8,
        attempt: u32,
        now: StoreTime,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        let limit = self.limit.unwrap();
        self.queue.retain(|it| it.request != request);
        self.past.push(Past { request, how: How::Refused(attempt), at: now });
        self.offer_to_next(now, effects);
        AcquireOutcome::LimitMismatch(limit)
    }

    /// A waiter that asks for more permits than there are is told to claim, and holds up nobody meanwhile.
    pub(super) fn skip(&mut self, index: usize, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        let it = &mut self.queue[index];
        it.state = State::Missed(now.after(UNHEARD));
        effects.push(OracleEffect::LookAgain(it.request, it.attempt));
    }
}

fn mode(kind: Kind, permits: Option<Granted>) -> Mode {
    match (permits, kind == Kind::Shared) {
        (Some(permits), _) => permits.mode(),
        (None, true) => Mode::Shared,
        (None, false) => Mode::Exclusive,
    }
}
