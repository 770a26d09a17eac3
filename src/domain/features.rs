//! What servers understand beyond what the first version did, as they tell each other with their heartbeats.
//!
//! A server skips what a later version adds to a message (`codec`), so it would do less than it is
//! asked for. What it must not pass over needs a feature, and goes to no server that has not told it.

use super::{
    command::{Acquire, Command},
    lease::{Extra, Terms},
    mode::{ConvertTo, Mode},
};
use minicbor::{Decode, Encode};

/// A set of features, one bit each. A bit never gets another meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Features(#[n(0)] u64);

impl Features {
    /// What each version understands.
    pub const NONE: Self = Self(0);
    /// [`Terms::max_hold`], in messages and in what is kept.
    pub const MAX_HOLD: Self = Self(1);
    /// [`Terms::delays`], in messages and in what is kept.
    pub const DELAYS: Self = Self(1 << 1);
    /// [`Mode::Shared`], in messages and in what is kept.
    pub const SHARED: Self = Self(1 << 2);
    /// [`Mode::Semaphore`], in messages and in what is kept.
    pub const SEMAPHORES: Self = Self(1 << 3);
    /// [`Command::Convert`].
    pub const CONVERT: Self = Self(1 << 4);
    /// [`Command::Describe`], in messages and in what is kept.
    pub const DESCRIBE: Self = Self(1 << 5);
    /// What a request says of its waiting, and [`Command::ListWaiters`]: the owner, `max_waiters`,
    /// `tell_when_wanted`.
    pub const WAITERS: Self = Self(1 << 6);
    /// [`Terms::delays`] of a lease that is not exclusive, in messages and in what is kept.
    pub const GHOSTS: Self = Self(1 << 7);
    /// All that this version understands.
    pub const OWN: Self = Self::MAX_HOLD
        .with(Self::DELAYS)
        .with(Self::SHARED)
        .with(Self::SEMAPHORES)
        .with(Self::CONVERT)
        .with(Self::DESCRIBE)
        .with(Self::WAITERS)
        .with(Self::GHOSTS);

    /// A set with these bits, of which this version may not know all.
    pub const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// What a server has to understand that carries this command out.
    pub fn of(command: &Command) -> Self {
        match command {
            Command::Acquire(Acquire { terms, .. }) => Self::of_terms(terms),
            // mutant: Convert for an old server
            Command::Convert { to, .. } => Self::CONVERT.with(Self::SHARED).with(Self::of_conversion(*to)),
            // mutant: Describe for an old server
            Command::Describe { .. } => Self::DESCRIBE,
            Command::ListWaiters { .. } => Self::WAITERS,
            _ => Self::NONE,
        }
    }

    /// The lease may have delays.
    const fn of_conversion(to: ConvertTo) -> Self {
        match to {
            ConvertTo::Exclusive => Self::NONE,
            // mutant: downgrade of a delay for an old server
            ConvertTo::Shared => Self::GHOSTS,
        }
    }

    /// What a server has to understand that grants or holds a lease of these terms.
    pub fn of_terms(terms: &Terms) -> Self {
        // mutant: new terms for an old server
        let max_hold = if terms.max_hold.is_some() { Self::MAX_HOLD } else { Self::NONE };
        // mutant: delays for an old server
        let delays = if terms.delays().is_some() { Self::DELAYS } else { Self::NONE };
        // mutant: max_waiters for an old server
        let extra = terms.extra.as_deref().map_or(Self::NONE, Self::of_extra);
        let mode = match terms.mode {
            Mode::Exclusive => Self::NONE,
            // mutant: shared leases for an old server
            Mode::Shared => Self::SHARED,
            // mutant: semaphores for an old server
            Mode::Semaphore(_) => Self::SEMAPHORES,
        };
        // mutant: ghosts for an old server
        let ghosts = if mode.is_none() || delays.is_none() { Self::NONE } else { Self::GHOSTS };
        max_hold.with(delays).with(extra).with(mode).with(ghosts)
    }

    /// The verified identity is not asked for by anybody, and only shown: a server may pass it over.
    fn of_extra(extra: &Extra) -> Self {
        let Extra { delays: _, owner, identity: _, waiters_max, tell_when_wanted, description } = extra;
        let is_plain = owner.is_empty() && *waiters_max == 0 && !tell_when_wanted;
        let waiters = if is_plain { Self::NONE } else { Self::WAITERS };
        if *description == 0 { waiters } else { waiters.with(Self::DESCRIBE) }
    }

    /// Whether these are all among the features of a server.
    pub const fn are_among(self, told: Self) -> bool {
        self.0 & !told.0 == 0
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, those: Self) -> Self {
        Self(self.0 | those.0)
    }

    /// Whether each version understands it.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What a caller asked for that needs them.
    pub fn names(self) -> String {
        const NAMES: [(Features, &str); 7] = [
            (Features::DESCRIBE, "Describe"),
            (Features::MAX_HOLD, "max_hold"),
            (Features::DELAYS, "min_hold or lock_delay"),
            (Features::WAITERS, "owner, max_waiters, tell_when_wanted or ListWaiters"),
            (Features::SHARED, "mode SHARED"),
            (Features::SEMAPHORES, "mode SEMAPHORE"),
            (Features::GHOSTS, "min_hold or lock_delay in mode SHARED or SEMAPHORE"),
        ];
        // Convert needs the mode that it names by itself.
        if Self::CONVERT.are_among(self) {
            return "Convert".to_owned();
        }
        // The modes and the delays go with it.
        let ghosts = Self::GHOSTS.are_among(self);
        let parts = if ghosts { Self::DELAYS.with(Self::SHARED).with(Self::SEMAPHORES) } else { Self::NONE };
        let named = Self(self.0 & !parts.0);
        let asked: Vec<_> = NAMES.iter().filter(|(one, _)| one.are_among(named)).map(|(_, name)| *name).collect();
        if asked.is_empty() { "this request".to_owned() } else { asked.join(", and ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_among_those_told_if_each_is() {
        let next = Features::of_bits(0b1100_0000_0000);
        assert!(Features::NONE.are_among(Features::NONE) && Features::NONE.is_none());
        assert!(!Features::MAX_HOLD.are_among(Features::NONE) && !Features::MAX_HOLD.are_among(next));
        assert!(Features::MAX_HOLD.are_among(Features::of_bits(0b111)), "a later version tells more");
        assert_eq!(
            (Features::MAX_HOLD.names(), Features::DELAYS.names()),
            ("max_hold".into(), "min_hold or lock_delay".into())
        );
        assert_eq!(Features::MAX_HOLD.with(Features::DELAYS).names(), "max_hold, and min_hold or lock_delay");
        assert_eq!(Features::SHARED.names(), "mode SHARED");
        assert_eq!(Features::MAX_HOLD.with(Features::SHARED).names(), "max_hold, and mode SHARED");
        assert_eq!((Features::NONE.names(), Features::DESCRIBE.names()), ("this request".into(), "Describe".into()));
        assert_eq!(Features::CONVERT.with(Features::SHARED).names(), "Convert");
        assert_eq!(Features::MAX_HOLD.with(Features::SEMAPHORES).names(), "max_hold, and mode SEMAPHORE");
        let ghosts = Features::GHOSTS.with(Features::DELAYS).with(Features::SHARED);
        assert_eq!(ghosts.names(), "min_hold or lock_delay in mode SHARED or SEMAPHORE");
    }
}
