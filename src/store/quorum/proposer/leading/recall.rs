//! Recovery from the leader's memory after the only node has lost its data.

use super::Lead;
use crate::{
    domain::time::StoreTime,
    store::{
        content::Content,
        partition::{Partition, Renewals, Unreadable, record},
        quorum::{
            paxos::{
                ballot::{Ballot, LeadId},
                partition_clock::PartitionTime,
                recovery::{Admission, Renumbering},
            },
            proposer::route::Route,
        },
    },
};

/// Why a memory cannot be gone on from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRecalled {
    #[error("the fencing tokens of the partition are used up")]
    NoTokens,
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Lead {
    /// The leader that begins the node's next membership with all that this one has in memory, written or not. Nobody
    /// waits in it, as after every change of the leader; what this one held back is refused before.
    ///
    /// With all renewals known, leases end when they did: a node that is emptied again and again must not keep the lock
    /// of a dead holder. A leader that was deposed does not know whether another one renewed them meanwhile.
    pub(crate) fn recalled(
        mut self,
        ballot: Ballot,
        Admission { next, skip, .. }: Admission,
        renewals: &Renewals,
        now: StoreTime,
    ) -> Result<Self, NotRecalled> {
        let time = self.time.at(now);
        let tokens = Renumbering::of(&self.leader, skip);
        let leader = tokens.begins(ballot, next, time.as_micros(), self.token()).ok_or(NotRecalled::NoTokens)?;
        // Records are of what batches have. This one is of use to nobody any more.
        drop(self.locks.take_changes(time));
        let mut content = Content::default();
        for (key, kept) in self.locks.exact_records() {
            let unreadable = |error| Unreadable { key: key.escape_ascii().to_string(), error };
            let renumbered = record::with_tokens(&key, &kept, |token| tokens.token(token)).map_err(unreadable)?;
            content.0.insert(key, renumbered.ok_or(NotRecalled::NoTokens)?);
        }
        let (token, base) = leader.token_and_time();
        let time = PartitionTime::resumed(StoreTime::from_micros(base), now);
        let locks = Partition::from_content(content, renewals, time.at(now), token, Route::hash_of)?;
        let lead = Self::of_locks(LeadId { ballot, ..self.id() }, leader, locks, time, now, self.waiters_max);
        Ok(Self { bridge: self.bridge.as_ref().map(|bridge| Box::new(bridge.anew())), ..lead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            command::{Acquire, Candidate, Command},
            ids::{Call, CallId, GrantId, LeaseId, RequestId},
            lease::Terms,
            name::{Holder, LockName, Metadata},
        },
        store::{
            TestNotices,
            partition::HashedName,
            quorum::{
                paxos::{
                    ballot::{Position, ServerId, Stamp},
                    leader::{Leader, Origin, Purpose},
                    message::Answer,
                    progress::Membership,
                },
                proposer::{
                    delivery::{Exit, ReplyTo},
                    leading::{Job, Recovered},
                },
                rpc::transport::Transport,
            },
        },
        sync::Mutex,
    };
    use std::time::Duration;

    const ME: ServerId = ServerId([1; 12]);
    const HOME: Stamp = Stamp(1);
    const SECOND: Duration = Duration::from_secs(1);
    const TTL: Duration = Duration::from_secs(9);

    fn name(number: u128) -> LockName {
        LockName::new(format!("orders/{number}")).unwrap()
    }

    /// Of this request, or about the lease that it was granted.
    fn job(number: u128, command: Command, not_after: StoreTime) -> Job {
        let lock = HashedName { hash: Route::hash_of(&name(number)), name: name(number) };
        Job { lock, command, from: ME, not_after, reply_to: ReplyTo::Server(ME, 1) }
    }

    fn acquires(number: u128, not_after: StoreTime) -> Job {
        let id = uuid::Uuid::from_u128(number);
        let holder = Holder::new("test".to_owned()).unwrap();
        let terms = Terms {
            fingerprint: 7,
            ttl: TTL,
            holder,
            metadata: Metadata::default(),
            min_token: 0,
            max_hold: None,
            extra: None,
            mode: Default::default(),
        };
        let call = Call { request: RequestId(id), attempt: 1, id: CallId(9) };
        let candidate = Candidate { lease_id: LeaseId(id), grant_id: GrantId(id), attachment: None };
        job(number, Command::Acquire(Acquire { call, terms, wait: false, candidate }), not_after)
    }

    /// The token and the end of the lease of a request.
    fn lease(lead: &Lead, number: u128) -> (u64, StoreTime) {
        let slot = lead.locks.find(&name(number), Route::hash_of(&name(number))).unwrap();
        slot.lock.lease().map(|lease| (lease.token.get(), lease.expires_at)).unwrap()
    }

    /// What a leader with two leases has before and after its memory is recalled. The node has acknowledged the first
    /// one, which was renewed since.
    fn recalled(renewals: &Renewals) -> ([(u64, StoreTime); 2], Lead) {
        let (now, ballot) = (StoreTime::from_micros(7_000_000), Ballot { round: 1, server: ME });
        let member = Some(Membership { stamp: HOME, accepted: Position::default() });
        let leader = Leader::new(ballot, Position::default(), 0, 40, &[member]);
        let mut lead = Lead::new(
            LeadId { partition: 0, ballot },
            leader,
            Recovered { content: Content::default(), renewals: &Renewals::MayBeMissing, frozen_at: now, now },
            9,
            Route::hash_of,
        )
        .unwrap();
        let (transport, local_waiters) = (Transport::new(), Mutex::default());
        let (notices, since) = (TestNotices::default(), tokio::time::Instant::now());
        let exit = Exit { me: ME, notices: &notices, transport: &transport, local_waiters: &local_waiters, since };
        lead.submit(acquires(1, now), now, &exit);
        let mut sent = Vec::new();
        while let Some((purpose, _)) = lead.next(0, now, || unreachable!("no snapshot is wanted")) {
            sent.push(purpose);
        }
        for purpose in sent {
            assert!(matches!(purpose, Purpose::Write { .. }), "{purpose:?}");
            lead.answered(0, purpose, Answer::Done, now, &exit);
        }
        let renewed = now.after(SECOND);
        let lease_id = LeaseId(uuid::Uuid::from_u128(1));
        lead.submit(job(1, Command::Renew { lease_id, ttl: None }, lead.time(renewed)), renewed, &exit);
        lead.submit(acquires(2, lead.time(renewed)), renewed, &exit);
        let before = [1, 2].map(|number| lease(&lead, number));
        let later = renewed.after(SECOND);
        lead.refuse_held(later, &exit);
        let (next, above) = (Stamp(2), Ballot { round: 8, server: ME });
        let lead = lead.recalled(above, Admission { next, above: ballot, skip: 1_000 }, renewals, later).unwrap();
        assert_eq!((lead.ballot(), lead.leader().origin()), (above, Origin::Begins(next)));
        (before, lead)
    }

    #[test]
    fn grants_that_may_never_have_been_answered_get_tokens_that_nobody_else_has_drawn() {
        let (before, lead) = recalled(&Renewals::WRITTEN);
        assert_eq!(before.map(|(token, _)| token), [41, 42]);
        assert_eq!([1, 2].map(|number| lease(&lead, number).0), [41, 1_001]);
        assert!(lead.token() >= 1_001);
    }

    #[test]
    fn leases_end_when_they_did_unless_another_leader_may_have_renewed_them() {
        let (before, lead) = recalled(&Renewals::WRITTEN);
        assert_eq!([1, 2].map(|number| lease(&lead, number).1), before.map(|(_, end)| end));
        let due = lead.locks.next_due();
        assert_eq!(due, Some(before[0].1), "a timer ends it");
        let (before, lead) = recalled(&Renewals::MayBeMissing);
        assert_eq!([1, 2].map(|number| lease(&lead, number).1), before.map(|(_, end)| end.after(SECOND)), "anew");
    }
}
