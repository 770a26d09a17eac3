//! A session that is polled by hand, or not: what happens to its calls while nobody polls it, and afterwards.

use crate::asks::{self, Asks as _};
use fencepost::{
    clock::Clock,
    domain::{
        ids::{Call, CallId, LeaseId, RequestId},
        lease::Terms,
        limits::{DROP_GRACE, Limits, STALL_CHECK_PERIOD},
        name::{Holder, LockName, Metadata},
        outcome::{LockView, ReleaseOutcome},
        time::StoreTime,
    },
    locks::{
        AcquireAnswer, AcquireCall, Hub, Locks, LocksError,
        session::{Answer, FromClient, Operation, ToClient, session},
    },
    store::{Notices as _, memory::MemoryStore},
};
use futures_util::{FutureExt, Stream, StreamExt as _};
use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_stream::wrappers::UnboundedReceiverStream;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(600);
const WAIT: Duration = Duration::from_secs(60);
/// After this much silence a session that is not polled is stalled.
const STALLED: Duration = STALL_CHECK_PERIOD.saturating_mul(3);

type Said = FromClient<Infallible>;

/// The store's time passes with the runtime's, which is paused.
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
    says: mpsc::UnboundedSender<Result<Said, Infallible>>,
    hears: Pin<Box<dyn Stream<Item = ToClient<Infallible>> + Send>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.expiry.abort();
    }
}

fn name(text: &str) -> LockName {
    LockName::new(text.into()).unwrap()
}

fn call(wait: Duration) -> AcquireCall {
    let terms =
        Terms { fingerprint: 0, ttl: TTL, holder: Holder::default(), metadata: Metadata::default(), min_token: 0 };
    AcquireCall {
        call: Call { request: RequestId(Uuid::new_v4()), attempt: 1, id: CallId(1) },
        terms,
        wait,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    }
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
        let (says, said) = mpsc::unbounded_channel();
        let hears = session(locks.clone(), (), UnboundedReceiverStream::new(said), Duration::ZERO);
        Self { hub, store, locks, expiry, says, hears: Box::pin(hears.map(|message| message.unwrap())) }
    }

    fn say(&self, message: Said) {
        self.says.send(Ok(message)).unwrap();
    }

    fn ask(&self, number: u64, lock: &str, wait: Duration) -> Call {
        let handle = u32::try_from(number).unwrap();
        let call = call(wait);
        let its = call.call;
        let acquire = Operation::Acquire { name: name(lock), call, handle, release_on_disconnect: false };
        self.say(FromClient::Begin(number, acquire));
        its
    }

    /// A release that claims for a waiting call, as a store may do.
    async fn release_to(&self, lease: LeaseId, call: Call) -> LeaseId {
        self.release(lease).await;
        let claimed = self.store.claim(&name("a"), call).await.unwrap();
        assert!(self.hub.claimed(call, claimed.clone()));
        asks::granted(claimed.outcome).lease_id
    }

    /// Reads until an operation is answered. The first word of a wait is an answer here.
    async fn answer(&mut self) -> (u64, Answer<Infallible>) {
        loop {
            match tokio::time::timeout(WAIT, self.hears.next()).await.unwrap().unwrap() {
                ToClient::Answer(number, answer) => return (number, answer),
                ToClient::Kept(_) => {}
            }
        }
    }

    /// Waits for the lock `a`, which another one has; and reads no more.
    async fn wait_and_stall(&mut self, wait: Duration) -> LeaseId {
        let holder = self.take("a").await;
        self.ask(1, "a", wait);
        assert!(matches!(self.answer().await, (1, Answer::Waiting(0))));
        tokio::time::sleep(STALLED).await;
        holder
    }

    async fn take(&self, lock: &str) -> LeaseId {
        granted(self.locks.acquire(&name(lock), call(Duration::ZERO)).await)
    }

    /// Another one waits for the lock `a`.
    fn behind(&self) -> JoinHandle<LeaseId> {
        let locks = self.locks.clone();
        tokio::spawn(async move { granted(locks.acquire(&name("a"), call(WAIT)).await) })
    }

    async fn release(&self, lease: LeaseId) {
        assert_eq!(self.locks.release(&name("a"), lease).await, Ok(ReleaseOutcome::Released));
    }

    async fn view(&self, lock: &str) -> LockView {
        self.locks.view(&name(lock)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_again_in_time_is_back_at_its_place() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    let (next, last) = (bench.behind(), bench.behind());
    tokio::task::yield_now().await;
    let began = Instant::now();
    bench.release(holder).await;
    let next = next.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "the next one has it at once");
    tokio::time::sleep(DROP_GRACE / 2).await;
    while bench.hears.next().now_or_never().is_some() {}
    tokio::task::yield_now().await;
    assert_eq!(bench.view("a").await.waiters, 2);
    bench.release(next).await;
    let (1, Answer::Acquire { answer, .. }) = bench.answer().await else { panic!("it is its turn") };
    bench.release(granted(Ok(answer))).await;
    last.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_reads_again_too_late_has_lost_its_place() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    bench.release(holder).await;
    tokio::time::sleep(DROP_GRACE * 2).await;
    let view = bench.view("a").await;
    assert_eq!((view.current, view.waiters), (None, 0), "it is for whoever comes");
    assert_eq!(bench.locks.busy().0, 0);
    let (1, Answer::Failed(LocksError::Ended)) = bench.answer().await else { panic!("its request is over") };
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_an_offer_is_for_its_whole_time() {
    let mut bench = Bench::new();
    bench.wait_and_stall(DROP_GRACE * 3).await;
    tokio::time::sleep(DROP_GRACE * 3 - STALLED * 2).await;
    assert_eq!(bench.view("a").await.waiters, 1);
    tokio::time::sleep(STALLED * 2).await;
    assert_eq!(bench.view("a").await.waiters, 0);
    let (1, Answer::Acquire { answer: AcquireAnswer::TimedOut(_), .. }) = bench.answer().await else {
        panic!("its time is over")
    };
}

#[tokio::test(start_paused = true)]
async fn nothing_more_is_heard_and_no_beat_sent_until_it_reads_again() {
    let mut bench = Bench::new();
    bench.wait_and_stall(WAIT).await;
    bench.ask(2, "b", Duration::ZERO);
    tokio::time::sleep(WAIT / 2).await;
    assert_eq!(bench.view("b").await.current, None, "it would have it without knowing");
    let said: Vec<_> = std::iter::from_fn(|| bench.hears.next().now_or_never().flatten()).collect();
    let [ToClient::Kept(_), ToClient::Answer(2, Answer::Acquire { answer, .. })] = &said[..] else {
        panic!("one beat, and what was heard now: {said:?}")
    };
    granted(Ok(answer.clone()));
}

#[tokio::test(start_paused = true)]
async fn dropped_while_it_is_stalled_it_is_over_at_once() {
    let mut bench = Bench::new();
    let holder = bench.wait_and_stall(WAIT).await;
    let behind = bench.behind();
    tokio::task::yield_now().await;
    bench.hears = Box::pin(futures_util::stream::pending());
    assert_eq!(bench.locks.busy(), (1, 0));
    let began = Instant::now();
    bench.release(holder).await;
    behind.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    tokio::time::sleep(DROP_GRACE).await;
    assert_eq!(bench.view("a").await.waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_it_and_its_last_word_is_kept() {
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
async fn a_claim_that_the_store_makes_reaches_its_call() {
    let mut bench = Bench::new();
    let holder = bench.take("a").await;
    let call = bench.ask(1, "a", WAIT);
    assert!(matches!(bench.answer().await, (1, Answer::Waiting(0))));
    let lease = bench.release_to(holder, call).await;
    let (1, Answer::Acquire { answer, .. }) = bench.answer().await else { panic!("it has the lock") };
    assert_eq!(granted(Ok(answer)), lease);
    assert!(bench.view("a").await.current.unwrap().left > DROP_GRACE);
}

/// The client stalled after the store had found it alive.
#[tokio::test(start_paused = true)]
async fn a_lease_that_the_store_claimed_for_a_stalled_call_is_cut_short() {
    let mut bench = Bench::new();
    let holder = bench.take("a").await;
    let call = bench.ask(1, "a", WAIT);
    assert!(matches!(bench.answer().await, (1, Answer::Waiting(0))));
    tokio::time::sleep(STALLED).await;
    bench.release_to(holder, call).await;
    tokio::task::yield_now().await;
    assert!(bench.view("a").await.current.unwrap().left <= DROP_GRACE, "nobody learns of the lease");
    assert_eq!(bench.locks.busy().0, 0);
    let (1, Answer::Failed(LocksError::Ended)) = bench.answer().await else { panic!("its request is over") };
}
