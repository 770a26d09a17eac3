//! Many calls on one Session stream. Each has a number by which its answer finds the waiting task.

use super::{
    caller::Failure,
    keeper::{LeaseEvents, lease_count},
};
use anyhow::{Context, Result};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, BeatAnswer, ReleaseRequest, ReleaseResponse, SessionAcquire, SessionRequest,
    SessionResponse, lock_service_client::LockServiceClient, session_request, session_response,
};
use parking_lot::Mutex;
use slab::Slab;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Code, Status, transport::Channel};

/// A stream shared by its clones. It ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Unbounded: the read loop must never wait to write, and each client has one operation in flight.
    requests: mpsc::UnboundedSender<SessionRequest>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    handles: AtomicU32,
    events: Arc<LeaseEvents>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of an operation is its index here plus one.
    waiting: Slab<oneshot::Sender<session_response::Message>>,
    /// Why the session ended.
    ended: Option<Failure>,
}

impl Session {
    pub(super) async fn open(client: &mut LockServiceClient<Channel>) -> Result<Self> {
        let (requests, outbound) = mpsc::unbounded_channel();
        let opened = client.session(UnboundedReceiverStream::new(outbound)).await;
        let inbound =
            opened.map_err(|status| anyhow::anyhow!(Failure::from(status).0)).context("cannot open a Session")?;
        Ok(Self::over(requests, inbound.into_inner()))
    }

    /// A session over an open stream.
    fn over(
        requests: mpsc::UnboundedSender<SessionRequest>,
        inbound: impl Stream<Item = Result<SessionResponse, Status>> + Send + Unpin + 'static,
    ) -> Self {
        let events = Arc::new(LeaseEvents::default());
        let shared = Arc::new(Shared { state: Mutex::default(), handles: AtomicU32::new(0), events });
        // Weak, so that the stream ends with its last user.
        tokio::spawn(read(inbound, requests.downgrade(), shared.clone()));
        Self { requests, shared }
    }

    /// The events of its leases.
    pub(super) fn events(&self) -> &Arc<LeaseEvents> {
        &self.shared.events
    }

    pub(super) async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResponse, Failure> {
        // Handles are never reused: no run is long enough.
        let handle = self.shared.handles.fetch_add(1, Relaxed).wrapping_add(1);
        let acquire = SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        match self.operation(session_request::Message::Acquire(acquire)).await? {
            session_response::Message::Acquire(response) => Ok(response),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResponse, Failure> {
        match self.operation(session_request::Message::Release(request)).await? {
            session_response::Message::Release(response) => Ok(response),
            other => Err(unexpected(other)),
        }
    }

    /// Dropped, its answer is discarded.
    async fn operation(&self, message: session_request::Message) -> Result<session_response::Message, Failure> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.shared.state.lock();
            if let Some(why) = &state.ended {
                return Err(why.clone());
            }
            state.waiting.insert(sender) as u64 + 1
        };
        let ended =
            || self.shared.state.lock().ended.clone().unwrap_or_else(|| Failure("the session ended".to_owned()));
        let request = SessionRequest { operation: number, message: Some(message) };
        self.requests.send(request).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())
    }
}

impl Shared {
    /// Passes the answer to the waiting task.
    fn answered(&self, number: u64, message: session_response::Message) {
        let index = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1);
        let waiting = self.state.lock().waiting.try_remove(index);
        match waiting {
            // Fails only if the task is gone.
            Some(waiting) => _ = waiting.send(message),
            None => self.events.unexpected_answers.add(1),
        }
    }

    fn ended(&self, why: Failure) {
        let mut state = self.state.lock();
        state.ended = Some(why);
        state.waiting.clear();
    }
}

/// Reads until the end. Answers beats directly.
async fn read(
    mut inbound: impl Stream<Item = Result<SessionResponse, Status>> + Unpin,
    requests: mpsc::WeakUnboundedSender<SessionRequest>,
    shared: Arc<Shared>,
) {
    use session_response::Message;
    let why = loop {
        let response = match inbound.next().await {
            Some(Ok(response)) => response,
            None => break Failure("the server ended the session".to_owned()),
            Some(Err(status)) => break Failure::from(status),
        };
        let Some(message) = response.message else { continue };
        match message {
            Message::Acquire(_) | Message::Release(_) | Message::Renew(_) | Message::Error(_) => {
                shared.answered(response.operation, message);
            }
            // Queued: the answer follows.
            Message::Waiting(_) => {}
            Message::Beat(beat) => {
                let message = Some(session_request::Message::Answer(BeatAnswer { beat: beat.beat }));
                let Some(requests) = requests.upgrade() else { break Failure("the session is unused".to_owned()) };
                // Fails only at the end of the stream, which is read next.
                let _ = requests.send(SessionRequest { operation: 0, message });
            }
            Message::Attached(attached) => shared.events.attached.add(lease_count(&attached.leases)),
            Message::Renewed(renewed) => shared.events.renewed.add(lease_count(&renewed.leases)),
            Message::Lost(_) => shared.events.lost.add(1),
            Message::AtRisk(at_risk) => shared.events.at_risk.add(at_risk.handles.len()),
            Message::Detached(_) => shared.events.detached.add(1),
            Message::Draining(_) | Message::Wanted(_) => {}
        }
    };
    if requests.upgrade().is_some() {
        shared.events.ended.add(1);
    }
    shared.ended(why);
}

fn unexpected(message: session_response::Message) -> Failure {
    match message {
        session_response::Message::Error(error) => {
            Failure(format!("{:?}: {}", Code::from_i32(error.code), error.message))
        }
        _ => Failure("an operation was answered with another message".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_proto::v1::{Beat, LeaseEnd, OperationError, Waiting};
    use session_response::Message;

    type Responses = mpsc::UnboundedSender<Result<SessionResponse, Status>>;

    /// A session, and the server's ends of its stream.
    fn session() -> (Session, mpsc::UnboundedReceiver<SessionRequest>, Responses) {
        let (requests, outbound) = mpsc::unbounded_channel();
        let (responses, inbound) = mpsc::unbounded_channel();
        (Session::over(requests, UnboundedReceiverStream::new(inbound)), outbound, responses)
    }

    fn message(operation: u64, message: Message) -> Result<SessionResponse, Status> {
        Ok(SessionResponse { operation, message: Some(message) })
    }

    #[tokio::test]
    async fn answers_find_their_tasks_and_beats_are_answered_meanwhile() {
        let (session, mut requests, responses) = session();
        let (one, two) = (session.clone(), session.clone());
        let acquire = tokio::spawn(async move { one.acquire(AcquireRequest::default()).await });
        let first = requests.recv().await.unwrap();
        let release = tokio::spawn(async move { two.release(ReleaseRequest::default()).await });
        let second = requests.recv().await.unwrap();
        assert_eq!((first.operation, second.operation), (1, 2));
        let Some(session_request::Message::Acquire(asked)) = first.message else { panic!("{first:?}") };
        assert_eq!(asked.handle, 1);
        responses.send(message(1, Message::Waiting(Waiting { ahead: 0 }))).unwrap();
        responses.send(message(0, Message::Beat(Beat { beat: 7, next_in: None }))).unwrap();
        let answered = requests.recv().await.unwrap();
        let answer = session_request::Message::Answer(BeatAnswer { beat: 7 });
        assert_eq!((answered.operation, answered.message), (0, Some(answer)));
        assert!(!acquire.is_finished(), "it is still queued");
        let released = ReleaseResponse { end: LeaseEnd::Released.into(), successor_token: 0 };
        responses.send(message(2, Message::Release(released))).unwrap();
        assert_eq!(release.await.unwrap(), Ok(released));
        responses.send(message(1, Message::Acquire(AcquireResponse { waiters: 3, ..Default::default() }))).unwrap();
        assert_eq!(acquire.await.unwrap().unwrap().waiters, 3);
    }

    #[tokio::test]
    async fn an_error_fails_one_operation_and_the_end_of_the_stream_all() {
        let (session, mut requests, responses) = session();
        let failing = session.clone();
        let acquire = tokio::spawn(async move { failing.acquire(AcquireRequest::default()).await });
        let operation = requests.recv().await.unwrap().operation;
        let error = OperationError { code: Code::Unavailable.into(), message: "no store".to_owned(), details: vec![] };
        responses.send(message(operation, Message::Error(error))).unwrap();
        assert_eq!(acquire.await.unwrap(), Err(Failure("Unavailable: no store".to_owned())));
        let cut = session.clone();
        let release = tokio::spawn(async move { cut.release(ReleaseRequest::default()).await });
        requests.recv().await.unwrap();
        responses.send(Err(Status::unavailable("stopping"))).unwrap();
        let why = Failure("Unavailable: stopping".to_owned());
        assert_eq!(release.await.unwrap(), Err(why.clone()));
        assert_eq!(session.acquire(AcquireRequest::default()).await, Err(why));
        assert_eq!(session.events().ended.get(), 1);
    }

    #[tokio::test]
    async fn an_unused_session_ends() {
        let (session, mut requests, _responses) = session();
        drop(session);
        assert_eq!(requests.recv().await, None);
    }
}
