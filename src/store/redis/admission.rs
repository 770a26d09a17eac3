//! What this store demands of a Redis before it uses it: that it does not evict locks, and that its data is laid out
//! for this server.

use super::{
    LAYOUT, RedisStore,
    doctor::{self, Meta, StoreFacts},
    keys,
};
use crate::{
    node::{
        Arg, Checks, Connection,
        doctor::{EVICTION, Facts, Finding, Severity},
    },
    store::StoreError,
};
use std::sync::Arc;

/// What an operator may have chosen.
#[derive(Debug, Default)]
pub(super) struct Demands {
    pub(super) allow_eviction: bool,
    /// The prefix of the keys of classic locks.
    pub(super) classic: Option<String>,
}

/// The result of a check: passed, or why not. The outer error says why it could not be asked.
type Checked = Result<Result<(), StoreError>, StoreError>;

impl Checks for RedisStore {
    type Error = StoreError;

    async fn check(&self, connection: &Arc<Connection>) -> Result<(), StoreError> {
        let mut probe = connection.probe();
        let facts = probe.gather().await.map_err(StoreError::Unavailable)?;
        let own = doctor::gather(&mut probe).await.map_err(StoreError::Unavailable)?;
        self.weigh(connection, &facts, &own)?;
        // Even if the layout is the right one: this shows whether Redis lets a script write.
        self.check_layout(connection).await??;
        self.know_in_all_buckets();
        Ok(())
    }

    /// One that cannot be asked now (it refuses to write, say) is as good as it was: commands find out themselves which
    /// of them it refuses.
    async fn still_pass(&self, connection: &Arc<Connection>) -> bool {
        let mut probe = connection.probe();
        let Ok(facts) = probe.gather_again().await else { return true };
        let Ok(own) = doctor::gather(&mut probe).await else { return true };
        if self.weigh(connection, &facts, &own).is_err() {
            return false;
        }
        self.is_laid_out(&own)
            || !matches!(self.check_layout(connection).await, Ok(Err(_)) | Err(StoreError::Corrupt(_)))
    }
}

impl RedisStore {
    /// Says why this Redis is not to be used, if so. Logs what was found.
    fn weigh(&self, connection: &Connection, facts: &Facts, own: &StoreFacts) -> Result<(), StoreError> {
        let findings = doctor::judge(facts, own);
        let evicts = |finding: &&Finding| finding.check == EVICTION && finding.severity == Severity::Error;
        let refused = findings.iter().find(evicts).filter(|_| !self.demands.allow_eviction);
        self.logged.news(connection.incarnation(), &findings).for_each(|finding| self.log(finding));
        // Before the layout is fixed there: nothing is written to a Redis that is refused.
        if let Some(Finding { found, at_stake, change, .. }) = refused {
            let text = format!(
                "this Redis may evict locks, so the server does not use it: {found}; {at_stake}. Change it ({change}), \
                 or allow it with --allow-eviction"
            );
            return Err(StoreError::Unavailable(text));
        }
        Ok(())
    }

    fn log(&self, finding: &Finding) {
        let Finding { check, severity, found, at_stake, change } = finding;
        let accepted = *check == EVICTION && self.demands.allow_eviction;
        match severity {
            Severity::Ok => {}
            Severity::Error if *check == EVICTION && !accepted => {
                tracing::error!(
                    check,
                    found,
                    at_stake,
                    change,
                    "redis may evict locks: refused without --allow-eviction"
                );
            }
            Severity::Error if !accepted => {
                tracing::error!(check, found, at_stake, change, "redis is not fit for locks");
            }
            Severity::Error | Severity::Warning => {
                tracing::warn!(check, found, at_stake, change, "redis may lose locks, see fencepost doctor");
            }
        }
    }

    /// Whether the meta key says what this server needs.
    fn is_laid_out(&self, facts: &StoreFacts) -> bool {
        let classic = Some(self.demands.classic.clone().unwrap_or_default());
        let ours = Meta { buckets: keys::BUCKETS.to_string(), layout: LAYOUT.to_owned(), classic };
        facts.meta.as_ref().is_ok_and(|found| found.as_ref() == Some(&ours))
    }

    /// Fixes the layout if it is not fixed yet. Nothing if it is ours.
    async fn check_layout(&self, connection: &Arc<Connection>) -> Checked {
        let classic = self.demands.classic.as_deref().unwrap_or_default();
        let wanted = [keys::BUCKETS.to_string(), LAYOUT.to_owned()];
        let tail = wanted.iter().map(String::as_str).chain([classic]).map(Arg::from).collect::<Vec<_>>();
        let mut answer = self.send(connection, 0, &self.commands.meta, &tail).await?;
        if let Some(command) = answer.denied()? {
            let text = format!(
                "the Redis user of the URL may not run {command} on keys that begin with the classic prefix \
                 {classic:?}, so nothing was done: correct --classic-prefix, or grant the user these keys (ACL SETUSER \
                 … ~{classic}*)"
            );
            return Ok(Err(StoreError::Unavailable(text)));
        }
        let found = answer.texts("meta")?;
        let [buckets, layout, shared] = found.as_slice() else {
            return Ok(Err(StoreError::Corrupt(format!("its meta key says {found:?}"))));
        };
        if [buckets, layout] != wanted.each_ref() {
            let text = format!(
                "its data is laid out as {:?} (buckets, version), and this server's as {wanted:?}: use another \
                 database, or the version of the server that wrote it",
                [buckets, layout]
            );
            return Ok(Err(StoreError::Corrupt(text)));
        }
        if shared != classic {
            let text = format!(
                "its servers go by the classic prefix {shared:?} (empty: by none), and this one was started with \
                 {classic:?}: start it as the others, or to change it for all of them, stop them all, clear it (HDEL \
                 {} classic), and start them alike",
                keys::META
            );
            return Ok(Err(StoreError::Unavailable(text)));
        }
        Ok(Ok(()))
    }
}
