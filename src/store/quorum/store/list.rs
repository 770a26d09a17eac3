//! Listing: asks the leader of each partition in turn.

use super::{
    QuorumStore,
    router::{NotDone, no_leader, strange, unheard},
};
use crate::{
    domain::{limits::ANSWER_TIME_MAX, name::LockName, outcome::LockView, time::StoreTime},
    store::{
        Page, StoreError,
        partition::{Outbox, Partition, SLOTS_PER_PAGE},
        quorum::{
            nodes::client::NodeClient,
            paxos::ballot::{Ballot, ServerId},
            rpc::messages::{Done, Work},
        },
    },
};
use futures_util::future::{join_all, try_join_all};
use std::pin::pin;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

/// Where a page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    partition: usize,
    slot: usize,
    /// The leader that numbered the slots, unless it is the first slot: another leader has the locks in other slots.
    ballot: Option<Ballot>,
}

/// What of a page is still to be filled.
struct Room {
    limit: usize,
    budget: usize,
    locks: Vec<(LockName, LockView)>,
}

impl<C: NodeClient> QuorumStore<C> {
    /// A page. Where nobody leads a partition of it, it waits for the leader.
    pub(super) async fn list_page(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let until = Instant::now() + ANSWER_TIME_MAX;
        loop {
            let mut led_anew = pin!(self.parts.led_anew.notified());
            led_anew.as_mut().enable();
            match self.list_page_once(prefix, from, limit).await {
                Err(why @ (StoreError::Unavailable(_) | StoreError::TooLate)) => {
                    if timeout_at(until, led_anew).await.is_err() {
                        return Err(self.explained(why, 0..self.parts.len()));
                    }
                }
                page => return page.map_err(|why| self.explained(why, 0..self.parts.len())),
            }
        }
    }

    async fn list_page_once(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let start = Cursor { partition: 0, slot: 0, ballot: None };
        let mut at = match from {
            None => start,
            Some(from) => Cursor::parse(from, self.parts.len()).ok_or(StoreError::BadPageToken)?,
        };
        let mut room = Room { limit, budget: SLOTS_PER_PAGE, locks: Vec::new() };
        let mut reads = Vec::new();
        while at.partition < self.parts.len() && room.locks.len() < limit && room.budget > 0 {
            let next = match self.list_here(prefix, at, &mut room, &mut reads)? {
                Some(next) => next,
                None => self.list_there(prefix, at, &mut room).await?,
            };
            at = match next {
                (Some(slot), ballot) => Cursor { slot, ballot: Some(ballot), ..at },
                (None, _) => Cursor { partition: at.partition + 1, ..start },
            };
        }
        self.driver.wake_all();
        timeout(ANSWER_TIME_MAX, try_join_all(reads)).await.map_err(|_| unheard())?.map_err(|_| no_leader())?;
        let next = (at.partition < self.parts.len()).then(|| at.to_string());
        Ok(Page { locks: room.locks, next })
    }

    /// Lists locks of a partition that this server leads; none if it does not. The page is true once the reads are.
    fn list_here(
        &self,
        prefix: &str,
        at: Cursor,
        room: &mut Room,
        reads: &mut Vec<oneshot::Receiver<()>>,
    ) -> Result<Option<(Option<usize>, Ballot)>, StoreError> {
        let scanned = self.at_lead(at.partition, Instant::now(), |lead, now, _| {
            let ballot = lead.ballot();
            at.check(ballot)?;
            let (reply, read) = oneshot::channel();
            reads.push(read);
            let (locks, now) = lead.read(now, reply);
            let next = locks.scan(at.slot, &mut room.budget, room.limit, prefix, now, &mut room.locks);
            Ok((next, ballot))
        })?;
        scanned.transpose()
    }

    async fn list_there(
        &self,
        prefix: &str,
        at: Cursor,
        room: &mut Room,
    ) -> Result<(Option<usize>, Ballot), StoreError> {
        let known = self.leader_of(at.partition)?;
        at.check(known.ballot)?;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let limit = number(room.limit - room.locks.len());
        let slot = at.slot as u64;
        let work = Work::List { prefix: prefix.to_owned(), slot, limit, budget: number(room.budget) };
        match self.forward(at.partition, known, work).await? {
            Done::Page { locks, next, budget } => {
                room.locks.extend(locks);
                room.budget = room.budget.min(usize::try_from(budget).unwrap_or(0));
                Ok((next.and_then(|next| usize::try_from(next).ok()), known.ballot))
            }
            other => Err(strange(&other).into()),
        }
    }

    /// Has all servers that lead send events from now on. One that leads later knows from heartbeats who watches.
    pub(super) async fn watch_all(&self) -> Result<(), StoreError> {
        let until = Instant::now() + ANSWER_TIME_MAX;
        loop {
            let mut led_anew = pin!(self.parts.led_anew.notified());
            led_anew.as_mut().enable();
            match self.watch_once().await {
                Ok(()) => return Ok(()),
                Err(NotDone::Fails(why)) => return Err(why),
                Err(NotDone::NotThere(why)) if timeout_at(until, led_anew).await.is_err() => return Err(why),
                Err(NotDone::NotThere(_)) => {}
            }
        }
    }

    async fn watch_once(&self) -> Result<(), NotDone> {
        let mut leaders = Vec::new();
        for at in 0..self.parts.len() {
            let leads_here = self.parts[at].proposer.lock().lead().is_some();
            if !leads_here {
                leaders.push((at, self.leader_of(at)?));
            }
        }
        leaders.sort_by_key(|(_, known)| known.ballot.server);
        leaders.dedup_by_key(|(_, known)| known.ballot.server);
        let heartbeat = self.membership.next_heartbeat();
        let forwarded = leaders.into_iter().map(|(at, known)| self.forward(at, known, Work::Watch(heartbeat)));
        for done in join_all(forwarded).await {
            match done? {
                Done::Watching => {}
                other => return Err(strange(&other)),
            }
        }
        Ok(())
    }
}

/// A page of a partition for another server.
pub(super) fn page(
    locks: &Partition<Outbox>,
    slot: u64,
    limit: u32,
    budget: u32,
    prefix: &str,
    now: StoreTime,
) -> Done {
    let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let mut budget = number(budget).min(SLOTS_PER_PAGE);
    let (mut found, slot) = (Vec::new(), usize::try_from(slot).unwrap_or(usize::MAX));
    let next = locks.scan(slot, &mut budget, number(limit), prefix, now, &mut found);
    Done::Page { locks: found, next: next.map(|next| next as u64), budget: u32::try_from(budget).unwrap_or(u32::MAX) }
}

impl Cursor {
    fn check(self, leader: Ballot) -> Result<(), StoreError> {
        let is_of_another = self.ballot.is_some_and(|ballot| ballot != leader);
        if is_of_another { Err(StoreError::BadPageToken) } else { Ok(()) }
    }

    fn parse(text: &str, partitions: usize) -> Option<Self> {
        let mut parts = text.split('.');
        let partition = usize::from_str_radix(parts.next()?, 16).ok().filter(|at| *at < partitions)?;
        let slot = usize::from_str_radix(parts.next()?, 16).ok()?;
        let ballot = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) if slot == 0 => None,
            (Some(round), Some(server), None) => {
                Some(Ballot { round: u64::from_str_radix(round, 16).ok()?, server: ServerId::parse(server)? })
            }
            _ => return None,
        };
        Some(Self { partition, slot, ballot })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:x}.{:x}", self.partition, self.slot)?;
        self.ballot.map_or(Ok(()), |Ballot { round, server }| write!(out, ".{round:x}.{server}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_where_it_ended_and_with_the_same_leader_only() {
        let ballot = Ballot { round: 0x1f, server: ServerId([0xab; 12]) };
        let at = Cursor { partition: 3, slot: 17, ballot: Some(ballot) };
        assert_eq!(at.to_string(), format!("3.11.1f.{}", "ab".repeat(12)));
        assert_eq!(Cursor::parse(&at.to_string(), 4), Some(at));
        assert_eq!(Cursor::parse(&at.to_string(), 3), None, "there are not so many partitions");
        assert!(at.check(ballot).is_ok());
        assert!(at.check(Ballot { server: ServerId([1; 12]), ..ballot }).is_err(), "the same round of another server");
        let begin = Cursor { partition: 2, slot: 0, ballot: None };
        assert_eq!(Cursor::parse(&begin.to_string(), 4), Some(begin));
        for strange in ["", "1", "1.2", "1.2.3", "1.2.3.4", "1.0.x.y", "1.1.1.abababababababababababab.1", "g.0"] {
            assert_eq!(Cursor::parse(strange, 4), None, "{strange}");
        }
    }
}
