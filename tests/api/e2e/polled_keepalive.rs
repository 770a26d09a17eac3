//! Keep-alive streams that the test polls itself: the work of one poll, and dropped streams.

use crate::{
    asks::{Asks as _, acquire, granted, new_request},
    gated::GatedStore,
    support::{until, within},
};
use fencepost::testing::{
    clock::{Clock, ProcessClock},
    domain::{
        limits::{BEAT_PERIOD_MAX, Limits},
        name::LockName,
    },
    locks::{
        Hub, Locks,
        keepalive::{AttachLease, FromClient, SessionError, ToClient, keep_alive},
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

type Messages = std::pin::Pin<Box<dyn Stream<Item = Result<ToClient, SessionError<Infallible>>>>>;

struct Bench {
    store: Arc<GatedStore>,
    locks: Arc<Locks<GatedStore>>,
    client: mpsc::Sender<FromClient>,
    /// The number of messages without effect that the client sends before the others.
    noise: Arc<AtomicU32>,
    messages: Messages,
}

impl Bench {
    fn new() -> Self {
        let hub = Arc::new(Hub::new());
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
        let inner = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
        let store = Arc::new(GatedStore::new(inner));
        let locks = Arc::new(Locks::new(store.clone(), hub, Limits::default()));
        let (client, requests) = mpsc::channel(64);
        let noise = Arc::new(AtomicU32::new(0));
        let (mut requests, more) = (ReceiverStream::new(requests), noise.clone());
        let inbound = futures_util::stream::poll_fn(move |context| {
            let left = more.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                Poll::Ready(Some(FromClient::Detach(Vec::new())))
            } else {
                requests.poll_next_unpin(context)
            }
        });
        let inbound = inbound.map(Ok::<_, Infallible>);
        let messages: Messages = Box::pin(keep_alive(locks.clone(), None, inbound, Duration::ZERO));
        Self { store, locks, client, noise, messages }
    }

    async fn acquire_lease(&self, handle: u32) -> AttachLease {
        let name = name(handle);
        let outcome = self.store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap();
        let lease_id = granted(outcome).lease_id;
        AttachLease { handle, name, lease_id, attempt: 1, release_on_disconnect: true }
    }

    async fn next(&mut self) -> ToClient {
        within(self.messages.next()).await.unwrap().unwrap()
    }

    /// Attaches leases, and waits until they are attached.
    async fn attach(&mut self, count: u32) -> Vec<AttachLease> {
        let mut all = Vec::new();
        for first in (0..count).step_by(1_000) {
            let mut leases = Vec::new();
            for handle in first..count.min(first + 1_000) {
                leases.push(self.acquire_lease(handle).await);
            }
            all.extend(leases.iter().cloned());
            self.client.send(FromClient::Attach(leases)).await.unwrap();
            while !matches!(self.next().await, ToClient::Attached(_)) {}
        }
        all
    }
}

fn name(handle: u32) -> LockName {
    LockName::new(format!("a/{handle}")).unwrap()
}

#[tokio::test]
async fn a_stream_that_the_server_ends_is_no_disconnect() {
    let mut bench = Bench::new();
    bench.attach(1).await;
    // The client does not read, so the stream is not polled again before its connection ends.
    bench.locks.end_streams();
    drop(bench.messages);
    assert!(bench.locks.view(&name(0), None).await.unwrap().current.is_some(), "the lease is not revoked");
}

#[tokio::test]
async fn a_stream_that_its_client_ends_is_a_disconnect_even_during_a_drain() {
    let mut bench = Bench::new();
    bench.attach(1).await;
    bench.locks.drain();
    drop(bench.messages);
    assert_eq!(bench.locks.view(&name(0), None).await.unwrap().current, None);
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_in_parts_with_beats_in_between() {
    const LEASES: u32 = 10_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    tokio::time::sleep(TTL / 3).await;
    bench.store.renewals.lock().unwrap().clear();
    let (mut message_count, mut beats, mut renewed) = (0, 0, 0);
    while renewed < LEASES as usize {
        match bench.next().await {
            ToClient::Beat { beat, .. } => {
                beats += usize::from(renewed > 0);
                bench.client.send(FromClient::Answer(beat)).await.unwrap();
            }
            ToClient::Renewed { leases, .. } => {
                message_count += 1;
                renewed += leases.iter().map(|group| group.handles.len()).sum::<usize>();
                // A slow reader receives beats when they are due.
                tokio::time::sleep(BEAT_PERIOD_MAX).await;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(renewed, LEASES as usize, "each lease is renewed once");
    assert!(message_count > 1 && beats > 0, "{message_count} messages and {beats} beats");
    let batches = bench.store.renewals.lock().unwrap().clone();
    assert!(batches.iter().all(|count| *count <= 1_024), "{batches:?}");
}

#[tokio::test(start_paused = true)]
async fn renewals_continue_while_the_client_sends_without_pause() {
    const LEASES: u32 = 10_000;
    const NOISE: u32 = 100_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    tokio::time::sleep(TTL / 3).await;
    let mut renewed = 0;
    while renewed < LEASES as usize {
        match bench.next().await {
            ToClient::Beat { beat, .. } => bench.client.send(FromClient::Answer(beat)).await.unwrap(),
            ToClient::Renewed { leases, .. } => {
                if renewed == 0 {
                    bench.noise.store(NOISE, Ordering::SeqCst);
                }
                renewed += leases.iter().map(|group| group.handles.len()).sum::<usize>();
            }
            other => panic!("{other:?}"),
        }
    }
    let received = NOISE - bench.noise.load(Ordering::SeqCst);
    assert!(
        (1..100).contains(&received),
        "renewals and messages alternate: {received} messages before the last renewal"
    );
}

#[tokio::test(start_paused = true)]
async fn many_losses_are_reported_in_parts() {
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
    assert!(beats > 0, "a beat that is due is not delayed");
}

#[tokio::test]
async fn many_leases_are_revoked_in_parts() {
    const LEASES: u32 = 3_000;
    let mut bench = Bench::new();
    bench.attach(LEASES).await;
    drop(bench.messages);
    let locks = bench.locks;
    let held = || {
        let locks = locks.clone();
        async move {
            let mut held = 0;
            for handle in 0..LEASES {
                held += usize::from(locks.view(&name(handle), None).await.unwrap().current.is_some());
            }
            held
        }
    };
    // The runtime has one thread, so no other task has run since.
    assert!(held().await > 0, "not all at once");
    until(|| async { held().await == 0 }).await;
}
