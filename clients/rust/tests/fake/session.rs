//! The sessions of the scripted server. They share its scripts with the unary calls.

use super::{Do, Fake, ServerMessage, State, Stream, TTL, Unanswered, refused, wire};
use fencepost_client::raw::v1;
use fencepost_client::raw::v1::session_request::Message as ClientMessage;
use prost::Message as _;
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use v1::acquire_response::Outcome;
use v1::detached::Reason;

type Messages = ReceiverStream<Result<v1::SessionResponse, Status>>;

pub fn send(stream: &Stream, operation: u64, message: ServerMessage) {
    if let Some(to_client) = &stream.to_client {
        let _ = to_client.try_send(Ok(v1::SessionResponse { operation, message: Some(message) }));
    }
}

fn error(status: &Status) -> ServerMessage {
    let mut error = v1::OperationError::decode(status.details()).unwrap_or_default();
    (error.code, error.message) = (status.code().into(), status.message().to_owned());
    ServerMessage::Error(error)
}

pub fn open(fake: Fake, mut incoming: Streaming<v1::SessionRequest>) -> Messages {
    let (to_client, messages) = mpsc::channel(100_000);
    let index = fake.update(|state| {
        state.streams.push(Stream { to_client: Some(to_client), ..Stream::default() });
        state.streams.len() - 1
    });
    tokio::spawn(async move {
        let mut session = Session { fake: fake.clone(), index, waiting: HashMap::new() };
        let mut pace = tokio::time::interval(TTL / 12);
        let is_deaf = index < fake.state().deaf;
        loop {
            tokio::select! {
                message = incoming.message() => match message {
                    Ok(Some(_)) if is_deaf => {}
                    Ok(Some(message)) => session.receive(message.operation, message.message.unwrap()),
                    _ => break,
                },
                _ = pace.tick() => fake.update(|state| {
                    if state.beats && !is_deaf {
                        let stream = &mut state.streams[index];
                        stream.beats += 1;
                        send(stream, 0, ServerMessage::Beat(v1::Beat { beat: stream.beats, next_in: wire(TTL / 12) }));
                    }
                }),
            }
        }
        drop(session);
        fake.update(|state| {
            state.streams[index].ended = true;
            state.streams[index].to_client = None;
        });
    });
    ReceiverStream::new(messages)
}

struct Session {
    fake: Fake,
    index: usize,
    waiting: HashMap<u64, AbortHandle>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.waiting.values().for_each(AbortHandle::abort);
    }
}

impl Session {
    fn receive(&mut self, operation: u64, message: ClientMessage) {
        if operation != 0 {
            self.fake.update(|state| state.streams[self.index].operations.push(operation));
        }
        match message {
            ClientMessage::Acquire(acquire) => self.acquire(operation, acquire),
            ClientMessage::Release(release) => self.release(operation, release),
            ClientMessage::Cancel(cancel) => self.cancel(cancel.operation),
            ClientMessage::Renew(_) => panic!("the client never renews on a session"),
            ClientMessage::Attach(attach) if !attach.leases.iter().all(well_formed) => self.fake.update(|state| {
                // A malformed attachment ends the stream.
                if let Some(to_client) = state.streams[self.index].to_client.take() {
                    let _ = to_client.try_send(Err(Status::invalid_argument("no lease")));
                }
            }),
            ClientMessage::Attach(attach) => {
                self.fake
                    .update(|state| attach.leases.into_iter().for_each(|lease| attached(state, self.index, lease)));
            }
            ClientMessage::Detach(detach) => self.fake.update(|state| {
                let stream = &mut state.streams[self.index];
                for lease in detach.handles.iter().filter_map(|handle| stream.attached.remove(handle)) {
                    state.kept.remove(&lease.lease_id);
                }
                stream.detached.extend(detach.handles);
            }),
            ClientMessage::Answer(answer) => self.fake.update(|state| {
                let renews = state.renews_leases;
                let stream = &mut state.streams[self.index];
                stream.answers.push(answer.beat);
                if renews && !stream.attached.is_empty() {
                    let leases = vec![renewed(stream.attached.keys().copied().collect())];
                    send(stream, 0, ServerMessage::Renewed(v1::Renewed { beat: answer.beat, leases }));
                }
            }),
        }
    }

    fn acquire(&mut self, operation: u64, acquire: v1::SessionAcquire) {
        let (request, handle) = (acquire.request.unwrap(), acquire.handle);
        let mut unanswered = Unanswered { fake: self.fake.clone(), attempt: Some(request.attempt) };
        let action = self.fake.update(|state| {
            let action = (state.on_acquire)(&request);
            state.acquires.push(request);
            state.streams[self.index].unanswered.insert(operation);
            action
        });
        let (fake, index) = (self.fake.clone(), self.index);
        let answer = tokio::spawn(async move {
            let answer = action.run().await;
            unanswered.answered();
            fake.update(|state| match answer {
                _ if !state.streams[index].unanswered.remove(&operation) => {}
                Ok(answer) => answered(state, index, operation, handle, answer),
                Err(status) => send(&state.streams[index], operation, error(&status)),
            });
        });
        self.waiting.insert(operation, answer.abort_handle());
    }

    fn cancel(&mut self, operation: u64) {
        let waits = self.fake.update(|state| {
            let ignores_cancel = state.ignores_cancel;
            let stream = &mut state.streams[self.index];
            stream.cancelled.push(operation);
            let waits = !ignores_cancel && stream.unanswered.remove(&operation);
            if waits {
                send(stream, operation, ServerMessage::Acquire(refused(Outcome::TimedOut)));
            }
            waits
        });
        if let Some(waiting) = self.waiting.remove(&operation).filter(|_| waits) {
            waiting.abort();
        }
    }

    fn release(&self, operation: u64, release: v1::ReleaseRequest) {
        let action = self.fake.update(|state| {
            state.streams[self.index].attached.retain(|_, attached| attached.lease_id != release.lease_id);
            let action = (state.on_release)(&release);
            state.releases.push(release);
            action
        });
        if matches!(action, Do::Hang) {
            return;
        }
        let (fake, index) = (self.fake.clone(), self.index);
        tokio::spawn(async move {
            let message = match action.run().await {
                Ok(answer) => ServerMessage::Release(answer),
                Err(status) => error(&status),
            };
            fake.update(|state| send(&state.streams[index], operation, message));
        });
    }
}

fn well_formed(lease: &v1::LeaseAttachment) -> bool {
    let name = &lease.lock_name;
    (1..=512).contains(&name.len()) && !name.contains('\n') && uuid::Uuid::try_parse(&lease.lease_id).is_ok()
}

fn renewed(handles: Vec<u32>) -> v1::RenewedLeases {
    v1::RenewedLeases { ttl: wire(TTL), handles }
}

/// A granted lease is attached.
fn answered(state: &mut State, index: usize, operation: u64, handle: u32, answer: v1::AcquireResponse) {
    let granted = answer.lease.clone();
    let full = state.full;
    let stream = &mut state.streams[index];
    send(stream, operation, ServerMessage::Acquire(answer));
    let Some(v1::Lease { lock_name, lease_id, .. }) = granted else { return };
    state.granted.push(lease_id.clone());
    let lease = v1::LeaseAttachment { handle, lock_name, lease_id, attempt: 1, release_on_disconnect: false };
    stream.all_attached.push(lease.clone());
    if full {
        send(stream, 0, detached(handle, Reason::StreamFull));
    } else {
        state.kept.insert(lease.lease_id.clone(), (lease.attempt, index, handle));
        stream.attached.insert(handle, lease);
    }
}

pub fn attached(state: &mut State, index: usize, lease: v1::LeaseAttachment) {
    let (renews, full, over, handle) = (state.renews_leases, state.full, state.over, lease.handle);
    let stream = &mut state.streams[index];
    if state.slow_for.as_ref() == Some(&lease.lock_name) {
        return state.late.push((index, lease));
    }
    stream.all_attached.push(lease.clone());
    if full {
        return send(stream, 0, detached(handle, Reason::StreamFull));
    }
    if over {
        let end = v1::LeaseEnd::Expired.into();
        return send(stream, 0, ServerMessage::Lost(v1::Lost { handle, end, successor_token: 42 }));
    }
    // The highest attempt number wins; of equal ones, the latest attachment.
    let before = state.kept.get(&lease.lease_id).copied();
    if before.is_some_and(|(number, ..)| lease.attempt < number) {
        return send(stream, 0, detached(handle, Reason::AttachedElsewhere));
    }
    state.kept.insert(lease.lease_id.clone(), (lease.attempt, index, handle));
    stream.attached.insert(handle, lease);
    if let Some((_, stream, handle)) = before
        && let Some(stream) = state.streams.get_mut(stream)
        && stream.attached.remove(&handle).is_some()
    {
        send(stream, 0, detached(handle, Reason::AttachedElsewhere));
    }
    if renews {
        send(&state.streams[index], 0, ServerMessage::Attached(v1::Attached { leases: vec![renewed(vec![handle])] }));
    }
}

fn detached(handle: u32, reason: Reason) -> ServerMessage {
    ServerMessage::Detached(v1::Detached { handle, reason: reason.into() })
}
