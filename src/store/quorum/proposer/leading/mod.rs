//! The leader of a partition: runs turns of the rules in memory, and releases their answers when a majority has their
//! batch.

mod change;
mod classic;
mod lane;
mod pending;
mod recall;
#[cfg(test)]
mod tests;
mod turns;

pub(crate) use turns::Job;

use super::{delivery::Exit, gathering::Gathering};
use crate::{
    domain::{
        ids::{Call, RequestId},
        limits::ANSWER_TIME_MAX,
        name::LockName,
        replicas::Replicas,
        time::StoreTime,
    },
    store::{
        content::Content,
        partition::{HashedName, Outbox, Partition, Renewals, Unreadable},
        quorum::{
            paxos::{
                ballot::{Ballot, LeadId, ServerId, TransferId},
                leader::{Heard, Leader, Purpose},
                message::{Answer, Request},
                partition_clock::PartitionTime,
            },
            rpc::{
                messages::{Done, Led, Refusal},
                transport::replica_of,
            },
        },
    },
};
use change::HandOver;
use classic::Bridge;
use lane::AcquireLane;
use pending::{Pending, Written};
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};
use tokio::sync::oneshot;

/// Where the last batch is this old, a heartbeat takes an empty one along: others see by it that the partition is led.
pub(super) const IDLE_BATCH_AGE: Duration = Duration::from_millis(100);

/// The same where a successor was told to take over, which it does within a moment: a batch meanwhile would void the
/// ends of leases that it was told.
const HANDED_OVER_BATCH_AGE: Duration = Duration::from_millis(400);

/// A server that leads a partition.
pub(crate) struct Lead {
    partition: u16,
    ballot: Ballot,
    leader: Leader,
    locks: Partition<Outbox>,
    waiters_max: usize,
    time: PartitionTime,
    /// When each server was heard of last.
    replicas: Replicas,
    /// The gateways: the other servers that calls wait on, or did.
    gateways: BTreeSet<ServerId>,
    /// The slot from which on waiters of servers that are gone are deleted.
    sweeps_from: Option<usize>,
    /// The servers that this leader has ever heard of: a few bytes for each.
    heard: BTreeSet<ServerId>,
    /// When the last batch was written, on the server's clock.
    written_at: StoreTime,
    /// The last empty batch that was written for heartbeats; 0 if there was none.
    idle_batch: u64,
    /// What turns since the last batch hold back.
    open: Vec<Pending>,
    /// When the first of these turns began, on the server's clock.
    opened_at: StoreTime,
    /// What batches hold back that no majority has yet.
    written: VecDeque<Written>,
    /// The acquires that wait, because the nodes are behind.
    lane: AcquireLane,
    /// Waits for the waiters of the leaders before.
    gathering: Option<Gathering>,
    /// Commands that came meanwhile, and that those waiters come before.
    behind: Vec<Job>,
    /// Takes no commands until then, so that another server can take over.
    hands_over: Option<HandOver>,
    /// The server that did not take over, and the time before which none is planned to it.
    keeps_from: Option<(ServerId, StoreTime)>,
    /// If locks are shared with classic clients.
    bridge: Option<Box<Bridge>>,
}

/// How long what a turn holds back may wait for a majority before no further turns are run. It is as long as callers
/// wait, so the memory for answers is bounded by what they can ask in that time.
const SILENCE_MAX: Duration = ANSWER_TIME_MAX;

/// What a leader goes on from.
pub(crate) struct Recovered<'a> {
    /// What the most recent of the nodes keeps.
    pub(crate) content: Content,
    /// The renewals that no record has.
    pub(crate) renewals: &'a Renewals,
    /// When no older leader could write any more, on the clock of this server.
    pub(crate) frozen_at: StoreTime,
    /// What that clock shows now.
    pub(crate) now: StoreTime,
}

impl Lead {
    /// Goes on from what was read. `hash` is that of a name.
    pub(crate) fn new(
        id: LeadId,
        leader: Leader,
        Recovered { content, renewals, frozen_at, now }: Recovered<'_>,
        waiters_max: usize,
        hash: impl Fn(&LockName) -> u64,
    ) -> Result<Self, Unreadable> {
        let (token, base) = leader.token_and_time();
        let time = PartitionTime::resumed(StoreTime::from_micros(base), frozen_at);
        let locks = Partition::from_content(content, renewals, time.at(now), token, hash)?;
        Ok(Self::of_locks(id, leader, locks, time, now, waiters_max))
    }

    /// Goes on with these locks, at `now` on the server's clock.
    fn of_locks(
        LeadId { partition, ballot }: LeadId,
        leader: Leader,
        locks: Partition<Outbox>,
        time: PartitionTime,
        now: StoreTime,
        waiters_max: usize,
    ) -> Self {
        let mut lead = Self {
            partition,
            ballot,
            leader,
            locks,
            waiters_max,
            time,
            replicas: Replicas::many_beside(replica_of(ballot.server)),
            gateways: BTreeSet::new(),
            sweeps_from: None,
            heard: BTreeSet::new(),
            written_at: now,
            idle_batch: 0,
            open: Vec::new(),
            opened_at: now,
            written: VecDeque::new(),
            lane: AcquireLane::default(),
            gathering: None,
            behind: Vec::new(),
            hands_over: None,
            keeps_from: None,
            bridge: None,
        };
        // With this one, a majority has all that was read.
        lead.write(now);
        lead
    }

    pub(crate) fn id(&self) -> LeadId {
        LeadId { partition: self.partition, ballot: self.ballot }
    }

    pub(crate) fn ballot(&self) -> Ballot {
        self.ballot
    }

    pub(crate) fn leader(&self) -> &Leader {
        &self.leader
    }

    /// The highest token that was drawn, or read.
    pub(crate) fn token(&self) -> u64 {
        self.locks.token()
    }

    /// What heartbeats say of this lead.
    pub(crate) fn led(&self, now: StoreTime) -> Led {
        Led { partition: self.partition, round: self.ballot.round, now: self.time.at(now) }
    }

    /// Whether a majority acknowledges batches. While none does, no turn is run: nobody would get its answer.
    pub(crate) fn is_heard(&self, now: StoreTime) -> bool {
        // While no node is there, nothing is written either.
        let is_written = self.open.is_empty() || now.since(self.opened_at) < SILENCE_MAX;
        let is_stepped = self.bridge.as_ref().is_none_or(|bridge| bridge.is_heard(now, SILENCE_MAX));
        is_written && is_stepped && self.written.front().is_none_or(|batch| now.since(batch.at) < SILENCE_MAX)
    }

    /// Whether it takes no commands, so that another server can take over.
    pub(crate) fn hands_over(&self) -> bool {
        self.hands_over.is_some()
    }

    /// Why no command is taken now, if none is.
    pub(crate) fn refusal(&self, now: StoreTime) -> Option<Refusal> {
        if self.hands_over() {
            // As soon as the successor leads, it is the one to ask.
            return Some(Refusal::NotLeader);
        }
        (!self.is_heard(now)).then_some(Refusal::Unheard)
    }

    /// The partition's time.
    pub(crate) fn time(&self, now: StoreTime) -> StoreTime {
        self.time.at(now)
    }

    /// The locks, to read. What is read is true once `reply` is answered: until then it may rest on what no majority
    /// has, or another server may lead.
    pub(crate) fn read(&mut self, now: StoreTime, reply: oneshot::Sender<()>) -> (&Partition<Outbox>, StoreTime) {
        self.open_at(now);
        self.open.push(Pending::Read(reply));
        (&self.locks, self.time.at(now))
    }

    /// The locks, to make a page of them for another server. `make` gets them and the partition's time.
    pub(crate) fn page(
        &mut self,
        (server, number): (ServerId, u64),
        now: StoreTime,
        make: impl FnOnce(&Partition<Outbox>, StoreTime) -> Done,
    ) {
        self.open_at(now);
        let now = self.time.at(now);
        let page = Box::new(make(&self.locks, now));
        self.open.push(Pending::Page { server, number, now, page });
    }

    /// An upper bound on how many requests are queued before this call.
    pub(crate) fn ahead(&self, name: &LockName, hash: u64, call: Call) -> Option<u64> {
        self.locks.find(name, hash)?.lock.ahead(call.request)
    }

    /// The queue position of this request of its lock, from 1 on. Other transmissions of it do not change it.
    fn queue_position(&self, lock: &HashedName, request: RequestId) -> u64 {
        let queue_position = self.locks.find(&lock.name, lock.hash).and_then(|slot| slot.lock.queue_position(request));
        queue_position.map_or(0, |queue_position| queue_position + 1)
    }

    /// Whether there may be a request for this node. It takes a few nanoseconds to say that there is none.
    pub(crate) fn may_have_next(&self, node: usize) -> bool {
        !self.open.is_empty()
            || !self.leader.has_all(node)
            || self.has_acquires()
            || self.bridge.as_ref().is_some_and(|bridge| bridge.has_steps())
    }

    /// The next request for this node, until there is none.
    pub(crate) fn next(
        &mut self,
        node: usize,
        now: StoreTime,
        transfer: impl FnOnce() -> TransferId,
    ) -> Option<(Purpose, Request)> {
        if let Some(next) = self.leader.next(node) {
            return Some(next);
        }
        if self.bridge.is_some()
            && let Some(step) = self.next_step(now)
        {
            return Some(step);
        }
        // The node has nothing else to do: what came meanwhile is one batch.
        if !self.open.is_empty() {
            self.write(now);
        }
        if self.leader.wants_snapshot(node) {
            self.stage(node, now, transfer());
        }
        self.leader.next(node)
    }

    /// An empty batch for a node, if nothing was written lately and the node has all batches before it. It goes with a
    /// heartbeat, in one run of a script. The first node that a heartbeat goes to has it written.
    pub(crate) fn idle_batch(&mut self, node: usize, now: StoreTime) -> Option<(Purpose, Request)> {
        let is_sent = self.hands_over.as_ref().is_some_and(HandOver::is_sent);
        let age = if is_sent { HANDED_OVER_BATCH_AGE } else { IDLE_BATCH_AGE };
        if self.open.is_empty() && now.since(self.written_at) >= age {
            self.write(now);
            self.idle_batch = self.leader.position().seq;
        }
        (self.idle_batch == self.leader.position().seq).then(|| self.leader.last(node)).flatten()
    }

    /// Makes a snapshot ready: of all that is written, so all that changed is written before.
    fn stage(&mut self, node: usize, now: StoreTime, transfer: TransferId) {
        if self.locks.has_changes() {
            self.write(now);
        }
        if let Some(records) = self.locks.snapshot() {
            self.leader.stage(node, transfer, records);
        }
    }

    /// A turn begins that may hold something back.
    fn open_at(&mut self, now: StoreTime) {
        if self.open.is_empty() {
            self.opened_at = now;
        }
    }

    fn write(&mut self, now: StoreTime) {
        let seq = self.leader.write(self.locks.take_changes(self.time.at(now)));
        self.written_at = now;
        // As many turns may follow before the next batch.
        let open = Vec::with_capacity(self.open.len());
        let (held, grants) = (std::mem::replace(&mut self.open, open), self.lane.written());
        if !held.is_empty() {
            let opened_at = self.opened_at;
            self.written.push_back(Written { seq, at: now, opened_at, grants, held });
        }
    }

    /// Takes a node's answer, and lets out what a majority has.
    pub(crate) fn answered(
        &mut self,
        node: usize,
        purpose: Purpose,
        answer: Answer,
        now: StoreTime,
        exit: &Exit<'_>,
    ) -> Heard {
        let heard = self.leader.answered(node, purpose, answer);
        let committed = self.leader.committed();
        while self.written.front().is_some_and(|batch| batch.seq <= committed)
            && let Some(batch) = self.written.pop_front()
        {
            self.lane.heard(batch.grants, now.since(batch.opened_at), now);
            for held in batch.held {
                self.let_out(held, exit);
            }
        }
        heard
    }

    pub(crate) fn reconnected(&mut self, node: usize) {
        self.leader.reconnected(node);
        if let Some(bridge) = &mut self.bridge {
            bridge.reconnected();
        }
    }

    /// When this server's clock shows the time of the next timer.
    pub(crate) fn next_due(&self) -> Option<StoreTime> {
        // While it hands over, it applies no timers.
        let locks = self.hands_over.is_none().then_some(&self.locks);
        let timer = locks.and_then(Partition::next_due).map(|due| self.time.when(due));
        let gathered = self.gathering.as_ref().map(Gathering::until);
        [timer, gathered].into_iter().flatten().min()
    }
}
