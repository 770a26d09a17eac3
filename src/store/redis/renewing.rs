//! Renewals of very many leases: neighbours in one script, and a few scripts at a time.

use super::{
    RedisStore,
    links::{Arg, COMMANDS_PER_SCRIPT, Script},
};
use crate::{
    domain::{name::LockName, outcome::RenewOutcome},
    store::{Kept, StoreError},
};
use futures_util::future::join_all;

/// Scripts that are sent together, one after the other.
const SCRIPTS_PER_TURN: usize = 16;
/// Scripts under way at once, of all streams: some milliseconds of Redis' time, so that nobody's command waits for long behind them.
/// With all leases of all streams due at once, and all sent, each would wait for longer than an answer is waited for. Scripts are
/// counted, not turns: most streams keep one lease, and each of them would take up as much as sixteen scripts.
pub(super) const RENEWAL_SCRIPTS: usize = 4 * SCRIPTS_PER_TURN;

type Outcomes = Vec<Result<RenewOutcome, StoreError>>;

impl RedisStore {
    /// Renews leases and answers in order; neighbours are sent together. Dropped on the way, some are done and some are not.
    pub(super) async fn renew_in_groups(&self, leases: &[Kept<'_>]) -> Outcomes {
        let groups: Vec<_> = leases.chunks(COMMANDS_PER_SCRIPT).collect();
        self.in_turns(&groups, |group| self.renew_group(group)).await
    }

    /// Attaches leases, one after the other: each happens once. What is asked for in the same moment is sent together all the same.
    pub(super) async fn attach_each(&self, leases: &[Kept<'_>]) -> Outcomes {
        let groups: Vec<_> = leases.chunks(1).collect();
        self.in_turns(&groups, |group| self.attach_group(group)).await
    }

    async fn in_turns<'a, F>(&self, groups: &[&'a [Kept<'a>]], run: impl Fn(&'a [Kept<'a>]) -> F) -> Outcomes
    where
        F: Future<Output = Outcomes>,
    {
        let mut outcomes = Vec::with_capacity(groups.iter().map(|group| group.len()).sum());
        for turn in groups.chunks(SCRIPTS_PER_TURN) {
            // Never closed, so they are always had.
            let scripts = u32::try_from(turn.len()).unwrap_or(u32::MAX);
            let _scripts = self.renewing.acquire_many(scripts).await;
            outcomes.extend(join_all(turn.iter().map(|group| run(group))).await.into_iter().flatten());
        }
        outcomes
    }

    async fn attach_group(&self, group: &[Kept<'_>]) -> Outcomes {
        let mut outcomes = Vec::with_capacity(group.len());
        for lease in group {
            let tail = [Arg::from(lease.lease_id.0), Arg::from(lease.attempt), Arg::from(lease.attachment.0)];
            outcomes.push(self.renew_one(lease.name, &self.scripts.attach, &tail).await);
        }
        outcomes
    }

    /// Each a command of its own; asked for together, they are sent together.
    async fn renew_group(&self, group: &[Kept<'_>]) -> Outcomes {
        let each = group.iter().map(|lease| async {
            let tail = [Arg::from(lease.lease_id.0), Arg::from(lease.attachment.0)];
            self.renew_one(lease.name, &self.scripts.renew_kept, &tail).await
        });
        join_all(each).await
    }

    pub(super) async fn renew_one(
        &self,
        name: &LockName,
        script: &'static Script,
        tail: &[Arg],
    ) -> Result<RenewOutcome, StoreError> {
        let outcome = self.call(name, script, tail).await?.renew()?;
        self.know_renewed(name, &outcome);
        Ok(outcome)
    }

    fn know_renewed(&self, name: &LockName, outcome: &RenewOutcome) {
        if let RenewOutcome::Renewed(renewed) = outcome {
            self.know(name, renewed.token);
        }
    }
}
