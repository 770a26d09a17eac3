//! The client side of a session, on the generated stubs.
#![allow(dead_code, reason = "no test uses all of it")]

use crate::support::{Lock, Server, acquire_request, narrow_channel, until, within};
use fencepost_proto::v1::{
    self, acquire_response::Outcome, lock_service_client::LockServiceClient, session_request::Message as ClientMessage,
    session_response::Message as ServerMessage,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Status, Streaming, transport::Channel};

/// The client side of a session.
pub(crate) struct Session {
    requests: mpsc::Sender<v1::SessionRequest>,
    responses: Streaming<v1::SessionResponse>,
}

impl Session {
    pub(crate) async fn open(mut client: LockServiceClient<Channel>) -> Self {
        let (requests, outbound) = mpsc::channel(1_024);
        let responses = within(client.session(ReceiverStream::new(outbound))).await.unwrap().into_inner();
        Self { requests, responses }
    }

    /// A session whose first operations wait for these locks, and which is not read after that.
    pub(crate) async fn unread(server: &Server, requests: Vec<v1::AcquireRequest>) -> Self {
        let mut session = Self::open(LockServiceClient::new(narrow_channel(server.addr))).await;
        for (number, request) in (1..).zip(requests) {
            session.acquire(number, request).await;
            assert!(matches!(session.next_message().await, (_, ServerMessage::Waiting(_))));
        }
        // The transport buffers the answer to the first operation, and blocks at the answer to the second.
        for (number, lock) in [(1_001, "unread/1"), (1_002, "unread/2")] {
            session.acquire(number, acquire_request(lock, Duration::from_secs(600))).await;
            until(async || !server.client().lock_info(lock).await.holders.is_empty()).await;
        }
        session
    }

    pub(crate) async fn send(&self, operation: u64, message: ClientMessage) {
        within(self.requests.send(v1::SessionRequest { operation, message: Some(message) })).await.unwrap();
    }

    /// Sends an acquire. The handle of its lease is the number of the operation.
    pub(crate) async fn acquire(&self, operation: u64, request: v1::AcquireRequest) {
        let handle = u32::try_from(operation).unwrap();
        let acquire = v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        self.send(operation, ClientMessage::Acquire(acquire)).await;
    }

    pub(crate) async fn release(&self, operation: u64, lease: &v1::Lease) {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        self.send(operation, ClientMessage::Release(v1::ReleaseRequest { lock_name, lease_id })).await;
    }

    pub(crate) async fn cancel(&self, operation: u64) {
        self.send(0, ClientMessage::Cancel(v1::CancelOperation { operation })).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<(u64, ServerMessage), Status> {
        let next = within(self.responses.next()).await.expect("the stream continues");
        next.map(|response| (response.operation, response.message.unwrap()))
    }

    /// The next message that is not a beat. Answers beats.
    pub(crate) async fn next_message(&mut self) -> (u64, ServerMessage) {
        // One bound for the loop, because beats never stop.
        within(async {
            loop {
                match self.next().await.unwrap() {
                    (0, ServerMessage::Beat(beat)) => {
                        self.send(0, ClientMessage::Answer(v1::BeatAnswer { beat: beat.beat })).await;
                    }
                    other => return other,
                }
            }
        })
        .await
    }

    /// The next message that is neither a beat nor a queue position.
    pub(crate) async fn answer(&mut self) -> (u64, ServerMessage) {
        loop {
            match self.next_message().await {
                (_, ServerMessage::Waiting(_)) => {}
                other => return other,
            }
        }
    }

    pub(crate) async fn granted(&mut self, operation: u64) -> v1::Lease {
        match self.answer().await {
            (answered, ServerMessage::Acquire(answer)) if answered == operation => {
                assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
                answer.lease.unwrap()
            }
            other => panic!("no grant for {operation}: {other:?}"),
        }
    }

    /// The same, and skips other messages.
    pub(crate) async fn granted_at_last(&mut self, operation: u64) -> v1::Lease {
        loop {
            if let (answered, ServerMessage::Acquire(answer)) = self.answer().await {
                assert_eq!((answered, answer.outcome()), (operation, Outcome::Acquired), "{answer:?}");
                return answer.lease.unwrap();
            }
        }
    }

    pub(crate) async fn acquire_lease(&mut self, operation: u64, request: v1::AcquireRequest) -> v1::Lease {
        self.acquire(operation, request).await;
        self.granted(operation).await
    }

    pub(crate) async fn released(&mut self, operation: u64) -> v1::LeaseEnd {
        match self.answer().await {
            (answered, ServerMessage::Release(release)) if answered == operation => release.end(),
            other => panic!("no release for {operation}: {other:?}"),
        }
    }

    /// The status of a failed operation.
    pub(crate) async fn failed(&mut self, operation: u64) -> Status {
        use prost::Message as _;
        match self.answer().await {
            (answered, ServerMessage::Error(error)) if answered == operation => {
                Status::with_details(error.code.into(), error.message.clone(), error.encode_to_vec().into())
            }
            other => panic!("no error for {operation}: {other:?}"),
        }
    }
}
