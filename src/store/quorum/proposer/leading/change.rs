//! Changes of the leader: the queue keeps its order, and a planned change loses nothing.

use super::{Lead, Pending, classic::Work};
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        features::Features,
        ids::{Call, CallId, GrantId, LeaseId},
        name::LockName,
        outcome::AcquireOutcome,
        time::StoreTime,
    },
    store::{
        partition::{HashedName, Slot},
        quorum::{
            paxos::ballot::ServerId,
            proposer::{delivery::Exit, gathering::Gathering},
            rpc::{
                messages::{LAST_ENDS_MAX, LastEnds, PresentedWaiter},
                transport::replica_of,
            },
        },
    },
};
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::oneshot;

/// How long a leader that hands over waits to be deposed.
const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(1);
/// For how long a leader that was not deposed in time hands nothing over to the same server: while it hands over, it
/// takes no commands.
const KEEPS_FOR: Duration = Duration::from_secs(30);

/// A planned change of the leader.
#[derive(Clone, Copy)]
pub(super) struct HandOver {
    to: ServerId,
    /// Then this leader goes on.
    until: StoreTime,
    is_sent: bool,
}

impl HandOver {
    /// Whether it was sent to the successor.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }
}

impl Lead {
    /// Waits for the waiters of other servers before any other request is granted or queued.
    pub(crate) fn gather(&mut self, servers: impl IntoIterator<Item = ServerId>, now: StoreTime) {
        let servers: Vec<ServerId> = servers.into_iter().collect();
        let time = self.time.at(now);
        for server in &servers {
            self.replicas.beat(replica_of(*server), time);
            self.heard.insert(*server);
        }
        self.gathering = Some(Gathering::of(servers, now));
    }

    /// Waits only for waiters of these servers any more.
    pub(crate) fn gathers_only_of(
        &mut self,
        servers: &BTreeSet<ServerId>,
        hash: impl Fn(&LockName) -> u64,
        now: StoreTime,
        exit: &Exit<'_>,
    ) {
        if let Some(gathering) = &mut self.gathering {
            gathering.only_of(servers);
            self.end_gathering(hash, now, exit);
        }
    }

    /// Takes waiters that a server presents.
    pub(crate) fn presents(
        &mut self,
        server: ServerId,
        (waiters, is_last): (Vec<PresentedWaiter>, bool),
        hash: impl Fn(&LockName) -> u64,
        now: StoreTime,
        exit: &Exit<'_>,
    ) {
        self.hear_of([server], now, exit);
        match &mut self.gathering {
            Some(gathering) => gathering.presents(server, waiters, is_last),
            // They come late, and stand at the end.
            None => {
                for waiter in waiters {
                    self.queue_again(server, waiter, &hash, now, exit);
                }
            }
        }
        self.end_gathering(hash, now, exit);
    }

    /// Goes on with those that came behind, if all waiters are gathered or their time is over.
    pub(crate) fn end_gathering(&mut self, hash: impl Fn(&LockName) -> u64, now: StoreTime, exit: &Exit<'_>) {
        let Some(gathering) = self.gathering.take_if(|gathering| gathering.is_over(now)) else { return };
        for (server, waiter) in gathering.into_waiters() {
            self.queue_again(server, waiter, &hash, now, exit);
        }
        for job in std::mem::take(&mut self.behind) {
            self.submit(job, now, exit);
        }
    }

    fn queue_again(
        &mut self,
        server: ServerId,
        waiter: PresentedWaiter,
        hash: impl Fn(&LockName) -> u64,
        now: StoreTime,
        exit: &Exit<'_>,
    ) {
        let hash = hash(&waiter.name);
        if self.bridge.is_some() {
            let lock = HashedName { name: waiter.name.clone(), hash };
            return self.enter(&lock, Work::Queue(server, waiter), now, exit);
        }
        self.queue_now(server, waiter, hash, now, exit);
    }

    pub(super) fn queue_now(
        &mut self,
        server: ServerId,
        PresentedWaiter { name, acquire, is_dropped, .. }: PresentedWaiter,
        hash: u64,
        now: StoreTime,
        exit: &Exit<'_>,
    ) {
        let (call, time) = (acquire.call, self.time.at(now));
        let lock = HashedName { name, hash };
        self.begin_turn(now);
        let outcome = if is_dropped {
            self.keep_queue_position(&lock, acquire, (server, time), exit).into()
        } else {
            self.turn(&lock, Command::Acquire(acquire), (server, time), exit)
        };
        if let Outcome::Acquire(outcome) = outcome {
            let is_queued = outcome == AcquireOutcome::Queued;
            let queue_position = if is_queued { self.queue_position(&lock, call.request) } else { 0 };
            self.open.push(Pending::Presented { server, call, outcome, queue_position });
        }
    }

    /// The queue positions that this leader keeps for calls that were dropped, to be presented to the next one. Their
    /// servers may be gone: one that drained, say, just before this one does.
    pub(crate) fn kept_queue_positions(&self) -> Vec<PresentedWaiter> {
        let of_slot = |slot: &Slot<_>| {
            let name = slot.name.clone();
            let kept = slot.lock.kept_queue_positions().map(move |(request, waiter)| {
                // The calls are over, so any id does that none of them has but by chance. Nothing is granted to it.
                let id = CallId(request.0.as_u64_pair().1 | 1);
                let call = Call { request, attempt: waiter.binding.attempt(), id };
                let candidate =
                    Candidate { lease_id: LeaseId(request.0), grant_id: GrantId(request.0), attachment: None };
                let acquire = Acquire { call, terms: waiter.terms.clone(), wait: true, candidate };
                let queue_position = (self.ballot, waiter.position + 1);
                PresentedWaiter { queue_position, name: name.clone(), acquire, is_dropped: true }
            });
            kept.collect::<Vec<_>>()
        };
        self.locks.waited_for().flat_map(of_slot).collect()
    }

    /// These servers live, so calls that wait on them may be served.
    pub(crate) fn hear_of(&mut self, servers: impl IntoIterator<Item = ServerId>, now: StoreTime, exit: &Exit<'_>) {
        let time = self.time.at(now);
        for server in servers {
            let replica = replica_of(server);
            // If it was there before, its waiters were skipped, or deleted. They are to ask again, or a free lock would
            // stay free.
            if !self.replicas.is_alive(replica, time) && !self.heard.insert(server) {
                exit.miss(server);
            }
            self.replicas.beat(replica, time);
        }
        let before = self.gateways.len();
        self.gateways.retain(|server| !self.replicas.is_gone(replica_of(*server), time));
        if self.gateways.len() < before {
            // Each lock that somebody waits for is looked at, or the waiters of the dead server would count until a
            // command came.
            self.sweeps_from = Some(0);
        }
    }

    /// These servers do not live any more: calls that wait on them are passed over. What one of them still says,
    /// because it lives after all, is heard as ever.
    pub(crate) fn found_dead(&mut self, servers: impl IntoIterator<Item = ServerId>, now: StoreTime) {
        let time = self.time.at(now);
        for server in servers {
            if self.replicas.found_dead(replica_of(server), time) && self.gateways.contains(&server) {
                // A free lock may be offered to one of these calls.
                self.sweeps_from = Some(0);
            }
        }
    }

    /// A command of this server came, so it lives.
    pub(super) fn hear_from(&mut self, server: ServerId, now: StoreTime, exit: &Exit<'_>) {
        let (replica, time) = (replica_of(server), self.time.at(now));
        if !self.replicas.is_alive(replica, time) {
            self.hear_of([server], now, exit);
        } else if server != self.ballot.server {
            self.replicas.beat(replica, time);
        }
    }

    /// Begins to hand the partition over to another server. It takes over when this one has let out all that it has.
    pub(crate) fn begin_hand_over(&mut self, to: ServerId, now: StoreTime) {
        if self.hands_over.is_none() && self.gathering.is_none() {
            self.hands_over = Some(HandOver { to, until: now.after(HAND_OVER_TIME_MAX), is_sent: false });
            // The successor's time goes on from that of the last batch: it is to be of now.
            self.open_at(now);
            self.open.push(Pending::Read(oneshot::channel().0));
        }
    }

    /// The successor does not take over: this leader goes on. True if it handed over.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.hands_over.take().is_some()
    }

    /// Whether a change may be planned: the last one to this server has not failed a moment ago.
    pub(crate) fn may_hand_over(&self, to: ServerId, now: StoreTime) -> bool {
        self.keeps_from.is_none_or(|(server, until)| server != to || until <= now)
    }

    /// Whether a server that has told these features can read all that is kept of the partition.
    pub(crate) fn is_readable_by(&self, told: Features) -> bool {
        Features::OWN.are_among(told) || self.locks.needs().are_among(told)
    }

    /// A leader that was not deposed in time goes on. True if it does so from now on.
    pub(crate) fn end_hand_over(&mut self, now: StoreTime) -> bool {
        let failed = self.hands_over.take_if(|it| it.until <= now);
        if let Some(HandOver { to, .. }) = failed {
            self.keeps_from = Some((to, now.after(KEEPS_FOR)));
        }
        failed.is_some()
    }

    /// The server that is to take over, once, when no answer is held back any more, and the ends of leases as of
    /// the last batch. If this leader goes on after all, a renewal is answered only after a later batch.
    pub(crate) fn hand_over(&mut self) -> Option<(ServerId, Option<LastEnds>)> {
        let it = self.hands_over.as_mut().filter(|it| !it.is_sent)?;
        if !self.open.is_empty() || !self.written.is_empty() || self.bridge.as_ref().is_some_and(|it| it.is_busy()) {
            return None;
        }
        it.is_sent = true;
        // mutant: ends not told
        let ends: Vec<_> = self.locks.unwritten_ends().take(LAST_ENDS_MAX + 1).collect();
        let seq = self.leader.position().seq;
        Some((it.to, (ends.len() <= LAST_ENDS_MAX).then_some(LastEnds { seq, ends })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            ids::RequestId,
            lease::Terms,
            limits::REPLICA_GONE,
            name::{Holder, Metadata},
        },
        store::{
            TestNotices,
            content::Content,
            partition::Renewals,
            quorum::{
                paxos::{
                    ballot::{Ballot, LeadId, Position, Stamp},
                    leader::Leader,
                    progress::Membership,
                },
                proposer::{
                    delivery::ReplyTo,
                    leading::{Job, Recovered},
                    local_waiters::LocalWaiters,
                },
                rpc::transport::Transport,
            },
        },
        sync::Mutex,
    };
    use uuid::Uuid;

    const ME: ServerId = ServerId([1; 12]);
    const OTHER: ServerId = ServerId([2; 12]);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn acquires(number: u128, from: ServerId, not_after: StoreTime) -> Job {
        let request = RequestId(Uuid::from_u128(number));
        let candidate = Candidate { lease_id: LeaseId(request.0), grant_id: GrantId(request.0), attachment: None };
        let (holder, metadata) = (Holder::default(), Metadata::default());
        let terms = Terms {
            fingerprint: 7,
            ttl: DAY,
            holder,
            metadata,
            min_token: 0,
            max_hold: None,
            extra: None,
            mode: Default::default(),
        };
        let call = Call { request, attempt: 1, id: CallId(1) };
        Job {
            lock: HashedName { name: LockName::new("lock").unwrap(), hash: 0 },
            command: Command::Acquire(Acquire { call, terms, wait: true, candidate }),
            from,
            not_after,
            reply_to: ReplyTo::Server(from, 1),
        }
    }

    #[test]
    fn waiters_of_a_server_that_is_gone_are_deleted_though_no_command_comes() {
        let (now, ballot) = (StoreTime::from_micros(7_000_000), Ballot { round: 1, server: ME });
        let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
        let leader = Leader::new(ballot, Position::default(), 0, 0, &[member]);
        let mut lead = Lead::new(
            LeadId { partition: 0, ballot },
            leader,
            Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: now, now },
            9,
            |_| 0,
        )
        .unwrap();
        let (transport, local_waiters) = (Transport::new(), Mutex::<LocalWaiters>::default());
        let (notices, since) = (TestNotices::default(), tokio::time::Instant::now());
        let exit = Exit { me: ME, notices: &notices, transport: &transport, local_waiters: &local_waiters, since };
        for (number, from) in [(1, ME), (2, OTHER), (3, ME), (4, OTHER)] {
            lead.submit(acquires(number, from, lead.time(now)), now, &exit);
        }
        let name = LockName::new("lock").unwrap();
        let waiters = |lead: &Lead, now| lead.locks.find(&name, 0).unwrap().lock.view(lead.time(now), None).waiters;
        let later = now.after(REPLICA_GONE - Duration::from_micros(1));
        lead.hear_of([], later, &exit);
        assert!(!lead.apply_due_timers(later, &exit));
        assert_eq!(waiters(&lead, later), 3, "it may come back");
        let gone = now.after(REPLICA_GONE);
        lead.hear_of([], gone, &exit);
        assert!(!lead.apply_due_timers(gone, &exit));
        assert_eq!(waiters(&lead, gone), 1, "that of this server");
    }
}
