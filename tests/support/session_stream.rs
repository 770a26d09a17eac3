//! The client side of a session, on the generated stubs.
#![allow(dead_code, reason = "no test uses all of it")]

use crate::support::{Lock, Server, narrow_channel, until, wish, within};
use fencepost_proto::v1::{
    self, acquire_response::Outcome, lock_service_client::LockServiceClient, session_request::Message as Say,
    session_response::Message as Hear,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Status, Streaming, transport::Channel};

/// The client side of a session.
pub(crate) struct Session {
    say: mpsc::Sender<v1::SessionRequest>,
    hear: Streaming<v1::SessionResponse>,
}

impl Session {
    pub(crate) async fn open(mut client: LockServiceClient<Channel>) -> Self {
        let (say, requests) = mpsc::channel(1_024);
        let hear = within(client.session(ReceiverStream::new(requests))).await.unwrap().into_inner();
        Self { say, hear }
    }

    /// A session whose first operations wait for these locks, and which is not read after that.
    pub(crate) async fn unread(server: &Server, wishes: Vec<v1::AcquireRequest>) -> Self {
        let mut session = Self::open(LockServiceClient::new(narrow_channel(server.addr))).await;
        for (number, wish) in (1..).zip(wishes) {
            session.acquire(number, wish).await;
            assert!(matches!(session.heard().await, (_, Hear::Waiting(_))));
        }
        // The transport buffers the answer to the first operation, and blocks at the answer to the second.
        for (number, lock) in [(1_001, "unread/1"), (1_002, "unread/2")] {
            session.acquire(number, wish(lock, Duration::from_secs(600))).await;
            until(async || !server.client().look(lock).await.holders.is_empty()).await;
        }
        session
    }

    pub(crate) async fn say(&self, operation: u64, message: Say) {
        within(self.say.send(v1::SessionRequest { operation, message: Some(message) })).await.unwrap();
    }

    /// Sends an acquire. The handle of its lease is the number of the operation.
    pub(crate) async fn acquire(&self, operation: u64, wish: v1::AcquireRequest) {
        let handle = u32::try_from(operation).unwrap();
        let acquire = v1::SessionAcquire { request: Some(wish), handle, release_on_disconnect: false };
        self.say(operation, Say::Acquire(acquire)).await;
    }

    pub(crate) async fn release(&self, operation: u64, lease: &v1::Lease) {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        self.say(operation, Say::Release(v1::ReleaseRequest { lock_name, lease_id })).await;
    }

    pub(crate) async fn cancel(&self, operation: u64) {
        self.say(0, Say::Cancel(v1::CancelOperation { operation })).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<(u64, Hear), Status> {
        let next = within(self.hear.next()).await.expect("the stream continues");
        next.map(|response| (response.operation, response.message.unwrap()))
    }

    /// The next message that is not a beat. Answers beats.
    pub(crate) async fn heard(&mut self) -> (u64, Hear) {
        // One bound for the loop, because beats never stop.
        within(async {
            loop {
                match self.next().await.unwrap() {
                    (0, Hear::Beat(beat)) => self.say(0, Say::Answer(v1::BeatAnswer { beat: beat.beat })).await,
                    other => return other,
                }
            }
        })
        .await
    }

    /// The next message that is neither a beat nor a queue position.
    pub(crate) async fn answer(&mut self) -> (u64, Hear) {
        loop {
            match self.heard().await {
                (_, Hear::Waiting(_)) => {}
                other => return other,
            }
        }
    }

    pub(crate) async fn granted(&mut self, operation: u64) -> v1::Lease {
        match self.answer().await {
            (answered, Hear::Acquire(answer)) if answered == operation => {
                assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
                answer.lease.unwrap()
            }
            other => panic!("no grant for {operation}: {other:?}"),
        }
    }

    /// The same, and skips other messages.
    pub(crate) async fn granted_at_last(&mut self, operation: u64) -> v1::Lease {
        loop {
            if let (answered, Hear::Acquire(answer)) = self.answer().await {
                assert_eq!((answered, answer.outcome()), (operation, Outcome::Acquired), "{answer:?}");
                return answer.lease.unwrap();
            }
        }
    }

    pub(crate) async fn take(&mut self, operation: u64, wish: v1::AcquireRequest) -> v1::Lease {
        self.acquire(operation, wish).await;
        self.granted(operation).await
    }

    pub(crate) async fn released(&mut self, operation: u64) -> v1::LeaseEnd {
        match self.answer().await {
            (answered, Hear::Release(release)) if answered == operation => release.end(),
            other => panic!("no release for {operation}: {other:?}"),
        }
    }

    /// The status of a failed operation.
    pub(crate) async fn failed(&mut self, operation: u64) -> Status {
        use prost::Message as _;
        match self.answer().await {
            (answered, Hear::Error(error)) if answered == operation => {
                Status::with_details(error.code.into(), error.message.clone(), error.encode_to_vec().into())
            }
            other => panic!("no error for {operation}: {other:?}"),
        }
    }
}
