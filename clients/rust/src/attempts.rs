//! One acquire request, over all of its transmissions.
//!
//! Every transmission carries the same request id and the next attempt number, so the effect is that of one request,
//! whatever the network lost or delayed. If the caller gives up, or the bound is reached with the outcome unknown, a
//! background cleanup withdraws the request ([`cleanup`](crate::cleanup)).
//!
//! A server that refuses the request because a quota is used up gets the next transmission as well, after a pause, if
//! there is time left to wait.
//!
//! A request that could not reach the servers for too long may have ended: they gave up its queue position, or a lease
//! that it was granted is over before the answer arrived. It holds nothing, so a wait that has time left continues as a
//! request with a new id. Only if this client chose the id: one that the caller chose identifies one lock, whoever
//! repeats it.

use crate::cleanup;
use crate::clock::Moment;
use crate::code::Code;
use crate::core::Core;
use crate::error::CallError;
use crate::keeper::Keeper;
use crate::lease::LeaseState;
use crate::operation::{Answer, Grant, Operation};
use crate::proto::{duration, wire};
use crate::servers::Lane;
use crate::session::Permit;
use crate::v1;
use crate::validity::Reading;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Status;
use uuid::Uuid;
use v1::lock_service_client::LockServiceClient;
use v1::session_response::Message;

/// An answer, and the moment that its durations count from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timed<T> {
    /// When the transmission that was answered was sent.
    pub sent_at: Moment,
    /// The answer.
    pub message: T,
}

impl Timed<v1::AcquireResponse> {
    /// What it says about its lease.
    fn reading(&self, lease: &v1::Lease) -> Reading {
        let (held_for, ttl) = (duration(self.message.held_for), duration(lease.ttl));
        Reading { sent: self.sent_at, read: Moment::now(), held_for, ttl }
    }
}

/// The answer to an acquire.
pub(crate) struct Acquired {
    pub(crate) timed: Timed<v1::AcquireResponse>,
    /// The lease of a grant on a session, moved out of the message.
    pub(crate) grant: Option<Grant>,
    /// Whether the transmission that was answered had time left to wait.
    pub(crate) waits: bool,
}

impl Acquired {
    /// The granted lease.
    pub(crate) fn lease(&mut self, core: &Core) -> Option<Arc<LeaseState>> {
        if let Some(grant) = self.grant.take() {
            return Some(grant.keep());
        }
        let lease = self.timed.message.lease.take()?;
        let reading = self.timed.reading(&lease);
        Some(Arc::new(LeaseState::new(core.next_key(), lease.into(), reading)))
    }
}

/// How transmissions are sent.
pub(crate) enum Route {
    /// As unary calls.
    Unary,
    /// As operations of a session; as unary calls once a session was full.
    Session {
        keeper: Arc<Keeper>,
        /// Receives the queue position.
        position: Option<watch::Sender<Option<u32>>>,
    },
}

pub(crate) struct Attempts {
    core: Arc<Core>,
    route: Route,
    /// As last transmitted.
    request: v1::AcquireRequest,
    wait: Duration,
    /// When the wait ends, and when retries end. Both count from the start.
    wait_until: Moment,
    until: Moment,
    /// When repeats above a quota end.
    quota_until: Moment,
    clean_up: bool,
    /// Whether this client chose the request id.
    chose_id: bool,
    /// Number of transmissions with this request id.
    transmissions: u32,
    /// Whether a transmission may be applied.
    open: bool,
    /// The same without the one in flight.
    was_open: bool,
    /// Whether a session had no room for another operation or another lease.
    full: bool,
    /// The transmission in flight, if it is an operation.
    operation: Option<Operation>,
}

impl Attempts {
    /// Sets the request id if it is empty. With `clean_up`, an abandoned request is withdrawn in the background.
    pub(crate) fn new(core: Arc<Core>, route: Route, mut request: v1::AcquireRequest, clean_up: bool) -> Self {
        let chose_id = request.request_id.is_empty();
        if chose_id {
            request.request_id = Uuid::new_v4().to_string();
        }
        let wait = duration(request.wait_timeout);
        let wait_until = Moment::now().plus(wait);
        let until = wait_until.plus(core.retry_for);
        Self {
            core,
            route,
            request,
            wait,
            wait_until,
            until,
            quota_until: wait_until,
            clean_up,
            chose_id,
            transmissions: 0,
            open: false,
            was_open: false,
            full: false,
            operation: None,
        }
    }

    /// The last transmissions of an abandoned request, which withdraw it. A quota delays them, and does not stop them.
    pub(crate) fn withdrawing(core: Arc<Core>, request: v1::AcquireRequest) -> Self {
        let request = v1::AcquireRequest { wait_timeout: None, ..request };
        let mut attempts = Self::new(core, Route::Unary, request, false);
        attempts.quota_until = attempts.until;
        attempts
    }

    /// Dropped at any await, it leaves the cleanup running.
    pub(crate) async fn run(mut self) -> Result<Acquired, CallError> {
        let core = self.core.clone();
        let mut retries = core.retries(self.until);
        let result = loop {
            let (server, result) = self.transmit().await;
            let Err(error) = result else { break result };
            let error = core.servers.explain(server, error);
            self.full = error.is_session_full();
            self.was_open |= error.is_outcome_unknown();
            self.open = self.was_open;
            if self.can_restart_after(&error) {
                self.restart();
                // Nothing of the new request has been sent.
                retries = core.retries(self.until);
                continue;
            }
            let repeats = if error.is_over_quota() && !error.may_open_later() {
                retries.no_room(error, self.quota_until).await
            } else {
                retries.failed(server, error).await
            };
            if let Err(error) = repeats {
                break Err(error);
            }
        };
        self.open = result.as_ref().is_err_and(|error| may_be_applied(error, self.was_open));
        let waits = !duration(self.request.wait_timeout).is_zero();
        result.map(|acquired| Acquired { waits, ..acquired })
    }

    /// Whether the request ended while the servers could not hear from it, with time left to wait. That takes a retry.
    fn can_restart_after(&self, error: &CallError) -> bool {
        self.chose_id && self.transmissions > 1 && error.is_request_ended() && !self.wait_until.from_now().is_zero()
    }

    /// Replaces an ended request by a new one that waits for the rest of the time.
    fn restart(&mut self) {
        self.request.request_id = Uuid::new_v4().to_string();
        self.request.attempt = 0;
        self.request.wait_timeout = wire(self.wait_until.from_now().min(self.wait));
        (self.transmissions, self.open, self.was_open) = (0, false, false);
    }

    /// Returns the server it was sent to as well.
    async fn transmit(&mut self) -> (usize, Result<Acquired, CallError>) {
        match &self.route {
            Route::Session { keeper, position } if !self.full => {
                let (session, position) = (keeper.session(), position.clone());
                let server = session.server;
                let permit = match session.try_permit_for_acquire() {
                    Some(permit) => Ok((permit, false)),
                    None => session.permit_for_acquire(self.limit()).await.map(|permit| (permit, true)),
                };
                let (permit, late): (Permit, bool) = match permit {
                    Ok(permit) => permit,
                    Err(error) => return (server, Err(error)),
                };
                let request = self.next_request(late);
                let limit = self.limit();
                let operation = self.operation.insert(session.acquire(request, position, permit));
                let outcome = operation.outcome(&self.core, limit).await;
                self.operation = None;
                (server, outcome.and_then(acquired))
            }
            Route::Session { .. } | Route::Unary => self.transmit_call().await,
        }
    }

    async fn transmit_call(&mut self) -> (usize, Result<Acquired, CallError>) {
        let server = self.core.servers.preferred();
        let lane = if self.wait.is_zero() { Lane::Prompt } else { Lane::Waiting };
        let request = self.next_request(false);
        let channel = self.core.servers.channel(server, lane);
        let mut client = LockServiceClient::new(channel.connection.clone());
        let limit = self.limit();
        let sent_at = Moment::now();
        let answer = self.core.within(limit, request, |request| client.acquire(request)).await;
        let timed = answer.map(|message| Acquired { timed: Timed { sent_at, message }, grant: None, waits: false });
        (server, self.core.answered(&channel, timed))
    }

    /// How long the next transmission may take.
    fn limit(&self) -> Duration {
        self.core.limit(duration(self.request.wait_timeout), self.until)
    }

    /// The request of the next transmission. The first one is unchanged, unless it had to wait for a permit.
    fn next_request(&mut self, late: bool) -> v1::AcquireRequest {
        let first = self.transmissions == 0;
        let next = if first { self.request.attempt.max(1) } else { self.request.attempt.saturating_add(1) };
        self.request.attempt = next;
        if late || !first {
            self.request.wait_timeout = wire(self.wait_until.from_now().min(self.wait));
        }
        self.transmissions += 1;
        self.open = true;
        self.request.clone()
    }
}

/// Decodes the answer to an acquire operation.
fn acquired(answer: Answer) -> Result<Acquired, CallError> {
    let (sent_at, grant) = (answer.sent, answer.grant);
    match answer.message {
        Message::Acquire(message) => Ok(Acquired { timed: Timed { sent_at, message }, grant, waits: false }),
        _ => Err(CallError::new(Status::internal("the server answered an acquire with another message"))),
    }
}

/// Whether the request may be queued or granted although its last transmission failed with this error. `was_open` says
/// whether an earlier one may be applied.
pub(crate) fn may_be_applied(error: &CallError, was_open: bool) -> bool {
    // Aborted is the outcome of the request, whichever transmission caused it. Any other refusal concerns its own
    // transmission only.
    error.code() != Code::Aborted && (error.is_outcome_unknown() || was_open)
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if !(self.open && self.clean_up) {
            return;
        }
        let was_open = self.was_open;
        let in_flight = match (self.operation.take(), &self.route) {
            // Never sent, and never will be: there is nothing to withdraw.
            (Some(operation), _) if !operation.give_up() && !was_open => return,
            (Some(operation), Route::Session { keeper, .. }) => Some((operation, keeper.clone())),
            _ => None,
        };
        let mut request = std::mem::take(&mut self.request);
        request.attempt = request.attempt.saturating_add(1);
        let core = self.core.clone();
        self.core.in_background(async move {
            match in_flight {
                Some((operation, keeper)) => cleanup::operation(core, keeper, operation, request, was_open).await,
                None => cleanup::request(core, request).await,
            }
        });
    }
}
