//! One request for a lock, over all of its transmissions.
//!
//! Every transmission carries the same request id and the next attempt number, so whatever the network lost or delayed,
//! the effect is that of one request. If the caller gives up, or the bound is over with the outcome unknown, a cleanup
//! in the background takes the request back ([`taken_back`](crate::taken_back)).
//!
//! A request that was away from the servers for too long may find itself ended: its place in line was given up, or a
//! lease that it was granted unheard is over. Nothing is held by it, so a wait that has time left goes on with a
//! request of another id. Only where the id is of this client's own making: one that the caller chose stands for one
//! lock, whoever repeats it.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::keeper::Keeper;
use crate::lease::LeaseState;
use crate::link::Room;
use crate::operation::{Answer, Grant, Operation};
use crate::proto::{duration, wire};
use crate::servers::Lane;
use crate::taken_back;
use crate::v1;
use crate::validity::Reading;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Code, Status};
use uuid::Uuid;
use v1::lock_service_client::LockServiceClient;
use v1::session_response::Message;

/// An answer, with the moment that what it says is counted from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timed<T> {
    /// When the very transmission that was answered was sent.
    pub sent_at: Moment,
    /// The answer.
    pub message: T,
}

impl Timed<v1::AcquireResponse> {
    /// What it says of its lease.
    fn reading(&self, lease: &v1::Lease) -> Reading {
        let (held_for, ttl) = (duration(self.message.held_for), duration(lease.ttl));
        Reading { sent: self.sent_at, read: Moment::now(), held_for, ttl }
    }
}

/// What an acquire was answered.
pub(crate) struct Acquired {
    pub(crate) timed: Timed<v1::AcquireResponse>,
    /// What was granted on a session: the lease of the message has moved here.
    pub(crate) grant: Option<Grant>,
}

impl Acquired {
    /// The lease that was granted, for a TTL that was asked for.
    pub(crate) fn lease(&mut self, core: &Core, ttl: Duration) -> Option<Arc<LeaseState>> {
        if let Some(grant) = self.grant.take() {
            return Some(grant.keep());
        }
        let lease = self.timed.message.lease.take()?;
        let reading = self.timed.reading(&lease);
        Some(Arc::new(LeaseState::new(core.next_key(), lease, reading, ttl)))
    }
}

/// How the transmissions go out.
pub(crate) enum Way {
    /// As unary calls.
    Calls,
    /// As operations of its sessions; as unary calls once one had no room.
    Session {
        keeper: Arc<Keeper>,
        /// Who wants to know how many are before it in line.
        ahead: Option<watch::Sender<Option<u32>>>,
    },
}

pub(crate) struct Attempts {
    core: Arc<Core>,
    way: Way,
    /// As it was last transmitted.
    request: v1::AcquireRequest,
    wait: Duration,
    /// Until when it may stand in line, and until when it is repeated: counted from when it starts.
    line_until: Moment,
    until: Moment,
    clean_up: bool,
    /// Is the request id of this client's own making?
    own_id: bool,
    /// Of the request with this id.
    transmissions: u32,
    /// Transmitted, and not answered yet.
    open: bool,
    /// Has a session had no room, for another operation or another lease?
    full: bool,
    /// The transmission under way, if it is an operation.
    operation: Option<Operation>,
}

impl Attempts {
    /// Sets the request id if it is empty. With `clean_up` a request that is given up is taken back in the background.
    pub(crate) fn new(core: Arc<Core>, way: Way, mut request: v1::AcquireRequest, clean_up: bool) -> Self {
        let own_id = request.request_id.is_empty();
        if own_id {
            request.request_id = Uuid::new_v4().to_string();
        }
        let wait = duration(request.wait_timeout);
        let line_until = Moment::now().plus(wait);
        let until = line_until.plus(core.retry_for);
        let (transmissions, open, full, operation) = (0, false, false, None);
        Self { core, way, request, wait, line_until, until, clean_up, own_id, transmissions, open, full, operation }
    }

    /// Dropped at any of its awaits, it leaves the cleanup running.
    pub(crate) async fn run(mut self) -> Result<Acquired, CallError> {
        let core = self.core.clone();
        let mut repeats = core.repeats(self.until);
        let result = loop {
            let (server, result) = self.transmit().await;
            let Err(error) = result else { break result };
            self.full = error.is_session_full();
            if self.goes_on_after(&error) {
                self.begin_anew();
                // Of the new request nothing was sent yet.
                repeats = core.repeats(self.until);
                continue;
            }
            if let Err(error) = repeats.failed(server, error).await {
                break Err(error);
            }
        };
        self.open = result.as_ref().is_err_and(|error| is_open_after(error, self.transmissions > 1));
        result
    }

    /// Has the request ended while it was away, with time left to wait? A first transmission was not away.
    fn goes_on_after(&self, error: &CallError) -> bool {
        self.own_id && self.transmissions > 1 && error.is_request_ended() && !self.line_until.from_now().is_zero()
    }

    /// Waits on with a new request, in place of one that ended.
    fn begin_anew(&mut self) {
        self.request.request_id = Uuid::new_v4().to_string();
        self.request.attempt = 0;
        self.request.wait_timeout = wire(self.line_until.from_now().min(self.wait));
        (self.transmissions, self.open) = (0, false);
    }

    /// Says which server it went to.
    async fn transmit(&mut self) -> (usize, Result<Acquired, CallError>) {
        match &self.way {
            Way::Session { keeper, ahead } if !self.full => {
                let (link, ahead) = (keeper.link(), ahead.clone());
                let server = link.server;
                let room = match link.room_to_acquire() {
                    Some(room) => Ok((room, false)),
                    None => link.turn_to_acquire(self.limit()).await.map(|room| (room, true)),
                };
                let (room, late): (Room, bool) = match room {
                    Ok(room) => room,
                    Err(error) => return (server, Err(error)),
                };
                let request = self.next_request(late);
                let limit = self.limit();
                let operation = self.operation.insert(link.acquire(request, ahead, room));
                let outcome = operation.outcome(&self.core, limit).await;
                self.operation = None;
                (server, outcome.and_then(acquired))
            }
            Way::Session { .. } | Way::Calls => self.transmit_call().await,
        }
    }

    async fn transmit_call(&mut self) -> (usize, Result<Acquired, CallError>) {
        let server = self.core.servers.preferred();
        let lane = if self.wait.is_zero() { Lane::Prompt } else { Lane::Waiting };
        let request = self.next_request(false);
        let mut client = LockServiceClient::new(self.core.servers.channel(server, lane));
        let limit = self.limit();
        let sent_at = Moment::now();
        let answer = self.core.within(limit, request, |request| client.acquire(request)).await;
        let timed = answer.map(|message| Acquired { timed: Timed { sent_at, message }, grant: None });
        (server, timed.map_err(CallError::new))
    }

    /// How long the next transmission may take.
    fn limit(&self) -> Duration {
        self.core.limit(duration(self.request.wait_timeout), self.until)
    }

    /// The request as it is to be transmitted now: the first one as it was given, unless it had to wait for its turn.
    fn next_request(&mut self, late: bool) -> v1::AcquireRequest {
        let first = self.transmissions == 0;
        let next = if first { self.request.attempt.max(1) } else { self.request.attempt.saturating_add(1) };
        self.request.attempt = next;
        if late || !first {
            self.request.wait_timeout = wire(self.line_until.from_now().min(self.wait));
        }
        self.transmissions += 1;
        self.open = true;
        self.request.clone()
    }
}

/// The answer to an operation that was an acquire.
fn acquired(answer: Answer) -> Result<Acquired, CallError> {
    let (sent_at, grant) = (answer.sent, answer.grant);
    match answer.message {
        Message::Acquire(message) => Ok(Acquired { timed: Timed { sent_at, message }, grant }),
        _ => Err(CallError::new(Status::internal("the server's answer is not one to an acquire"))),
    }
}

/// May the request be in line all the same, or granted, when this is the answer to its last transmission?
pub(crate) fn is_open_after(error: &CallError, repeated: bool) -> bool {
    // Aborted says what became of the request, whichever transmission did it. Any other refusal is that of its own
    // transmission.
    error.code() != Code::Aborted && (error.is_outcome_unknown() || (repeated && !error.is_unreachable()))
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if !(self.open && self.clean_up) {
            return;
        }
        let repeated = self.transmissions > 1;
        let under_way = match (self.operation.take(), &self.way) {
            // Never sent, and not going to be: there is nothing to take back.
            (Some(operation), _) if !operation.give_up() && !repeated => return,
            (Some(operation), Way::Session { keeper, .. }) => Some((operation, keeper.clone())),
            _ => None,
        };
        let mut request = std::mem::take(&mut self.request);
        request.attempt = request.attempt.saturating_add(1);
        let core = self.core.clone();
        self.core.in_background(async move {
            match under_way {
                Some((operation, keeper)) => taken_back::operation(core, keeper, operation, request, repeated).await,
                None => taken_back::request(core, request).await,
            }
        });
    }
}
