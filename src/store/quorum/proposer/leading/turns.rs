//! Turns of the rules in memory. All of their effects but hints are held back until commit.

use super::{
    Lead, Pending,
    classic::{Bridge, Shared, Work},
};
use crate::{
    domain::{
        binding::Binding,
        command::{Acquire, Command, Effect, Effects, Outcome},
        ids::{ReplicaId, RequestId},
        outcome::{AcquireOutcome, ConvertOutcome},
        replicas::Replicas,
        rules::{Lock, Turn},
        time::StoreTime,
        token::Sequencer,
    },
    store::{
        AuditNote, Notice, Timed,
        partition::{HashedName, Outbox, Partition, Slot},
        quorum::{
            paxos::ballot::ServerId,
            proposer::{
                delivery::{Exit, ReplyTo},
                local_waiters::QueuePosition,
            },
            rpc::{messages::Refusal, transport::replica_of},
        },
        reason_of,
    },
};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A command on its way to its turn.
pub(crate) struct Job {
    pub(crate) lock: HashedName,
    pub(crate) command: Command,
    /// The server that sent it.
    pub(crate) from: ServerId,
    /// The partition's time after which it is not begun.
    pub(crate) not_after: StoreTime,
    pub(crate) reply_to: ReplyTo,
}

/// Due locks that are handled in one turn of the task: about 50 µs of work.
const DUE_PER_TURN: usize = 128;
/// Slots of locks in which one turn of the task looks for waiters of servers that are gone. A batch takes the changes
/// of as many.
const SLOTS_PER_SWEEP: usize = 256;
/// Commands that wait behind waiters that are gathered, at most.
const BEHIND_MAX: usize = 65_536;

impl Lead {
    /// Carries a command out in memory, or has it wait: for waiters that come before it, or in the lane. Its outcome
    /// goes to its `reply_to` when a majority has it; if this server loses the lead before, the outcome is unknown.
    pub(crate) fn submit(&mut self, job: Job, now: StoreTime, exit: &Exit<'_>) {
        // All that asks for the lock or ends a wait: of a request that is to be queued again, nothing is known yet.
        let comes_behind = matches!(
            job.command,
            Command::Acquire(_)
                | Command::Claim(..)
                | Command::GiveUp(_)
                | Command::DropCall(_)
                | Command::Decline { .. }
        );
        if self.gathering.is_some() && comes_behind {
            if self.behind.len() < BEHIND_MAX {
                self.behind.push(job);
            } else {
                exit.refuse(job.reply_to, self.time.at(now), Refusal::Overloaded);
            }
        } else if job.command.is_acquire() && !self.may_acquire() {
            self.wait_in_lane(job, now, exit);
        } else {
            self.run(job, now, exit);
        }
    }

    pub(super) fn run(&mut self, job: Job, now: StoreTime, exit: &Exit<'_>) {
        if self.bridge.is_none() {
            return self.run_now(job, now, exit);
        }
        let refused = match &job.command {
            Command::Acquire(acquire) if !acquire.terms.suits_classic() => Some(AcquireOutcome::BesideClassic.into()),
            Command::Convert { .. } => Some(ConvertOutcome::BesideClassic.into()),
            _ => None,
        };
        if let Some(refused) = refused {
            return self.refuse_beside_classic(job, refused, now, exit);
        }
        let lock = job.lock.clone();
        self.enter(&lock, Work::Run(job), now, exit);
    }

    /// Classic clients see exclusive leases only: they would take the lock within a delay, and beside readers.
    fn refuse_beside_classic(&mut self, job: Job, outcome: Outcome, now: StoreTime, exit: &Exit<'_>) {
        self.hear_from(job.from, now, exit);
        self.begin_turn(now);
        let queue_position = QueuePosition { ballot: self.ballot, number: 0, ahead: 0 };
        let now = self.time.at(now);
        self.open.push(Pending::Outcome { reply_to: job.reply_to, now, outcome, queue_position });
    }

    pub(super) fn run_now(&mut self, job: Job, now: StoreTime, exit: &Exit<'_>) {
        let Job { lock, command, from, not_after, reply_to } = job;
        let time = self.time.at(now);
        if not_after < time {
            return exit.refuse(reply_to, time, Refusal::TooLate);
        }
        self.hear_from(from, now, exit);
        self.begin_turn(now);
        let call = match &command {
            Command::Acquire(acquire) => Some(acquire.call),
            Command::Claim(call, _) => Some(*call),
            _ => None,
        };
        let is_acquire = command.is_acquire();
        let outcome = if let Command::View { token } = command {
            let idle = Lock::default();
            let view = self.locks.find(&lock.name, lock.hash).map_or(&idle, |slot| &slot.lock).view(time, token);
            Box::new(self.view_beside_classic(&lock, view)).into()
        } else {
            self.turn(&lock, command, (from, time), exit)
        };
        if is_acquire && matches!(outcome, Outcome::Acquire(AcquireOutcome::Granted(_))) {
            self.lane.granted();
        }
        let mut queue_position = QueuePosition { ballot: self.ballot, number: 0, ahead: 0 };
        if let (Some(call), Outcome::Acquire(AcquireOutcome::Queued)) = (call, &outcome) {
            queue_position.number = self.queue_position(&lock, call.request);
            queue_position.ahead = self.ahead(&lock.name, lock.hash, call).unwrap_or_default();
        }
        self.open.push(Pending::Outcome { reply_to, now: time, outcome, queue_position });
    }

    pub(super) fn turn(
        &mut self,
        lock: &HashedName,
        command: Command,
        (from, now): (ServerId, StoreTime),
        exit: &Exit<'_>,
    ) -> Outcome {
        let reason = reason_of(&command);
        let (locks, mut turns) = self.turns_of(from, now, exit);
        let turn = |slot: &mut Slot<_>, sequencer: &mut Sequencer| {
            turns.run(slot, sequencer, &reason, |turn| turn.run(command))
        };
        let outcome = locks.with_lock(&lock.name, lock.hash, turn);
        if outcome == Outcome::Acquire(AcquireOutcome::Queued) && from != self.ballot.server {
            self.gateways.insert(from);
        }
        outcome
    }

    /// A turn that keeps the queue position of a call that was dropped at a leader before.
    pub(super) fn keep_queue_position(
        &mut self,
        lock: &HashedName,
        acquire: Acquire,
        (from, now): (ServerId, StoreTime),
        exit: &Exit<'_>,
    ) -> AcquireOutcome {
        let (locks, mut turns) = self.turns_of(from, now, exit);
        locks.with_lock(&lock.name, lock.hash, |slot, sequencer| {
            turns.run(slot, sequencer, "", |turn| turn.keep_queue_position(acquire))
        })
    }

    /// The locks, and what runs turns on them for a server, at `now` in the partition's time.
    fn turns_of<'a>(
        &'a mut self,
        from: ServerId,
        now: StoreTime,
        exit: &'a Exit<'a>,
    ) -> (&'a mut Partition<Outbox>, Turns<'a>) {
        let turns = Turns {
            now,
            replica: replica_of(from),
            replicas: &self.replicas,
            gateways: &self.gateways,
            waiters_max: self.waiters_max,
            open: &mut self.open,
            bridge: self.bridge.as_deref(),
            exit,
        };
        (&mut self.locks, turns)
    }

    /// A turn of a lock that only applies the time.
    pub(super) fn apply_time(&mut self, lock: &HashedName, now: StoreTime, exit: &Exit<'_>) {
        let (locks, mut turns) = self.turns_of(self.ballot.server, self.time.at(now), exit);
        locks.with_lock(&lock.name, lock.hash, |slot, sequencer| {
            turns.run(slot, sequencer, "", |turn| turn.apply_time());
        });
    }

    /// A turn that may change something begins.
    pub(super) fn begin_turn(&mut self, now: StoreTime) {
        if self.locks.is_batch_full() {
            self.write(now);
        }
        self.open_at(now);
    }

    /// Applies the time to locks that are due, a bounded number of them. Returns whether more may be due.
    pub(crate) fn apply_due_timers(&mut self, now: StoreTime, exit: &Exit<'_>) -> bool {
        if self.hands_over.is_some() {
            return false;
        }
        if self.bridge.is_some() {
            self.poll_classic(now);
        }
        for _ in 0..DUE_PER_TURN {
            self.begin_turn(now);
            let time = self.time.at(now);
            let (locks, mut turns) = self.turns_of(self.ballot.server, time, exit);
            let turn = |slot: &mut Slot<_>, sequencer: &mut Sequencer| {
                turns.run(slot, sequencer, "", |turn| turn.apply_time());
            };
            if locks.with_next_due(time, turn).is_none() {
                return self.sweep(now, exit);
            }
        }
        true
    }

    /// Deletes waiters of servers that are gone, in a bounded number of slots. Returns whether there are more.
    fn sweep(&mut self, now: StoreTime, exit: &Exit<'_>) -> bool {
        let Some(from) = self.sweeps_from else { return false };
        self.begin_turn(now);
        let (locks, mut turns) = self.turns_of(self.ballot.server, self.time.at(now), exit);
        self.sweeps_from = locks.with_waited_for(from, SLOTS_PER_SWEEP, |slot, sequencer| {
            turns.run(slot, sequencer, "", |turn| turn.apply_time());
        });
        self.sweeps_from.is_some()
    }
}

/// Runs the rules, and holds back what they cause, but for hints.
struct Turns<'a> {
    now: StoreTime,
    /// The server that sent the command.
    replica: ReplicaId,
    replicas: &'a Replicas,
    /// The gateways: the other servers that calls wait on.
    gateways: &'a BTreeSet<ServerId>,
    waiters_max: usize,
    open: &'a mut Vec<Pending>,
    bridge: Option<&'a Bridge>,
    exit: &'a Exit<'a>,
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
        let shared = self.bridge.map(|bridge| Shared::before(bridge, slot));
        let offered: SmallVec<[RequestId; 1]> = slot.lock.offers().collect();
        let mut turn = Turn {
            lock: &mut slot.lock,
            sequencer,
            effects: &mut effects,
            now: self.now,
            replica: self.replica,
            replicas: self.replicas,
            waiters_max: self.waiters_max,
            classic: shared.as_ref().and_then(|shared| shared.hold),
        };
        let outcome = act(&mut turn);
        // What is offered to a call that waits at this server is claimed at once, so the hand-off is one batch.
        let next = |request, binding: &Binding| self.exit.next(request, binding);
        // A claim at a lock that is shared with classic clients comes after a step of its own.
        if shared.is_none()
            && let Some((call, outcome)) = turn.claim_offered(replica_of(self.exit.me), next)
        {
            let claimed = Box::new(Timed { sent: self.exit.since, outcome });
            self.open.push(Pending::Claimed { call, claimed });
        }
        self.open.extend(shared.as_ref().and_then(|shared| shared.after(slot)));
        let of_classic = shared.and_then(|shared| shared.reason(&slot.name));
        let granted = effects.iter().find_map(|effect| match effect {
            Effect::Granted(token) => slot.lock.lease_of(*token),
            _ => None,
        });
        let several = granted.filter(|lease| lease.binding.calls().len() > 1);
        let several = several.map(|lease| (lease.request, lease.binding.attempt()));
        let is_watched = self.exit.is_watched();
        let reason = of_classic.as_deref().unwrap_or(reason);
        if self.exit.notices.is_audited() {
            let hold_back = |note| self.open.push(Pending::Audit(Box::new(note)));
            AuditNote::of(&effects, &slot.name, &slot.lock, reason, hold_back);
        }
        Notice::of(&effects, &slot.name, &slot.lock, reason, is_watched, |to, notice| match notice {
            // It promises nothing: the call claims, and the answer to that is held back. So a claim
            // through another server need not wait until this batch is acknowledged.
            Notice::LookAgain(..) => self.exit.notice(to, notice),
            _ => self.open.push(Pending::Notice(to, notice)),
        });
        // Only the server of its newest call was offered the lock; a call of it may live at another one, and claims.
        for request in offered {
            if let Some((attempt, offered_to)) = slot.lock.skipped(request) {
                self.notify_all(request, attempt, Some(offered_to));
            }
        }
        // One call of the attempt got the lease. The others, here or at another server, wait for the same, or that one
        // may just be gone.
        if let Some((request, attempt)) = several {
            self.notify_all(request, attempt, None);
        }
        outcome
    }

    /// Has the calls of an attempt ask again, at this server and all gateways, `but` for one.
    fn notify_all(&self, request: RequestId, attempt: u32, but: Option<ReplicaId>) {
        let servers = self.gateways.iter().copied().chain([self.exit.me]).map(replica_of);
        for server in servers.filter(|server| Some(*server) != but) {
            self.exit.notice(Some(server), Notice::LookAgain(request, attempt));
        }
    }
}
