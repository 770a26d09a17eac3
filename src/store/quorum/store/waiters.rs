//! The life of a call that waits on this server, from its acquire to its end.
//!
//! 1. *Queued*: its acquire goes to the leader ([`QuorumStore::execute`]), and what the leader confirms is noted among
//!    the partition's local waiters ([`QuorumStore::note_outcome`]).
//! 2. *Looks again* when a hint says that the lock is on offer to it, or when hints may be lost
//!    ([`QuorumStore::notices_missed`]), and *claims* ([`QuorumStore::claim`]).
//! 3. *Presented* to each new leader, in its old place ([`QuorumStore::present`]).
//! 4. *Ends*: by the lease, by giving up ([`QuorumStore::give_up`]), or because its client is gone
//!    ([`QuorumStore::drop_call`]). A dropped call keeps its place for a moment, for the client's next attempt.

use super::{QuorumStore, partitions::Part};
use crate::{
    domain::{
        command::{Command, Outcome},
        ids::Call,
        limits::COMMAND_WINDOW,
        name::LockName,
        outcome::AcquireOutcome,
    },
    store::{
        Answer, Store, StoreError, Timed,
        quorum::{
            membership::known::Known,
            nodes::client::NodeClient,
            paxos::ballot::{Ballot, ServerId},
            proposer::{local_waiters::QueuePosition, route::Route},
            rpc::messages::Frame,
        },
    },
};
use tokio::time::Instant;

/// Waiters in one frame.
const WAITERS_PER_FRAME: usize = 256;

impl<C: NodeClient> QuorumStore<C> {
    fn part_of(&self, name: &LockName) -> &Part {
        &self.parts[self.route(name).partition]
    }

    /// Claims. While the leader changes a claim may fail; the call waits on, and claims again when a leader is known.
    pub(super) async fn claim(&self, name: &LockName, call: Call, claim: &Command) -> Answer {
        let sent = Instant::now();
        match self.claim_once(name, call, claim).await {
            Err(
                StoreError::Unavailable(_)
                | StoreError::Overloaded
                | StoreError::TooLate
                | StoreError::OutcomeUnknown(_),
            ) if self.part_of(name).local_waiters.lock().claim_failed(call) => {
                Ok(Timed { sent, outcome: AcquireOutcome::Queued.into() })
            }
            answer => answer,
        }
    }

    /// A leader that does not know the request may be a new one, to which it was not presented yet.
    async fn claim_once(&self, name: &LockName, call: Call, claim: &Command) -> Answer {
        let answer = self.execute(name, claim).await?;
        if answer.outcome != Outcome::Acquire(AcquireOutcome::Unknown) {
            return Ok(answer);
        }
        let acquire = self.part_of(name).local_waiters.lock().get(call).cloned();
        match acquire {
            // Boxed, or each command would keep space that few need.
            Some(acquire) => Box::pin(self.execute(name, &Command::Acquire(acquire))).await,
            None => Ok(answer),
        }
    }

    /// Gives up. To a leader that does not know the request the call may be about to be presented, or be on its way: it
    /// must not be granted the lock there when nobody waits any more.
    pub(super) async fn give_up(&self, name: &LockName, call: Call, gives_up: &Command) -> Answer {
        let answer = self.execute(name, gives_up).await?;
        if answer.outcome == Outcome::Acquire(AcquireOutcome::Unknown) {
            Store::post(self, name, Command::DropCall(call));
        }
        Ok(answer)
    }

    /// Notes what a leader has confirmed of a call that waits, or waited.
    pub(super) fn note_outcome(&self, at: usize, name: &LockName, command: &Command, done: (&Outcome, QueuePosition)) {
        let (outcome, queue_position) = done;
        let local_waiters = &self.parts[at].local_waiters;
        match command {
            Command::Acquire(acquire) => local_waiters.lock().acquired(name, acquire, queue_position, outcome),
            Command::Claim(..) | Command::GiveUp(_) => {
                local_waiters.lock().answered(command, queue_position, outcome);
            }
            _ => {}
        }
    }

    /// The client of this call is gone.
    pub(super) fn drop_call(&self, name: &LockName, call: Call) {
        self.part_of(name).local_waiters.lock().drop_call(call, Instant::now());
    }

    /// An upper bound on how many requests are queued before this call.
    pub(super) fn ahead_of(&self, name: &LockName, call: Call) -> Option<u64> {
        let Route { partition, hash } = self.route(name);
        let part = &self.parts[partition];
        match part.proposer.lock().lead() {
            Some(lead) => lead.ahead(name, hash, call),
            None => part.local_waiters.lock().ahead(call),
        }
    }

    /// Has the calls claim again whose last claim failed.
    pub(super) fn claim_again(&self, at: usize) {
        let calls = self.parts[at].local_waiters.lock().take_to_claim();
        self.look_again(calls);
    }

    /// Has these calls look whether they can take their locks.
    pub(super) fn look_again(&self, calls: Vec<Call>) {
        calls.into_iter().for_each(|call| self.delivery.notices.look_again(call.request, call.attempt));
    }

    /// Notices of another server were lost: who may have been meant asks for itself.
    pub(super) fn notices_missed(&self, from: ServerId) {
        self.delivery.lost();
        for part in self.parts.iter().filter(|part| part.leader.lock().is_some_and(|it| it.ballot.server == from)) {
            let calls: Vec<_> = part.local_waiters.lock().calls().collect();
            self.look_again(calls);
        }
    }

    /// Keeps the queue positions of dropped calls, if this server still has the lead that ends by this ballot.
    pub(super) fn keep_queue_positions(&self, partition: usize, ballot: Ballot) {
        let Some(part) = self.parts.get(partition) else { return };
        let mut proposer = part.proposer.lock();
        if let Some(lead) = proposer.lead().filter(|lead| lead.ballot() < ballot) {
            part.local_waiters.lock().keep(lead.kept_queue_positions(), Instant::now());
        }
    }

    /// Presents to this leader the calls that wait on this server, but those that it does not understand: a later
    /// leader is to serve them. `is_awaited`: the leader waits for the last of them, also if there are none.
    pub(super) fn present(&self, partition: usize, known: Known, is_awaited: bool) {
        let ballot = known.ballot;
        let Some(part) = self.parts.get(partition) else { return };
        let Ok(number) = u16::try_from(partition) else { return };
        let told = self.membership.election.lock().told(ballot.server);
        let (waiters, not_after) = {
            // Read under the mutex: who is dropped leaves this list first, so the tombstone outlasts this.
            let mut local_waiters = part.local_waiters.lock();
            (local_waiters.present_to((ballot, told), Instant::now()), known.at(self.clock.now()).after(COMMAND_WINDOW))
        };
        let mut frames: Vec<_> = waiters.chunks(WAITERS_PER_FRAME).map(<[_]>::to_vec).collect();
        if frames.is_empty() && is_awaited {
            frames.push(Vec::new());
        }
        let last = frames.len();
        for (index, waiters) in (1..).zip(frames) {
            let is_last = index == last;
            self.delivery
                .transport
                .send(ballot.server, Frame::Waiters { partition: number, ballot, not_after, waiters, is_last });
        }
    }
}
