//! Events of all buckets, for as long as somebody here watches.
//!
//! Each bucket keeps a note of the replicas that its scripts are to tell. The notes run out by themselves, and a Redis
//! that forgets has forgotten them too: that is noticed when they are renewed, and told as a gap.

use super::{RedisStore, keys, tend::POLL_PERIOD};
use crate::{domain::time::micros, node::Arg, store::StoreError};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::{
    sync::{Mutex, Notify},
    time::Instant,
};

/// For how long events are asked for, and how often that is renewed while somebody watches.
const SPAN: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_secs(10);
/// How long those who come share an error, instead of asking all buckets each.
const FAILURE_SHARED: Duration = Duration::from_secs(1);

/// Whether events have been asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last: Mutex<Last>,
    unheard: Notify,
}

#[derive(Debug, Default)]
struct Last {
    /// What came of it the last time.
    outcome: Option<(Instant, Result<(), StoreError>)>,
    /// They have been since somebody watches.
    is_known: bool,
    /// A bucket that had been asked has forgotten it, and that is to be told.
    is_forgotten: bool,
}

impl Asked {
    /// Events may have been lost on their way here.
    pub(super) fn may_be_unheard(&self) {
        self.unheard.notify_one();
    }
}

impl RedisStore {
    /// Asks for events again and again while somebody watches, and tells when some may have gone unheard. First they
    /// are asked for, so that no more are lost when that is told.
    pub(super) async fn keep_watching(&self) {
        let mut is_unheard = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(if is_unheard { POLL_PERIOD } else { PERIOD }) => {}
                () = self.asked.unheard.notified() => is_unheard = true,
            }
            let mut last = self.asked.last.lock().await;
            if !self.notices.is_watched() {
                // Whoever comes next has them asked for.
                *last = Last::default();
                is_unheard = false;
                continue;
            }
            match self.ask_for_events(&mut last).await {
                Ok(()) if is_unheard => {
                    self.notices.events_lost();
                    is_unheard = false;
                }
                Ok(()) => {}
                Err(error) => tracing::debug!(%error, "events could not be asked for"),
            }
        }
    }

    /// Makes sure that events are told here. Whoever comes while they are being asked for waits for what comes of it;
    /// dropped, the next one asks.
    pub(super) async fn ask_for_events_once(&self) -> Result<(), StoreError> {
        let mut last = self.asked.last.lock().await;
        if let Some((when, outcome)) = &last.outcome
            && when.elapsed() < if outcome.is_ok() { PERIOD } else { FAILURE_SHARED }
        {
            // mutant: each watcher asks all buckets
            return outcome.clone();
        }
        self.ask_for_events(&mut last).await
    }

    async fn ask_for_events(&self, last: &mut Last) -> Result<(), StoreError> {
        last.outcome = None;
        let span = [Arg::from(micros(SPAN))];
        let each = (0..keys::BUCKETS).map(|bucket| {
            let span = &span;
            async move {
                let connection = self.connection(bucket).await?;
                self.send(&connection, bucket, &self.commands.watch, span).await?.goes_on()
            }
        });
        let each = join_all(each).await;
        last.is_forgotten |= last.is_known && each.iter().any(|goes_on| matches!(goes_on, Ok(false)));
        let outcome = each.into_iter().try_for_each(|goes_on| goes_on.map(drop));
        last.is_known |= outcome.is_ok();
        // mutant: gap in events untold
        if outcome.is_ok() && std::mem::take(&mut last.is_forgotten) {
            self.notices.events_lost();
        }
        last.outcome = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
