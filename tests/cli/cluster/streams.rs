//! Streams through one server, for locks that other servers lead.

use crate::{
    several::{Cluster, LOCKS, Member, acquired, client, name, release, shown},
    stream::{Stream, attachment},
    support::{channel, within},
};
use fencepost_client::{LossCause, Status};
use fencepost_proto::v1::{
    self, keep_alive_response::Message, lock_service_client::LockServiceClient, watch_response::Kind,
};
use std::time::Duration;

const REASON: &str = "it is stuck";

/// Revokes the lease of a lock through a server.
async fn revoke(through: &Member, lock: &str) {
    let client = through.client();
    let expected_token = shown(&client, lock).await.newest_token;
    let request = v1::ForceReleaseRequest { lock_name: lock.to_owned(), expected_token, reason: REASON.to_owned() };
    let answer = within(client.calls().force_release(request)).await.unwrap();
    assert_eq!(answer.outcome(), v1::force_release_response::Outcome::Revoked, "{answer:?}");
}

#[tokio::test]
async fn a_session_keeps_the_locks_of_all_and_hears_of_their_loss() {
    let cluster = Cluster::start();
    let [through, _, other] = [0, 1, 2].map(|at| &cluster.servers[at]);
    let client = client(&[through]);
    let ttl = Duration::from_secs(3);
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(within(client.acquire(name(number)).ttl(ttl).into_future()).await.unwrap());
    }
    // Longer than a TTL.
    tokio::time::sleep(ttl + Duration::from_secs(1)).await;
    for lock in &held {
        assert_eq!(lock.status(), Status::Held, "{lock:?}");
        revoke(other, lock.name()).await;
        let left = lock.valid_for();
        let lost = within(lock.lost()).await;
        assert_eq!(lost.cause, LossCause::Revoked, "{lost:?}, with {left:?} left");
    }
}

/// The next message, but those that a lease is or is not being renewed: on a busy machine an answer may come too late.
async fn next(stream: &mut Stream) -> Message {
    loop {
        match stream.next_but_beats(true).await {
            Message::Renewed(_) | Message::AtRisk(_) => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_keep_alive_stream_keeps_the_locks_of_all_and_hears_of_their_loss() {
    let cluster = Cluster::start();
    let [through, another, other] = [0, 1, 2].map(|at| &cluster.servers[at]);
    let address = through.server.url.trim_start_matches("http://").parse().unwrap();
    let mut stream = Stream::open(LockServiceClient::new(channel(address))).await;
    let mut leases = Vec::new();
    for number in 0..LOCKS {
        leases.push(acquired(&another.client(), &name(number)).await);
    }
    let attachments = (0..).zip(&leases).map(|(handle, lease)| attachment(handle, lease)).collect();
    stream.attach(attachments).await;
    let mut attached = 0;
    while attached < LOCKS {
        if let Message::Attached(message) = next(&mut stream).await {
            attached += message.leases.iter().map(|it| it.handles.len()).sum::<usize>();
        }
    }
    for (handle, lease) in (0..).zip(&leases) {
        revoke(other, &lease.lock_name).await;
        match next(&mut stream).await {
            Message::Lost(lost) => assert_eq!((lost.handle, lost.end()), (handle, v1::LeaseEnd::Revoked)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_shows_the_events_of_locks_that_other_servers_lead() {
    let cluster = Cluster::start();
    let [through, second, third] = [0, 1, 2].map(|at| &cluster.servers[at]);
    let request = v1::WatchRequest { prefix: "orders/".to_owned() };
    let mut events = within(through.client().calls().watch(request)).await.unwrap();
    let mut next = async || {
        let event = within(events.message()).await.unwrap().expect("the stream goes on");
        (event.kind(), event.lock_name, event.fencing_token)
    };
    assert_eq!(next().await.0, Kind::Started);
    let mut shown = 0;
    for number in 0..LOCKS {
        let lease = acquired(&second.client(), &name(number)).await;
        release(&third.client(), &lease).await;
        let mut expected = vec![Kind::Released, Kind::Granted];
        while let Some(kind) = expected.last() {
            match next().await {
                // It says so where it is not sure, as on a machine that is too busy for the beats of servers.
                (Kind::Missed, ..) => expected.clear(),
                event if event == (*kind, lease.lock_name.clone(), lease.fencing_token) => {
                    expected.pop();
                    shown += 1;
                }
                (_, lock, _) => assert_ne!(lock, lease.lock_name, "another event"),
            }
        }
    }
    assert!(shown > LOCKS, "{shown}");
}
