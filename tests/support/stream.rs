//! The client side of a KeepAlive stream, on the generated stubs.
#![allow(dead_code, reason = "no test uses all of it")]

use crate::support::within;
use fencepost_proto::v1::{
    self, keep_alive_request::Message as ClientMessage, keep_alive_response::Message as ServerMessage,
    lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

/// The client side of a stream.
pub(crate) struct Stream {
    pub(crate) requests: mpsc::Sender<v1::KeepAliveRequest>,
    responses: Streaming<v1::KeepAliveResponse>,
}

impl Stream {
    pub(crate) async fn open(mut client: LockServiceClient<tonic::transport::Channel>) -> Self {
        let (requests, outbound) = mpsc::channel(64);
        let responses = within(client.keep_alive(ReceiverStream::new(outbound))).await.unwrap().into_inner();
        Self { requests, responses }
    }

    pub(crate) async fn send(&self, message: ClientMessage) {
        within(self.requests.send(v1::KeepAliveRequest { message: Some(message) })).await.unwrap();
    }

    pub(crate) async fn attach(&self, leases: Vec<v1::LeaseAttachment>) {
        self.send(ClientMessage::Attach(v1::AttachLeases { leases })).await;
    }

    pub(crate) async fn answer(&self, beat: u64) {
        self.send(ClientMessage::Answer(v1::BeatAnswer { beat })).await;
    }

    pub(crate) async fn next(&mut self) -> Result<ServerMessage, Status> {
        within(self.responses.next()).await.expect("the stream continues").map(|response| response.message.unwrap())
    }

    /// The next message that is not a beat. Answers beats if `answering`.
    pub(crate) async fn next_but_beats(&mut self, answering: bool) -> ServerMessage {
        loop {
            match self.next().await.unwrap() {
                ServerMessage::Beat(beat) if answering => self.answer(beat.beat).await,
                ServerMessage::Beat(_) => {}
                other => return other,
            }
        }
    }

    /// Answers the beats selected by `answer` for this time. Returns the number of renewals; fails at any other
    /// message.
    pub(crate) async fn answer_for(&mut self, span: Duration, answer: impl Fn(u64) -> bool) -> usize {
        let end = Instant::now() + span;
        let mut renewed = 0;
        while Instant::now() < end {
            match self.next().await.unwrap() {
                ServerMessage::Beat(beat) if answer(beat.beat) => self.answer(beat.beat).await,
                ServerMessage::Beat(_) => {}
                ServerMessage::Renewed(message) => {
                    renewed += message.leases.iter().map(|it| it.handles.len()).sum::<usize>();
                }
                other => panic!("{other:?}"),
            }
        }
        renewed
    }
}

pub(crate) fn attachment(handle: u32, lease: &v1::Lease) -> v1::LeaseAttachment {
    v1::LeaseAttachment {
        handle,
        lock_name: lease.lock_name.clone(),
        lease_id: lease.lease_id.clone(),
        attempt: 1,
        release_on_disconnect: false,
    }
}
