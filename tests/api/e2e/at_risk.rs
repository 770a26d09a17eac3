//! A stream whose server cannot reach its store.

use crate::{
    asks::{Asks as _, acquire, granted, new_request},
    gated::GatedStore,
    support::within,
};
use fencepost::testing::{
    clock::{Clock, ProcessClock},
    domain::{limits::Limits, name::LockName},
    locks::{
        Hub, Locks,
        keepalive::{AttachLease, FromClient, SessionError, ToClient, keep_alive},
    },
    store::memory::MemoryStore,
};
use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};

const TTL: Duration = Duration::from_secs(9);

type Messages = std::pin::Pin<Box<dyn Stream<Item = Result<ToClient, SessionError<Infallible>>>>>;

async fn next_but_beats(messages: &mut Messages, client: &mpsc::Sender<FromClient>) -> ToClient {
    loop {
        match within(messages.next()).await.unwrap().unwrap() {
            ToClient::Beat { beat, .. } => client.send(FromClient::Answer(beat)).await.unwrap(),
            other => return other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leases_are_at_risk_until_they_can_be_renewed() {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
    let inner = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    let store = Arc::new(GatedStore::new(inner));
    let locks = Arc::new(Locks::new(store.clone(), hub, Limits::default()));
    let name = LockName::new("a").unwrap();
    let lease_id = granted(store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id;
    let (client, requests) = mpsc::channel(64);
    let inbound = ReceiverStream::new(requests).map(Ok::<_, Infallible>);
    let mut messages: Messages = Box::pin(keep_alive(locks, None, inbound, Duration::ZERO));

    store.down.store(true, Ordering::SeqCst);
    let attach = AttachLease { handle: 4, name, lease_id, attempt: 1, release_on_disconnect: false };
    client.send(FromClient::Attach(vec![attach])).await.unwrap();
    assert_eq!(next_but_beats(&mut messages, &client).await, ToClient::AtRisk(vec![4]));
    assert_eq!(next_but_beats(&mut messages, &client).await, ToClient::AtRisk(vec![4]), "each answered beat retries");
    store.down.store(false, Ordering::SeqCst);
    let ToClient::Renewed { leases, .. } = next_but_beats(&mut messages, &client).await else { panic!("not attached") };
    assert_eq!((leases.len(), &leases[0].handles), (1, &vec![4]));

    store.down.store(true, Ordering::SeqCst);
    assert_eq!(next_but_beats(&mut messages, &client).await, ToClient::AtRisk(vec![4]));
    store.down.store(false, Ordering::SeqCst);
    assert!(matches!(next_but_beats(&mut messages, &client).await, ToClient::Renewed { .. }));
}
