//! The state of the oracle.

use super::{
    attachment_number, grant_id, holder, lease_number, max_hold,
    permits::Granted,
    request_number,
    terms::{Kind, kind},
    ttl,
};
use fencepost::testing::domain::{
    command::Effect, lease::LeaseEnd, outcome::HolderView, time::StoreTime, token::FencingToken,
};
use std::time::Duration;

pub(super) const MEMORY: Duration = Duration::from_secs(10);
pub(super) const GRACE: Duration = Duration::from_secs(3);
pub(super) const CLAIM: Duration = Duration::from_secs(3);
/// As long as the waiters of a server that is silent.
pub(super) const UNHEARD: Duration = Duration::from_secs(30);
pub(super) const WINDOW: Duration = Duration::from_millis(500);

/// The expected effects of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OracleEffect {
    LookAgain(u8, u32),
    Granted(FencingToken),
    Converted(FencingToken),
    Ended(u32, u8),
    Detached(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// It let an offer lapse, and is not heard of until then.
    Missed(StoreTime),
    Gone(StoreTime),
}

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) request: u8,
    pub(super) attempt: u32,
    pub(super) calls: Vec<u8>,
    pub(super) state: State,
}

#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) request: u8,
    /// That of its request, until it is converted.
    pub(super) kind: Kind,
    pub(super) attempt: u32,
    pub(super) calls: Vec<u8>,
    pub(super) lease: u32,
    pub(super) token: FencingToken,
    /// The tokens that it had before the last upgrades, oldest first.
    pub(super) earlier: Vec<FencingToken>,
    pub(super) since: StoreTime,
    pub(super) end: StoreTime,
    pub(super) ttl: Duration,
    pub(super) before: Option<LeaseEnd>,
    pub(super) permits: Option<Granted>,
    pub(super) cut: bool,
    pub(super) learned: bool,
    pub(super) attachment: Option<u32>,
    pub(super) attachment_attempt: u32,
}

/// What is remembered of the leases that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    /// The highest of their tokens.
    pub(super) token: FencingToken,
    /// What the next holder is told.
    pub(super) handed_on: LeaseEnd,
    /// When the last of them ended.
    pub(super) at: StoreTime,
}

/// What a lease that has ended goes on occupying: the lock, its place among readers, or its permits.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub(super) request: u8,
    /// What it had at its end.
    pub(super) kind: Kind,
    pub(super) permits: Option<Granted>,
    pub(super) lease: u32,
    pub(super) token: FencingToken,
    pub(super) how: LeaseEnd,
    /// What the next holder is told.
    pub(super) handed_on: LeaseEnd,
    /// Whatever the holder does.
    pub(super) at_least: StoreTime,
    /// Until the holder says that it has stopped.
    pub(super) unless_released: StoreTime,
}

impl Pause {
    pub(super) fn end(&self) -> StoreTime {
        self.at_least.max(self.unless_released)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Held(u32, LeaseEnd),
    TimedOut,
    Abandoned,
    /// Not an end: attempts older than this one are too late.
    Refused(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) request: u8,
    pub(super) how: How,
    pub(super) at: StoreTime,
}

impl Past {
    /// Whether this is the end of the request.
    pub(super) fn ends(&self, request: u8) -> bool {
        self.request == request && !matches!(self.how, How::Refused(_))
    }
}

impl Holding {
    pub(super) fn extend(&mut self, now: StoreTime, ttl: Duration) {
        let mut end = now.after(ttl);
        if let Some(max) = max_hold(self.request) {
            end = end.min(self.since.after(max));
        }
        if self.end <= end {
            self.end = end;
            self.ttl = ttl;
        }
        self.cut = false;
    }

    pub(super) fn view(&self, now: StoreTime) -> HolderView {
        HolderView {
            holder: holder(self.request),
            metadata: Default::default(),
            grant_id: grant_id(self.lease),
            token: self.token,
            ttl: self.ttl,
            left: self.end.since(now),
            held: now.since(self.since),
            permits: self.permits.map(Granted::view),
            extra: None,
        }
    }

    pub(super) fn granted(
        request: u8,
        attempt: u32,
        calls: Vec<u8>,
        lease: u32,
        token: FencingToken,
        now: StoreTime,
    ) -> Self {
        Self {
            request,
            kind: kind(request),
            attempt,
            calls,
            lease,
            token,
            earlier: Vec::new(),
            since: now,
            end: now.after(ttl(request)),
            ttl: ttl(request),
            before: None,
            permits: None,
            cut: false,
            learned: false,
            attachment: None,
            attachment_attempt: 0,
        }
    }
}

impl OracleEffect {
    pub(super) fn of(effect: &Effect) -> Self {
        match effect {
            Effect::LookAgain { request, attempt, .. } => Self::LookAgain(request_number(*request), *attempt),
            Effect::Granted(token) => Self::Granted(*token),
            Effect::Changed { token, .. } => Self::Converted(*token),
            Effect::Wanted { .. } => unreachable!("the searches ask for no such notice"),
            Effect::Ended { lease, end } => Self::Ended(lease_number(lease.lease_id), end_number(*end)),
            Effect::Detached { lease_id, attachment, .. } => {
                Self::Detached(lease_number(*lease_id), attachment_number(*attachment))
            }
        }
    }
}

/// The end that the next holder has to know of: an expiry first, then a revocation.
pub(super) fn worse(before: Option<LeaseEnd>, end: LeaseEnd) -> LeaseEnd {
    let worst_first = [LeaseEnd::Expired, LeaseEnd::Revoked];
    worst_first.into_iter().find(|it| before == Some(*it) || end == *it).unwrap_or(LeaseEnd::Released)
}

pub(super) const fn end_number(end: LeaseEnd) -> u8 {
    end as u8
}
