//! Records that a partition passes to its nodes, and a partition that another server rebuilds from them.

mod batches;
mod takeover;

use super::*;
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Effects, Outcome},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::Terms,
        limits::COMMAND_WINDOW,
        mode::ConvertTo,
        name::{Holder, Metadata},
        outcome::{AcquireOutcome, ConvertOutcome, Grant},
        replicas::Replicas,
        rules::Turn,
        time::micros,
        token::FencingToken,
    },
    store::content::{Bytes, Changes, Content},
};
use std::{collections::BTreeMap, hash::BuildHasher, time::Duration};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3Builder;

const START: StoreTime = StoreTime::from_micros(5_000_000);
const SECOND: Duration = Duration::from_secs(1);
const SERVER: ReplicaId = ReplicaId(Uuid::from_u128(7));
const WAITERS_MAX: usize = 3;

fn hash(name: &LockName) -> u64 {
    Xxh3Builder::new().hash_one(name)
}

fn name(number: u8) -> LockName {
    LockName::new(format!("lock/{number}")).unwrap()
}

/// One turn on a lock.
fn turn<R>((lock, sequencer): (&mut Lock, &mut Sequencer), now: StoreTime, act: impl FnOnce(&mut Turn<'_>) -> R) -> R {
    act(&mut Turn {
        lock,
        sequencer,
        effects: &mut Effects::new(),
        now,
        replica: SERVER,
        replicas: &Replicas::one(),
        waiters_max: WAITERS_MAX,
        classic: None,
    })
}

/// A leader, and what its nodes have.
struct Leader {
    partition: Partition<Outbox>,
    content: Content,
    now: StoreTime,
}

impl Leader {
    fn new() -> Self {
        let partition = Partition::from_content(Content::default(), &Renewals::MayBeMissing, START, 0, hash).unwrap();
        Self { partition, content: Content::default(), now: START }
    }

    fn run(&mut self, lock: &LockName, command: Command) -> Outcome {
        let now = self.now;
        self.partition.with_lock(lock, hash(lock), |slot, sequencer| {
            turn((&mut slot.lock, sequencer), now, |turn| turn.run(command))
        })
    }

    /// Converts a lease, and returns the token that it has then.
    fn convert(&mut self, lock: &LockName, lease_id: LeaseId, to: ConvertTo) -> FencingToken {
        let token = self.partition.find(lock, hash(lock)).unwrap().lock.leases().next().unwrap().token;
        match self.run(lock, Command::Convert { lease_id, token, to }) {
            Outcome::Convert(ConvertOutcome::Converted(lease)) => lease.token,
            other => panic!("{other:?}"),
        }
    }

    /// Takes a lock that is free.
    fn take(&mut self, lock: &LockName, number: u32, ttl: Duration) -> Grant {
        let call = Call { request: RequestId(id(number)), attempt: 1, id: CallId(1) };
        let command = Acquire { call, terms: terms(ttl), wait: false, candidate: candidate(number) };
        match self.run(lock, Command::Acquire(command)) {
            Outcome::Acquire(AcquireOutcome::Granted(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
        let now = self.now;
        while self
            .partition
            .with_next_due(now, |slot, sequencer| turn((&mut slot.lock, sequencer), now, |turn| turn.apply_time()))
            .is_some()
        {}
    }

    /// Writes a batch.
    fn write(&mut self) -> Changes {
        let changes = self.partition.take_changes(self.now);
        assert_eq!((changes.time, changes.token), (self.now.as_micros(), self.partition.sequencer.counter()));
        assert!(changes.put.iter().all(|(key, _)| !changes.gone.contains(key)), "no key is both put and gone");
        assert!(changes.gone.iter().all(|key| self.content.0.contains_key(key)), "what is gone was there");
        self.content.apply(&changes);
        let snapshot: BTreeMap<Bytes, Bytes> = self.partition.snapshot().unwrap().into_iter().collect();
        assert_eq!(snapshot, self.content.0, "a snapshot is what the batches make");
        changes
    }

    /// Another server takes over.
    fn successor(&self) -> Partition<Outbox> {
        self.successor_with(&Renewals::MayBeMissing)
    }

    fn successor_with(&self, renewals: &Renewals) -> Partition<Outbox> {
        let (content, token) = (self.content.clone(), self.partition.sequencer.counter());
        Partition::from_content(content, renewals, self.now, token, hash).unwrap()
    }
}

fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 104)
}

fn terms(ttl: Duration) -> Terms {
    let metadata = Metadata::new([("host".to_owned(), "h".to_owned())]).unwrap();
    Terms {
        fingerprint: micros(ttl),
        ttl,
        holder: Holder::new("me".into()).unwrap(),
        metadata,
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    }
}

fn candidate(number: u32) -> Candidate {
    Candidate { lease_id: LeaseId(id(number)), grant_id: GrantId(id(number)), attachment: None }
}

fn counts(changes: &Changes) -> (usize, usize) {
    (changes.put.len(), changes.gone.len())
}
