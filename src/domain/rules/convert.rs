//! Convert: a writer becomes a reader without letting go of the lock, or the only reader a writer.
//!
//! A downgrade never waits, and no writer comes in between (CURATOR-276 and -621 let one in). An upgrade never waits
//! either: two readers that both waited for the other would wait for ever (Redisson #4796), and a release and a new
//! acquire instead would let others write in between (Scalingo/go-etcd-lock PR 132). So it is refused unless the lease
//! stands alone.

use super::{Turn, holding::renewed, shares::Shares};
use crate::domain::{
    command::Effect,
    ids::LeaseId,
    lease::Lease,
    mode::{ConvertTo, Mode},
    outcome::ConvertOutcome,
    time::StoreTime,
    token::FencingToken,
};

impl Turn<'_> {
    /// Converts a lease, if its token is the one that its holder knows. A repeat finds the mode that it asked for, and
    /// a late copy another token.
    ///
    /// A holder that got no answer to a downgrade may ask for an upgrade before it arrives. So an exclusive lease gets
    /// another token too: else the downgrade would let readers in beside a writer that relies on being alone.
    pub(super) fn convert(&mut self, lease_id: LeaseId, token: FencingToken, to: ConvertTo) -> ConvertOutcome {
        self.apply_time();
        let Some(lease) = self.lasting(lease_id) else { return ConvertOutcome::Lost(self.gone(lease_id)) };
        let is_semaphore = lease.terms.mode.permits().is_some();
        let is_so = lease.terms.mode == to.mode();
        let outdates_downgrade = to == ConvertTo::Exclusive && lease.token == token;
        // mutant: late downgrade undoes an upgrade
        if is_so && !outdates_downgrade {
            return self.keep_mode(lease_id);
        }
        // mutant: late copy converts again
        if lease.token != token {
            return ConvertOutcome::TokenOutdated;
        }
        match to {
            _ if is_semaphore => ConvertOutcome::NotConvertible,
            ConvertTo::Shared => self.downgrade(),
            ConvertTo::Exclusive => self.upgrade(token),
        }
    }

    /// The lease has the mode already. Its holder relies on the answer as on that of a renewal.
    fn keep_mode(&mut self, lease_id: LeaseId) -> ConvertOutcome {
        let now = self.now;
        let kept = self.with_held(lease_id, |lease| {
            // mutant: repeated conversion is not heard of
            lease.hear(now);
            renewed(lease, now)
        });
        kept.map_or_else(|| ConvertOutcome::Lost(self.gone(lease_id)), ConvertOutcome::Converted)
    }

    /// Keeps the token: no other grant came between, so those of later readers are higher.
    fn downgrade(&mut self) -> ConvertOutcome {
        let Some(lease) = self.lock.lease.take() else { return ConvertOutcome::NotConvertible };
        let lease = converted(lease, Mode::Shared, self.now);
        let (token, outcome) = (lease.token, ConvertOutcome::Converted(renewed(&lease, self.now)));
        self.grant_shared(lease, None);
        self.effects.push(Effect::Changed { token, was: token });
        // mutant: downgrade lets no reader in
        self.promote();
        self.tell_wanted();
        outcome
    }

    /// Draws a token: other readers may have raised theirs in a store.
    fn upgrade(&mut self, token: FencingToken) -> ConvertOutcome {
        // mutant: upgrade beside a ghost
        let is_alone =
            |shares: &Shares| shares.leases.len() == 1 && shares.offers.is_empty() && shares.ghosts.is_none();
        let stands_alone = self.lock.shares.as_deref().is_none_or(is_alone);
        // mutant: upgrade beside a reader
        if !stands_alone {
            return ConvertOutcome::Contended(self.contention());
        }
        let min_token = self.lock.lease_of(token).map_or(0, |lease| lease.terms.min_token);
        let Ok(fresh) = self.sequencer.draw(min_token) else { return ConvertOutcome::TokensExhausted };
        let exclusive = self.lock.lease.take_if(|lease| lease.token == token);
        let Some(lease) = exclusive.or_else(|| self.take_share(token)) else { return ConvertOutcome::NotConvertible };
        // mutant: upgrade keeps its token
        let lease = Lease { token: fresh, ..converted(lease, Mode::Exclusive, self.now) };
        let outcome = ConvertOutcome::Converted(renewed(&lease, self.now));
        self.effects.push(Effect::Changed { token: lease.token, was: token });
        self.lock.lease = Some(lease);
        self.tell_wanted();
        outcome
    }

    fn lasting(&self, lease_id: LeaseId) -> Option<&Lease> {
        let exclusive = self.lock.lease.as_ref().filter(|lease| lease.lease_id == lease_id);
        exclusive.or_else(|| self.lasting_share(lease_id))
    }
}

fn converted(mut lease: Lease, mode: Mode, now: StoreTime) -> Lease {
    lease.terms.mode = mode;
    lease.hear(now);
    // It excludes others than before.
    lease.told_wanted = false;
    lease
}
