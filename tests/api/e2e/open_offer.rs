//! A reader that was offered the lock and has not answered yet is in the way of an upgrade, over the API and on the
//! command line.

use crate::{
    asks::{Asks as _, acquire, granted, new_request},
    binary::{Process, fencepost},
    session_stream::Session,
    support::{acquire_request, channel, span, within},
};
use fencepost::testing::{
    api::{Api, StoreIdentity},
    clock::{Clock, ManualClock},
    domain::{limits::Limits, mode::Mode, name::LockName, outcome::AcquireOutcome, time::StoreTime},
    locks::{Hub, Locks},
    store::memory::MemoryStore,
    telemetry::{metrics::Metrics, traces::Traces},
};
use fencepost_proto::v1::{
    AcquireRequest, ConvertRequest, LeaseEnd, LockMode, convert_response::Outcome,
    lock_service_client::LockServiceClient, lock_service_server::LockServiceServer,
    session_response::Message as ServerMessage,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

const TTL: Duration = Duration::from_secs(30);

/// The API over a store whose time stands still, so that an offer stays open.
async fn serve(store: &Arc<MemoryStore>, hub: Arc<Hub>) -> SocketAddr {
    let locks = Arc::new(Locks::new(store.clone(), hub, Limits::default()));
    let identity = StoreIdentity::new("memory", || None);
    let api = Api::new(&locks, identity, Duration::ZERO, &Metrics::new(Vec::new()).calls, &Traces::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(LockServiceServer::new(api));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_beside_an_open_offer_leaves_the_lease_as_it_is() {
    let (hub, name) = (Arc::new(Hub::new()), LockName::new("a").unwrap());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(StoreTime::from_micros(1_800_000_000_000_000)));
    let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    let address = serve(&store, hub).await;
    let writer = granted(store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap());
    // Nobody answers for this one: its offer stays open.
    let mut silent = acquire(new_request(), TTL, true);
    silent.terms.mode = Mode::Shared;
    assert_eq!(store.acquire(&name, silent.clone()).await, Ok(AcquireOutcome::Queued));
    let mut client = LockServiceClient::new(channel(address));
    let mut session = Session::open(client.clone()).await;
    let mode = LockMode::Shared.into();
    session.acquire(1, AcquireRequest { mode, wait_timeout: span(TTL), ..acquire_request("a", TTL) }).await;
    assert!(matches!(session.next_message().await, (1, ServerMessage::Waiting(_))));
    store.release(&name, writer.lease_id).await.unwrap();
    let lease = session.granted(1).await;

    let (lock_name, lease_id, fencing_token) = (lease.lock_name.clone(), lease.lease_id.clone(), lease.fencing_token);
    let upgrade = ConvertRequest { lock_name, lease_id, fencing_token, mode: LockMode::Exclusive.into() };
    let answer = within(client.convert(upgrade.clone())).await.unwrap().into_inner();
    let holders: Vec<_> = answer.holders.iter().map(|holder| (holder.fencing_token, holder.mode())).collect();
    assert_eq!((answer.outcome(), answer.holder_count), (Outcome::Contended, 1));
    assert_eq!(holders, [(fencing_token, LockMode::Shared)], "an offer is no holder");
    let (url, token) = (format!("http://{address}"), fencing_token.to_string());
    let words = ["convert", "a", "exclusive", "--server", &url, "--token", &token, "--lease-id", &lease.lease_id]
        .map(str::to_owned);
    let refused = tokio::task::spawn_blocking(move || {
        Process::start(&mut fencepost(&words.each_ref().map(String::as_str))).ended()
    });
    let refused = refused.await.unwrap().expect(75);
    refused.says("a is shared by test").says("is offered to another reader").says("nothing was changed");

    // Once it has answered and left, nothing is in the way.
    let claimed = granted(store.claim(&name, silent.call).await.unwrap().outcome);
    store.release(&name, claimed.lease_id).await.unwrap();
    let upgraded = within(client.convert(upgrade)).await.unwrap().into_inner();
    assert!(upgraded.fencing_token > fencing_token);
    session.release(2, &lease).await;
    assert_eq!(session.released(2).await, LeaseEnd::Released, "the session has had the lease all the time");
}
