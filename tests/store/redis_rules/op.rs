//! What may happen, in any order.

/// Which lease a command is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// The one that holds the lock.
    Current,
    /// The one granted before the last.
    Last,
    /// One granted before that, whose end was put aside by now.
    Earlier,
    /// One that never was, of the same request as that.
    Sibling,
    /// One that never was.
    Stranger,
}

/// A command, or what happens between two.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Acquire {
        request: u128,
        attempt: u32,
        /// Which call of this attempt.
        id: u64,
        wait: bool,
        odd: u8,
    },
    Claim {
        request: u128,
        attempt: u32,
        id: u64,
    },
    GiveUp {
        request: u128,
        attempt: u32,
        id: u64,
    },
    Drop {
        request: u128,
        attempt: u32,
        id: u64,
    },
    Decline {
        request: u128,
        attempt: u32,
    },
    Release(Which),
    /// A release that claims for a call.
    ReleaseTo {
        which: Which,
        request: u128,
        attempt: u32,
        id: u64,
    },
    Renew(Which, u64),
    RenewKept(Which, u128),
    Attach(Which, u32, u128),
    Detach(Which, u128),
    Disconnect(Which, u128),
    ForceRelease(bool),
    Poll,
    FromReplica(u128),
    /// The life that the replica takes the store to be in.
    Incarnation(u128),
    /// The one that it is in.
    Present(u128),
    /// How late commands are carried out from now on: half a second is still in time.
    Late(u64),
    /// From now on the replica knows of a token this far ahead of the clock.
    Known(u64),
    Pass(u64),
    StepBack(u64),
    /// A classic client tries to take the lock, with a TTL or for good; or gives it back.
    ClassicTake(bool),
    ClassicGive,
}
