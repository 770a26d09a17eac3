//! The part of the oracle for conversions: an exclusive lease becomes a shared one, or the reverse.

use super::{
    Step,
    oracle::{Actual, Oracle},
    state::{Holding, OracleEffect},
    terms::Kind,
};
use fencepost::testing::domain::{
    command::Outcome,
    outcome::{ConvertOutcome, Renewed},
    token::FencingToken,
};

/// How many tokens of before an upgrade a command can name.
const REMEMBERED: usize = 2;

impl Oracle {
    /// The token that a command names: the present one of the lease, or that of so many upgrades ago. `None` if there
    /// is no such token.
    pub(super) fn token_before(&self, lease: u32, upgrades: u8) -> Option<FencingToken> {
        let held = self.held.iter().find(|held| held.lease == lease)?;
        let mut tokens = held.earlier.iter().copied().chain([held.token]).rev();
        tokens.nth(upgrades.into())
    }

    pub(super) fn convert(
        &mut self,
        step: Step,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> ConvertOutcome {
        let Step::Convert { lease, upgrades, shared } = step else { unreachable!("no conversion: {step:?}") };
        let (now, to) = (actual.now, if shared { Kind::Shared } else { Kind::Exclusive });
        let named = self.token_before(lease, upgrades);
        let is_alone = self.held.len() == 1 && self.offers.is_empty() && self.pauses.is_empty();
        let gone = self.gone(lease);
        let Some(held) = self.held.iter_mut().find(|held| held.lease == lease) else {
            return ConvertOutcome::Lost(gone);
        };
        // A downgrade of before may arrive late: it has to find another token.
        let outdates_downgrade = !shared && named == Some(held.token);
        if held.kind != to || outdates_downgrade {
            if named != Some(held.token) {
                return ConvertOutcome::TokenOutdated;
            }
            if held.kind.permits().is_some() {
                return ConvertOutcome::NotConvertible;
            }
            if !shared && !is_alone {
                return ConvertOutcome::Contended(self.contention(now));
            }
            held.kind = to;
            if !shared {
                held.upgrade(actual);
            }
            effects.push(OracleEffect::Converted(held.token));
        }
        // Who names the lease has heard of it, so it lasts as long as it was granted for.
        if held.cut {
            held.extend(now, held.ttl);
        }
        held.learned = true;
        let answer = Renewed { token: held.token, ttl: held.ttl, left: held.end.since(now) };
        // Readers at the head of the queue come in beside a holder that shares the lock from now on.
        self.offer_to_next(now, effects);
        ConvertOutcome::Converted(answer)
    }
}

impl Holding {
    /// The oracle takes the token from the real answer. The history checks that tokens rise.
    fn upgrade(&mut self, actual: &Actual<'_>) {
        let Outcome::Convert(ConvertOutcome::Converted(real)) = actual.answer else {
            panic!("lease {} becomes exclusive, not {:?}", self.lease, actual.answer)
        };
        self.earlier.push(std::mem::replace(&mut self.token, real.token));
        let forgotten = self.earlier.len().saturating_sub(REMEMBERED);
        self.earlier.drain(..forgotten);
    }
}
