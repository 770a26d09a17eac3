//! Answers and notices that wait until a majority has their batch.

use super::Lead;
use crate::{
    domain::{
        command::Outcome,
        ids::{Call, ReplicaId},
        outcome::AcquireOutcome,
        time::StoreTime,
    },
    store::{
        AuditNote, Notice, Timed,
        partition::HashedName,
        quorum::{
            paxos::ballot::ServerId,
            proposer::{
                delivery::{Exit, ReplyTo},
                local_waiters::QueuePosition,
            },
            rpc::messages::{Done, Refusal},
        },
    },
};
use tokio::sync::oneshot;

/// A batch that no majority has yet, as far as this server knows.
pub(super) struct Written {
    pub(super) seq: u64,
    /// When it was written, on the server's clock.
    pub(super) at: StoreTime,
    /// When the first of its turns began, on the same clock.
    pub(super) opened_at: StoreTime,
    /// How many locks it grants to acquires.
    pub(super) grants: usize,
    pub(super) held: Vec<Pending>,
}

/// Held back until a majority has the batch of its turn. Nothing else makes answers safe, reads and refusals too: no
/// lease of the lead, and no clock. A `Key` is that of the lock with this name: it is to say then what the lock says.
pub(super) enum Pending {
    Outcome { reply_to: ReplyTo, now: StoreTime, outcome: Outcome, queue_position: QueuePosition },
    Claimed { call: Call, claimed: Box<Timed<AcquireOutcome>> },
    Presented { server: ServerId, call: Call, outcome: AcquireOutcome, queue_position: u64 },
    Page { server: ServerId, number: u64, now: StoreTime, page: Box<Done> },
    Read(oneshot::Sender<()>),
    Notice(Option<ReplicaId>, Notice),
    Audit(Box<AuditNote>),
    Key(HashedName),
}

impl Lead {
    pub(super) fn let_out(&mut self, held: Pending, exit: &Exit<'_>) {
        match held {
            Pending::Outcome { reply_to, now, outcome, queue_position } => {
                exit.outcome(reply_to, now, outcome, queue_position);
            }
            Pending::Claimed { call, claimed } => exit.claimed(call, *claimed),
            Pending::Presented { server, call, outcome, queue_position } => {
                exit.presented(server, self.id(), (call, outcome, queue_position));
            }
            Pending::Page { server, number, now, page } => exit.reply(server, number, (now, Ok(*page))),
            // Nobody listens: the caller is gone.
            Pending::Read(reply) => drop(reply.send(())),
            Pending::Notice(to, notice) => exit.notice(to, notice),
            Pending::Audit(note) => exit.notices.audit(*note),
            Pending::Key(lock) => {
                if let Some(bridge) = &mut self.bridge {
                    bridge.settle_later(lock);
                }
            }
        }
    }

    /// This server leads no more. The outcome of what was not let out is unknown; what waited behind was not begun.
    pub(crate) fn refuse_held(&mut self, now: StoreTime, exit: &Exit<'_>) {
        let time = self.time.at(now);
        for held in self.written.drain(..).flat_map(|batch| batch.held).chain(self.open.drain(..)) {
            match held {
                Pending::Outcome { reply_to, now, .. } => exit.refuse(reply_to, now, Refusal::Deposed),
                Pending::Page { server, number, now, .. } => exit.reply(server, number, (now, Err(Refusal::Deposed))),
                // A call that waits is presented to the next leader.
                Pending::Claimed { .. }
                | Pending::Presented { .. }
                | Pending::Read(_)
                | Pending::Notice(..)
                | Pending::Audit(_)
                | Pending::Key(_) => {}
            }
        }
        self.refuse_stepped(time, exit);
        self.refuse_waiting(now, exit);
        for job in self.behind.drain(..) {
            exit.refuse(job.reply_to, time, Refusal::NotLeader);
        }
    }
}
