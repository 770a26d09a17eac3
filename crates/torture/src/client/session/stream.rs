//! One session: what is under way on it, what is attached to it, and the loop that reads it and answers beats.

use super::{
    messages::{Kept, Numbers, Tiding},
    wrong,
};
use crate::{
    client::{caller::CALL_MAX, outcome::duration},
    clock,
};
use fencepost_proto::v1::{
    self, acquire_response::Outcome, lock_service_client::LockServiceClient, session_request::Message as Say,
    session_response::Message as Hear,
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

/// What waits for the transport. More, and the session is as good as dead.
const UNSENT_MAX: usize = 1_024;
/// No operation on a session that lives takes longer than this and its wait, whatever fault there is.
const UNANSWERED_MAX: Duration = Duration::from_secs(8);
/// So many beats a server sends without an answer.
const BEATS_UNANSWERED_MAX: u64 = 32;
/// Beats whose answers may still renew something.
const BEATS_KEPT: usize = 100;

pub(super) struct Stream {
    pub(super) server: usize,
    handles: Numbers,
    heard_at: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Gone when the session is over.
    say: Option<mpsc::Sender<v1::SessionRequest>>,
    reader: Option<AbortHandle>,
    is_draining: bool,
    last_operation: u64,
    operations: HashMap<u64, Operation>,
    leases: HashMap<u32, Lease>,
    /// When the answers to beats were sent.
    answers: BTreeMap<u64, Nanos>,
}

struct Operation {
    answer: oneshot::Sender<Hear>,
    /// Of an acquire: under which its lease is to be kept.
    handle: Option<u32>,
    due: Nanos,
    /// The first beat that was heard after that.
    overdue_since: Option<u64>,
}

struct Lease {
    tell: mpsc::UnboundedSender<Tiding>,
    /// What attached it, or will.
    sent: Nanos,
    is_attached: bool,
}

/// An operation that is under way.
pub(super) struct Asked {
    pub(super) number: u64,
    /// Never comes if the session ends before it.
    pub(super) answer: oneshot::Receiver<Hear>,
}

impl Stream {
    /// Does not wait until it stands: what is asked meanwhile is sent as soon as it does.
    pub(super) fn open(service: LockServiceClient<Channel>, server: usize, handles: Numbers) -> Arc<Self> {
        let (say, said) = mpsc::channel(UNSENT_MAX);
        let state = Mutex::new(State { say: Some(say), ..State::default() });
        let stream = Arc::new(Self { server, handles, heard_at: AtomicU64::new(clock::now()), state });
        let reader = tokio::spawn(Arc::clone(&stream).read(service, said));
        stream.state().reader = Some(reader.abort_handle());
        stream
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn takes_more(&self) -> bool {
        let state = self.state();
        state.say.is_some() && !state.is_draining
    }

    /// When the server said anything last.
    pub(super) fn heard_at(&self) -> Nanos {
        self.heard_at.load(Ordering::Relaxed)
    }

    /// Of what is under way nobody knows any more.
    pub(super) fn close(&self) {
        self.state().close();
    }

    pub(super) fn ask(&self, message: Say) -> Asked {
        self.state().ask(message, None, Duration::ZERO)
    }

    pub(super) fn acquire(self: &Arc<Self>, request: v1::AcquireRequest) -> (Asked, Kept) {
        let (handle, wait) = (self.handles.next(), duration(request.wait_timeout));
        let mut state = self.state();
        let tidings = state.expect(handle, false);
        let acquire = v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        let asked = state.ask(Say::Acquire(acquire), Some(handle), wait);
        drop(state);
        (asked, Kept { stream: Arc::clone(self), handle, tidings })
    }

    pub(super) fn cancel(&self, operation: u64) {
        self.state().say(0, Say::Cancel(v1::CancelOperation { operation }));
    }

    pub(super) fn attach(self: &Arc<Self>, lease: &v1::Lease, attempt: u32) -> Kept {
        let handle = self.handles.next();
        let mut state = self.state();
        let tidings = state.expect(handle, true);
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let attachment = v1::LeaseAttachment { handle, lock_name, lease_id, attempt, release_on_disconnect: false };
        state.say(0, Say::Attach(v1::AttachLeases { leases: vec![attachment] }));
        drop(state);
        Kept { stream: Arc::clone(self), handle, tidings }
    }

    /// Nobody is interested in this lease any more.
    pub(super) fn let_go(&self, handle: u32) {
        let mut state = self.state();
        if state.leases.remove(&handle).is_some_and(|lease| lease.is_attached) {
            state.detach(handle);
        }
        state.close_if_drained();
    }

    async fn read(self: Arc<Self>, mut service: LockServiceClient<Channel>, said: mpsc::Receiver<v1::SessionRequest>) {
        if let Ok(Ok(opened)) = timeout(CALL_MAX, service.session(ReceiverStream::new(said))).await {
            let mut hear = opened.into_inner();
            loop {
                match hear.message().await {
                    Ok(Some(response)) => {
                        self.heard_at.store(clock::now(), Ordering::Relaxed);
                        self.state().heard(response);
                    }
                    Err(status) if status.code() == Code::InvalidArgument => wrong(status.message()),
                    Ok(None) | Err(_) => break,
                }
            }
        }
        self.close();
    }
}

impl State {
    fn say(&mut self, operation: u64, message: Say) {
        let Some(say) = &self.say else { return };
        if say.try_send(v1::SessionRequest { operation, message: Some(message) }).is_err() {
            self.close();
        }
    }

    fn ask(&mut self, message: Say, handle: Option<u32>, wait: Duration) -> Asked {
        self.last_operation += 1;
        let number = self.last_operation;
        let (answer, receiver) = oneshot::channel();
        if self.say.is_some() {
            let due = clock::now() + clock::nanos(wait + UNANSWERED_MAX);
            self.operations.insert(number, Operation { answer, handle, due, overdue_since: None });
        }
        self.say(number, message);
        Asked { number, answer: receiver }
    }

    fn expect(&mut self, handle: u32, is_attached: bool) -> mpsc::UnboundedReceiver<Tiding> {
        let (tell, tidings) = mpsc::unbounded_channel();
        if self.say.is_some() {
            self.leases.insert(handle, Lease { tell, sent: clock::now(), is_attached });
        }
        tidings
    }

    fn detach(&mut self, handle: u32) {
        self.say(0, Say::Detach(v1::DetachLeases { handles: vec![handle] }));
    }

    fn close(&mut self) {
        self.say = None;
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

    fn heard(&mut self, response: v1::SessionResponse) {
        if self.say.is_none() {
            return;
        }
        let at = clock::now();
        match response.message {
            Some(Hear::Beat(beat)) => {
                self.answers.insert(beat.beat, at);
                if self.answers.len() > BEATS_KEPT {
                    self.answers.pop_first();
                }
                self.say(0, Say::Answer(v1::BeatAnswer { beat: beat.beat }));
                for (number, operation) in self.operations.iter_mut().filter(|(_, operation)| operation.due < at) {
                    // What is heard late may have been sent long before. Not so a beat that came after the answer to
                    // one that was heard then.
                    if beat.beat > *operation.overdue_since.get_or_insert(beat.beat) + BEATS_UNANSWERED_MAX {
                        wrong(&format!("operation {number} was never answered"));
                    }
                }
            }
            Some(Hear::Waiting(_)) if !self.operations.contains_key(&response.operation) => {
                wrong(&format!("operation {} waits, which is not under way", response.operation));
            }
            Some(Hear::Waiting(_)) => {}
            Some(answer @ (Hear::Acquire(_) | Hear::Release(_) | Hear::Renew(_) | Hear::Error(_))) => {
                self.answered(response.operation, answer);
            }
            Some(Hear::Attached(attached)) => self.renewed(None, at, &attached.leases),
            Some(Hear::Renewed(renewed)) => match self.answers.get(&renewed.beat).copied() {
                Some(sent) => self.renewed(Some(sent), at, &renewed.leases),
                None => wrong(&format!("beat {} renewed something unanswered", renewed.beat)),
            },
            Some(Hear::Lost(lost)) => self.tell_last(lost.handle, Tiding::Lost { at, lost }),
            Some(Hear::Detached(detached)) => self.tell_last(detached.handle, Tiding::Detached(detached.reason())),
            Some(Hear::AtRisk(at_risk)) => at_risk.handles.iter().for_each(|handle| self.tell(*handle, Tiding::AtRisk)),
            Some(Hear::Draining(_)) => {
                self.is_draining = true;
                self.leases.values().for_each(|lease| drop(lease.tell.send(Tiding::Draining)));
                self.close_if_drained();
            }
            None => wrong("a message without one"),
        }
    }

    fn answered(&mut self, number: u64, message: Hear) {
        let Some(Operation { answer, handle, .. }) = self.operations.remove(&number) else {
            wrong(&format!("operation {number} is answered, which is not under way: {message:?}"));
        };
        let acquired = matches!(&message, Hear::Acquire(answer) if answer.outcome() == Outcome::Acquired);
        if let Some(handle) = handle {
            match self.leases.get_mut(&handle) {
                Some(lease) if acquired => lease.is_attached = true,
                Some(_) => drop(self.leases.remove(&handle)),
                // Granted when nobody waited for it any more: it is not to be kept alive for ever.
                None if acquired => self.detach(handle),
                None => {}
            }
        }
        // Whoever asked may have given up.
        let _ = answer.send(message);
        self.close_if_drained();
    }

    /// `sent` is when the answer to the beat was, if it was one that renewed them.
    fn renewed(&self, sent: Option<Nanos>, at: Nanos, renewed: &[v1::RenewedLeases]) {
        for group in renewed {
            for handle in &group.handles {
                if let Some(lease) = self.leases.get(handle) {
                    let (sent, ttl) = (sent.unwrap_or(lease.sent), duration(group.ttl));
                    let _ = lease.tell.send(Tiding::Renewed { sent, at, ttl });
                }
            }
        }
    }

    fn tell(&self, handle: u32, tiding: Tiding) {
        if let Some(lease) = self.leases.get(&handle) {
            let _ = lease.tell.send(tiding);
        }
    }

    /// The session does not keep it any more.
    fn tell_last(&mut self, handle: u32, tiding: Tiding) {
        self.tell(handle, tiding);
        self.leases.remove(&handle);
        self.close_if_drained();
    }
}
