//! Describe: what others see of a lease is replaced while it lasts (etcd calls it Proclaim).

use super::Turn;
use crate::domain::{
    command::Effect,
    ids::LeaseId,
    lease::Lease,
    name::{Holder, Metadata},
    outcome::DescribeOutcome,
};

impl Turn<'_> {
    /// Replaces what others see of a lease, unless a description with the same number or a higher one was there before.
    pub(super) fn describe(
        &mut self,
        lease_id: LeaseId,
        said: (Metadata, Option<Holder>),
        number: u64,
    ) -> DescribeOutcome {
        self.apply_time();
        let now = self.now;
        let described = self.with_held(lease_id, |lease| {
            lease.hear(now);
            (replace(lease, said, number), lease.token)
        });
        let Some((described, token)) = described else { return DescribeOutcome::Lost(self.gone(lease_id)) };
        match described {
            Ok(number) => {
                self.effects.push(Effect::Changed { token, was: token });
                DescribeOutcome::Described(number)
            }
            Err(last) if last == number => DescribeOutcome::Described(number),
            Err(last) => DescribeOutcome::Outdated(last),
        }
    }
}

/// The number that the lease's description has now; as an error, if it had that already.
fn replace(lease: &mut Lease, (metadata, holder): (Metadata, Option<Holder>), number: u64) -> Result<u64, u64> {
    let last = lease.terms.extra.as_ref().map_or(0, |extra| extra.description);
    let number = if number == 0 { last.saturating_add(1) } else { number };
    // mutant: late description replaces a newer one
    if number <= last {
        return Err(last);
    }
    lease.terms.extra.get_or_insert_default().description = number;
    lease.terms.metadata = metadata;
    if let Some(holder) = holder {
        lease.terms.holder = holder;
    }
    Ok(number)
}
