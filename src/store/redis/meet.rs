//! Each new life of Redis is looked at before anything is asked of it: what endangers locks there, and whose data it
//! holds.
//!
//! One task looks, and commands ask it. They look at nothing themselves: what a stalled client asked for is not polled
//! (its stream is not), and whoever held a turn meanwhile would keep it from everybody.

use super::{
    LAYOUT, RedisStore,
    doctor::{self, Meta, StoreFacts},
    keys,
};
use crate::{
    domain::ids::Incarnation,
    node::{
        Arg, Link,
        doctor::{EVICTION, Facts, Finding, Severity},
    },
    store::StoreError,
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    time::Instant,
};

/// How often a life that was refused is looked at again, and a failed look repeated: an operator may have changed it.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How often a life that was found good is looked at again: its settings may have been changed, its meta key deleted.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// For how long all who ask get the answer of a look that failed. They came while it went on: one look is enough for
/// them.
const FAILURE_SHARED: Duration = Duration::from_millis(200);
/// Commands that may wait for a look. More are refused.
const ASKING_MAX: usize = 65_536;

/// What a look came to: the life is good, or why it is not. An error beside it: it could not be asked.
type Looked = Result<Result<(), StoreError>, StoreError>;

/// A life, and what was found in it: each check with how bad it was.
type Told = (Incarnation, Vec<(&'static str, Severity)>);

/// The last look that failed: when, at which life, and why.
type Failed = Option<(Instant, Incarnation, StoreError)>;

/// A command that waits to know whether the life at the end of its link is one to work with.
#[derive(Debug)]
struct Asking {
    link: Arc<Link>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Which life of Redis is known, and how that went.
pub(super) struct Met {
    known: Mutex<Option<Incarnation>>,
    ask: mpsc::Sender<Asking>,
    /// Until who looks has it.
    asking: Mutex<Option<mpsc::Receiver<Asking>>>,
    /// The life whose findings are in the log, and what they are about.
    told: Mutex<Option<Told>>,
    pub(super) up: watch::Sender<bool>,
    pub(super) allow_eviction: bool,
    /// The prefix of the keys of classic locks.
    pub(super) classic: Option<String>,
}

impl Met {
    pub(super) fn nobody() -> Self {
        let up = watch::Sender::new(false);
        let (ask, asking) = mpsc::channel(ASKING_MAX);
        Self {
            known: Mutex::new(None),
            ask,
            asking: Mutex::new(Some(asking)),
            told: Mutex::new(None),
            up,
            allow_eviction: false,
            classic: None,
        }
    }
}

impl RedisStore {
    /// Makes sure that the life of Redis at the end of this link is one to work with. Dropped, or left alone, it holds
    /// nobody up.
    pub(super) async fn meet(&self, link: &Arc<Link>) -> Result<(), StoreError> {
        if *self.met.known.lock() == Some(link.incarnation()) {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let asking = Asking { link: Arc::clone(link), reply };
        let stopping = || StoreError::Unavailable("the server is stopping".to_owned());
        self.met.ask.try_send(asking).map_err(|why| match why {
            TrySendError::Full(_) => {
                StoreError::Unavailable(format!("{ASKING_MAX} commands wait until Redis is known"))
            }
            TrySendError::Closed(_) => stopping(),
        })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Meets each new life at once, and whatever commands ask about; keeps `up` true to it. Never ends.
    pub(super) async fn keep_meeting(&self) {
        let Some(mut asking) = self.met.asking.lock().take() else { return std::future::pending().await };
        let mut links = self.node.up();
        let (mut looked, mut failed, mut told) = (Instant::now(), None, None);
        loop {
            links.borrow_and_update();
            if looked.elapsed() >= LOOK_AGAIN {
                self.look_again().await;
                looked = Instant::now();
            }
            let up = match self.node.get(0) {
                Ok(link) => {
                    let looked = self.look_for(&link, &mut failed).await;
                    tell_refused(&looked, &mut told);
                    looked.is_ok()
                }
                // Told where the links are kept.
                Err(_) => false,
            };
            self.met.up.send_if_modified(|was| std::mem::replace(was, up) != up);
            tokio::select! {
                _ = links.changed() => {}
                () = tokio::time::sleep(LOOK_PERIOD) => {}
                // The sender is beside the receiver's place: it is not gone.
                Some(Asking { link, reply }) = asking.recv() => {
                    if !reply.is_closed() {
                        let _ = reply.send(self.look_for(&link, &mut failed).await);
                    }
                }
            }
        }
    }

    /// Looks at the life at the end of this link, unless it is known, or a look at it has just failed.
    async fn look_for(&self, link: &Arc<Link>, failed: &mut Failed) -> Result<(), StoreError> {
        let life = link.incarnation();
        if *self.met.known.lock() == Some(life) {
            return Ok(());
        }
        if let Some((when, whose, error)) = &*failed
            && *whose == life
            && when.elapsed() < FAILURE_SHARED
        {
            return Err(error.clone());
        }
        let looked = self.look(link).await.flatten();
        *failed = looked.as_ref().err().map(|error| (Instant::now(), life, error.clone()));
        if looked.is_ok() {
            // First: no command goes to a life that is not known.
            self.know_in_all_buckets();
            *self.met.known.lock() = Some(life);
        }
        looked
    }

    /// Looks at a life that was found good, while commands go on; if it is good no longer, the next command has to meet
    /// it anew. One that cannot be asked now (it refuses to write, say) is as good as it was: commands find out
    /// themselves which of them it refuses.
    async fn look_again(&self) {
        let Ok(link) = self.node.get(0) else { return };
        let life = Some(link.incarnation());
        if *self.met.known.lock() != life {
            return;
        }
        let mut probe = link.probe();
        let Ok(facts) = probe.gather_again().await else { return };
        let Ok(own) = doctor::gather(&mut probe).await else { return };
        let looked = match self.weigh(&link, &facts, &own) {
            Ok(()) if self.is_laid_out(&own) => return,
            Ok(()) => self.check_layout(&link).await,
            Err(why) => Ok(Err(why)),
        };
        if matches!(looked, Ok(Err(_)) | Err(StoreError::Corrupt(_))) {
            let mut known = self.met.known.lock();
            *known = known.filter(|known| Some(*known) != life);
        }
    }

    async fn look(&self, link: &Arc<Link>) -> Looked {
        let mut probe = link.probe();
        let facts = probe.gather().await.map_err(StoreError::Unavailable)?;
        let own = doctor::gather(&mut probe).await.map_err(StoreError::Unavailable)?;
        match self.weigh(link, &facts, &own) {
            // Even if it is laid out as it should be: this says whether it lets a script write.
            Ok(()) => self.check_layout(link).await,
            Err(why) => Ok(Err(why)),
        }
    }

    /// Says why this Redis is not to be used, if so. Logs what was found.
    fn weigh(&self, link: &Link, facts: &Facts, own: &StoreFacts) -> Result<(), StoreError> {
        let findings = doctor::judge(facts, own);
        let evicts = |finding: &&Finding| finding.check == EVICTION && finding.severity == Severity::Error;
        let refused = findings.iter().find(evicts).filter(|_| !self.met.allow_eviction);
        self.tell_new(link.incarnation(), &findings);
        // Before the layout is fixed there: nothing is written to a Redis that is refused.
        if let Some(Finding { found, at_stake, change, .. }) = refused {
            let text = format!(
                "this Redis may evict locks, so the server does not use it: {found}; {at_stake}. Change it ({change}), or allow \
                 it with --allow-eviction"
            );
            return Err(StoreError::Unavailable(text));
        }
        Ok(())
    }

    /// Logs what was not found in this life before.
    fn tell_new(&self, life: Incarnation, findings: &[Finding]) {
        let kinds = findings.iter().map(|finding| (finding.check, finding.severity)).collect::<Vec<_>>();
        let before = self.met.told.lock().replace((life, kinds)).filter(|(of, _)| *of == life);
        let told = before.map(|(_, kinds)| kinds).unwrap_or_default();
        let new = findings.iter().filter(|finding| !told.contains(&(finding.check, finding.severity)));
        new.for_each(|finding| self.tell(finding));
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

    /// What its meta key was found to say is what it is for this server.
    fn is_laid_out(&self, facts: &StoreFacts) -> bool {
        let classic = Some(self.met.classic.clone().unwrap_or_default());
        let ours = Meta { buckets: keys::BUCKETS.to_string(), layout: LAYOUT.to_owned(), classic };
        facts.meta.as_ref().is_ok_and(|found| found.as_ref() == Some(&ours))
    }

    /// Fixes the layout if it is not fixed yet. Nothing if it is ours.
    async fn check_layout(&self, link: &Arc<Link>) -> Looked {
        let classic = self.met.classic.as_deref().unwrap_or_default();
        let wanted = [keys::BUCKETS.to_string(), LAYOUT.to_owned()];
        let tail = wanted.iter().map(String::as_str).chain([classic]).map(Arg::from).collect::<Vec<_>>();
        let found = self.send(link, 0, &self.commands.meta, &tail).await?.texts("meta")?;
        let [buckets, layout, shared] = found.as_slice() else {
            return Ok(Err(StoreError::Corrupt(format!("its meta key says {found:?}"))));
        };
        if [buckets, layout] != wanted.each_ref() {
            let text = format!(
                "its data is laid out as {:?} (buckets, version), and this server's as {wanted:?}: use another database, \
                 or the version of the server that wrote it",
                [buckets, layout]
            );
            return Ok(Err(StoreError::Corrupt(text)));
        }
        if shared != classic {
            let text = format!(
                "its servers go by the classic prefix {shared:?} (empty: by none), and this one was started with {classic:?}: start it \
                 as the others, or to change it for all of them, stop them all, clear it (HDEL {} classic), and start them alike",
                keys::META
            );
            return Ok(Err(StoreError::Unavailable(text)));
        }
        Ok(Ok(()))
    }
}

/// Says once why a Redis that is there is not used, and once that it is: health and all commands go by that.
fn tell_refused(looked: &Result<(), StoreError>, told: &mut Option<StoreError>) {
    match looked {
        Ok(()) => {
            if told.take().is_some() {
                tracing::info!("redis is used now");
            }
        }
        Err(why) if told.as_ref() == Some(why) => {}
        Err(why) => {
            tracing::warn!(%why, "redis is there and not used");
            *told = Some(why.clone());
        }
    }
}
