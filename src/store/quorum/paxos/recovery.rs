//! One node: who goes on with a partition whose only node lost its memory, and with what.
//!
//! No other node could confirm a leader to the node, so the servers agree. Each keeps what it has of the partition in
//! memory until it sees that somebody else went on from there ([`Alone::sees`]), and reports it to the others
//! ([`Alone::report`]). When all living servers have reported, the one with the memory of the highest ballot begins the
//! node's next membership with that; if nobody has it, one goes on with what the node kept ([`Alone::decides`]). The
//! first start is this case: nobody has any memory, and the node is empty. Who was second learns it from
//! [`Leader::is_over`].

use super::{
    acceptor::Seen,
    ballot::{Ballot, Position, ServerId, Stamp},
    leader::{Leader, Origin},
    tokens::Tokens,
    wall_clocks::WallClocks,
};
use crate::domain::{limits::TOKEN_END, time::StoreTime};
use minicbor::{Decode, Encode};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What a server knows of a partition whose only node lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StrangerReport {
    /// The partition.
    #[n(0)]
    pub partition: u16,
    /// The node's next membership: what was reported before the node named it does not count.
    #[n(1)]
    pub next: Stamp,
    /// The ballot of what the server has in memory, if it has any.
    #[n(2)]
    pub memory: Option<Ballot>,
    /// The highest ballot of a batch that it has seen.
    #[n(3)]
    pub written: Ballot,
    /// The highest ballot that it has seen at all.
    #[n(4)]
    pub highest: Ballot,
    /// The highest token that it has seen.
    #[n(5)]
    pub token: u64,
}

/// How long servers are waited for after a loss of memory. The node forgot who is there, too: in this time each server
/// that lives has reported three times.
pub const REPORT_TIME: Duration = Duration::from_secs(1);

/// How long somebody with the memory of the highest ballot is waited for. After that, what the node kept has to do.
pub const MEMORY_WAIT: Duration = Duration::from_secs(3);

/// The same for a server that has reported that it has that memory, and has been silent since: writing all of it back
/// may keep it busy.
pub const BUSY_WAIT: Duration = Duration::from_secs(10);

/// What one server knows of a partition that one node keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alone {
    me: ServerId,
    /// The highest ballot of a batch that it has seen at the node.
    written: Ballot,
    /// The highest ballot that it has seen at the node.
    highest: Ballot,
    memory: Option<Memory>,
    stranger: Option<Stranger>,
    /// When the last heartbeat was sent whose reply was looked at.
    sent_at: StoreTime,
}

/// The memory of a partition, of one ballot: the server leads with it, or was deposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Memory {
    ballot: Ballot,
    origin: Origin,
    since: StoreTime,
}

/// The node has lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stranger {
    next: Stamp,
    /// The ballot of the last batch in what the node kept.
    kept: Ballot,
    since: StoreTime,
}

/// What the reply to a heartbeat means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// Nothing for what this server has.
    Nothing,
    /// Somebody else went on with the partition: the server leads it no more, and drops its memory of it.
    Outlived,
    /// The node lost its memory, and this names its next membership. An attempt to lead that is not to begin it
    /// ([`crate::store::quorum::paxos::candidate::Candidate::begins`]) is given up before this server reports anything.
    Stranger(Stamp),
}

/// What else a server knows of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// The highest ballot that it has attempted or has been refused for.
    pub highest: Ballot,
    /// The highest token that it has drawn or read.
    pub token: u64,
}

/// What servers have reported of a partition, as the last heartbeat shows it, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The time on this server's clock.
    pub now: StoreTime,
    /// What each server reported, this one too.
    pub reports: &'a BTreeMap<ServerId, StrangerReport>,
    /// The servers that live: also one that the node forgot and that this server has seen alive within the time in
    /// which a server is taken for dead.
    pub living: &'a BTreeSet<ServerId>,
    /// How long this server lets those go first who are before it in the order of the election.
    pub turn: Duration,
    /// This server's wall clock, and the node's.
    pub clocks: WallClocks,
}

/// What a server does about a node that lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Nothing, for now: not all have reported, or it is for another server to do.
    Wait,
    /// Begins the node's next membership with all that it has in memory.
    Recall(Admission),
    /// Reads what the node kept, and begins the next membership with that.
    GoOn(Admission),
}

/// How the next membership is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Admission {
    /// The membership.
    pub next: Stamp,
    /// The leader's ballot is new, and higher than this.
    pub above: Ballot,
    /// Tokens go on above this one.
    pub skip: u64,
}

/// Gives the grants that were never answered tokens above all that anybody may have drawn meanwhile. Who recalls its
/// memory may have been deposed without knowing: then another leader may have granted with the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Renumbering {
    acknowledged: u64,
    raise: u64,
}

impl Alone {
    /// Knows nothing of the partition.
    pub fn new(me: ServerId) -> Self {
        let (nothing, begin) = (Ballot::default(), StoreTime::default());
        Self { me, written: nothing, highest: nothing, memory: None, stranger: None, sent_at: begin }
    }

    /// The ballot whose memory it keeps.
    pub fn memory(&self) -> Option<Ballot> {
        self.memory.map(|memory| memory.ballot)
    }

    /// The highest ballot that it has seen at the node.
    pub fn highest(&self) -> Ballot {
        self.highest
    }

    /// This leader has all of a partition in memory: it was read, or taken from the memory before. It counts from here,
    /// before its first batch is acknowledged: the batch may arrive, and then nobody else has what followed from it.
    pub fn remembers(&mut self, leader: &Leader, now: StoreTime) {
        self.memory = Some(Memory { ballot: leader.ballot(), origin: leader.origin(), since: now });
    }

    /// Its memory is dropped: another server was first to begin the node's membership. A leader that is merely refused
    /// keeps its memory, for the next one has none before it has read.
    pub fn forgets(&mut self) {
        self.memory = None;
    }

    /// Takes the reply to a heartbeat that was sent at `sent_at`.
    pub fn sees(&mut self, seen: &Seen, sent_at: StoreTime, now: StoreTime) -> Sight {
        // What was seen before the memory began says nothing about who went on from it.
        let is_late = sent_at < self.sent_at || self.memory.is_some_and(|memory| sent_at <= memory.since);
        if let Seen::Votes { promised, accepted } = seen {
            self.highest = self.highest.max(*promised).max(accepted.ballot);
            if is_late {
                return Sight::Nothing;
            }
            (self.sent_at, self.stranger) = (sent_at, None);
            self.written = self.written.max(accepted.ballot);
            if self.memory.is_some_and(|memory| memory.is_outlived(*accepted)) {
                self.memory = None;
                return Sight::Outlived;
            }
        } else if let Seen::Stranger { next, written } = seen {
            self.highest = self.highest.max(*written);
            if is_late {
                return Sight::Nothing;
            }
            self.sent_at = sent_at;
            if self.stranger.is_none_or(|stranger| stranger.next != *next) {
                self.stranger = Some(Stranger { next: *next, kept: *written, since: now });
            }
            return Sight::Stranger(*next);
        }
        Sight::Nothing
    }

    /// What this server reports with its next heartbeat, if the node has lost its memory.
    pub fn report(&self, partition: u16, known: Known) -> Option<StrangerReport> {
        let Stranger { next, .. } = self.stranger?;
        let memory = self.memory();
        let written = self.written.max(memory.unwrap_or_default());
        let highest = self.highest.max(known.highest).max(written);
        Some(StrangerReport { partition, next, memory, written, highest, token: known.token })
    }

    /// What to do about a node that has lost its memory. Asked after each heartbeat; whoever does what it says asks no
    /// more until that is done or has failed.
    pub fn decides(&self, known: Known, situation: &Situation<'_>) -> Decision {
        let Some(Stranger { next, kept, since }) = self.stranger else { return Decision::Wait };
        let waited = situation.now.since(since);
        // What was reported before the loss does not count: it may also have come back with a backup.
        let report = |server: &ServerId| situation.reports.get(server).filter(|report| report.next == next);
        let is_begun = self.memory.is_some_and(|memory| memory.origin == Origin::Begins(next));
        let Some(mine) = report(&self.me) else { return Decision::Wait };
        if is_begun || waited < REPORT_TIME || situation.living.iter().any(|server| report(server).is_none()) {
            return Decision::Wait;
        }
        // Who has reported and lives no more is heard, too.
        let all = || situation.reports.values().filter(|report| report.next == next);
        let written = all().map(|report| report.written.max(report.memory.unwrap_or_default())).fold(kept, Ballot::max);
        let above = all().map(|report| report.highest).fold(self.highest.max(known.highest).max(written), Ballot::max);
        let token = all().map(|report| report.token).fold(known.token, u64::max);
        let skip = token.max(situation.clocks.tokens_above(waited));
        let admission = Admission { next, above, skip };
        let has_last = |memory: Option<Ballot>| memory.is_some_and(|memory| memory >= written);
        if has_last(self.memory()) && mine.memory == self.memory() {
            return Decision::Recall(admission);
        }
        let is_there = |server| report(server).is_some_and(|report| has_last(report.memory));
        let wait = if all().any(|report| has_last(report.memory)) { BUSY_WAIT } else { MEMORY_WAIT };
        // Nobody knows the last tokens.
        let wait = wait.max(situation.clocks.apart());
        if situation.living.iter().any(is_there) || waited < wait.saturating_add(situation.turn) {
            return Decision::Wait;
        }
        Decision::GoOn(admission)
    }
}

impl Memory {
    /// Whether a node that stands at this batch went on without it. A promise alone means nothing: who has only that
    /// has read nothing yet. And a lower ballot's batch, other than the one that was read, is of another membership.
    fn is_outlived(&self, accepted: Position) -> bool {
        accepted.ballot > self.ballot || accepted.ballot < self.ballot && self.origin != Origin::Read(accepted)
    }
}

impl Renumbering {
    /// For the memory of this leader, in which `token` is the highest.
    pub fn of(leader: &Leader, skip: u64) -> Self {
        let acknowledged = leader.acknowledged_token();
        Self { acknowledged, raise: skip.saturating_sub(acknowledged) }
    }

    /// The token of a grant that had this one. `None`: there are no more tokens.
    pub fn token(self, token: u64) -> Option<u64> {
        if token <= self.acknowledged {
            return Some(token);
        }
        token.checked_add(self.raise).filter(|token| *token < TOKEN_END)
    }

    /// The leader that begins the next membership with the renumbered memory. `drawn` is the highest token in that
    /// before; `time` is the partition's. `None`: there are no more tokens.
    pub fn begins(self, ballot: Ballot, next: Stamp, time: u64, drawn: u64) -> Option<Leader> {
        let skip = self.acknowledged.saturating_add(self.raise);
        let highest = self.token(drawn)?.max(skip);
        (highest < TOKEN_END).then(|| Leader::begins(ballot, next, time, Tokens { acknowledged: skip, drawn: highest }))
    }
}

#[cfg(test)]
mod tests;
