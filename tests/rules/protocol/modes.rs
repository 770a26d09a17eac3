//! What clients ask for, and which of them may hold the lock at the same time.

use fencepost::testing::domain::mode::{Mode, PermitLimit, Permits};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Alone,
    Shared,
    /// So many permits of a semaphore with this limit, and the version of that.
    Permits(u32, PermitLimit),
}

/// The first limit of the semaphores.
pub(crate) const TWO: PermitLimit = PermitLimit { permits: 2, version: 1 };
/// The limit that replaces it.
pub(crate) const ONE: PermitLimit = PermitLimit { permits: 1, version: 2 };

impl Asks {
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Alone => Mode::Exclusive,
            Self::Shared => Mode::Shared,
            Self::Permits(count, limit) => {
                Mode::Semaphore(Box::new(Permits::new(count, limit).expect("no more permits than the limit")))
            }
        }
    }

    fn permits(self) -> Option<u32> {
        if let Self::Permits(count, _) = self { Some(count) } else { None }
    }

    /// Whether it asks for more permits than there are.
    pub(super) fn exceeds(self, limit: Option<PermitLimit>) -> bool {
        self.permits().zip(limit).is_some_and(|(count, limit)| limit.permits < count)
    }
}

/// Whether these may hold the lock at the same time, with so many permits in all.
pub(super) fn may_be_together(holders: &[Asks], permits: u32) -> bool {
    let counts: Option<Vec<u32>> = holders.iter().map(|it| it.permits()).collect();
    match counts {
        Some(counts) => counts.into_iter().sum::<u32>() <= permits,
        None => holders.len() <= 1 || holders.iter().all(|it| *it == Asks::Shared),
    }
}
