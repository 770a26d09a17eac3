//! Leading a partition: turns of the rules in memory, whose answers leave when a majority has their batch.

use super::{
    ballot::{Ballot, TransferId},
    content::Content,
    leader::{Heard, Leader, Purpose},
    message::{Answer, Request},
    store::ANSWER_TIME_MAX,
    time::PartitionTime,
};
use crate::{
    domain::{
        command::{Command, Effects, Outcome},
        ids::{Call, Incarnation, ReplicaId},
        limits::COMMAND_WINDOW,
        name::LockName,
        replicas::Replicas,
        rules::{Lock, Turn},
        time::StoreTime,
        token::Sequencer,
    },
    store::{
        Notice, Notices, Timed,
        partition::{Outbox, Partition, Slot, Unreadable},
        reason_of,
    },
};
use std::{collections::VecDeque, time::Duration};
use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

/// How often a leader without commands writes an empty batch. Others see by that that the partition is led.
pub(super) const IDLE_BATCH_PERIOD: Duration = Duration::from_millis(300);

/// A server that leads a partition.
pub(super) struct Lead {
    ballot: Ballot,
    leader: Leader,
    locks: Partition<Outbox>,
    waiters_max: usize,
    time: PartitionTime,
    /// When the last batch was written, on the server's clock.
    written_at: StoreTime,
    /// What turns since the last batch hold back.
    open: Vec<Held>,
    /// When the first of these turns began, on the server's clock.
    opened_at: StoreTime,
    /// What batches hold back that no majority has yet.
    written: VecDeque<Written>,
}

struct Written {
    seq: u64,
    /// When it was written.
    at: Instant,
    held: Vec<Held>,
}

/// Held back until a majority has the batch of its turn. Nothing else makes answers safe, reads and refusals too: no
/// lease of the lead, and no clock.
enum Held {
    Outcome(oneshot::Sender<Timed<Outcome>>, Timed<Outcome>),
    Read(oneshot::Sender<()>),
    Notice(Notice),
}

/// How long what a turn holds back may wait for a majority before no further turns are run. It is as long as callers
/// wait, so the memory for answers is bounded by what they can ask in that time.
const SILENCE_MAX: Duration = ANSWER_TIME_MAX;
/// Due locks that are handled in one turn of the task: about 50 µs of work.
const DUE_PER_TURN: usize = 128;
/// The server that acts on all locks of a partition, as its rules see it.
const LEADER: ReplicaId = ReplicaId(Uuid::nil());
/// What keeps the sequencer: the history of the partition, which has no other life.
const HISTORY: Incarnation = Incarnation(Uuid::nil());

impl Lead {
    /// Goes on from what was read. `frozen_at` is when no older leader could write any more, on the server's clock.
    /// `hash` is that of a name.
    pub(super) fn new(
        ballot: Ballot,
        leader: Leader,
        content: Content,
        [frozen_at, now]: [StoreTime; 2],
        waiters_max: usize,
        hash: impl Fn(&LockName) -> u64,
    ) -> Result<Self, Unreadable> {
        let (token, base) = leader.token_and_time();
        let time = PartitionTime::resumed(StoreTime::from_micros(base), frozen_at);
        let locks = Partition::from_content(content, time.at(now), token, hash)?;
        let (open, written) = (Vec::new(), VecDeque::new());
        let mut lead =
            Self { ballot, leader, locks, waiters_max, time, written_at: now, open, opened_at: now, written };
        // With this one, a majority has all that was read.
        lead.write(now);
        Ok(lead)
    }

    pub(super) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Whether a majority acknowledges batches. While none does, no turn is run: nobody would get its answer.
    pub(super) fn is_heard(&self, now: StoreTime) -> bool {
        // While no node is there, nothing is written either.
        let is_written = self.open.is_empty() || now.since(self.opened_at) < SILENCE_MAX;
        is_written && self.written.front().is_none_or(|batch| batch.at.elapsed() < SILENCE_MAX)
    }

    /// Carries a command out in memory. Its outcome goes to `reply` when a majority has it; if this server loses the
    /// lead before, `reply` is dropped, and the outcome is unknown. `hash` is that of the name. `sent` is before `now`:
    /// what a lease has left counts from there at its holder.
    pub(super) fn run(
        &mut self,
        (name, hash): (&LockName, u64),
        command: Command,
        (sent, now): (Instant, StoreTime),
        notices: &dyn Notices,
        reply: oneshot::Sender<Timed<Outcome>>,
    ) {
        if self.locks.is_batch_full() {
            self.write(now);
        }
        self.open_at(now);
        let outcome = if command == Command::View {
            let now = self.time.at(now);
            let idle = Lock::default();
            Box::new(self.locks.find(name, hash).map_or(&idle, |slot| &slot.lock).view(now)).into()
        } else {
            let reason = reason_of(&command);
            let mut turns =
                Turns { now: self.time.at(now), waiters_max: self.waiters_max, open: &mut self.open, notices };
            self.locks
                .with_lock(name, hash, |slot, sequencer| turns.run(slot, sequencer, &reason, |turn| turn.run(command)))
        };
        self.open.push(Held::Outcome(reply, Timed { sent, outcome }));
    }

    /// Applies the time to locks that are due, a bounded number of them. Returns whether more may be due.
    pub(super) fn apply_due_timers(&mut self, now: StoreTime, notices: &dyn Notices) -> bool {
        for _ in 0..DUE_PER_TURN {
            if self.locks.is_batch_full() {
                self.write(now);
            }
            self.open_at(now);
            let time = self.time.at(now);
            let mut turns = Turns { now: time, waiters_max: self.waiters_max, open: &mut self.open, notices };
            let turn = |slot: &mut Slot<_>, sequencer: &mut Sequencer| {
                turns.run(slot, sequencer, "", |turn| turn.apply_time());
            };
            if self.locks.with_next_due(time, turn).is_none() {
                return false;
            }
        }
        true
    }

    /// The locks, to read. What is read is true once `reply` is answered: until then it may rest on what no majority
    /// has, or another server may lead.
    pub(super) fn read(&mut self, now: StoreTime, reply: oneshot::Sender<()>) -> (&Partition<Outbox>, StoreTime) {
        self.open_at(now);
        self.open.push(Held::Read(reply));
        (&self.locks, self.time.at(now))
    }

    /// An upper bound on how many requests are queued before this call.
    pub(super) fn ahead(&self, name: &LockName, hash: u64, call: Call) -> Option<u64> {
        self.locks.find(name, hash)?.lock.ahead(call.request)
    }

    /// The next request for this node, until there is none.
    pub(super) fn next(
        &mut self,
        node: usize,
        now: StoreTime,
        transfer: impl FnOnce() -> TransferId,
    ) -> Option<(Purpose, Request)> {
        if let Some(next) = self.leader.next(node) {
            return Some(next);
        }
        // The node has nothing else to do: what came meanwhile is one batch.
        if !self.open.is_empty() || now.since(self.written_at) >= IDLE_BATCH_PERIOD {
            self.write(now);
        }
        if self.leader.wants_snapshot(node) {
            self.stage(node, now, transfer());
        }
        self.leader.next(node)
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
        let held = std::mem::take(&mut self.open);
        if !held.is_empty() {
            self.written.push_back(Written { seq, at: Instant::now(), held });
        }
    }

    /// Takes a node's answer, and lets out what a majority has.
    pub(super) fn answered(&mut self, node: usize, purpose: Purpose, answer: Answer, notices: &dyn Notices) -> Heard {
        let heard = self.leader.answered(node, purpose, answer);
        let committed = self.leader.committed();
        while self.written.front().is_some_and(|batch| batch.seq <= committed)
            && let Some(batch) = self.written.pop_front()
        {
            for held in batch.held {
                match held {
                    // Nobody listens: the caller is gone.
                    Held::Outcome(reply, outcome) => drop(reply.send(outcome)),
                    Held::Read(reply) => drop(reply.send(())),
                    Held::Notice(notice) => notice.tell(notices),
                }
            }
        }
        heard
    }

    pub(super) fn reconnected(&mut self, node: usize) {
        self.leader.reconnected(node);
    }

    /// When this server's clock shows the time of the next timer.
    pub(super) fn next_due(&self) -> Option<StoreTime> {
        self.locks.next_due().map(|due| self.time.when(due))
    }
}

/// Runs the rules, and holds back what they cause.
struct Turns<'a> {
    now: StoreTime,
    waiters_max: usize,
    open: &'a mut Vec<Held>,
    notices: &'a dyn Notices,
}

impl Turns<'_> {
    fn run<N, R>(
        &mut self,
        slot: &mut Slot<N>,
        sequencer: &mut Sequencer,
        reason: &str,
        act: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let outcome = act(&mut Turn {
            lock: &mut slot.lock,
            sequencer,
            effects: &mut effects,
            now: self.now,
            not_after: self.now.after(COMMAND_WINDOW),
            incarnation: HISTORY,
            present: HISTORY,
            replica: LEADER,
            replicas: &mut Replicas::one(),
            known_token: 0,
            waiters_max: self.waiters_max,
            classic: None,
        });
        let is_watched = self.notices.is_watched();
        Notice::of(effects, &slot.name, &slot.lock, reason, is_watched, |notice| self.open.push(Held::Notice(notice)));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            ballot::{Position, Stamp},
            candidate::Membership,
        },
        *,
    };

    #[test]
    fn what_no_node_takes_is_bounded() {
        let (now, ballot) = (StoreTime::from_micros(7_000_000), Ballot { round: 1, ..Ballot::default() });
        let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
        let leader = Leader::new(ballot, Position::default(), 0, 0, &[member]);
        let mut lead = Lead::new(ballot, leader, Content::default(), [now, now], 1, |_| 0).unwrap();
        let later = now.after(2 * SILENCE_MAX);
        assert!(lead.is_heard(later), "nobody waits");
        // A read changes nothing, so it fills no batch.
        lead.read(later, oneshot::channel().0);
        assert!(lead.is_heard(later));
        assert!(!lead.is_heard(later.after(SILENCE_MAX)));
    }
}
