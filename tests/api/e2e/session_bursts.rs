//! A session on which very much is ready at once: it is done in parts, and nothing gets lost between two of them.

use crate::support::within;
use fencepost::{
    clock::{Clock, ProcessClock},
    domain::{
        ids::{Call, CallId, RequestId},
        lease::Terms,
        limits::Limits,
        name::{Holder, LockName, Metadata},
    },
    locks::{
        AcquireAnswer, AcquireCall, Hub, Locks, LocksError,
        session::{Answer, FromClient, Operation, ToClient, session},
    },
    store::memory::MemoryStore,
};
use futures_util::{Stream, StreamExt as _, stream};
use std::{collections::BTreeSet, convert::Infallible, pin::Pin, sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

const OPERATIONS: u64 = 1_000;
const TTL: Duration = Duration::from_secs(600);

type Service = Arc<Locks<MemoryStore>>;
type Hears = Pin<Box<dyn Stream<Item = (u64, Answer<Infallible>)>>>;

fn service() -> Service {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
    let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    Arc::new(Locks::new(store, hub, Limits::default()))
}

/// A client that has said all of this before the server comes to listen.
fn said_at_once(locks: &Service, name: impl Fn(u64) -> String, wait: Duration) -> Hears {
    let asks = (1..=OPERATIONS).map(|number| {
        let terms =
            Terms { fingerprint: 0, ttl: TTL, holder: Holder::default(), metadata: Metadata::default(), min_token: 0 };
        let call = AcquireCall {
            call: Call { request: RequestId(Uuid::new_v4()), attempt: 1, id: CallId(1) },
            terms,
            wait,
            arrived: Instant::now(),
            deadline: None,
            attachment: None,
            waiter: None,
        };
        let (name, handle) = (LockName::new(name(number)).unwrap(), u32::try_from(number).unwrap());
        FromClient::Begin(number, Operation::Acquire { name, call, handle, release_on_disconnect: false })
    });
    let inbound = stream::iter(asks.map(Ok).collect::<Vec<Result<_, Infallible>>>()).chain(stream::pending());
    let hears = session(locks.clone(), (), inbound, Duration::ZERO);
    Box::pin(hears.filter_map(async |message| match message.unwrap() {
        ToClient::Answer(number, answer) => Some((number, answer)),
        ToClient::Kept(_) => None,
    }))
}

async fn each_is_told(hears: &mut Hears, what: impl Fn(&Answer<Infallible>) -> bool) {
    let mut open: BTreeSet<u64> = (1..=OPERATIONS).collect();
    while !open.is_empty() {
        let Ok(Some((number, answer))) = tokio::time::timeout(Duration::from_secs(20), hears.next()).await else {
            panic!("{} are never answered: {open:?}", open.len())
        };
        if what(&answer) {
            assert!(open.remove(&number), "once");
        }
    }
}

#[tokio::test]
async fn what_is_said_in_one_breath_is_all_heard() {
    let mut hears = said_at_once(&service(), |number| format!("lock/{number}"), Duration::ZERO);
    each_is_told(&mut hears, |answer| matches!(answer, Answer::Acquire { answer: AcquireAnswer::Acquired(_), .. }))
        .await;
}

#[tokio::test]
async fn what_ends_in_one_moment_is_all_answered() {
    let locks = service();
    let mut holder = said_at_once(&locks, |_| "a".into(), Duration::ZERO);
    assert!(within(holder.next()).await.is_some(), "somebody has it");
    let mut hears = said_at_once(&locks, |_| "a".into(), TTL);
    each_is_told(&mut hears, |answer| matches!(answer, Answer::Waiting(_))).await;
    locks.drain();
    each_is_told(&mut hears, |answer| matches!(answer, Answer::Failed(LocksError::Draining))).await;
}
