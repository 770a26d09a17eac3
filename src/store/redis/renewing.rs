//! Renewals and attachments: of very many leases, in bulk.

use super::{
    RedisStore,
    answer::Answer,
    links::{Arg, Command},
};
use crate::{
    domain::{name::LockName, outcome::RenewOutcome},
    store::{Kept, StoreError, Timed},
};
use futures_util::future::join_all;

type Outcomes = Vec<Result<RenewOutcome, StoreError>>;

impl RedisStore {
    /// Renews leases and answers in order. Each is a command of its own; what is asked for together is sent together.
    /// Dropped on the way, some are done and some are not.
    pub(super) async fn renew_each(&self, leases: &[Kept<'_>]) -> Outcomes {
        let each = leases.iter().map(|lease| async {
            let tail = [Arg::from(lease.lease_id.0), Arg::from(lease.attachment.0)];
            Ok(self.renew_one(lease.name, &self.commands.renew_kept, &tail).await?.outcome)
        });
        join_all(each).await
    }

    /// Attaches leases, in the same way.
    pub(super) async fn attach_each(&self, leases: &[Kept<'_>]) -> Outcomes {
        let each = leases.iter().map(|lease| async {
            let tail = [Arg::from(lease.lease_id.0), Arg::from(lease.attempt), Arg::from(lease.attachment.0)];
            Ok(self.renew_one(lease.name, &self.commands.attach, &tail).await?.outcome)
        });
        join_all(each).await
    }

    pub(super) async fn renew_one(
        &self,
        name: &LockName,
        command: &'static Command,
        tail: &[Arg],
    ) -> Result<Timed<RenewOutcome>, StoreError> {
        let renewal = self.call(name, command, tail).await?.try_map(Answer::renew)?;
        if let RenewOutcome::Renewed(renewed) = &renewal.outcome {
            self.know(name, renewed.token);
        }
        Ok(renewal)
    }
}
