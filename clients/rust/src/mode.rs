//! Which holders of a lock exclude each other.

use crate::v1;

/// Which other holders the holder of a lock excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// All others.
    #[default]
    Exclusive,
    /// All but those that share the lock as well ([`Acquire::shared`](crate::Acquire::shared)).
    Shared,
    /// All but those that take permits as well, as long as there are enough
    /// ([`Acquire::semaphore`](crate::Acquire::semaphore)).
    Semaphore,
}

impl Mode {
    /// `None` if a server did not set it.
    pub(crate) fn of(mode: v1::LockMode) -> Option<Self> {
        match mode {
            v1::LockMode::Unspecified => None,
            v1::LockMode::Exclusive => Some(Self::Exclusive),
            v1::LockMode::Shared => Some(Self::Shared),
            v1::LockMode::Semaphore => Some(Self::Semaphore),
        }
    }
}

impl From<Mode> for v1::LockMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
            Mode::Semaphore => Self::Semaphore,
        }
    }
}
