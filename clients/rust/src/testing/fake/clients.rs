//! What a fake server sends to its clients: messages on streams, answers to acquires, events.

use super::lock::{Caller, Grant};
use crate::clock::Moment;
use crate::facts::ERROR_DOMAIN;
use crate::proto::wire;
use crate::v1;
use prost::Message as _;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use v1::session_response::Message;

/// The part of the shortest TTL that is the interval of beats, and its maximum: as on a real server.
const BEAT_DIVISOR: u32 = 9;
const BEAT_MAX: Duration = Duration::from_secs(10);

/// The messages to one client. Unbounded, because a test of the same process reads them.
pub(super) type Messages<T> = UnboundedReceiver<Result<T, Status>>;

/// A session or a keep-alive stream.
#[derive(Debug)]
struct Stream {
    messages: UnboundedSender<Result<v1::SessionResponse, Status>>,
    /// The number of beats, and when the last one was sent.
    beats: u64,
    last_beat: Option<Moment>,
}

#[derive(Debug)]
struct Watcher {
    prefix: String,
    events: UnboundedSender<Result<v1::WatchResponse, Status>>,
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    /// The last id of a stream or a call.
    last_id: u64,
    streams: HashMap<u64, Stream>,
    calls: HashMap<u64, oneshot::Sender<Result<v1::AcquireResponse, Status>>>,
    watchers: Vec<Watcher>,
    /// The number of answers to drop.
    drops: u32,
    /// Streams that ended with a dropped answer.
    broken: Vec<u64>,
}

impl Clients {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn open_stream(&mut self) -> (u64, Messages<v1::SessionResponse>) {
        let (id, (messages, receiver)) = (self.next_id(), unbounded_channel());
        self.streams.insert(id, Stream { messages, beats: 0, last_beat: None });
        (id, receiver)
    }

    pub(super) fn close_stream(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    /// Whether the client still reads the stream.
    pub(super) fn is_open(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| !stream.messages.is_closed())
    }

    /// Starts a unary acquire.
    pub(super) fn open_call(&mut self) -> (u64, oneshot::Receiver<Result<v1::AcquireResponse, Status>>) {
        let (id, (sender, answer)) = (self.next_id(), oneshot::channel());
        self.calls.insert(id, sender);
        (id, answer)
    }

    pub(super) fn close_call(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    pub(super) fn watch(&mut self, prefix: String) -> Messages<v1::WatchResponse> {
        let (events, receiver) = unbounded_channel();
        let started = v1::WatchResponse { kind: v1::watch_response::Kind::Started.into(), ..Default::default() };
        let _receiver_is_here = events.send(Ok(started));
        self.watchers.push(Watcher { prefix, events });
        receiver
    }

    pub(super) fn drop_reply(&mut self) {
        self.drops = self.drops.saturating_add(1);
    }

    /// Whether the next answer is to be dropped. Forgets it.
    fn takes_drop(&mut self) -> bool {
        let drops = self.drops > 0;
        self.drops -= u32::from(drops);
        drops
    }

    /// The streams that ended with a dropped answer since the last time.
    pub(super) fn take_broken(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.broken)
    }

    /// The answer to a unary call, unless it is to be dropped.
    pub(super) fn reply<T>(&mut self, answer: T) -> Result<T, Status> {
        if self.takes_drop() { Err(dropped()) } else { Ok(answer) }
    }

    /// Sends the answer to an operation, unless it is to be dropped with its stream.
    pub(super) fn answer(&mut self, stream: u64, operation: u64, message: Message) {
        if !self.is_open(stream) {
            return;
        }
        if self.takes_drop() {
            self.send_result(stream, Err(dropped()));
            self.close_stream(stream);
            self.broken.push(stream);
        } else {
            self.send_result(stream, Ok(v1::SessionResponse { operation, message: Some(message) }));
        }
    }

    pub(super) fn answer_acquire(&mut self, caller: Caller, answer: v1::AcquireResponse) {
        match caller {
            Caller::Call(call) => {
                let Some(sender) = self.calls.remove(&call) else { return };
                let _caller_is_gone = sender.send(self.reply(answer));
            }
            Caller::Operation { stream, operation, .. } => self.answer(stream, operation, Message::Acquire(answer)),
        }
    }

    /// Answers an acquire with ABORTED.
    pub(super) fn refuse(&mut self, caller: Caller, reason: &str) {
        let details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, HashMap::new());
        let message = format!("the fake server refuses the request: {reason}");
        let status = Status::with_error_details(Code::Aborted, message, details);
        match caller {
            Caller::Call(call) => {
                let Some(sender) = self.calls.remove(&call) else { return };
                let _caller_is_gone = sender.send(Err(status));
            }
            Caller::Operation { stream, operation, .. } => {
                // The details of a status are a google.rpc.Status, whose fields an OperationError has.
                let error = v1::OperationError::decode(status.details()).unwrap_or_default();
                let message = Some(Message::Error(error));
                self.send_result(stream, Ok(v1::SessionResponse { operation, message }));
            }
        }
    }

    /// Tells an acquire its queue position.
    pub(super) fn waits(&self, caller: Caller, place: usize) {
        if let Caller::Operation { stream, operation, .. } = caller {
            let ahead = u32::try_from(place).unwrap_or(u32::MAX);
            let message = Some(Message::Waiting(v1::Waiting { ahead }));
            self.send_result(stream, Ok(v1::SessionResponse { operation, message }));
        }
    }

    /// Sends a message that answers no operation.
    pub(super) fn send(&self, stream: u64, message: Message) {
        self.send_result(stream, Ok(v1::SessionResponse { operation: 0, message: Some(message) }));
    }

    fn send_result(&self, stream: u64, message: Result<v1::SessionResponse, Status>) {
        if let Some(stream) = self.streams.get(&stream) {
            let _client_is_gone = stream.messages.send(message);
        }
    }

    /// Sends the beats that are due on streams whose shortest TTLs are these.
    pub(super) fn beat(&mut self, shortest_ttls: &HashMap<u64, Duration>, now: Moment) {
        for (id, ttl) in shortest_ttls {
            let interval = (*ttl / BEAT_DIVISOR).min(BEAT_MAX);
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if stream.last_beat.is_none_or(|last| now.since(last) >= interval) {
                stream.beats += 1;
                stream.last_beat = Some(now);
                let beat = Message::Beat(v1::Beat { beat: stream.beats, next_in: wire(interval) });
                self.send(*id, beat);
            }
        }
    }

    /// Reports an event to those who watch the lock.
    pub(super) fn report(&mut self, kind: v1::watch_response::Kind, grant: &Grant) {
        let event = v1::WatchResponse {
            kind: kind.into(),
            lock_name: grant.request.lock_name.clone(),
            holder: grant.request.holder.clone(),
            grant_id: grant.grant_id.clone(),
            fencing_token: grant.token,
            ..Default::default()
        };
        self.watchers.retain(|watcher| {
            !event.lock_name.starts_with(&watcher.prefix) || watcher.events.send(Ok(event.clone())).is_ok()
        });
    }
}

fn dropped() -> Status {
    Status::unavailable("the fake server dropped this answer")
}
