//! Tests the rules of a lock against an oracle, which was written from the API and not from the rules.
//!
//! A [`World`] runs each command through the rules and the [`Oracle`], and compares answers, effects and views. A
//! [`History`] of the answers checks guarantees that need no oracle.

mod beside;
mod calls;
mod convert;
pub(crate) mod explore;
mod history;
mod oracle;
mod permits;
mod search;
mod state;
mod terms;
mod turn;
mod views;

use fencepost::testing::domain::{
    command::{Effect, Effects},
    ids::{AttachmentId, GrantId, LeaseId, RequestId},
    lease::Lease,
    name::Holder,
    rules::{Ghost, Lock},
    time::StoreTime,
    token::{FencingToken, Sequencer},
};
use history::History;
use oracle::{Actual, Oracle};
use std::time::Duration;
pub(crate) use terms::{Kind, delays, kind, max_hold, semaphore, ttl};
use uuid::Uuid;

pub(crate) const SECOND: u64 = 1_000_000;
const START: u64 = 1_800_000_000 * SECOND;

/// A step of a scenario: a command, or a change of the clock. Requests, leases and attachments have numbers in place of
/// ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A call of a request. An attempt may have several copies; `lease` is the number of the lease if it is granted.
    Acquire {
        request: u8,
        attempt: u32,
        copy: u8,
        wait: bool,
        lease: u32,
    },
    /// An acquire with the same request id and other parameters.
    AcquireOther {
        request: u8,
        attempt: u32,
    },
    Claim {
        request: u8,
        attempt: u32,
        copy: u8,
        lease: u32,
    },
    GiveUp {
        request: u8,
        attempt: u32,
        copy: u8,
    },
    /// A server that took over keeps the queue position of a dropped call.
    Keep {
        request: u8,
        attempt: u32,
    },
    /// The call is dropped. Its command may still arrive.
    Drop {
        request: u8,
        attempt: u32,
        copy: u8,
    },
    Release {
        lease: u32,
    },
    /// With a new TTL in microseconds, if there is one.
    Renew {
        lease: u32,
        ttl: Option<u64>,
    },
    RenewKept {
        lease: u32,
        attachment: u32,
    },
    Attach {
        lease: u32,
        attempt: u32,
        attachment: u32,
    },
    Detach {
        lease: u32,
        attachment: u32,
    },
    Disconnect {
        lease: u32,
        attachment: u32,
    },
    /// To a shared lease, or to an exclusive one. Names the token that the lease had so many upgrades ago: 0 is the
    /// present one.
    Convert {
        lease: u32,
        upgrades: u8,
        shared: bool,
    },
    /// With the token of the exclusive lease, of the newest shared one or of the delay; or with an unused token.
    ForceRelease {
        right: bool,
    },
    /// With the token of the oldest lease that has ended and still occupies its place.
    ForceReleaseGhost,
    /// Microseconds pass without a command.
    Pass(u64),
    /// Time passes until something expires.
    ToEdge,
    /// Time passes until the last microsecond before something expires.
    BeforeEdge,
    /// The clock steps back by microseconds.
    Back(u64),
    /// The expiry task runs.
    ApplyTime,
}

impl Step {
    /// Whether the step updates the lock: not if only time passes.
    pub(crate) fn acts(self) -> bool {
        use Step::{Back, BeforeEdge, Pass, ToEdge};
        !matches!(self, Pass(_) | Back(_) | ToEdge | BeforeEdge)
    }
}

/// An id with the number in its first digits, which `Debug` prints.
fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 104)
}

fn number(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() >> 104).unwrap()
}

fn lease_id(number: u32) -> LeaseId {
    LeaseId(id(number))
}

fn grant_id(number: u32) -> GrantId {
    GrantId(id(number))
}

pub(crate) fn request_number(id: RequestId) -> u8 {
    u8::try_from(number(id.0)).unwrap()
}

pub(crate) fn lease_number(id: LeaseId) -> u32 {
    number(id.0)
}

pub(crate) fn attachment_number(id: AttachmentId) -> u32 {
    number(id.0)
}

pub(crate) fn grant_number(id: GrantId) -> u32 {
    number(id.0)
}

/// A lock, its environment, and the oracle and history that check it.
#[derive(Clone, Debug)]
pub(crate) struct World {
    lock: Lock,
    sequencer: Sequencer,
    now: StoreTime,
    waiters_max: usize,
    oracle: Oracle,
    history: History,
}

impl World {
    pub(crate) fn new(waiters_max: usize) -> Self {
        Self {
            lock: Lock::default(),
            sequencer: Sequencer::after(1_000),
            now: StoreTime::from_micros(START),
            waiters_max,
            oracle: Oracle::default(),
            history: History::default(),
        }
    }

    /// Runs a step, and panics if its result is wrong.
    pub(crate) fn run(&mut self, step: Step) {
        // With an unknown request id, other parameters make a new request.
        if matches!(step, Step::AcquireOther { request, .. } if !self.oracle.knows(request, self.now)) {
            return;
        }
        self.move_time(step);
        let (shared_before, ghosts_before) = (self.shared(), self.ghosts());
        let mut effects = Effects::new();
        let answer = self.turn(step, &mut effects);
        let actual = Actual { now: self.now, waiters_max: self.waiters_max, answer: &answer, effects: &effects };
        self.oracle.follow(step, &actual);
        self.history.follow(step, &actual);
        self.lock.check();
        self.check_changed_shares(&shared_before, &ghosts_before);
        if step.acts() {
            self.check_leases(&effects);
            self.check_beside(&effects);
        }
        self.check_views();
        if step == Step::ApplyTime {
            let due = self.lock.next_due();
            assert!(due.is_none_or(|due| self.now < due), "the expiry task does not spin");
            assert_eq!(self.lock.is_idle(), self.oracle.is_idle(), "an idle lock is recognized");
        }
    }

    fn move_time(&mut self, step: Step) {
        let after = |micros| self.now.after(Duration::from_micros(micros));
        self.now = match step {
            Step::Pass(micros) => after(micros),
            Step::Back(micros) => StoreTime::from_micros(self.now.as_micros() - micros),
            Step::ToEdge => self.oracle.edge(self.now).unwrap_or(self.now),
            Step::BeforeEdge => match self.oracle.edge(self.now) {
                Some(edge) => StoreTime::from_micros(edge.as_micros() - 1),
                None => self.now,
            },
            _ => self.now,
        };
    }

    /// The shared leases, as of the last turn.
    fn shared(&self) -> Vec<Lease> {
        self.lock.shared().cloned().collect()
    }

    fn ghosts(&self) -> Vec<Ghost> {
        self.lock.ghosts().cloned().collect()
    }

    /// A journal writes down those shared leases and ghosts only that the lock says have changed.
    fn check_changed_shares(&mut self, before: &[Lease], ghosts_before: &[Ghost]) {
        let ghosts_after = self.ghosts();
        let (after, told) = (self.shared(), self.lock.take_changed_shares());
        let missing = |of: &[Lease], lease: &Lease| !of.contains(lease);
        let ended_or_old = before.iter().filter(|lease| missing(&after, lease));
        let granted_or_new = after.iter().filter(|lease| missing(before, lease));
        for lease in ended_or_old.chain(granted_or_new) {
            assert!(told.contains(&(lease.token, lease.grant_id)), "the journal hears of {lease:?}");
        }
        let gone = ghosts_before.iter().filter(|ghost| !ghosts_after.contains(ghost));
        for ghost in gone.chain(ghosts_after.iter().filter(|ghost| !ghosts_before.contains(ghost))) {
            assert!(told.contains(&(ghost.delay.token, ghost.grant_id)), "the journal hears of {ghost:?}");
        }
        for share in told {
            let is_lease = before.iter().chain(&after).any(|lease| (lease.token, lease.grant_id) == share);
            let mut ghosts = ghosts_before.iter().chain(&ghosts_after);
            let is_known = is_lease || ghosts.any(|ghost| (ghost.delay.token, ghost.grant_id) == share);
            assert!(is_known, "the journal hears only of leases that are or were there: {share:?}");
        }
        assert_eq!(self.lock.take_changed_shares(), [], "it is told once");
    }

    /// Checks which leases and offers there are.
    fn check_leases(&self, effects: &Effects) {
        let tokens = || self.oracle.tokens();
        assert!(self.lock.leases().map(|lease| lease.token).eq(tokens()), "the leases, by token");
        assert!(tokens().all(|token| self.lock.lease_of(token).is_some_and(|lease| lease.token == token)));
        assert!(self.lock.leases().map(|lease| lease.terms.mode.clone()).eq(self.oracle.modes()), "their permits");
        let ghosts = self.lock.ghosts().map(|ghost| (ghost.delay.token, ghost.mode.clone(), ghost.delay.until()));
        assert_eq!(ghosts.collect::<Vec<_>>(), self.oracle.ghosts(), "what occupies its place after its lease");
        assert_eq!(self.lock.permit_limit(), self.oracle.limit, "the limit in force");
        let exclusive = self.oracle.exclusive().map(|held| held.token);
        assert_eq!(self.lock.lease().map(|lease| lease.token), exclusive);
        let shared = self.lock.shared().map(|lease| lease.token);
        assert!(shared.eq(tokens().filter(|token| Some(*token) != exclusive)), "the shared leases, by token");
        let mut offers: Vec<_> = self.lock.offers().map(request_number).collect();
        offers.sort_unstable();
        assert_eq!(offers, self.oracle.offers(), "the offers");
        for effect in effects {
            let Effect::Ended { lease, .. } = effect else { continue };
            assert_eq!(self.lock.lease_of(lease.token), None, "a lease that ended is gone");
        }
    }

    /// Checks the views of the lock, which are up to date without a command.
    fn check_views(&self) {
        let now = self.now;
        let expected = self.oracle.at(now);
        assert_eq!(self.lock.view(now, None), expected.view(now, None), "the view matches the state");
        assert_eq!(self.lock.is_in_use(now), expected.is_in_use());
        let newest = expected.newest_token().map_or(START, FencingToken::get);
        let around = (newest - 1..=newest + 1).filter_map(FencingToken::new);
        for token in around.chain(expected.tokens()) {
            let view = self.lock.view(now, Some(token));
            assert_eq!(view, expected.view(now, Some(token)), "the view of who asks about {token}");
            assert_eq!(view.token_status(token), expected.token_status(token), "of {token}");
        }
        let change = self.oracle.change();
        assert!(
            change.is_none_or(|change| self.lock.next_due().is_some_and(|due| due <= change)),
            "the expiry task misses no change"
        );
    }

    /// The number of grants.
    pub(crate) fn granted(&self) -> u32 {
        self.history.granted()
    }
}

pub(crate) fn holder(request: u8) -> Holder {
    Holder::new(request.to_string()).unwrap()
}
