//! Leases that a KeepAlive stream and a session keep alive while a test burdens their server.

use crate::{
    session_stream::Session,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, channel},
};
use fencepost_proto::v1::{
    BeatAnswer, Lease, LeaseEnd, keep_alive_response::Message as StreamMessage, lock_service_client::LockServiceClient,
    session_request::Message as SessionAnswer, session_response::Message as SessionMessage,
};
use std::{future::Future, net::SocketAddr, pin::pin, time::Duration};

const TTL: Duration = Duration::from_secs(10);

/// Two leases.
pub(crate) struct Kept {
    addr: SocketAddr,
    stream: Stream,
    session: Session,
    leases: [Lease; 2],
    /// Messages that renew the one on the stream, and the one on the session.
    renewals: [usize; 2],
}

impl Kept {
    pub(crate) async fn new(addr: SocketAddr) -> Self {
        let mut client = LockServiceClient::new(channel(addr));
        let on_stream = client.acquire_lease(acquire_request("kept/stream", TTL)).await;
        let mut stream = Stream::open(client.clone()).await;
        stream.attach(vec![attachment(1, &on_stream)]).await;
        assert!(matches!(stream.next_but_beats(true).await, StreamMessage::Attached(_)));
        let mut session = Session::open(client).await;
        let on_session = session.acquire_lease(1, acquire_request("kept/session", TTL)).await;
        Self { addr, stream, session, leases: [on_stream, on_session], renewals: [0; 2] }
    }

    /// Keeps the leases alive until `burden` has ended, and each has been renewed after that. Then releases them on a
    /// new connection. Fails if one is lost.
    pub(crate) async fn beside<T>(mut self, burden: impl Future<Output = T>) -> T {
        let mut burden = pin!(burden);
        let result = loop {
            tokio::select! {
                result = &mut burden => break result,
                // Dropped at an answer, the next beat is answered instead.
                () = self.take_message() => {}
            }
        };
        self.renewals = [0; 2];
        while self.renewals.contains(&0) {
            self.take_message().await;
        }
        let mut client = LockServiceClient::new(channel(self.addr));
        for lease in &self.leases {
            assert_eq!(client.release_lease(lease).await, LeaseEnd::Released, "{lease:?}");
        }
        result
    }

    async fn take_message(&mut self) {
        tokio::select! {
            message = self.stream.next() => match message.unwrap() {
                StreamMessage::Beat(beat) => self.stream.answer(beat.beat).await,
                StreamMessage::Renewed(_) => self.renewals[0] += 1,
                other => panic!("{other:?}"),
            },
            message = self.session.next() => match message.unwrap() {
                (0, SessionMessage::Beat(beat)) => {
                    self.session.send(0, SessionAnswer::Answer(BeatAnswer { beat: beat.beat })).await;
                }
                (0, SessionMessage::Renewed(_)) => self.renewals[1] += 1,
                other => panic!("{other:?}"),
            },
        }
    }
}
