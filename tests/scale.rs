//! Many leases on few streams. By itself, since it keeps the machine busy.
#![allow(clippy::unwrap_used)] // also in what the tests share

#[path = "e2e/stream.rs"]
mod stream;
#[path = "e2e/support.rs"]
mod support;

use stream::{Stream, attachment};
use support::{Lock, Server, wish};

use fencepost_proto::v1::{self, keep_alive_response::Message as Hear, lock_service_client::LockServiceClient};
use std::time::Duration;
use tokio::{sync::mpsc, time::Instant};
use tonic::transport::Channel;

const STREAMS: usize = 10;
const LEASES_PER_STREAM: usize = 10_000;
/// Acquires under way at once, each stream's on a connection of its own.
const AT_ONCE: usize = 16;
/// Attachments in one message: within 64 KiB.
const PER_MESSAGE: usize = 500;
const TTL: Duration = Duration::from_secs(12);

type Client = LockServiceClient<Channel>;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_leases_live_on_ten_streams() {
    let server = Server::start().await;
    let tasks: Vec<_> = (0..STREAMS)
        .map(|number| {
            let client = server.client();
            tokio::spawn(async move { keep(number, client).await })
        })
        .collect();
    let mut renewals = 0;
    for task in tasks {
        renewals += task.await.unwrap();
    }
    // Each lease was renewed more than once in each of the last two TTLs: about three times, or it would be close to its end.
    assert!(renewals >= 2 * STREAMS * LEASES_PER_STREAM, "{renewals}");
    println!("{} leases on {STREAMS} streams, {renewals} renewals, none lost", STREAMS * LEASES_PER_STREAM);
}

/// Acquires a stream's share, attaching as it goes, keeps it for two TTLs more, and counts the renewals after that.
async fn keep(number: usize, client: Client) -> usize {
    let mut acquired = acquire_all(number, &client);
    let mut stream = Stream::open(client).await;
    let (mut sent, mut attached, mut renewals) = (0, 0, 0);
    let mut fresh = Vec::new();
    let mut end = None;
    while end.is_none_or(|end| Instant::now() < end) {
        let message = tokio::select! {
            message = stream.next() => message.unwrap(),
            count = acquired.recv_many(&mut fresh, PER_MESSAGE), if sent < LEASES_PER_STREAM => {
                assert!(count > 0, "all are acquired");
                let attachments = fresh.drain(..).zip(sent..).map(|(lease, place)| {
                    attachment(u32::try_from(place).unwrap(), &lease)
                });
                stream.attach(attachments.collect()).await;
                sent += count;
                continue;
            }
        };
        match message {
            Hear::Beat(beat) => stream.answer(beat.beat).await,
            Hear::Attached(message) => {
                attached += message.leases.iter().map(|group| group.handles.len()).sum::<usize>();
                if attached == LEASES_PER_STREAM {
                    end = Some(Instant::now() + 2 * TTL);
                }
            }
            Hear::Renewed(message) if end.is_some() => {
                renewals += message.leases.iter().map(|group| group.handles.len()).sum::<usize>();
            }
            Hear::Renewed(_) => {}
            other => panic!("{other:?}"),
        }
    }
    renewals
}

fn acquire_all(number: usize, client: &Client) -> mpsc::Receiver<v1::Lease> {
    let (found, acquired) = mpsc::channel(PER_MESSAGE);
    for worker in 0..AT_ONCE {
        let (mut client, found) = (client.clone(), found.clone());
        tokio::spawn(async move {
            for lease in (worker..LEASES_PER_STREAM).step_by(AT_ONCE) {
                let lease = client.take(wish(&format!("scale/{number}/{lease}"), TTL)).await;
                found.send(lease).await.unwrap();
            }
        });
    }
    acquired
}
