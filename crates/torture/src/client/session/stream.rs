//! One session: its operations, its attached leases, and the loop that reads it and answers beats.

use super::{
    messages::{Attachment, Handles, Notification},
    protocol_violation,
};
use crate::{
    client::{caller::CALL_MAX, outcome::duration},
    clock,
};
use fencepost_proto::v1::{
    self, acquire_response::Outcome, lock_service_client::LockServiceClient, session_request::Message as ClientMessage,
    session_response::Message as ServerMessage,
};
use fencepost_torture::history::Nanos;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, transport::Channel};

/// The limit of messages that wait for the transport. With more, the session is closed.
const UNSENT_MAX: usize = 1_024;
/// The limit of an operation on a live session, in addition to its wait, under any fault.
const UNANSWERED_MAX: Duration = Duration::from_secs(8);
/// The number of beats that a server sends without an answer.
const BEATS_UNANSWERED_MAX: u64 = 32;
/// The number of beats whose answers may still renew a lease.
const BEATS_KEPT: usize = 100;

pub(super) struct Stream {
    pub(super) server: usize,
    handles: Handles,
    last_received_at: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` when the session has ended.
    outgoing: Option<mpsc::Sender<v1::SessionRequest>>,
    reader: Option<AbortHandle>,
    is_draining: bool,
    last_operation: u64,
    operations: HashMap<u64, Operation>,
    leases: HashMap<u32, Lease>,
    /// When beats were answered.
    answers: BTreeMap<u64, Nanos>,
}

struct Operation {
    answer: oneshot::Sender<ServerMessage>,
    /// For an acquire, the handle of its lease.
    handle: Option<u32>,
    due: Nanos,
    /// The first beat that arrived after that.
    overdue_since: Option<u64>,
}

struct Lease {
    notify: mpsc::UnboundedSender<Notification>,
    /// When its attachment, or its acquire, was sent.
    sent: Nanos,
    is_attached: bool,
}

/// An operation in flight.
pub(super) struct PendingOperation {
    pub(super) number: u64,
    /// Fails if the session ends first.
    pub(super) answer: oneshot::Receiver<ServerMessage>,
}

impl Stream {
    /// Does not wait for the session to open: operations are sent once it is.
    pub(super) fn open(service: LockServiceClient<Channel>, server: usize, handles: Handles) -> Arc<Self> {
        let (outgoing, requests) = mpsc::channel(UNSENT_MAX);
        let state = Mutex::new(State { outgoing: Some(outgoing), ..State::default() });
        let stream = Arc::new(Self { server, handles, last_received_at: AtomicU64::new(clock::now()), state });
        let reader = tokio::spawn(Arc::clone(&stream).read(service, requests));
        stream.state().reader = Some(reader.abort_handle());
        stream
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn accepts_operations(&self) -> bool {
        let state = self.state();
        state.outgoing.is_some() && !state.is_draining
    }

    /// When the last message arrived.
    pub(super) fn last_received_at(&self) -> Nanos {
        self.last_received_at.load(Ordering::Relaxed)
    }

    /// The outcome of operations in flight becomes unknown.
    pub(super) fn close(&self) {
        self.state().close();
    }

    pub(super) fn send_operation(&self, message: ClientMessage) -> PendingOperation {
        self.state().send_operation(message, None, Duration::ZERO)
    }

    pub(super) fn acquire(self: &Arc<Self>, request: v1::AcquireRequest) -> (PendingOperation, Attachment) {
        let (handle, wait) = (self.handles.next(), duration(request.wait_timeout));
        let mut state = self.state();
        let notifications = state.register(handle, false);
        let acquire = v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        let pending = state.send_operation(ClientMessage::Acquire(acquire), Some(handle), wait);
        drop(state);
        (pending, Attachment { stream: Arc::clone(self), handle, notifications })
    }

    pub(super) fn cancel(&self, operation: u64) {
        self.state().send(0, ClientMessage::Cancel(v1::CancelOperation { operation }));
    }

    pub(super) fn attach(self: &Arc<Self>, lease: &v1::Lease, attempt: u32) -> Attachment {
        let handle = self.handles.next();
        let mut state = self.state();
        let notifications = state.register(handle, true);
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let message = v1::LeaseAttachment { handle, lock_name, lease_id, attempt, release_on_disconnect: false };
        state.send(0, ClientMessage::Attach(v1::AttachLeases { leases: vec![message] }));
        drop(state);
        Attachment { stream: Arc::clone(self), handle, notifications }
    }

    /// The lease is no longer used.
    pub(super) fn drop_lease(&self, handle: u32) {
        let mut state = self.state();
        if state.leases.remove(&handle).is_some_and(|lease| lease.is_attached) {
            state.detach(handle);
        }
        state.close_if_drained();
    }

    async fn read(
        self: Arc<Self>,
        mut service: LockServiceClient<Channel>,
        requests: mpsc::Receiver<v1::SessionRequest>,
    ) {
        if let Ok(Ok(opened)) = timeout(CALL_MAX, service.session(ReceiverStream::new(requests))).await {
            let mut incoming = opened.into_inner();
            loop {
                match incoming.message().await {
                    Ok(Some(response)) => {
                        self.last_received_at.store(clock::now(), Ordering::Relaxed);
                        self.state().receive(response);
                    }
                    Err(status) if status.code() == Code::InvalidArgument => protocol_violation(status.message()),
                    Ok(None) | Err(_) => break,
                }
            }
        }
        self.close();
    }
}

impl State {
    fn send(&mut self, operation: u64, message: ClientMessage) {
        let Some(outgoing) = &self.outgoing else { return };
        if outgoing.try_send(v1::SessionRequest { operation, message: Some(message) }).is_err() {
            self.close();
        }
    }

    fn send_operation(&mut self, message: ClientMessage, handle: Option<u32>, wait: Duration) -> PendingOperation {
        self.last_operation += 1;
        let number = self.last_operation;
        let (answer, receiver) = oneshot::channel();
        if self.outgoing.is_some() {
            let due = clock::now() + clock::nanos(wait + UNANSWERED_MAX);
            self.operations.insert(number, Operation { answer, handle, due, overdue_since: None });
        }
        self.send(number, message);
        PendingOperation { number, answer: receiver }
    }

    fn register(&mut self, handle: u32, is_attached: bool) -> mpsc::UnboundedReceiver<Notification> {
        let (notify, notifications) = mpsc::unbounded_channel();
        if self.outgoing.is_some() {
            self.leases.insert(handle, Lease { notify, sent: clock::now(), is_attached });
        }
        notifications
    }

    fn detach(&mut self, handle: u32) {
        self.send(0, ClientMessage::Detach(v1::DetachLeases { handles: vec![handle] }));
    }

    fn close(&mut self) {
        self.outgoing = None;
        self.operations.clear();
        self.leases.clear();
        if let Some(reader) = self.reader.take() {
            reader.abort();
        }
    }

    fn close_if_drained(&mut self) {
        if self.is_draining && self.leases.is_empty() && self.operations.is_empty() {
            self.close();
        }
    }

    fn receive(&mut self, response: v1::SessionResponse) {
        if self.outgoing.is_none() {
            return;
        }
        let at = clock::now();
        match response.message {
            Some(ServerMessage::Beat(beat)) => {
                self.answers.insert(beat.beat, at);
                if self.answers.len() > BEATS_KEPT {
                    self.answers.pop_first();
                }
                self.send(0, ClientMessage::Answer(v1::BeatAnswer { beat: beat.beat }));
                for (number, operation) in self.operations.iter_mut().filter(|(_, operation)| operation.due < at) {
                    // A late message may have been sent long before, but not a beat that follows the answer to one that
                    // arrived then.
                    if beat.beat > *operation.overdue_since.get_or_insert(beat.beat) + BEATS_UNANSWERED_MAX {
                        protocol_violation(&format!("operation {number} was not answered"));
                    }
                }
            }
            Some(ServerMessage::Waiting(_)) if !self.operations.contains_key(&response.operation) => {
                protocol_violation(&format!("operation {} waits, but is not in flight", response.operation));
            }
            Some(ServerMessage::Waiting(_)) => {}
            Some(
                answer @ (ServerMessage::Acquire(_)
                | ServerMessage::Release(_)
                | ServerMessage::Renew(_)
                | ServerMessage::Error(_)),
            ) => {
                self.answered(response.operation, answer);
            }
            Some(ServerMessage::Attached(attached)) => self.renewed(None, at, &attached.leases),
            Some(ServerMessage::Renewed(renewed)) => match self.answers.get(&renewed.beat).copied() {
                Some(sent) => self.renewed(Some(sent), at, &renewed.leases),
                None => protocol_violation(&format!("beat {} renewed something unanswered", renewed.beat)),
            },
            Some(ServerMessage::Lost(lost)) => self.notify_last(lost.handle, Notification::Lost { at, lost }),
            Some(ServerMessage::Detached(detached)) => {
                self.notify_last(detached.handle, Notification::Detached(detached.reason()));
            }
            Some(ServerMessage::Wanted(_)) => protocol_violation("a lease is wanted that did not ask to be told"),
            Some(ServerMessage::AtRisk(at_risk)) => {
                at_risk.handles.iter().for_each(|handle| self.notify(*handle, Notification::AtRisk));
            }
            Some(ServerMessage::Draining(_)) => {
                self.is_draining = true;
                self.leases.values().for_each(|lease| drop(lease.notify.send(Notification::Draining)));
                self.close_if_drained();
            }
            None => protocol_violation("an empty message"),
        }
    }

    fn answered(&mut self, number: u64, message: ServerMessage) {
        let Some(Operation { answer, handle, .. }) = self.operations.remove(&number) else {
            protocol_violation(&format!("operation {number} is answered, but is not in flight: {message:?}"));
        };
        let acquired = matches!(&message, ServerMessage::Acquire(answer) if answer.outcome() == Outcome::Acquired);
        if let Some(handle) = handle {
            match self.leases.get_mut(&handle) {
                Some(lease) if acquired => lease.is_attached = true,
                Some(_) => drop(self.leases.remove(&handle)),
                // Granted after the caller left: must not be kept alive.
                None if acquired => self.detach(handle),
                None => {}
            }
        }
        // The caller may have left.
        let _ = answer.send(message);
        self.close_if_drained();
    }

    /// `sent` is when the beat was answered; `None` for an attachment.
    fn renewed(&self, sent: Option<Nanos>, at: Nanos, renewed: &[v1::RenewedLeases]) {
        for group in renewed {
            for handle in &group.handles {
                if let Some(lease) = self.leases.get(handle) {
                    let (sent, ttl) = (sent.unwrap_or(lease.sent), duration(group.ttl));
                    let _ = lease.notify.send(Notification::Renewed { sent, at, ttl });
                }
            }
        }
    }

    fn notify(&self, handle: u32, notification: Notification) {
        if let Some(lease) = self.leases.get(&handle) {
            let _ = lease.notify.send(notification);
        }
    }

    /// The session no longer keeps the lease.
    fn notify_last(&mut self, handle: u32, notification: Notification) {
        self.notify(handle, notification);
        self.leases.remove(&handle);
        self.close_if_drained();
    }
}
