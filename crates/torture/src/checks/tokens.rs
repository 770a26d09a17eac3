//! The tokens of a lease: an upgrade replaces the one before.

use super::index::Lock;
use crate::history::{AcquireEnd, Grant};
use std::collections::{HashMap, HashSet};

/// Which tokens of a lock are of one lease.
pub(crate) struct Tokens<'a> {
    /// The token before, by the one that an upgrade answered.
    before: HashMap<u64, u64>,
    /// The lowest token of each grant that may have been upgraded. A repeat of its request answers the present one.
    upgraded: HashMap<&'a str, u64>,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(lock: &Lock<'a>) -> Self {
        let changes = lock.conversions.iter().filter_map(|convert| Some((convert.new_token()?, convert.token)));
        // Tokens rise: this is what makes `first` end, whatever a history contains.
        let mut before: HashMap<_, _> = changes.filter(|(new, old)| new > old).collect();
        let named: HashSet<_> =
            lock.conversions.iter().filter(|convert| convert.may_change_token()).map(|convert| convert.token).collect();
        let mut upgraded: HashMap<&'a str, u64> = HashMap::new();
        if !named.is_empty() {
            let grants = || {
                lock.acquires.iter().filter_map(|acquire| match &acquire.end {
                    AcquireEnd::Acquired(grant) => Some(grant),
                    _ => None,
                })
            };
            let of_lease: HashSet<_> =
                grants().filter(|grant| named.contains(&grant.token)).map(|grant| grant.grant.as_str()).collect();
            for grant in grants().filter(|grant| of_lease.contains(grant.grant.as_str())) {
                let lowest = upgraded.entry(&grant.grant).or_insert(grant.token);
                *lowest = grant.token.min(*lowest);
            }
            // The answer to an upgrade may be lost, and a repeat of the request tell its token.
            for grant in grants() {
                let lowest = upgraded.get(grant.grant.as_str()).copied().filter(|lowest| *lowest < grant.token);
                if let Some(lowest) = lowest {
                    before.entry(grant.token).or_insert(lowest);
                }
            }
        }
        Self { before, upgraded }
    }

    /// The first token of the lease with this one.
    pub(crate) fn first(&self, token: u64) -> u64 {
        let mut first = token;
        while let Some(before) = self.before.get(&first) {
            first = *before;
        }
        first
    }

    /// The first token of this grant.
    pub(crate) fn of_grant(&self, grant: &Grant) -> u64 {
        self.upgraded.get(grant.grant.as_str()).copied().unwrap_or(grant.token)
    }
}
