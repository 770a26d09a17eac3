//! The Sentinels of a node, who name its primary by a majority.
//!
//! They are asked before each connection, and once a second for the connections that are there: Redis closes nothing
//! when it is demoted while it is cut off, and an old primary that only this server still reaches would be used until
//! the network heals. A connection is left as soon as the Sentinels name another primary, and when they have named none
//! for two seconds.
//!
//! The `Sentinel` of the redis crate believes the first Sentinel that answers, and the manager of deadpool-redis never
//! notices a demotion, so neither is used.

use super::{
    FIND_MAX, SAID_MAX, SentinelUrl,
    known::Known,
    sentinel::Sentinel,
    vote::{self, Vote},
};
use crate::node::RedisUrl;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, timeout};

/// The Sentinels of a node, and what they said.
pub(in crate::node) struct Sentinels {
    url: SentinelUrl,
    each: Vec<Sentinel>,
    pub(super) known: Known,
}

impl Sentinels {
    pub(in crate::node) fn new(url: &SentinelUrl) -> Self {
        Self {
            url: url.clone(),
            each: url.sentinels.iter().cloned().map(Sentinel::new).collect(),
            known: Known::new("the Sentinels name", url.name.clone()),
        }
    }

    pub(super) async fn find(&self) -> Result<RedisUrl, String> {
        let asked = Instant::now();
        let votes = self.ask(|votes| vote::majority(votes).is_some()).await;
        self.note(asked, &votes);
        self.primary(&votes)
    }

    /// The primary that these votes name. The error says who said what.
    pub(in crate::node) fn primary(&self, votes: &[Vote]) -> Result<RedisUrl, String> {
        let address = vote::primary(votes).ok_or_else(|| self.disagreement(votes))?;
        self.url.node_at(address)
    }

    /// Asks all at once, until all have answered, their time is over, or `is_enough`.
    pub(in crate::node) async fn ask(&self, mut is_enough: impl FnMut(&[Vote]) -> bool) -> Vec<Vote> {
        let mut votes: Vec<Vote> = self.each.iter().map(|_| None).collect();
        let mut answers: FuturesUnordered<_> = self
            .each
            .iter()
            .enumerate()
            .map(|(number, sentinel)| async move {
                let answer = timeout(FIND_MAX, sentinel.ask(&self.url.name, &self.known.switched)).await;
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

    /// Remembers the primary that these votes name. As connections have it: a host may be written in several ways.
    fn note(&self, asked: Instant, votes: &[Vote]) {
        let found = self.primary(votes);
        self.known.note(asked, found.as_ref().map(RedisUrl::address).map_err(Clone::clone));
    }

    /// Asks once. What a majority says is known at once; the others are asked so that their connections are there.
    pub(super) async fn ask_each(&self, asked: Instant) {
        let note_majority = |votes: &[Vote]| {
            if vote::majority(votes).is_some() {
                self.note(asked, votes);
            }
            false
        };
        let votes = self.ask(note_majority).await;
        self.note(asked, &votes);
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
    pub(in crate::node) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.each.iter().map(Sentinel::address)
    }
}
