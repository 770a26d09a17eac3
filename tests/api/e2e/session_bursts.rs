//! Sessions with many events at once: they are handled in parts, and none is lost.

use crate::{
    asks::{acquire_call, new_request},
    support::within,
};
use fencepost::testing::{
    clock::{Clock, ProcessClock},
    domain::{limits::Limits, name::LockName},
    locks::{
        AcquireAnswer, Hub, Locks, LocksError,
        session::{Acquire, Answer, FromClient, Operation, ToClient, session},
    },
    store::memory::MemoryStore,
};
use futures_util::{Stream, StreamExt as _, stream};
use std::{collections::BTreeSet, convert::Infallible, pin::Pin, sync::Arc, time::Duration};

const OPERATIONS: u64 = 1_000;
const TTL: Duration = Duration::from_secs(600);

type Service = Arc<Locks<MemoryStore>>;
type Messages = Pin<Box<dyn Stream<Item = (u64, Answer<Infallible>)>>>;

fn service() -> Service {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
    let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    Arc::new(Locks::new(store, hub, Limits::default()))
}

/// A session whose client has sent all acquires before the first poll.
fn acquire_all(locks: &Service, name: impl Fn(u64) -> String, wait: Duration) -> Messages {
    let operations = (1..=OPERATIONS).map(|number| {
        let call = acquire_call(new_request(), 1, TTL, wait);
        let (name, handle) = (LockName::new(name(number)).unwrap(), u32::try_from(number).unwrap());
        FromClient::Begin(
            number,
            Operation::Acquire(Box::new(Acquire { name, call, handle, release_on_disconnect: false })),
        )
    });
    let inbound = stream::iter(operations.map(Ok).collect::<Vec<Result<_, Infallible>>>()).chain(stream::pending());
    let messages = session(locks.clone(), ((), None), inbound, Duration::ZERO);
    Box::pin(messages.filter_map(async |message| match message.unwrap() {
        ToClient::Answer(number, answer) => Some((number, answer)),
        ToClient::Kept(_) => None,
    }))
}

async fn each_is_answered(messages: &mut Messages, matches: impl Fn(&Answer<Infallible>) -> bool) {
    let mut open: BTreeSet<u64> = (1..=OPERATIONS).collect();
    while !open.is_empty() {
        let Ok(Some((number, answer))) = tokio::time::timeout(Duration::from_secs(20), messages.next()).await else {
            panic!("{} are not answered: {open:?}", open.len())
        };
        if matches(&answer) {
            assert!(open.remove(&number), "answered twice");
        }
    }
}

#[tokio::test]
async fn all_operations_of_a_burst_are_answered() {
    let mut messages = acquire_all(&service(), |number| format!("lock/{number}"), Duration::ZERO);
    each_is_answered(&mut messages, |answer| {
        matches!(answer, Answer::Acquire { answer: AcquireAnswer::Acquired(_), .. })
    })
    .await;
}

#[tokio::test]
async fn all_waits_that_end_at_once_are_answered() {
    let locks = service();
    let mut holder = acquire_all(&locks, |_| "a".into(), Duration::ZERO);
    assert!(within(holder.next()).await.is_some(), "one operation is granted the lock");
    let mut messages = acquire_all(&locks, |_| "a".into(), TTL);
    each_is_answered(&mut messages, |answer| matches!(answer, Answer::Waiting(_))).await;
    locks.drain();
    each_is_answered(&mut messages, |answer| matches!(answer, Answer::Failed(LocksError::Draining))).await;
}
