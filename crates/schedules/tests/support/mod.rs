//! Shared by the scenarios: names, requests, a store, and a recorder of its notices.

#![allow(dead_code, reason = "each test uses a part")]

use fencepost_schedules::{
    clock::Clock,
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, RequestId},
        lease::{LeaseEnd, Terms},
        limits::Limits,
        mode::ModeName,
        name::{Holder, LockName, Metadata},
        outcome::{AcquireOutcome, Grant},
    },
    locks::{AcquireAnswer, AcquireCall, Hub, Locks, LocksError},
    store::{AuditNote, Event, MemoryStore, Notices, Store as _, Timed},
    sync::{Mutex, Notify},
    time::{Instant, SimulatedClock},
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

pub(crate) fn candidate(number: u128) -> Candidate {
    Candidate {
        lease_id: LeaseId(Uuid::from_u128(number)),
        grant_id: GrantId(Uuid::from_u128(number)),
        attachment: None,
    }
}

pub(crate) fn terms(ttl: Duration) -> Terms {
    Terms {
        fingerprint: 0,
        ttl,
        holder: Holder::default(),
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    }
}

/// Acquires a free lock.
pub(crate) async fn acquire_free(store: &MemoryStore, lock: &LockName, number: u128, ttl: Duration) -> Grant {
    let call = Call { request: request(number), attempt: 1, id: CallId(1) };
    let command = Acquire { call, terms: terms(ttl), wait: false, candidate: candidate(number) };
    match store.run(lock, Command::Acquire(command)).await.map(|it| it.outcome) {
        Ok(Outcome::Acquire(AcquireOutcome::Granted(grant))) => grant,
        other => panic!("{other:?}"),
    }
}

/// The service over a store with one shard for all locks.
pub(crate) fn service(limits: Limits) -> Arc<Locks<MemoryStore>> {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock);
    let store = Arc::new(MemoryStore::with_shards(1, clock, &limits, hub.clone()));
    Arc::new(Locks::new(store, hub, limits))
}

/// Acquires a lock through the service.
pub(crate) async fn acquire(
    locks: &Locks<MemoryStore>,
    lock: &LockName,
    number: u128,
    attempt: u32,
    wait: Duration,
) -> Result<AcquireAnswer, LocksError> {
    let call = AcquireCall {
        call: Call { request: request(number), attempt, id: CallId(1) },
        terms: terms(30 * SECOND),
        wait,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    };
    locks.acquire(lock, call).await
}

/// The grant of an answer.
pub(crate) fn granted(answer: Result<AcquireAnswer, LocksError>) -> Grant {
    match answer {
        Ok(AcquireAnswer::Acquired(acquired)) => acquired.grant,
        other => panic!("{other:?}"),
    }
}

/// Records events.
#[derive(Default)]
pub(crate) struct EventRecorder {
    pub(crate) events: Mutex<Vec<Event>>,
    more: Notify,
}

impl EventRecorder {
    /// Waits for an event that `is_it` accepts. If there is none, the schedule ends in a deadlock.
    pub(crate) async fn wait_for(&self, is_it: impl Fn(&Event) -> bool) {
        while !self.events.lock().iter().any(&is_it) {
            self.more.notified().await;
        }
    }
}

impl Notices for EventRecorder {
    fn look_again(&self, _: RequestId, _: u32) {}

    fn claimed(&self, _: Call, _: Timed<AcquireOutcome>) -> bool {
        false
    }

    fn is_alive(&self, _: RequestId, _: u32) -> bool {
        true
    }

    fn lease_ended(&self, _: AttachmentId, _: LeaseEnd) {}

    fn detached(&self, _: AttachmentId) {}

    fn wanted(&self, _: AttachmentId, _: ModeName) {}

    fn is_watched(&self) -> bool {
        true
    }

    fn event(&self, event: Event) {
        self.events.lock().push(event);
        self.more.notify_one();
    }

    fn is_audited(&self) -> bool {
        false
    }

    fn audit(&self, _: AuditNote) {}

    fn hints_lost(&self) {}

    fn events_lost(&self) {}
}
