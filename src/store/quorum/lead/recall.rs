//! Going on from what a leader has in memory, when the only node has lost what it kept.

use super::Lead;
use crate::{
    domain::time::StoreTime,
    store::{
        partition::{Unreadable, record},
        quorum::{
            alone::{Admission, Renumbering},
            ballot::Ballot,
            content::Content,
            share::Place,
        },
    },
};

/// Why a memory cannot be gone on from.
#[derive(Debug, thiserror::Error)]
pub(in crate::store::quorum) enum NotRecalled {
    #[error("there are no more tokens")]
    NoTokens,
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Lead {
    /// The leader that begins the node's next membership with all that this one has in memory, written or not. Nobody
    /// waits in it, as after every change of the leader; what this one held back is refused before.
    pub(in crate::store::quorum) fn recalled(
        mut self,
        ballot: Ballot,
        Admission { next, skip, .. }: Admission,
        now: StoreTime,
    ) -> Result<Self, NotRecalled> {
        let time = self.time.at(now);
        let tokens = Renumbering::of(&self.leader, skip);
        let leader = tokens.begins(ballot, next, time.as_micros(), self.token()).ok_or(NotRecalled::NoTokens)?;
        // A snapshot is of what batches have. This one is of use to nobody any more.
        drop(self.locks.take_changes(time));
        let mut content = Content::default();
        for (key, kept) in self.locks.snapshot().unwrap_or_default() {
            let unreadable = |error| Unreadable { key: key.escape_ascii().to_string(), error };
            let renumbered = record::with_tokens(&key, &kept, |token| tokens.token(token)).map_err(unreadable)?;
            content.0.insert(key, renumbered.ok_or(NotRecalled::NoTokens)?);
        }
        let of = (self.partition, ballot);
        let lead = Self::new(of, leader, content, [now; 2], self.waiters_max, Place::hash_of)?;
        Ok(Self { bridge: self.bridge.as_ref().map(|bridge| bridge.anew()), ..lead })
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
            quorum::{
                ballot::{Position, ServerId, Stamp},
                candidate::Membership,
                courier::Courier,
                exit::{Asker, Exit},
                lead::Job,
                leader::{Leader, Origin, Purpose},
                message::Answer,
            },
        },
        sync::Mutex,
    };
    use std::time::Duration;

    const ME: ServerId = ServerId([1; 12]);
    const HOME: Stamp = Stamp(1);

    fn name(number: u128) -> LockName {
        LockName::new(format!("orders/{number}")).unwrap()
    }

    fn asks(number: u128, not_after: StoreTime) -> Job {
        let id = uuid::Uuid::from_u128(number);
        let holder = Holder::new("test".to_owned()).unwrap();
        let ttl = Duration::from_secs(9);
        let terms = Terms { fingerprint: 7, ttl, holder, metadata: Metadata::default(), min_token: 0 };
        let call = Call { request: RequestId(id), attempt: 1, id: CallId(9) };
        let candidate = Candidate { lease_id: LeaseId(id), grant_id: GrantId(id), attachment: None };
        Job {
            hash: Place::hash_of(&name(number)),
            name: name(number),
            command: Command::Acquire(Acquire { call, terms, wait: false, candidate }),
            from: ME,
            not_after,
            asker: Asker::There(ME, 1),
        }
    }

    #[test]
    fn grants_that_may_never_have_been_answered_get_tokens_that_nobody_else_has_drawn() {
        let (now, ballot) = (StoreTime::from_micros(7_000_000), Ballot { round: 1, server: ME });
        let member = Some(Membership { stamp: HOME, accepted: Position::default() });
        let leader = Leader::new(ballot, Position::default(), 0, 40, &[member]);
        let mut lead = Lead::new((0, ballot), leader, Content::default(), [now; 2], 9, Place::hash_of).unwrap();
        let (courier, carried) = (Courier::new(), Mutex::default());
        let (notices, since) = (TestNotices::default(), tokio::time::Instant::now());
        let exit = Exit { me: ME, notices: &notices, courier: &courier, carried: &carried, since };
        lead.submit(asks(1, now), now, &exit);
        let mut sent = Vec::new();
        while let Some((purpose, _)) = lead.next(0, now, || unreachable!("no snapshot is wanted")) {
            sent.push(purpose);
        }
        for purpose in sent {
            assert!(matches!(purpose, Purpose::Write { .. }), "{purpose:?}");
            lead.answered(0, purpose, Answer::Done, &exit);
        }
        lead.submit(asks(2, now), now, &exit);
        let later = now.after(Duration::from_secs(1));
        let token_of = |lead: &Lead, number| {
            let slot = lead.locks.find(&name(number), Place::hash_of(&name(number)))?;
            slot.lock.lease().map(|lease| (lease.token.get(), lease.expires_at))
        };
        let before = [1, 2].map(|number| token_of(&lead, number).unwrap());
        assert_eq!(before.map(|(token, _)| token), [41, 42]);
        lead.refuse_held(later, &exit);
        let (next, above) = (Stamp(2), Ballot { round: 8, server: ME });
        let lead = lead.recalled(above, Admission { next, above: ballot, skip: 1_000 }, later).unwrap();
        let after = [1, 2].map(|number| token_of(&lead, number).unwrap());
        assert_eq!(after.map(|(token, _)| token), [41, 1_001]);
        assert!(after[0].1 > before[0].1, "its TTL begins anew: it may have been renewed");
        assert!(lead.token() >= 1_001);
        assert_eq!((lead.ballot(), lead.leader().origin()), (above, Origin::Begins(next)));
    }
}
