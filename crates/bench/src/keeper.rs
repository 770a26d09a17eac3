//! Keeps leases alive on a KeepAlive stream, and counts the events of leases on streams.

use super::caller::Failure;
use anyhow::{Context, Result};
use fencepost_proto::v1::{
    AttachLeases, BeatAnswer, KeepAliveRequest, KeepAliveResponse, Lease, LeaseAttachment, RenewedLeases,
    keep_alive_request, keep_alive_response::Message, lock_service_client::LockServiceClient,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Streaming, transport::Channel};

/// Events of leases on a stream.
#[derive(Debug, Default)]
pub(super) struct LeaseEvents {
    pub attached: Count,
    pub renewed: Count,
    pub lost: Count,
    pub at_risk: Count,
    pub detached: Count,
    /// Answers to unknown operations.
    pub unexpected_answers: Count,
    /// Streams that ended while in use.
    pub ended: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The number of leases in a message.
pub(super) fn lease_count(leases: &[RenewedLeases]) -> usize {
    leases.iter().map(|leases| leases.handles.len()).sum()
}

/// A stream that keeps leases alive. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    requests: mpsc::UnboundedSender<KeepAliveRequest>,
    handles: u32,
}

impl Keeper {
    pub(super) async fn open(mut client: LockServiceClient<Channel>, events: Arc<LeaseEvents>) -> Result<Self> {
        let (requests, outbound) = mpsc::unbounded_channel();
        let opened = client.keep_alive(UnboundedReceiverStream::new(outbound)).await;
        let opened = opened.map_err(|status| anyhow::anyhow!(Failure::from(status).0)).context("cannot keep leases")?;
        tokio::spawn(read(opened.into_inner(), requests.downgrade(), events));
        Ok(Self { requests, handles: 0 })
    }

    /// Attaches leases to the stream, which renews them from now on.
    pub(super) fn attach(&mut self, leases: Vec<Lease>) {
        let leases = leases.into_iter().map(|lease| {
            self.handles += 1;
            LeaseAttachment {
                handle: self.handles,
                lock_name: lease.lock_name,
                lease_id: lease.lease_id,
                attempt: 1,
                release_on_disconnect: false,
            }
        });
        let attach = keep_alive_request::Message::Attach(AttachLeases { leases: leases.collect() });
        // Fails only if the stream has ended, which is counted.
        let _ = self.requests.send(KeepAliveRequest { message: Some(attach) });
    }
}

/// Reads until the end, and answers each beat at once.
async fn read(
    mut inbound: Streaming<KeepAliveResponse>,
    requests: mpsc::WeakUnboundedSender<KeepAliveRequest>,
    events: Arc<LeaseEvents>,
) {
    while let Ok(Some(response)) = inbound.message().await {
        match response.message {
            Some(Message::Beat(beat)) => {
                let Some(requests) = requests.upgrade() else { return };
                let message = Some(keep_alive_request::Message::Answer(BeatAnswer { beat: beat.beat }));
                // Fails only at the end of the stream, which is read next.
                let _ = requests.send(KeepAliveRequest { message });
            }
            Some(Message::Attached(attached)) => events.attached.add(lease_count(&attached.leases)),
            Some(Message::Renewed(renewed)) => events.renewed.add(lease_count(&renewed.leases)),
            Some(Message::Lost(_)) => events.lost.add(1),
            Some(Message::AtRisk(at_risk)) => events.at_risk.add(at_risk.handles.len()),
            Some(Message::Detached(_)) => events.detached.add(1),
            Some(Message::Draining(_) | Message::Wanted(_)) | None => {}
        }
    }
    if requests.upgrade().is_some() {
        events.ended.add(1);
    }
}
