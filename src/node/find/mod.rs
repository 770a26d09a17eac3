//! Finds the primary of a node: it is where the URL says, or where a majority of Sentinels says.
//!
//! Sentinels are asked before each connection, and once a second for the connections that are there: Redis closes
//! nothing when it is demoted while it is cut off, and an old primary that only this server still reaches would be used
//! until the network heals. A connection is left as soon as the Sentinels name another primary, and when they have
//! named none for [`UNNAMED_MAX`].
//!
//! The `Sentinel` of the redis crate believes the first Sentinel that answers, and the manager of deadpool-redis never
//! notices a demotion, so neither is used.

mod sentinel;
mod url;
pub(super) mod vote;

pub use url::{NodeUrl, SentinelUrl};

use super::RedisUrl;
use crate::sync::{Mutex, Notify};
use futures_util::{StreamExt, future::join, stream::FuturesUnordered};
use sentinel::Sentinel;
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use vote::Vote;

/// How long Sentinels may take to answer, connecting included.
pub(super) const FIND_MAX: Duration = Duration::from_secs(1);
/// How often they are asked about the connections that are there.
const ASK_PERIOD: Duration = Duration::from_secs(1);
/// The pause after a question that named no primary. A Sentinel that is restarted is there again in a moment.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a connection is used after the last question that a majority answered with its primary.
const UNNAMED_MAX: Duration = Duration::from_secs(2);
/// The least time between two questions, however many switches are told.
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// What stands in the log and in errors about one Sentinel is no longer than this.
const SAID_MAX: usize = 200;

/// Says where the node is.
pub(super) enum Finder {
    /// Where the URL says.
    Fixed(Box<RedisUrl>),
    /// Where its Sentinels say.
    Sentinel(Box<Sentinels>),
}

/// The Sentinels of a node, and what they said.
pub(super) struct Sentinels {
    url: SentinelUrl,
    each: Vec<Sentinel>,
    /// A Sentinel told of a switch.
    switched: Arc<Notify>,
    known: Mutex<Known>,
    seen: watch::Sender<Primary>,
}

#[derive(Default)]
struct Known {
    /// When the newest question was asked that named a primary.
    asked: Option<Instant>,
    /// Why the last question named none.
    why: String,
}

/// What is known about the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Primary {
    /// Nothing yet.
    Unknown,
    /// It is there.
    At(String),
    /// The Sentinels have not named any for too long.
    Lost,
}

/// Waits for news of the primary.
pub(super) struct Changes(Option<watch::Receiver<Primary>>);

impl Changes {
    /// Waits until the primary is another one, or not known any more. Dropped, it loses nothing.
    pub(super) async fn changed(&mut self) {
        let Some(changes) = &mut self.0 else { return pending().await };
        if changes.changed().await.is_err() {
            // The node is gone.
            pending::<()>().await;
        }
    }
}

impl Finder {
    pub(super) fn new(url: &NodeUrl) -> Self {
        match url {
            NodeUrl::Redis(url) => Self::Fixed(Box::new(url.clone())),
            NodeUrl::Sentinel(url) => Self::Sentinel(Box::new(Sentinels::new(url))),
        }
    }

    /// Where the primary is now. The error says who said what. Takes no longer than [`Self::time_max`]. Dropped, it
    /// leaves nothing behind.
    pub(super) async fn find(&self) -> Result<RedisUrl, String> {
        match self {
            Self::Fixed(url) => Ok(RedisUrl::clone(url)),
            Self::Sentinel(sentinels) => sentinels.find().await,
        }
    }

    /// How long finding may take.
    pub(super) fn time_max(&self) -> Duration {
        match self {
            Self::Fixed(_) => Duration::ZERO,
            Self::Sentinel(_) => FIND_MAX,
        }
    }

    /// Whether a connection to this address may still be used; the error says why not.
    pub(super) fn still_names(&self, address: &str) -> Result<(), String> {
        let Self::Sentinel(sentinels) = self else { return Ok(()) };
        let name = &sentinels.url.name;
        // Borrowed only for this statement: `note` takes the mutex of `known` first.
        let primary = sentinels.seen.borrow().clone();
        match primary {
            Primary::Unknown => Ok(()),
            Primary::At(named) if named == address => Ok(()),
            Primary::At(named) => Err(format!(
                "the Sentinels name {named} as the primary of {name} and no longer {address}; connecting there"
            )),
            Primary::Lost => Err(match sentinels.known.lock().why.as_str() {
                "" => format!("the Sentinels have named no primary of {name} for {UNNAMED_MAX:?}"),
                why => why.to_owned(),
            }),
        }
    }

    pub(super) fn changes(&self) -> Changes {
        match self {
            Self::Fixed(_) => Changes(None),
            Self::Sentinel(sentinels) => Changes(Some(sentinels.seen.subscribe())),
        }
    }

    /// A failure at an address, in words that say who named it.
    pub(super) fn explain(&self, address: &str, why: String) -> String {
        match self {
            Self::Fixed(_) => why,
            Self::Sentinel(sentinels) => {
                // There is no other one to name.
                let why = why.strip_suffix(super::handshake::NAME_THE_PRIMARY).unwrap_or(&why);
                format!("the Sentinels name {address} as the primary of {}: {why}", sentinels.url.name)
            }
        }
    }

    /// Keeps what is known about the primary current, and calls `wake` when a Sentinel tells of a switch. Never ends.
    pub(super) async fn follow(&self, wake: impl Fn()) {
        match self {
            Self::Fixed(_) => pending().await,
            Self::Sentinel(sentinels) => {
                join(sentinels.keep_asking(wake), sentinels.forget()).await;
            }
        }
    }
}

impl Sentinels {
    pub(super) fn new(url: &SentinelUrl) -> Self {
        Self {
            url: url.clone(),
            each: url.sentinels.iter().cloned().map(Sentinel::new).collect(),
            switched: Arc::new(Notify::new()),
            known: Mutex::default(),
            seen: watch::Sender::new(Primary::Unknown),
        }
    }

    async fn find(&self) -> Result<RedisUrl, String> {
        let asked = Instant::now();
        let votes = self.ask(|votes| vote::majority(votes).is_some()).await;
        self.note(asked, &votes);
        self.primary(&votes)
    }

    /// The primary that these votes name. The error says who said what.
    pub(super) fn primary(&self, votes: &[Vote]) -> Result<RedisUrl, String> {
        let address = vote::primary(votes).ok_or_else(|| self.disagreement(votes))?;
        self.url.node_at(address)
    }

    /// Asks all at once, until all have answered, their time is over, or `is_enough`.
    pub(super) async fn ask(&self, mut is_enough: impl FnMut(&[Vote]) -> bool) -> Vec<Vote> {
        let mut votes: Vec<Vote> = self.each.iter().map(|_| None).collect();
        let mut answers: FuturesUnordered<_> = self
            .each
            .iter()
            .enumerate()
            .map(|(number, sentinel)| async move {
                let answer = timeout(FIND_MAX, sentinel.ask(&self.url.name, &self.switched)).await;
                (number, answer.unwrap_or_else(|_| Err("it did not answer in time".to_owned())))
            })
            .collect();
        while let Some((number, answer)) = answers.next().await {
            votes[number] = Some(answer);
            if is_enough(&votes) {
                break;
            }
        }
        drop(answers);
        votes
    }

    /// Remembers the primary that these votes name, unless a later question named one already.
    fn note(&self, asked: Instant, votes: &[Vote]) {
        let mut known = self.known.lock();
        let at = match self.primary(votes) {
            // As connections have it: a host may be written in several ways.
            Ok(url) => Primary::At(url.address().to_owned()),
            Err(why) => {
                known.why = why;
                return;
            }
        };
        if known.asked.is_none_or(|newest| newest <= asked) {
            known.asked = Some(asked);
            known.why.clear();
            self.seen.send_if_modified(|primary| std::mem::replace(primary, at.clone()) != at);
        }
    }

    async fn keep_asking(&self, wake: impl Fn()) {
        loop {
            let asked = Instant::now();
            let round = self.ask_each(asked);
            tokio::pin!(round);
            let mut again = false;
            loop {
                // However many switches are told, an answer is waited for: one Sentinel alone cannot keep the others
                // from being heard.
                let notified = async {
                    sleep(ASK_PAUSE).await;
                    self.switched.notified().await;
                };
                tokio::select! {
                    () = &mut round => break,
                    () = notified => {
                        wake();
                        again = true;
                        if self.known.lock().asked >= Some(asked) {
                            break;
                        }
                    }
                }
            }
            if !again {
                let pause = if self.known.lock().asked >= Some(asked) { ASK_PERIOD } else { ASK_AGAIN };
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

    /// Asks once. What a majority says is known at once; the others are asked so that their connections are there.
    async fn ask_each(&self, asked: Instant) {
        let note_majority = |votes: &[Vote]| {
            if vote::majority(votes).is_some() {
                self.note(asked, votes);
            }
            false
        };
        let votes = self.ask(note_majority).await;
        self.note(asked, &votes);
    }

    /// Notices when no primary was named for too long.
    async fn forget(&self) {
        let mut seen = self.seen.subscribe();
        loop {
            // Nothing can be forgotten before it is known. (This holds the sender, so there is no error.)
            let _ = seen.wait_for(|primary| matches!(primary, Primary::At(_))).await;
            let asked = self.known.lock().asked;
            sleep_until(asked.unwrap_or_else(Instant::now) + UNNAMED_MAX).await;
            let known = self.known.lock();
            if known.asked.is_some_and(|asked| asked.elapsed() >= UNNAMED_MAX) {
                self.seen.send_replace(Primary::Lost);
            }
        }
    }

    fn disagreement(&self, votes: &[Vote]) -> String {
        let said = self.each.iter().zip(votes).map(|(sentinel, vote)| {
            let said = match vote {
                Some(Ok(answer)) => format!("says {} (config-epoch {})", answer.address, answer.epoch),
                Some(Err(why)) => format!("names no primary: {}", why.chars().take(SAID_MAX).collect::<String>()),
                None => "names no primary".to_owned(),
            };
            format!("{} {said}", sentinel.address())
        });
        let said: Vec<String> = said.collect();
        let count = match self.each.len() {
            1 => "the one Sentinel of the URL does not name".to_owned(),
            count => format!("no majority of the {count} Sentinels of the URL names"),
        };
        format!("{count} a primary of {}: {}", self.url.name, said.join("; "))
    }

    /// Each Sentinel, by where it is.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.each.iter().map(Sentinel::address)
    }
}
