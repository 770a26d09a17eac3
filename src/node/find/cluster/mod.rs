//! A Redis Cluster, of which one slot is used: its members name the primary of that slot.
//!
//! All keys and channels of a store have one hash tag, so they are in one slot, and the primary of that slot is the
//! node, as the primary is that Sentinels name. Its failover, and the move of the slot to another primary, is what a
//! failover is there. The members of the URL are asked, and with them all primaries that they tell of ([`vote`] says
//! who is believed), so that it is enough if one member of the URL is there when a server starts.

mod member;
mod slot;
pub(in crate::node) mod view;
pub(in crate::node) mod vote;

pub(in crate::node) use slot::slot_of;

use super::{ClusterUrl, SAID_MAX, known::Known};
use crate::{node::RedisUrl, sync::Mutex};
use futures_util::{StreamExt, stream::FuturesUnordered};
use member::Member;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use view::View;
use vote::{Count, Unnamed, VOTERS_MAX, count};

/// How long members may take to answer, connecting included. Shorter than the period of questions, so that what is
/// found with a silent member is noted before the last answer is too old.
const ANSWERS_MAX: Duration = Duration::from_millis(700);
/// The most replicas of the slot's primary that are asked: after a takeover that was ordered, they know it first.
const REPLICAS_MAX: usize = 5;
/// The most members that are asked beside those of the URL. Twice as many as one member tells of, because some may have
/// been replaced.
const LEARNED_MAX: usize = 2 * (VOTERS_MAX + REPLICAS_MAX + 1);

/// The members of the cluster that are asked, and what they said.
pub(in crate::node) struct Cluster {
    url: ClusterUrl,
    /// Those of the URL, and those that were told of.
    members: Mutex<Vec<Arc<Member>>>,
    /// Whether the last round in which all were heard was without contradiction. Until then all are waited for: a
    /// majority that is heard first may be that of another cluster.
    is_settled: AtomicBool,
    pub(super) known: Known,
}

/// What a member says, or why it says nothing.
pub(in crate::node) struct Said {
    number: usize,
    pub(in crate::node) address: String,
    pub(in crate::node) view: Result<View, String>,
}

impl Cluster {
    pub(in crate::node) fn new(url: &ClusterUrl) -> Self {
        let members = url.seeds.iter().cloned().map(Member::new).map(Arc::new).collect();
        let known = Known::new("the Redis Cluster names", url.what());
        Self { url: url.clone(), members: Mutex::new(members), is_settled: AtomicBool::new(false), known }
    }

    pub(super) async fn find(&self) -> Result<RedisUrl, String> {
        let asked = Instant::now();
        let said = self.ask(|_| true).await;
        self.note(asked, &said);
        self.primary(&said)
    }

    /// The primary that these answers name. The error says who said what.
    pub(in crate::node) fn primary(&self, said: &[Said]) -> Result<RedisUrl, String> {
        let Count { owner, .. } = counted(said).map_err(|why| self.disagreement(why, said))?;
        // Members may write its address in several ways.
        let mut addresses = views(said).map(|view| &view.owner).filter(|it| it.id == owner.id).map(|it| &it.address);
        let present = self.known.address();
        let kept = addresses.clone().find(|address| Some(*address) == present.as_ref());
        self.url.node_at(kept.or_else(|| addresses.next()).unwrap_or(&owner.address))
    }

    /// Asks all that are known, and those that they tell of, until all have answered or their time is over. When those
    /// who have answered agree, `is_enough` may end it. Dropped, it has learned of nobody.
    pub(in crate::node) async fn ask(&self, mut is_enough: impl FnMut(&[Said]) -> bool) -> Vec<Said> {
        let end = Instant::now() + ANSWERS_MAX;
        let question = |number: usize, member: Arc<Member>| async move {
            let view = timeout_at(end, member.ask(self.url.slot)).await;
            let view = view.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
            Said { number, address: member.address().to_owned(), view }
        };
        let mut asked = self.members.lock().clone();
        let mut answers: FuturesUnordered<_> =
            asked.iter().cloned().enumerate().map(|(number, member)| question(number, member)).collect();
        let (mut said, mut told) = (Vec::new(), Vec::new());
        while let Some(answer) = answers.next().await {
            for address in answer.view.iter().flat_map(addresses_in) {
                told.push(address.to_owned());
                let is_new = !asked.iter().any(|member| member.address() == address);
                if is_new
                    && asked.len() < self.url.seeds.len() + LEARNED_MAX
                    && let Ok(url) = self.url.node_at(address)
                {
                    let member = Arc::new(Member::new(url));
                    answers.push(question(asked.len(), Arc::clone(&member)));
                    asked.push(member);
                }
            }
            said.push(answer);
            let is_agreed = || counted(&said).is_ok_and(|count| count.is_agreed(asked.len()));
            if self.is_settled.load(Ordering::Relaxed) && is_agreed() && is_enough(&said) {
                break;
            }
        }
        if answers.is_empty() {
            match counted(&said) {
                Ok(_) => self.is_settled.store(true, Ordering::Relaxed),
                Err(Unnamed::TwoClaims | Unnamed::TwoClusters) => self.is_settled.store(false, Ordering::Relaxed),
                Err(Unnamed::Nobody | Unnamed::NoMajority(..)) => {}
            }
        }
        drop(answers);
        // Those of which nobody tells any more are forgotten, unless the URL names them.
        if !told.is_empty() {
            let mut number = 0..;
            let is_seed = |number: usize| number < self.url.seeds.len();
            asked.retain(|member| number.next().is_some_and(is_seed) || told.iter().any(|it| it == member.address()));
            *self.members.lock() = asked;
        }
        said.sort_unstable_by_key(|said| said.number);
        said
    }

    /// Remembers the primary that these answers name.
    fn note(&self, asked: Instant, said: &[Said]) {
        let found = self.primary(said);
        self.known.note(asked, found.as_ref().map(RedisUrl::address).map_err(Clone::clone));
    }

    /// Asks once. What a majority says is known at once; the others are asked so that their connections are there.
    pub(super) async fn ask_each(&self, asked: Instant) {
        let note_majority = |said: &[Said]| {
            self.note(asked, said);
            false
        };
        let said = self.ask(note_majority).await;
        self.note(asked, &said);
    }

    fn disagreement(&self, why: Unnamed, said: &[Said]) -> String {
        let what = self.url.what();
        let why = match why {
            Unnamed::Nobody => format!("no member of the Redis Cluster names a primary of {what}"),
            Unnamed::TwoClaims => format!("two members of the Redis Cluster claim {what}"),
            Unnamed::TwoClusters => "the URL names members of different Redis Clusters".to_owned(),
            Unnamed::NoMajority(answered, voters) => format!(
                "{answered} of {voters} primaries of the Redis Cluster answer, which is no majority to name the \
                 primary of {what}"
            ),
        };
        let each = said.iter().map(|Said { address, view, .. }| match view {
            Ok(view) => format!("{address} says {} (config epoch {})", view.owner.address, view.owner.epoch),
            Err(why) => format!("{address} names none: {}", why.chars().take(SAID_MAX).collect::<String>()),
        });
        format!("{why}: {}", each.collect::<Vec<_>>().join("; "))
    }
}

fn views(said: &[Said]) -> impl Iterator<Item = &View> + Clone {
    said.iter().filter_map(|said| said.view.as_ref().ok())
}

fn counted(said: &[Said]) -> Result<Count<'_>, Unnamed> {
    count(&views(said).collect::<Vec<_>>())
}

/// The addresses of those that a view tells of and that may have something to say: those who vote, the primary of the
/// slot, and its replicas.
fn addresses_in(view: &View) -> impl Iterator<Item = &str> {
    let voters = view.voters.values().take(VOTERS_MAX).flatten();
    let replicas = view.owner.replicas.iter().take(REPLICAS_MAX);
    voters.chain([&view.owner.address]).chain(replicas).map(String::as_str)
}
