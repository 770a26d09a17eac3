//! What the requests of a scenario ask for: their numbers tell.
//!
//! Below [`SEMAPHORES`] are exclusive and shared requests. From there on are those for permits: the last digit tells
//! how many of which limit, the digit before it (modulo 5) the version of that limit. Those from [`WITH_DELAYS`] on
//! have delays, as have shared ones from [`READERS_WITH_DELAYS`] on.

use super::{holder, id, request_number};
use fencepost::testing::domain::{
    ids::{Call, CallId, RequestId},
    lease::{Delays, Extra, MaxHold, Terms},
    mode::{Mode, ModeName, PermitLimit, Permits},
    name::Metadata,
};
use std::time::Duration;

/// The first request for permits.
const SEMAPHORES: u8 = 100;
/// The first request for permits with delays.
const WITH_DELAYS: u8 = 200;
/// The first shared request with delays.
const READERS_WITH_DELAYS: u8 = 30;
/// How many permits of how many, by the last digit of a request for permits.
const PERMITS: [(u32, u32); 10] = [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 4), (2, 4), (3, 4), (4, 4)];

/// Which others may hold the lock beside a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// So many permits, and the limit that the request names.
    Semaphore(u32, PermitLimit),
}

impl Kind {
    /// How many permits it takes; `None` if it is for no semaphore.
    pub(crate) fn permits(self) -> Option<u32> {
        if let Self::Semaphore(count, _) = self { Some(count) } else { None }
    }

    pub(super) fn name(self) -> ModeName {
        match self {
            Self::Exclusive => ModeName::Exclusive,
            Self::Shared => ModeName::Shared,
            Self::Semaphore(..) => ModeName::Semaphore,
        }
    }
}

/// The kind of a request. Of the shared ones, 5 and 9 have a bound on the time of their leases.
pub(crate) fn kind(request: u8) -> Kind {
    match (request, request % 12) {
        (SEMAPHORES.., _) => {
            let (count, permits) = PERMITS[usize::from(request % 10)];
            Kind::Semaphore(count, PermitLimit { permits, version: u64::from(request / 10 % 5) })
        }
        (READERS_WITH_DELAYS.., _) | (_, 2 | 4 | 5 | 9 | 10) => Kind::Shared,
        _ => Kind::Exclusive,
    }
}

/// The number of a request for permits. Of three with the same permits and limit, the last one (`copy` is 2) has
/// delays.
pub(crate) fn semaphore(count: u32, permits: u32, version: u8, copy: u8) -> u8 {
    let index = PERMITS.iter().position(|it| *it == (count, permits)).unwrap();
    SEMAPHORES + copy * 50 + version * 10 + u8::try_from(index).unwrap()
}

/// The TTL of a request: longer or shorter than the 3 s for which the lease of a dropped call is kept.
pub(crate) fn ttl(request: u8) -> Duration {
    Duration::from_secs([5, 2, 12][usize::from(request) % 3])
}

/// The bound on all the time that a request may hold the lock: none, longer than its TTL, or equal to it.
pub(crate) fn max_hold(request: u8) -> Option<Duration> {
    [None, None, None, Some(7), None, Some(12)][usize::from(request) % 6].map(Duration::from_secs)
}

/// How long a request occupies what it gets after its grant at least, and after its lease if the holder does not
/// release it.
pub(crate) fn delays(request: u8) -> (Duration, Duration) {
    let with_delays = [(7, 0), (0, 4), (14, 5)];
    let (min_hold, lock_delay) = match request {
        6..9 => with_delays[usize::from(request - 6)],
        READERS_WITH_DELAYS..SEMAPHORES | WITH_DELAYS.. => with_delays[usize::from(request % 3)],
        _ => (0, 0),
    };
    (Duration::from_secs(min_hold), Duration::from_secs(lock_delay))
}

pub(super) fn call(request: u8, attempt: u32, copy: u8) -> Call {
    Call { request: RequestId(id(request.into())), attempt, id: CallId(1 + u64::from(copy)) }
}

pub(super) fn terms_of(call: Call) -> Terms {
    let request = request_number(call.request);
    let (min_hold, lock_delay) = delays(request);
    Terms {
        fingerprint: request.into(),
        ttl: ttl(request),
        holder: holder(request),
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: max_hold(request).and_then(MaxHold::new),
        extra: Extra::of_delays(Delays::new(min_hold, lock_delay)),
        mode: match kind(request) {
            Kind::Exclusive => Mode::Exclusive,
            Kind::Shared => Mode::Shared,
            Kind::Semaphore(count, limit) => Mode::Semaphore(Box::new(Permits::new(count, limit).unwrap())),
        },
    }
}
