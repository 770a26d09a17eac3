//! Each new life of Redis is looked at before anything is asked of it: what endangers locks there, and whose data it holds.

use super::{
    LAYOUT, RedisStore,
    answer::Answer,
    doctor::{self, EVICTION, Finding, Severity},
    keys,
    links::{Arg, Link},
};
use crate::{domain::ids::Incarnation, store::StoreError};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::{sync::watch, time::Instant};

/// How often a life that was refused is looked at again, and a failed look repeated: an operator may have changed it.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// For how long all who ask get the answer of a look that failed. They came while it went on: one look is enough for them.
const FAILURE_SHARED: Duration = Duration::from_millis(200);

/// Which life of Redis is known, and how that went.
pub(super) struct Met {
    known: Mutex<Option<Incarnation>>,
    /// Held by who looks: one at a time. Inside is the last look that failed.
    turn: tokio::sync::Mutex<Option<(Instant, Incarnation, StoreError)>>,
    /// The life whose findings are in the log.
    told: Mutex<Option<Incarnation>>,
    pub(super) up: watch::Sender<bool>,
    pub(super) allow_eviction: bool,
}

impl Met {
    pub(super) fn nobody() -> Self {
        let up = watch::Sender::new(false);
        Self {
            known: Mutex::new(None),
            turn: tokio::sync::Mutex::new(None),
            told: Mutex::new(None),
            up,
            allow_eviction: false,
        }
    }
}

impl RedisStore {
    /// Makes sure that the life of Redis at the end of this link is one to work with.
    pub(super) async fn meet(&self, link: &Link) -> Result<(), StoreError> {
        let life = link.incarnation();
        if *self.met.known.lock() == Some(life) {
            return Ok(());
        }
        let mut last = self.met.turn.lock().await;
        if *self.met.known.lock() == Some(life) {
            return Ok(());
        }
        if let Some((when, whose, error)) = &*last
            && *whose == life
            && when.elapsed() < FAILURE_SHARED
        {
            return Err(error.clone());
        }
        let looked = self.look(link).await;
        *last = looked.as_ref().err().map(|error| (Instant::now(), life, error.clone()));
        if looked.is_ok() {
            *self.met.known.lock() = Some(life);
        }
        looked
    }

    /// Meets each new life at once, and keeps `up` true to it.
    pub(super) async fn keep_meeting(&self) {
        let mut links = self.links.up();
        loop {
            links.borrow_and_update();
            let up = self.link(0).await.is_ok();
            self.met.up.send_if_modified(|was| std::mem::replace(was, up) != up);
            tokio::select! {
                _ = links.changed() => {}
                () = tokio::time::sleep(LOOK_PERIOD) => {}
            }
        }
    }

    async fn look(&self, link: &Link) -> Result<(), StoreError> {
        let facts = doctor::gather(&mut link.connection()).await.map_err(StoreError::Unavailable)?;
        let findings = doctor::judge(&facts);
        let evicts = |finding: &&Finding| finding.check == EVICTION && finding.severity == Severity::Error;
        let refused = findings.iter().find(evicts).filter(|_| !self.met.allow_eviction);
        if self.met.told.lock().replace(link.incarnation()) != Some(link.incarnation()) {
            findings.iter().for_each(|finding| self.tell(finding));
        }
        // Before the layout is fixed there: nothing is written to a Redis that is refused.
        if let Some(Finding { found, at_stake, change, .. }) = refused {
            let text = format!(
                "this Redis may evict locks, so the server does not use it: {found}; {at_stake}. Change it ({change}), or allow \
                 it with --allow-eviction"
            );
            return Err(StoreError::Unavailable(text));
        }
        self.check_layout(link).await
    }

    fn tell(&self, finding: &Finding) {
        let Finding { check, severity, found, at_stake, change } = finding;
        let accepted = *check == EVICTION && self.met.allow_eviction;
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

    async fn check_layout(&self, link: &Link) -> Result<(), StoreError> {
        let wanted = [keys::BUCKETS.to_string(), LAYOUT.to_owned()];
        let tail = wanted.each_ref().map(|text| Arg::from(text.as_str()));
        let found = Answer::read(self.send(link, 0, &self.scripts.meta, &tail).await?)?.texts("meta")?;
        if found == wanted {
            return Ok(());
        }
        let text = format!(
            "its data is laid out as {found:?} (buckets, version), and this server's as {wanted:?}: use another database, \
             or the version of the server that wrote it"
        );
        Err(StoreError::Corrupt(text))
    }
}
