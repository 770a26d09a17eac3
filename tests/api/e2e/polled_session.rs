//! Sessions that the test polls itself: their calls while the session is not polled, and afterwards.

use crate::asks::{self, Asks as _, acquire_call, new_request};
use fencepost::testing::{
    clock::Clock,
    domain::{
        ids::{Call, LeaseId},
        limits::{DROP_GRACE, Limits, STALL_CHECK_PERIOD},
        name::LockName,
        outcome::{LockView, ReleaseOutcome},
        time::StoreTime,
    },
    locks::{
        AcquireAnswer, AcquireCall, Hub, Locks, LocksError,
        session::{Acquire, Answer, FromClient, Operation, ToClient, session},
    },
    store::{Notices as _, memory::MemoryStore},
};
use futures_util::{FutureExt, Stream, StreamExt as _};
use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_stream::wrappers::UnboundedReceiverStream;

const TTL: Duration = Duration::from_secs(600);
const WAIT: Duration = Duration::from_secs(60);
/// A session that is not polled for this long is stalled.
const STALLED: Duration = STALL_CHECK_PERIOD.saturating_mul(3);

type Message = FromClient<Infallible>;

/// The clock of the store follows the paused time of the runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(1_800_000_000_000_000).after(self.0.elapsed())
    }
}

struct Bench {
    hub: Arc<Hub>,
    store: Arc<MemoryStore>,
    locks: Arc<Locks<MemoryStore>>,
    expiry: JoinHandle<()>,
    client: mpsc::UnboundedSender<Result<Message, Infallible>>,
    messages: Pin<Box<dyn Stream<Item = ToClient<Infallible>> + Send>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.expiry.abort();
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn call(wait: Duration) -> AcquireCall {
    acquire_call(new_request(), 1, TTL, wait)
}

fn granted(answer: Result<AcquireAnswer, LocksError>) -> LeaseId {
    match answer {
        Ok(AcquireAnswer::Acquired(acquired)) => acquired.grant.lease_id,
        other => panic!("no grant: {other:?}"),
    }
}

impl Bench {
    fn new() -> Self {
        let hub = Arc::new(Hub::new());
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock(Instant::now()));
        let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
        let locks = Arc::new(Locks::new(store.clone(), hub.clone(), Limits::default()));
        let expired = store.clone();
        let expiry = tokio::spawn(async move { expired.run_expiry().await });
        let (client, requests) = mpsc::unbounded_channel();
        let messages = session(locks.clone(), ((), None), UnboundedReceiverStream::new(requests), Duration::ZERO);
        Self { hub, store, locks, expiry, client, messages: Box::pin(messages.map(|message| message.unwrap())) }
    }

    fn send(&self, message: Message) {
        self.client.send(Ok(message)).unwrap();
    }

    fn acquire(&self, number: u64, lock: &str, wait: Duration) -> Call {
        let handle = u32::try_from(number).unwrap();
        let acquire_call = call(wait);
        let call = acquire_call.call;
        let acquire = Operation::Acquire(Box::new(Acquire {
            name: name(lock),
            call: acquire_call,
            handle,
            release_on_disconnect: false,
        }));
        self.send(FromClient::Begin(number, acquire));
        call
    }

    /// A release with a hand-over to a waiting call.
    async fn release_to(&self, lease: LeaseId, call: Call) -> LeaseId {
        self.release(lease).await;
        let claimed = self.store.claim(&name("a"), call).await.unwrap();
        assert!(self.hub.claimed(call, claimed.clone()));
        asks::granted(claimed.outcome).lease_id
    }

    /// Reads until an operation is answered. A queue position counts as an answer.
    async fn answer(&mut self) -> (u64, Answer<Infallible>) {
        loop {
            match tokio::time::timeout(WAIT, self.messages.next()).await.unwrap().unwrap() {
                ToClient::Answer(number, answer) => return (number, answer),
                ToClient::Kept(_) => {}
            }
        }
    }

    /// Queues an acquire of the lock `a`, which is held, and stops reading.
    async fn wait_and_stall(&mut self, wait: Duration) -> LeaseId {
        let holder = self.acquire_lease("a").await;
        self.acquire(1, "a", wait);
        assert!(matches!(self.answer().await, (1, Answer::Waiting(0))));
        tokio::time::sleep(STALLED).await;
        holder
    }

    async fn acquire_lease(&self, lock: &str) -> LeaseId {
        granted(self.locks.acquire(&name(lock), call(Duration::ZERO)).await)
    }

    /// Queues another waiter for the lock `a`.
    fn behind(&self) -> JoinHandle<LeaseId> {
        let locks = self.locks.clone();
        tokio::spawn(async move { granted(locks.acquire(&name("a"), call(WAIT)).await) })
    }

    async fn release(&self, lease: LeaseId) {
        assert_eq!(self.locks.release(&name("a"), lease).await, Ok(ReleaseOutcome::Released));
    }

    async fn view(&self, lock: &str) -> LockView {
        self.locks.view(&name(lock), None).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_again_in_time_keeps_its_queue_position() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    let (next, last) = (bench.behind(), bench.behind());
    tokio::task::yield_now().await;
    let start = Instant::now();
    bench.release(holder).await;
    let next = next.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "the next waiter is served at once");
    tokio::time::sleep(DROP_GRACE / 2).await;
    while bench.messages.next().now_or_never().is_some() {}
    tokio::task::yield_now().await;
    assert_eq!(bench.view("a").await.waiters, 2);
    bench.release(next).await;
    let (1, Answer::Acquire { answer, .. }) = bench.answer().await else { panic!("not served") };
    bench.release(granted(Ok(answer))).await;
    last.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_again_too_late_has_lost_its_queue_position() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    bench.release(holder).await;
    tokio::time::sleep(DROP_GRACE * 2).await;
    let view = bench.view("a").await;
    assert_eq!((view.current, view.waiters), (None, 0), "the lock is free");
    assert_eq!(bench.locks.busy().0, 0);
    let (1, Answer::Failed(LocksError::Ended)) = bench.answer().await else { panic!("the request has not ended") };
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_stalled_session_lasts_until_its_timeout_without_an_offer() {
    let mut bench = Bench::new();
    bench.wait_and_stall(DROP_GRACE * 3).await;
    tokio::time::sleep(DROP_GRACE * 3 - STALLED * 2).await;
    assert_eq!(bench.view("a").await.waiters, 1);
    tokio::time::sleep(STALLED * 2).await;
    assert_eq!(bench.view("a").await.waiters, 0);
    let (1, Answer::Acquire { answer: AcquireAnswer::TimedOut(_), .. }) = bench.answer().await else {
        panic!("not timed out")
    };
}

#[tokio::test(start_paused = true)]
async fn a_stalled_session_handles_no_messages_and_sends_no_beats_until_it_is_read() {
    let mut bench = Bench::new();
    bench.wait_and_stall(WAIT).await;
    bench.acquire(2, "b", Duration::ZERO);
    tokio::time::sleep(WAIT / 2).await;
    assert_eq!(bench.view("b").await.current, None, "the client would not learn of the lease");
    let received: Vec<_> = std::iter::from_fn(|| bench.messages.next().now_or_never().flatten()).collect();
    let [ToClient::Kept(_), ToClient::Answer(2, Answer::Acquire { answer, .. })] = &received[..] else {
        panic!("expected one beat and one answer: {received:?}")
    };
    granted(Ok(answer.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_session_that_is_dropped_ends_at_once() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    let behind = bench.behind();
    tokio::task::yield_now().await;
    bench.messages = Box::pin(futures_util::stream::pending());
    assert_eq!(bench.locks.busy(), (1, 0));
    let start = Instant::now();
    bench.release(holder).await;
    behind.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::sleep(DROP_GRACE).await;
    assert_eq!(bench.view("a").await.waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_the_waits_of_a_stalled_session() {
    let mut bench = Bench::new();
    bench.wait_and_stall(WAIT).await;
    bench.locks.drain();
    tokio::task::yield_now().await;
    assert_eq!(bench.locks.busy(), (0, 1));
    bench.locks.end_streams();
    tokio::task::yield_now().await;
    assert_eq!(bench.locks.busy(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_reaches_its_call() {
    let mut bench = Bench::new();
    let holder = bench.acquire_lease("a").await;
    let call = bench.acquire(1, "a", WAIT);
    assert!(matches!(bench.answer().await, (1, Answer::Waiting(0))));
    let lease = bench.release_to(holder, call).await;
    let (1, Answer::Acquire { answer, .. }) = bench.answer().await else { panic!("not served") };
    assert_eq!(granted(Ok(answer)), lease);
    assert!(bench.view("a").await.current.unwrap().left > DROP_GRACE);
}

/// The client stalls after the store found its call live.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_handed_over_to_a_stalled_call_is_cut_short() {
    let mut bench = Bench::new();
    let holder = bench.acquire_lease("a").await;
    let call = bench.acquire(1, "a", WAIT);
    assert!(matches!(bench.answer().await, (1, Answer::Waiting(0))));
    tokio::time::sleep(STALLED).await;
    bench.release_to(holder, call).await;
    tokio::task::yield_now().await;
    assert!(bench.view("a").await.current.unwrap().left <= DROP_GRACE, "the client does not learn of the lease");
    assert_eq!(bench.locks.busy().0, 0);
    let (1, Answer::Failed(LocksError::Ended)) = bench.answer().await else { panic!("the request has not ended") };
}
