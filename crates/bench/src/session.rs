//! Many calls on one Session stream: each has a number, by which its answer finds the task that waits for it.

use super::{
    caller::Fault,
    keeper::{Kept, tell},
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

/// A stream that is shared by its clones. It ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Not bounded: the loop that reads must never wait to write, and each client has one operation under way.
    requests: mpsc::UnboundedSender<SessionRequest>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    handles: AtomicU32,
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct State {
    /// An operation's number is its place here and one.
    waiting: Slab<oneshot::Sender<session_response::Message>>,
    /// Why there are no more answers.
    ended: Option<Fault>,
}

impl Session {
    pub(super) async fn open(client: &mut LockServiceClient<Channel>) -> Result<Self> {
        let (requests, outbound) = mpsc::unbounded_channel();
        let opened = client.session(UnboundedReceiverStream::new(outbound)).await;
        let inbound =
            opened.map_err(|status| anyhow::anyhow!(Fault::from(status).0)).context("cannot open a Session")?;
        Ok(Self::over(requests, inbound.into_inner()))
    }

    /// Over a stream that is open.
    fn over(
        requests: mpsc::UnboundedSender<SessionRequest>,
        inbound: impl Stream<Item = Result<SessionResponse, Status>> + Send + Unpin + 'static,
    ) -> Self {
        let kept = Arc::new(Kept::default());
        let shared = Arc::new(Shared { state: Mutex::default(), handles: AtomicU32::new(0), kept });
        // Weak, so that the stream ends when nobody uses it any more.
        tokio::spawn(read(inbound, requests.downgrade(), shared.clone()));
        Self { requests, shared }
    }

    /// What became of the leases on it.
    pub(super) fn kept(&self) -> &Arc<Kept> {
        &self.shared.kept
    }

    pub(super) async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResponse, Fault> {
        // Never used twice within any run, so it need not be known when one comes free.
        let handle = self.shared.handles.fetch_add(1, Relaxed).wrapping_add(1);
        let acquire = SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        match self.operation(session_request::Message::Acquire(acquire)).await? {
            session_response::Message::Acquire(response) => Ok(response),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResponse, Fault> {
        match self.operation(session_request::Message::Release(request)).await? {
            session_response::Message::Release(response) => Ok(response),
            other => Err(unexpected(other)),
        }
    }

    /// Dropped, its answer is thrown away.
    async fn operation(&self, message: session_request::Message) -> Result<session_response::Message, Fault> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.shared.state.lock();
            if let Some(why) = &state.ended {
                return Err(why.clone());
            }
            state.waiting.insert(sender) as u64 + 1
        };
        let ended = || self.shared.state.lock().ended.clone().unwrap_or_else(|| Fault("the session ended".to_owned()));
        let request = SessionRequest { operation: number, message: Some(message) };
        self.requests.send(request).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())
    }
}

impl Shared {
    /// The last answer to an operation goes to who waits for it.
    fn answered(&self, number: u64, message: session_response::Message) {
        let place = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(1);
        let waiting = self.state.lock().waiting.try_remove(place);
        match waiting {
            // Who does not wait any more does not want it.
            Some(waiting) => _ = waiting.send(message),
            None => self.kept.strays.add(1),
        }
    }

    fn ended(&self, why: Fault) {
        let mut state = self.state.lock();
        state.ended = Some(why);
        state.waiting.clear();
    }
}

/// Reads until the end. It answers beats itself, at once.
async fn read(
    mut inbound: impl Stream<Item = Result<SessionResponse, Status>> + Unpin,
    requests: mpsc::WeakUnboundedSender<SessionRequest>,
    shared: Arc<Shared>,
) {
    use session_response::Message;
    let why = loop {
        let response = match inbound.next().await {
            Some(Ok(response)) => response,
            None => break Fault("the server ended the session".to_owned()),
            Some(Err(status)) => break Fault::from(status),
        };
        let Some(message) = response.message else { continue };
        match message {
            Message::Acquire(_) | Message::Release(_) | Message::Renew(_) | Message::Error(_) => {
                shared.answered(response.operation, message);
            }
            // It has a place in line: the answer is still to come.
            Message::Waiting(_) => {}
            Message::Beat(beat) => {
                let message = Some(session_request::Message::Answer(BeatAnswer { beat: beat.beat }));
                let Some(requests) = requests.upgrade() else { break Fault("nobody uses the session".to_owned()) };
                // Fails only at the end, which is read next.
                let _ = requests.send(SessionRequest { operation: 0, message });
            }
            Message::Attached(attached) => shared.kept.attached.add(tell(&attached.leases)),
            Message::Renewed(renewed) => shared.kept.renewed.add(tell(&renewed.leases)),
            Message::Lost(_) => shared.kept.lost.add(1),
            Message::AtRisk(at_risk) => shared.kept.at_risk.add(at_risk.handles.len()),
            Message::Detached(_) => shared.kept.detached.add(1),
            Message::Draining(_) => {}
        }
    };
    if requests.upgrade().is_some() {
        shared.kept.ended.add(1);
    }
    shared.ended(why);
}

fn unexpected(message: session_response::Message) -> Fault {
    match message {
        session_response::Message::Error(error) => {
            Fault(format!("{:?}: {}", Code::from_i32(error.code), error.message))
        }
        _ => Fault("an operation was answered as another".to_owned()),
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
    async fn answers_find_who_waits_for_them_and_beats_are_answered_meanwhile() {
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
        assert!(!acquire.is_finished(), "it waits in line");
        let released = ReleaseResponse { end: LeaseEnd::Released.into(), successor_token: 0 };
        responses.send(message(2, Message::Release(released))).unwrap();
        assert_eq!(release.await.unwrap(), Ok(released));
        responses.send(message(1, Message::Acquire(AcquireResponse { waiters: 3, ..Default::default() }))).unwrap();
        assert_eq!(acquire.await.unwrap().unwrap().waiters, 3);
    }

    #[tokio::test]
    async fn an_error_is_that_of_one_operation_and_the_end_that_of_all() {
        let (session, mut requests, responses) = session();
        let failing = session.clone();
        let acquire = tokio::spawn(async move { failing.acquire(AcquireRequest::default()).await });
        let operation = requests.recv().await.unwrap().operation;
        let error = OperationError { code: Code::Unavailable.into(), message: "no store".to_owned(), details: vec![] };
        responses.send(message(operation, Message::Error(error))).unwrap();
        assert_eq!(acquire.await.unwrap(), Err(Fault("Unavailable: no store".to_owned())));
        let cut = session.clone();
        let release = tokio::spawn(async move { cut.release(ReleaseRequest::default()).await });
        requests.recv().await.unwrap();
        responses.send(Err(Status::unavailable("going away"))).unwrap();
        let why = Fault("Unavailable: going away".to_owned());
        assert_eq!(release.await.unwrap(), Err(why.clone()));
        assert_eq!(session.acquire(AcquireRequest::default()).await, Err(why));
        assert_eq!(session.kept().ended.get(), 1);
    }

    #[tokio::test]
    async fn a_session_that_nobody_uses_ends() {
        let (session, mut requests, _responses) = session();
        drop(session);
        assert_eq!(requests.recv().await, None);
    }
}
