//! What is known about a primary that may move, and those who wait for news of it.

use crate::sync::{Mutex, Notify};
use futures_util::future::join;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// How often it is asked for while there are connections.
const ASK_PERIOD: Duration = Duration::from_secs(1);
/// The pause after a question that named no primary. A process that is restarted is there again in a moment.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a connection is used after the last question that named its primary.
const UNNAMED_MAX: Duration = Duration::from_secs(2);
/// The least time between two questions, however many switches are told.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// What is known about the primary.
pub(super) struct Known {
    /// Those who name it.
    who: &'static str,
    /// What it is the primary of.
    what: String,
    /// Somebody told of a switch.
    pub(super) switched: Arc<Notify>,
    newest: Mutex<Newest>,
    seen: watch::Sender<Primary>,
}

/// The newest questions.
#[derive(Default)]
struct Newest {
    /// When the newest question was asked that named a primary.
    asked: Option<Instant>,
    /// Why the last question named none.
    why: String,
}

/// Where the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Primary {
    /// Not known yet.
    Unknown,
    /// There.
    At(String),
    /// None was named for too long.
    Lost,
}

impl Known {
    /// Nothing is known yet. `who` names the primary of `what`.
    pub(super) fn new(who: &'static str, what: String) -> Self {
        let seen = watch::Sender::new(Primary::Unknown);
        Self { who, what, switched: Arc::new(Notify::new()), newest: Mutex::default(), seen }
    }

    /// Who names the primary of what, in the words of an error.
    pub(super) fn naming(&self, address: &str) -> String {
        format!("{} {address} as the primary of {}", self.who, self.what)
    }

    /// Whether a connection to this address may still be used; the error says why not.
    pub(super) fn still_names(&self, address: &str) -> Result<(), String> {
        // Borrowed only for this statement: `note` takes the mutex first.
        let primary = self.seen.borrow().clone();
        match primary {
            Primary::Unknown => Ok(()),
            Primary::At(named) if named == address => Ok(()),
            Primary::At(named) => Err(format!("{} and no longer {address}; connecting there", self.naming(&named))),
            Primary::Lost => Err(match self.newest.lock().why.as_str() {
                "" => format!("{} no primary of {} for {UNNAMED_MAX:?}", self.who, self.what),
                why => why.to_owned(),
            }),
        }
    }

    /// Where the primary was when it was named last.
    pub(super) fn address(&self) -> Option<String> {
        match &*self.seen.borrow() {
            Primary::At(address) => Some(address.clone()),
            Primary::Unknown | Primary::Lost => None,
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<Primary> {
        self.seen.subscribe()
    }

    /// Remembers the primary that a question found, unless a later question found one already.
    pub(super) fn note(&self, asked: Instant, found: Result<&str, String>) {
        let mut newest = self.newest.lock();
        let at = match found {
            Ok(address) => Primary::At(address.to_owned()),
            Err(why) => {
                newest.why = why;
                return;
            }
        };
        if newest.asked.is_none_or(|newest| newest <= asked) {
            newest.asked = Some(asked);
            newest.why.clear();
            self.seen.send_if_modified(|primary| std::mem::replace(primary, at.clone()) != at);
        }
    }

    /// Keeps it current by `ask`, which notes what it finds, and calls `wake` when a switch is told. Never ends.
    pub(super) async fn follow<F: Future<Output = ()>>(&self, ask: impl Fn(Instant) -> F, wake: impl Fn()) {
        join(self.keep_asking(ask, wake), self.forget()).await;
    }

    async fn keep_asking<F: Future<Output = ()>>(&self, ask: impl Fn(Instant) -> F, wake: impl Fn()) {
        loop {
            let asked = Instant::now();
            let round = ask(asked);
            tokio::pin!(round);
            let mut again = false;
            loop {
                // However many switches are told, an answer is waited for: one that tells them alone cannot keep the
                // others from being heard.
                let notified = async {
                    sleep(ASK_PAUSE).await;
                    self.switched.notified().await;
                };
                tokio::select! {
                    () = &mut round => break,
                    () = notified => {
                        wake();
                        again = true;
                        if self.is_named_since(asked) {
                            break;
                        }
                    }
                }
            }
            if !again {
                let pause = if self.is_named_since(asked) { ASK_PERIOD } else { ASK_AGAIN };
                let notified = async {
                    sleep_until(asked + ASK_PAUSE).await;
                    self.switched.notified().await;
                };
                tokio::select! {
                    () = sleep_until(asked + pause) => {}
                    () = notified => wake(),
                }
            }
        }
    }

    fn is_named_since(&self, asked: Instant) -> bool {
        self.newest.lock().asked >= Some(asked)
    }

    /// Notices when no primary was named for too long.
    async fn forget(&self) {
        let mut seen = self.seen.subscribe();
        loop {
            // Nothing can be forgotten before it is known. (This holds the sender, so there is no error.)
            let _ = seen.wait_for(|primary| matches!(primary, Primary::At(_))).await;
            let asked = self.newest.lock().asked;
            sleep_until(asked.unwrap_or_else(Instant::now) + UNNAMED_MAX).await;
            let newest = self.newest.lock();
            if newest.asked.is_some_and(|asked| asked.elapsed() >= UNNAMED_MAX) {
                self.seen.send_replace(Primary::Lost);
            }
        }
    }
}
