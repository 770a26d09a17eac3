//! Acquires many leases, attaches them to few streams, and keeps them alive for some time.
#![allow(dead_code, reason = "no test uses all of it")]

use crate::{
    stream::{Stream, attachment},
    support::{Lock, acquire_request},
};
use fencepost_proto::v1::{
    self, keep_alive_response::Message as ServerMessage, lock_service_client::LockServiceClient,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

/// Attachments in one message, which is within 64 KiB.
const PER_MESSAGE: usize = 500;

type Client = LockServiceClient<Channel>;

/// The number of leases, and how to keep them.
#[derive(Clone, Copy)]
pub(crate) struct Many {
    pub(crate) streams: usize,
    pub(crate) leases_per_stream: usize,
    pub(crate) ttl: Duration,
    /// Acquires in flight for each stream. Each stream has its own connection.
    pub(crate) at_once: usize,
    /// How long to keep all leases once they are attached.
    pub(crate) span: Duration,
}

/// Counts of the streams' messages since all leases were attached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) renewals: usize,
    /// Leases that were reported at risk. None of them was lost.
    pub(crate) at_risk: usize,
}

/// Running streams.
pub(crate) struct Streams {
    many: Many,
    ready: Arc<AtomicUsize>,
    streams: Vec<JoinHandle<Counts>>,
}

impl Many {
    /// Acquires and attaches all leases. Each stream has its own client.
    pub(crate) fn keep(self, mut client: impl FnMut() -> Client) -> Streams {
        let ready = Arc::new(AtomicUsize::new(0));
        let streams = (0..self.streams).map(|number| tokio::spawn(keep(self, number, client(), ready.clone())));
        Streams { many: self, streams: streams.collect(), ready }
    }
}

impl Streams {
    /// Waits until all leases are attached.
    pub(crate) async fn all_attached(&self) {
        while self.ready.load(Ordering::SeqCst) < self.many.streams && !self.streams.iter().any(JoinHandle::is_finished)
        {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until all leases have been kept for the span. Fails if one is lost.
    pub(crate) async fn done(self) -> Counts {
        let mut all = Counts::default();
        for stream in self.streams {
            let counts = stream.await.unwrap();
            all.renewals += counts.renewals;
            all.at_risk += counts.at_risk;
        }
        all
    }
}

async fn keep(many: Many, number: usize, client: Client, ready: Arc<AtomicUsize>) -> Counts {
    let mut acquired = acquire_all(many, number, &client);
    let mut stream = Stream::open(client).await;
    let (mut sent, mut attached, mut counts) = (0, 0, Counts::default());
    let mut fresh = Vec::new();
    let mut end = None;
    while end.is_none_or(|end| Instant::now() < end) {
        if end.is_none() && ready.load(Ordering::SeqCst) == many.streams {
            end = Some(Instant::now() + many.span);
        }
        let message = tokio::select! {
            message = stream.next() => message.unwrap(),
            count = acquired.recv_many(&mut fresh, PER_MESSAGE), if sent < many.leases_per_stream => {
                assert!(count > 0, "all are acquired");
                let attachments = fresh.drain(..).zip(sent..).map(|(lease, handle)| {
                    attachment(u32::try_from(handle).unwrap(), &lease)
                });
                stream.attach(attachments.collect()).await;
                sent += count;
                continue;
            }
        };
        match message {
            ServerMessage::Beat(beat) => stream.answer(beat.beat).await,
            ServerMessage::Attached(message) => {
                attached += message.leases.iter().map(|group| group.handles.len()).sum::<usize>();
                if attached == many.leases_per_stream {
                    ready.fetch_add(1, Ordering::SeqCst);
                }
            }
            ServerMessage::Renewed(message) if end.is_some() => {
                counts.renewals += message.leases.iter().map(|group| group.handles.len()).sum::<usize>();
            }
            ServerMessage::Renewed(_) => {}
            ServerMessage::AtRisk(message) => counts.at_risk += message.handles.len(),
            other => panic!("{other:?}"),
        }
    }
    counts
}

fn acquire_all(many: Many, number: usize, client: &Client) -> mpsc::Receiver<v1::Lease> {
    let (found, acquired) = mpsc::channel(PER_MESSAGE);
    for worker in 0..many.at_once {
        let (mut client, found) = (client.clone(), found.clone());
        tokio::spawn(async move {
            for lease in (worker..many.leases_per_stream).step_by(many.at_once) {
                let lease = client.acquire_lease(acquire_request(&format!("scale/{number}/{lease}"), many.ttl)).await;
                if found.send(lease).await.is_err() {
                    return;
                }
            }
        });
    }
    acquired
}
