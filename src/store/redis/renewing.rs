//! Renewals of very many leases: one script for those of a bucket, and a few scripts at a time.

use super::{
    RedisStore,
    call::hex,
    keys,
    links::{Arg, Script},
};
use crate::{
    domain::{name::LockName, outcome::RenewOutcome},
    store::{Kept, StoreError},
};
use futures_util::future::join_all;
use tokio::time::Instant;

/// Leases in one script: some hundred microseconds, in which Redis does nothing else.
const LEASES_PER_SCRIPT: usize = 32;
/// Scripts that are sent together, one after the other.
const SCRIPTS_PER_TURN: usize = 16;
/// Scripts under way at once, of all streams: some milliseconds of Redis' time, so that nobody's command waits for long behind them.
/// With all leases of all streams due at once, and all sent, each would wait for longer than an answer is waited for. Scripts are
/// counted, not turns: most streams keep one lease, and each of them would take up as much as sixteen scripts.
pub(super) const RENEWAL_SCRIPTS: usize = 4 * SCRIPTS_PER_TURN;

type Outcomes = Vec<Result<RenewOutcome, StoreError>>;

impl RedisStore {
    /// Renews leases, neighbours of one bucket together, and answers in order. Dropped on the way, some are done and some are not.
    pub(super) async fn renew_in_groups(&self, leases: &[Kept<'_>]) -> Outcomes {
        let same = |a: &Kept<'_>, b: &Kept<'_>| keys::bucket(a.name) == keys::bucket(b.name);
        let groups: Vec<_> = leases.chunk_by(same).flat_map(|group| group.chunks(LEASES_PER_SCRIPT)).collect();
        self.in_turns(&groups, |group| self.renew_group(group)).await
    }

    /// Attaches leases, each by a script of its own: it happens once.
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
            let tail = [hex(lease.lease_id.0), Arg::from(lease.attempt), hex(lease.attachment.0)];
            outcomes.push(self.renew_one(lease.name, &self.scripts.attach, &tail).await);
        }
        outcomes
    }

    async fn renew_group(&self, group: &[Kept<'_>]) -> Outcomes {
        match self.ask_for_group(group).await {
            Ok(outcomes) => outcomes,
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn ask_for_group(&self, group: &[Kept<'_>]) -> Result<Outcomes, StoreError> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let bucket = keys::bucket(first.name);
        let mut tail = Vec::with_capacity(group.len() * 3);
        for lease in group {
            tail.extend([Arg::from(lease.name.as_str()), hex(lease.lease_id.0), hex(lease.attachment.0)]);
        }
        let link = self.link(bucket).await?;
        let sent = Instant::now();
        let answer = self.read(&link, sent, self.send(&link, bucket, &self.scripts.renew_kept, &tail).await?)?;
        let mut outcomes = Vec::with_capacity(group.len());
        for (lease, one) in group.iter().zip(answer.each(group.len())?) {
            for effect in &one.effects {
                self.heed_one(bucket, lease.name, effect, None);
            }
            outcomes.push(one.renew().inspect(|outcome| self.know_renewed(lease.name, outcome)));
        }
        Ok(outcomes)
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
