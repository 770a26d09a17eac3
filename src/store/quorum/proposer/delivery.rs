//! Delivery of committed outcomes: to calls, streams and watchers of this server, and to other servers.

use super::local_waiters::{LocalWaiters, QueuePosition};
use crate::{
    domain::{
        binding::Binding,
        command::Outcome,
        ids::{Call, ReplicaId, RequestId},
        outcome::AcquireOutcome,
        rules::Next,
        time::StoreTime,
    },
    store::{
        Notice, Notices, Timed,
        quorum::{
            paxos::ballot::{Ballot, LeadId, ServerId},
            rpc::{
                messages::{Done, Frame, Refusal},
                transport::{Replied, Transport, server_of},
            },
        },
    },
    sync::Mutex,
};
use std::sync::Arc;
use tokio::{sync::oneshot, time::Instant};

/// The ways out of this server.
pub(crate) struct Delivery {
    pub(crate) me: ServerId,
    pub(crate) notices: Arc<dyn Notices>,
    pub(crate) transport: Arc<Transport>,
}

impl Delivery {
    pub(crate) fn new(me: ServerId, notices: Arc<dyn Notices>) -> Self {
        Self { me, notices, transport: Arc::new(Transport::new()) }
    }

    /// The same, of the same server.
    pub(crate) fn share(&self) -> Self {
        Self { me: self.me, notices: Arc::clone(&self.notices), transport: Arc::clone(&self.transport) }
    }

    /// Hints and events may have been lost: calls, streams and watchers look for themselves.
    pub(crate) fn lost(&self) {
        self.notices.hints_lost();
        self.notices.events_lost();
    }
}

/// The ways out of a partition that this server leads.
pub(crate) struct Exit<'a> {
    pub(crate) me: ServerId,
    pub(crate) notices: &'a dyn Notices,
    pub(crate) transport: &'a Transport,
    /// The calls that wait on this server.
    pub(crate) local_waiters: &'a Mutex<LocalWaiters>,
    /// A moment before the clock was read for the turns that this is for: what a lease has left counts from here.
    pub(crate) since: Instant,
}

/// Where the outcome of a command goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// A caller on this server, and a moment before the turn: what a lease has left counts from there.
    Caller(oneshot::Sender<Result<Confirmed, Refusal>>, Instant),
    /// Another server, which forwarded it with this number.
    Server(ServerId, u64),
}

/// What a majority has.
#[derive(Debug)]
pub(crate) struct Confirmed {
    pub(crate) outcome: Timed<Outcome>,
    /// The queue position of a request that is queued.
    pub(crate) queue_position: QueuePosition,
}

impl Exit<'_> {
    /// Whether anybody watches events.
    pub(crate) fn is_watched(&self) -> bool {
        self.notices.is_watched() || self.transport.is_watched()
    }

    /// Passes a notice on to the server that it is for, or an event to all that watch.
    pub(crate) fn notice(&self, to: Option<ReplicaId>, notice: Notice) {
        match to.map(server_of) {
            Some(server) if server == self.me => notice.deliver_to(self.notices),
            Some(server) => self.transport.notify(server, notice),
            None => {
                self.transport.notify_watching(&notice);
                notice.deliver_to(self.notices);
            }
        }
    }

    /// Has a server find that a notice is missing, so that all its calls that wait in partitions of this server ask
    /// again.
    pub(crate) fn miss(&self, server: ServerId) {
        if server != self.me {
            self.transport.miss(server);
        }
    }

    /// A call with this binding that waits here and whose client can take a lock now, and the ids of its lease.
    pub(crate) fn next(&self, request: RequestId, binding: &Binding) -> Option<Next> {
        let attempt = binding.attempt();
        if !self.notices.is_alive(request, attempt) {
            return None;
        }
        let local_waiters = self.local_waiters.lock();
        binding.calls().iter().find_map(|id| {
            let call = Call { request, attempt, id: *id };
            Some(Next { call, candidate: local_waiters.get(call)?.candidate })
        })
    }

    /// Gives a call that waits here the outcome of a claim that the leader made for it.
    pub(crate) fn claimed(&self, call: Call, claimed: Timed<AcquireOutcome>) {
        self.local_waiters.lock().remove(call);
        // If it does not wait any more, its cleanup has been posted, or will be.
        self.notices.claimed(call, claimed);
    }

    /// Replies with the outcome of a turn at `now`, in the partition's time.
    pub(crate) fn outcome(&self, reply_to: ReplyTo, now: StoreTime, outcome: Outcome, queue_position: QueuePosition) {
        match reply_to {
            // Nobody listens: the caller is gone.
            ReplyTo::Caller(reply, sent) => {
                drop(reply.send(Ok(Confirmed { outcome: Timed { sent, outcome }, queue_position })));
            }
            ReplyTo::Server(server, number) => {
                self.reply(
                    server,
                    number,
                    (
                        now,
                        Ok(Done::Outcome {
                            outcome,
                            queue_position: queue_position.number,
                            ahead: queue_position.ahead,
                        }),
                    ),
                );
            }
        }
    }

    /// Replies why there is no outcome.
    pub(crate) fn refuse(&self, reply_to: ReplyTo, now: StoreTime, why: Refusal) {
        match reply_to {
            ReplyTo::Caller(reply, _) => drop(reply.send(Err(why))),
            ReplyTo::Server(server, number) => self.reply(server, number, (now, Err(why))),
        }
    }

    /// Replies to what another server forwarded.
    pub(crate) fn reply(&self, server: ServerId, number: u64, (now, result): Replied) {
        self.transport.send(server, Frame::Reply { number, now, result });
    }

    /// Tells a server what became of a call that it presented.
    pub(crate) fn presented(
        &self,
        server: ServerId,
        LeadId { partition, ballot }: LeadId,
        (call, outcome, queue_position): (Call, AcquireOutcome, u64),
    ) {
        if server == self.me {
            self.settle_presented(ballot, call, outcome, queue_position);
        } else {
            self.transport
                .send(server, Frame::Presented { partition, ballot, outcomes: vec![(call, outcome, queue_position)] });
        }
    }

    /// Takes what became of a call that this server presented to the leader with this ballot.
    pub(crate) fn settle_presented(&self, ballot: Ballot, call: Call, outcome: AcquireOutcome, queue_position: u64) {
        let mut local_waiters = self.local_waiters.lock();
        // What an older leader says does not count: the call is presented to its successor.
        let Some(sent) = local_waiters.presented_at(call, ballot) else { return };
        if outcome == AcquireOutcome::Queued {
            local_waiters.queued_again(call, (ballot, queue_position));
        } else {
            local_waiters.remove(call);
            drop(local_waiters);
            // If it does not wait any more, its cleanup has been posted, or will be.
            self.notices.claimed(call, Timed { sent, outcome });
        }
    }
}
