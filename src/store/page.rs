//! Pages of a listing.

use crate::domain::{
    name::LockName,
    outcome::{HolderView, LockView},
};

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// Its locks, in no particular order.
    pub locks: Vec<(LockName, LockView)>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

impl Page {
    /// The approximate size of a lock on a page, without the parts that all locks share.
    pub(super) fn bytes(name: &LockName, view: &LockView) -> usize {
        const PER_PAIR: usize = 8;
        let holder = |holder: &HolderView| {
            let pairs = holder.metadata.pairs().map(|(key, value)| key.len() + value.len() + PER_PAIR);
            holder.holder.as_str().len() + pairs.sum::<usize>()
        };
        let shared = view.shared.iter().flat_map(|shared| &shared.holders);
        name.as_str().len() + view.current.iter().chain(shared).map(holder).sum::<usize>()
    }
}
