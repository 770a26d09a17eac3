//! Which holders of a lock exclude each other.

use super::limits::PERMITS_MAX;
use minicbor::{Decode, Encode};
use std::num::NonZeroU32;

/// Which other holders a lease excludes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One holder at a time.
    #[default]
    Exclusive,
    /// Any number of shared holders, and no other one beside them.
    Shared,
    /// Holders that together use no more permits than the limit, and no other one beside them. In a box, so that the
    /// other modes do not pay for it.
    Semaphore(Box<Permits>),
}

impl Mode {
    /// The permits of a semaphore.
    pub fn permits(&self) -> Option<&Permits> {
        if let Self::Semaphore(permits) = self { Some(permits) } else { None }
    }

    /// Which one it is, without permits.
    pub const fn name(&self) -> ModeName {
        match self {
            Self::Exclusive => ModeName::Exclusive,
            Self::Shared => ModeName::Shared,
            Self::Semaphore(_) => ModeName::Semaphore,
        }
    }

    /// Whether they are more than this limit.
    pub fn exceeds(&self, limit: PermitLimit) -> bool {
        self.permits().is_some_and(|permits| limit.permits < permits.count)
    }
}

/// Which mode a lease or a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ModeName {
    /// [`Mode::Exclusive`].
    #[n(0)]
    Exclusive,
    /// [`Mode::Shared`].
    #[n(1)]
    Shared,
    /// [`Mode::Semaphore`].
    #[n(2)]
    Semaphore,
}

impl ModeName {
    /// Whether a lease of this mode keeps a request of that mode waiting. A request for permits waits for any lease of
    /// its semaphore to end.
    pub fn excludes(self, waiting: Self) -> bool {
        (self, waiting) != (Self::Shared, Self::Shared)
    }
}

/// What a lease can be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ConvertTo {
    /// Its holder holds the lock alone from then on.
    #[n(0)]
    Exclusive,
    /// Others may share the lock from then on.
    #[n(1)]
    Shared,
}

impl ConvertTo {
    /// The mode that the lease has then.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Shared => Mode::Shared,
        }
    }
}

/// The permits that a request asks for, or that a lease has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Permits {
    /// How many, at least 1 and at most the limit.
    #[n(0)]
    pub count: u32,
    /// The limit that the request names. Of a lease: the one in force when it was granted.
    #[n(1)]
    pub limit: PermitLimit,
    /// The number of a lease with one permit: the lowest that was free at its grant.
    #[n(2)]
    pub slot: Option<NonZeroU32>,
}

/// How many permits the holders of a semaphore may use together.
///
/// Each request names it. The highest version of those named is in force for as long as the semaphore is held or waited
/// for. So a limit that is changed in a rolling deploy is changed once, and two programs that disagree are told
/// (hashicorp/consul#933, madelson/DistributedLock#80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct PermitLimit {
    /// At least 1.
    #[n(0)]
    pub permits: u32,
    /// A higher version replaces a lower one. One version has one number of permits.
    #[n(1)]
    pub version: u64,
}

impl Permits {
    /// `count` permits of a semaphore with this limit; `None` if that cannot be.
    pub fn new(count: u32, limit: PermitLimit) -> Option<Self> {
        let may_be = (1..=limit.permits).contains(&count) && limit.permits <= PERMITS_MAX;
        may_be.then_some(Self { count, limit, slot: None })
    }
}

impl PermitLimit {
    /// Of two limits, the one that is in force.
    #[must_use]
    pub fn newer(self, other: Self) -> Self {
        if self.version < other.version { other } else { self }
    }
}
