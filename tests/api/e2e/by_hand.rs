//! A stream that is polled by hand: what it does in one go, and what is left when nobody polls it any more.

use crate::{
    asks::{Asks as _, acquire, granted, new_request},
    gated::GatedStore,
    support::{until, within},
};
use fencepost::{
    clock::{Clock, ProcessClock},
    domain::{
        limits::{BEAT_PERIOD_MAX, Limits},
        name::LockName,
    },
    locks::{
        Hub, Locks,
        keepalive::{AttachLease, FromClient, ToClient},
        session::{SessionError, keep_alive},
    },
    store::memory::MemoryStore,
};
use futures_util::StreamExt as _;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};

const TTL: Duration = Duration::from_secs(600);

type Hears = std::pin::Pin<Box<dyn Stream<Item = Result<ToClient, SessionError<Infallible>>>>>;

struct Bench {
    store: Arc<GatedStore>,
    locks: Arc<Locks<GatedStore>>,
    says: mpsc::Sender<FromClient>,
    /// How many messages that ask for nothing are there before anything else that the client says.
    chatter: Arc<AtomicU32>,
    hears: Hears,
}

impl Bench {
    fn new() -> Self {
        let hub = Arc::new(Hub::new());
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
        let inner = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
        let store = Arc::new(GatedStore::new(inner));
        let locks = Arc::new(Locks::new(store.clone(), hub, Limits::default()));
        let (says, said) = mpsc::channel(64);
        let chatter = Arc::new(AtomicU32::new(0));
        let (mut said, more) = (ReceiverStream::new(said), chatter.clone());
        let inbound = futures_util::stream::poll_fn(move |context| {
            let left = more.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() { Poll::Ready(Some(FromClient::Detach(Vec::new()))) } else { said.poll_next_unpin(context) }
        });
        let inbound = inbound.map(Ok::<_, Infallible>);
        let hears: Hears = Box::pin(keep_alive(locks.clone(), (), inbound, Duration::ZERO));
        Self { store, locks, says, chatter, hears }
    }

    async fn take(&self, handle: u32) -> AttachLease {
        let name = name(handle);
        let outcome = self.store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap();
        let lease_id = granted(outcome).lease_id;
        AttachLease { handle, name, lease_id, attempt: 1, release_on_disconnect: true }
    }

    async fn next(&mut self) -> ToClient {
        within(self.hears.next()).await.unwrap().unwrap()
    }

    /// Attaches leases, and waits for the server's word.
    async fn attach(&mut self, count: u32) -> Vec<AttachLease> {
        let mut all = Vec::new();
        for first in (0..count).step_by(1_000) {
            let mut leases = Vec::new();
            for handle in first..count.min(first + 1_000) {
                leases.push(self.take(handle).await);
            }
            all.extend(leases.iter().cloned());
            self.says.send(FromClient::Attach(leases)).await.unwrap();
            while !matches!(self.next().await, ToClient::Attached(_)) {}
        }
        all
    }
}

fn name(handle: u32) -> LockName {
    LockName::new(format!("a/{handle}")).unwrap()
}

#[tokio::test]
async fn a_stream_that_is_cut_when_the_server_goes_away_is_no_disconnect() {
    let mut bench = Bench::new();
    bench.attach(1).await;
    // Its client reads nothing any more, so the stream is not asked again before its connection is cut.
    bench.locks.end_streams();
    drop(bench.hears);
    assert!(bench.locks.view(&name(0)).await.unwrap().current.is_some(), "nothing was taken from the holder");
}

#[tokio::test]
async fn a_stream_that_its_client_cuts_is_a_disconnect_also_in_a_drain() {
    let mut bench = Bench::new();
    bench.attach(1).await;
    bench.locks.drain();
    drop(bench.hears);
    assert_eq!(bench.locks.view(&name(0)).await.unwrap().current, None);
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_a_part_at_a_time_and_the_stream_goes_on_between() {
    const LEASES: u32 = 10_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    tokio::time::sleep(TTL / 3).await;
    bench.store.renewals.lock().unwrap().clear();
    let (mut messages, mut beats, mut renewed) = (0, 0, 0);
    while renewed < LEASES as usize {
        match bench.next().await {
            ToClient::Beat { beat, .. } => {
                beats += usize::from(renewed > 0);
                bench.says.send(FromClient::Answer(beat)).await.unwrap();
            }
            ToClient::Renewed { leases, .. } => {
                messages += 1;
                renewed += leases.iter().map(|group| group.handles.len()).sum::<usize>();
                // Whoever reads is slow, and yet hears a beat when one is due.
                tokio::time::sleep(BEAT_PERIOD_MAX).await;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(renewed, LEASES as usize, "each once");
    assert!(messages > 1 && beats > 0, "{messages} messages and {beats} beats");
    let asked = bench.store.renewals.lock().unwrap().clone();
    assert!(asked.iter().all(|count| *count <= 1_024), "in one go: {asked:?}");
}

/// A client that attaches without end, for one.
#[tokio::test(start_paused = true)]
async fn renewals_go_on_while_the_client_talks_without_end() {
    const LEASES: u32 = 10_000;
    const CHATTER: u32 = 100_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    tokio::time::sleep(TTL / 3).await;
    let mut renewed = 0;
    while renewed < LEASES as usize {
        match bench.next().await {
            ToClient::Beat { beat, .. } => bench.says.send(FromClient::Answer(beat)).await.unwrap(),
            ToClient::Renewed { leases, .. } => {
                if renewed == 0 {
                    bench.chatter.store(CHATTER, Ordering::SeqCst);
                }
                renewed += leases.iter().map(|group| group.handles.len()).sum::<usize>();
            }
            other => panic!("{other:?}"),
        }
    }
    let heard = CHATTER - bench.chatter.load(Ordering::SeqCst);
    assert!((1..100).contains(&heard), "{heard} messages were heard before the last renewal: both take turns");
}

#[tokio::test(start_paused = true)]
async fn very_many_losses_are_told_a_part_at_a_time() {
    const LEASES: u32 = 3_000;
    let mut bench = Bench::new();
    let leases = bench.attach(LEASES).await;
    for lease in leases {
        bench.locks.release(&lease.name, lease.lease_id).await.unwrap();
    }
    let (mut lost, mut beats) = (0, 0);
    while lost < LEASES {
        match bench.next().await {
            ToClient::Beat { .. } => beats += u32::from(lost > 0),
            ToClient::Lost { .. } => {
                lost += 1;
                if lost == 1 {
                    tokio::time::sleep(BEAT_PERIOD_MAX).await;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(beats > 0, "a beat that is due does not wait for all of them");
}

#[tokio::test]
async fn very_many_leases_are_taken_back_a_part_at_a_time() {
    const LEASES: u32 = 3_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    drop(bench.hears);
    let locks = bench.locks;
    let held = || {
        let locks = locks.clone();
        async move {
            let mut held = 0;
            for handle in 0..LEASES {
                held += usize::from(locks.view(&name(handle)).await.unwrap().current.is_some());
            }
            held
        }
    };
    // On this one thread nothing else has run since.
    assert!(held().await > 0, "not all in one go");
    until(|| async { held().await == 0 }).await;
}
