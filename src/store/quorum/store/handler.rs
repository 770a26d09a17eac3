//! The handler of messages from other servers.

use super::{QuorumStore, list};
use crate::{
    domain::time::StoreTime,
    node::Push,
    store::{
        Notice,
        partition::HashedName,
        quorum::{
            membership::known::Known,
            nodes::client::NodeClient,
            paxos::ballot::{LeadId, ServerId},
            proposer::{
                delivery::ReplyTo,
                leading::{Job, Lead},
                route::Route,
            },
            rpc::{
                messages::{Done, Frame, Parcel, Refusal, Work},
                transport::Taken,
            },
        },
    },
};
use tokio::time::Instant;

impl<C: NodeClient> QuorumStore<C> {
    /// Takes what arrives through a node. Never ends.
    pub(super) async fn hear(&self, node: usize) {
        let mut pushes = self.driver.client.listen(node, self.delivery.me);
        while let Some(push) = pushes.recv().await {
            // What is lost is not missed here: forwarded work has a time, and notices are numbered.
            let Push::Message(bytes) = push else { continue };
            match Parcel::decode(&bytes) {
                Ok(Parcel { from, frames }) => {
                    self.delivery.transport.came_through(node, from);
                    let forwarded = frames.iter().filter(|frame| matches!(frame, Frame::Forward { .. })).count();
                    for frame in frames {
                        self.take(from, frame);
                    }
                    self.driver.submitted(forwarded);
                }
                Err(why) => tracing::warn!(%why, "dropped an unreadable message from another server"),
            }
        }
    }

    fn take(&self, from: ServerId, frame: Frame) {
        match frame {
            Frame::Forward { number, partition, ballot, not_after, work } => {
                let now = self.work(from, number, LeadId { partition, ballot }, not_after, work);
                if let Err((now, why)) = now {
                    self.delivery.transport.send(from, Frame::Reply { number, now, result: Err(why) });
                }
            }
            Frame::Reply { number, now, result } => self.delivery.transport.replied(number, (now, result)),
            Frame::Notices { first, notices } => self.take_notices(from, first, notices),
            Frame::Gather { partition, ballot, now } if ballot.server == from => {
                let known = Known { ballot, time: now, heard: self.clock.now() };
                self.note_leader(partition.into(), known);
                self.keep_queue_positions(partition.into(), ballot);
                self.present(partition.into(), known, true);
            }
            Frame::Waiters { partition, ballot, not_after, waiters, is_last } => {
                let at = usize::from(partition);
                let Some(part) = self.parts.get(at) else { return };
                let mut proposer = part.proposer.lock();
                let exit = self.exit(at);
                let now = self.clock.now();
                // What comes too late is presented again, and what comes to a leader that hands over, to the next one.
                let may_come =
                    |lead: &&mut Lead| lead.ballot() == ballot && lead.time(now) <= not_after && !lead.hands_over();
                if let Some(lead) = proposer.lead().filter(may_come) {
                    lead.presents(from, (waiters, is_last), Route::hash_of, now, &exit);
                }
            }
            Frame::Presented { partition, ballot, outcomes } if ballot.server == from => {
                let at = usize::from(partition);
                if at < self.parts.len() {
                    for (call, outcome, queue_position) in outcomes {
                        self.exit(at).settle_presented(ballot, call, outcome, queue_position);
                    }
                }
            }
            Frame::HandOver { partition, ballot, ends } if ballot.server == from => {
                self.membership.election.lock().gave(from, Instant::now());
                match self.parts.get(usize::from(partition)) {
                    Some(_) if self.membership.is_leaving() => {
                        self.delivery.transport.send(from, Frame::Declines { partition, ballot });
                    }
                    Some(part) => part.proposer.lock().take_over(ballot, ends, self.clock.now()),
                    None => {}
                }
            }
            Frame::Declines { partition, ballot } => {
                self.membership.election.lock().leaves(from);
                let part = self.parts.get(usize::from(partition));
                let has_gone_on = part.is_some_and(|part| {
                    let mut proposer = part.proposer.lock();
                    proposer.lead().filter(|lead| lead.ballot() == ballot).is_some_and(Lead::goes_on)
                });
                if has_gone_on {
                    // Who waits for the successor asks here again.
                    self.parts.led_anew.notify_waiters();
                }
            }
            // In the name of another server.
            Frame::Gather { .. } | Frame::Presented { .. } | Frame::HandOver { .. } => {}
        }
    }

    /// Does what another server forwarded; the reply goes out when a majority has it.
    fn work(
        &self,
        from: ServerId,
        number: u64,
        LeadId { partition, ballot }: LeadId,
        not_after: StoreTime,
        work: Work,
    ) -> Result<(), (StoreTime, Refusal)> {
        let at = usize::from(partition);
        let nobody = (StoreTime::default(), Refusal::NotLeader);
        let mut proposer = self.parts.get(at).ok_or(nobody)?.proposer.lock();
        let exit = self.exit(at);
        // Read under the mutex: within a partition, time never goes back.
        let now = self.clock.now();
        let lead = proposer.lead().filter(|lead| lead.ballot() == ballot).ok_or(nobody)?;
        let time = lead.time(now);
        if let Some(why) = lead.refusal(now) {
            return Err((time, why));
        }
        match work {
            Work::Run(name, command) => {
                let route = self.route(&name);
                if route.partition != at {
                    return Err(nobody);
                }
                let reply_to = ReplyTo::Server(from, number);
                let lock = HashedName { name, hash: route.hash };
                lead.submit(Job { lock, command, from, not_after, reply_to }, now, &exit);
            }
            Work::List { .. } if not_after < time => return Err((time, Refusal::TooLate)),
            Work::List { prefix, slot, limit, budget } => {
                lead.page((from, number), now, |locks, now| list::page(locks, slot, limit, budget, &prefix, now));
            }
            Work::Watch(heartbeat) => {
                self.delivery.transport.watches(from, heartbeat, true);
                self.delivery.transport.send(from, Frame::Reply { number, now: time, result: Ok(Done::Watching) });
            }
        }
        Ok(())
    }

    fn take_notices(&self, from: ServerId, first: u64, notices: Vec<Notice>) {
        let Taken { outdated, is_missing } = self.delivery.transport.received(from, first, notices.len());
        if is_missing {
            self.notices_missed(from);
        }
        for notice in notices.into_iter().skip(outdated) {
            notice.deliver_to(&*self.delivery.notices);
        }
    }
}
