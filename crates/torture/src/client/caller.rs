//! The calls of one worker, each recorded before it is sent and when it ends.

use super::{
    held_lease::HeldLease,
    outcome::{acquire_end, describe, duration, is_unknown, valid_until, wire},
    retry_policy::RetryPolicy,
    session::{Attachment, Sessions},
};
use crate::{clock, config, journal::Journal};
use fencepost_proto::v1::{
    self, AcquireRequest, LeaseEnd, ReleaseRequest, RenewRequest, lock_service_client::LockServiceClient,
    renew_response::Outcome,
};
use fencepost_torture::history::{
    Acquire, AcquireEnd, Lost, Nanos, OPEN, PERMIT_LIMIT, Record, Release, ReleaseEnd, Renewed,
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{Status, transport::Channel};
use uuid::Uuid;

/// The timeout of one transmission, in addition to its wait.
pub(super) const CALL_MAX: Duration = Duration::from_millis(800);
/// The timeout of all transmissions of an Acquire by a retry policy, in addition to its wait.
const POLICY_MAX: Duration = Duration::from_millis(2_000);

/// The parts of a request that all its transmissions share.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) lock: String,
    pub(super) request: Uuid,
    pub(super) ttl: Duration,
    pub(super) min_token: u64,
    pub(super) mode: Mode,
}

/// Which other holders a request lets in beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exclusive,
    Shared,
    /// So many permits of a semaphore.
    Permits(u32),
}

/// The `min_hold` of some requests: longer than most leases last, and shorter than any TTL.
const MIN_HOLD: Duration = Duration::from_millis(400);
/// The `lock_delay` of some requests: short, so that a lock whose holder was killed is soon used again.
const LOCK_DELAY: Duration = Duration::from_millis(600);
/// What the `max_hold` of some requests has beyond their TTL: leases that last for seconds reach it.
const HELD_BEYOND: Duration = Duration::from_millis(500);

impl Terms {
    /// Of one in four of the requests that let others in beside them. Exclusive ones have none, or nobody else would
    /// get the lock for most of the time.
    pub(super) fn min_hold(&self) -> Duration {
        let has_one = self.mode != Mode::Exclusive && self.request.as_bytes()[0] < 64;
        if has_one { MIN_HOLD } else { Duration::ZERO }
    }

    /// Of one request in four.
    pub(super) fn lock_delay(&self) -> Duration {
        if self.request.as_bytes()[1] < 64 { LOCK_DELAY } else { Duration::ZERO }
    }

    /// Of one request in four.
    pub(super) fn max_hold(&self) -> Option<Duration> {
        (self.request.as_bytes()[2] < 64).then(|| self.ttl + HELD_BEYOND)
    }

    /// Whether its lease can be converted. Of the locks with exclusive leases alone, none is.
    pub(super) fn is_convertible(&self) -> bool {
        config::is_mixed(&self.lock)
    }
}

impl Mode {
    pub(super) fn permits(self) -> u32 {
        if let Self::Permits(permits) = self { permits } else { 0 }
    }
}

/// One transmission of an Acquire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub(super) attempt: u32,
    pub(super) server: usize,
    pub(super) wait: Duration,
    /// When to drop the call.
    pub(super) drop_after: Option<Duration>,
    /// Whether to cancel a dropped call on a session, where the server does not notice the drop.
    pub(super) cancels: bool,
}

/// The outcome of a transmission.
pub(super) struct Answer {
    pub(super) end: AcquireEnd,
    pub(super) lease: Option<v1::Lease>,
    /// The attachment of a lease acquired on a session.
    pub(super) attachment: Option<Attachment>,
}

/// An unfinished Acquire in the journal.
pub(super) struct Open {
    id: u64,
    pub(super) record: Acquire,
}

/// How the calls of a worker are made.
#[derive(Clone)]
pub(super) enum Transport {
    Unary,
    Sessions(Arc<Sessions>),
    RetryPolicy(Arc<RetryPolicy>),
}

const fn mode(mode: Mode) -> v1::LockMode {
    match mode {
        Mode::Exclusive => v1::LockMode::Exclusive,
        Mode::Shared => v1::LockMode::Shared,
        Mode::Permits(_) => v1::LockMode::Semaphore,
    }
}

#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: u32,
    channels: Vec<Channel>,
    transport: Transport,
    pub(super) journal: Arc<Journal>,
}

impl Caller {
    pub(super) fn new(client: u32, channels: Vec<Channel>, transport: Transport, journal: Arc<Journal>) -> Self {
        Self { client, channels, transport, journal }
    }

    pub(super) fn servers(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn service(&self, server: usize) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channels[server % self.channels.len()].clone())
    }

    pub(super) async fn acquire(&self, terms: &Terms, sent: Transmission) -> Answer {
        let Transmission { attempt, server, wait, drop_after, .. } = sent;
        let open = self.open(terms, sent);
        let message = AcquireRequest {
            lock_name: terms.lock.clone(),
            holder: format!("client {}", self.client),
            ttl: wire(terms.ttl),
            wait_timeout: wire(wait),
            request_id: terms.request.to_string(),
            attempt,
            min_token: terms.min_token,
            mode: mode(terms.mode).into(),
            permits: terms.mode.permits(),
            permit_limit: if terms.mode.permits() > 0 { PERMIT_LIMIT } else { 0 },
            min_hold: wire(terms.min_hold()),
            lock_delay: wire(terms.lock_delay()),
            max_hold: terms.max_hold().and_then(wire),
            ..Default::default()
        };
        let answer = match &self.transport {
            Transport::Sessions(sessions) => return sessions.acquire(self, open, message, sent).await,
            Transport::RetryPolicy(policy) => {
                let patience = wait + POLICY_MAX;
                let call = policy.call("Acquire", &message, server, patience);
                timeout(drop_after.unwrap_or(patience), call).await
            }
            Transport::Unary => {
                let patience = wait + CALL_MAX;
                let mut request = tonic::Request::new(message);
                request.set_timeout(patience);
                let mut service = self.service(server);
                let call = async { service.acquire(request).await.map(tonic::Response::into_inner) };
                timeout(drop_after.unwrap_or(patience), call).await
            }
        };
        let (end, lease) = match answer {
            Ok(answer) => acquire_end(answer, open.record.invoke, clock::now()),
            Err(_) if drop_after.is_some() => (AcquireEnd::Dropped, None),
            Err(_) => (AcquireEnd::Unknown("no answer in time".to_owned()), None),
        };
        self.close(open, end.clone());
        Answer { end, lease, attachment: None }
    }

    fn open(&self, terms: &Terms, sent: Transmission) -> Open {
        let invoke = clock::now();
        let record = Acquire {
            client: self.client,
            lock: terms.lock.clone(),
            request: terms.request.to_string(),
            attempt: sent.attempt,
            server: u32::try_from(sent.server).unwrap_or(u32::MAX),
            ttl: clock::nanos(terms.ttl),
            wait: clock::nanos(sent.wait),
            min_token: terms.min_token,
            shared: terms.mode == Mode::Shared,
            permits: terms.mode.permits(),
            min_hold: clock::nanos(terms.min_hold()),
            lock_delay: clock::nanos(terms.lock_delay()),
            max_hold: terms.max_hold().map_or(0, clock::nanos),
            invoke,
            ret: invoke,
            end: AcquireEnd::Unknown(OPEN.to_owned()),
        };
        Open { id: self.journal.open(Record::Acquire(record.clone())), record }
    }

    pub(super) fn close(&self, open: Open, end: AcquireEnd) {
        self.journal.close(open.id, Record::Acquire(Acquire { ret: clock::now(), end, ..open.record }));
    }

    /// One transmission. Returns whether its outcome is known.
    pub(super) async fn release(&self, held: &HeldLease, server: usize) -> bool {
        let invoke = clock::now();
        let lease = &held.lease;
        let (lock, token) = (lease.lock_name.clone(), held.token());
        let end = ReleaseEnd::Unknown(OPEN.to_owned());
        let mut record = Release { client: self.client, lock, token, invoke, ret: invoke, end };
        let id = self.journal.open(Record::Release(record.clone()));
        let request = ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
        let answer = match &self.transport {
            Transport::Sessions(sessions) => timed(sessions.release(request, server)).await,
            Transport::RetryPolicy(policy) => timed(policy.call("Release", &request, server, CALL_MAX)).await,
            Transport::Unary => {
                let mut service = self.service(server);
                timed(async { service.release(request).await.map(tonic::Response::into_inner) }).await
            }
        };
        record.ret = clock::now();
        record.end = match answer {
            Ok(answer) if answer.end() == LeaseEnd::Released => ReleaseEnd::Released,
            Ok(answer) => ReleaseEnd::Gone(cause(answer.end())),
            Err(status) => ReleaseEnd::Unknown(describe(&status)),
        };
        let known = !matches!(record.end, ReleaseEnd::Unknown(_));
        self.journal.close(id, Record::Release(record));
        known
    }

    /// One transmission. Returns the new end of the lease, or its loss; `None` if the outcome is unknown.
    pub(super) async fn renew(&self, held: &HeldLease, server: usize) -> Option<Result<Nanos, Lost>> {
        let sent = clock::now();
        let lease = &held.lease;
        let request = RenewRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone(), ttl: None };
        let answer = match &self.transport {
            Transport::Sessions(sessions) => timed(sessions.renew(request, server)).await,
            Transport::RetryPolicy(policy) => timed(policy.call("Renew", &request, server, CALL_MAX)).await,
            Transport::Unary => {
                let mut service = self.service(server);
                timed(async { service.renew(request).await.map(tonic::Response::into_inner) }).await
            }
        };
        let answer = answer.ok()?;
        let at = clock::now();
        let (client, lock, token) = (self.client, lease.lock_name.clone(), held.token());
        if answer.outcome() == Outcome::Renewed {
            let valid_until = valid_until(sent, at, duration(answer.held_for), duration(answer.ttl));
            let token = if held.is_in_doubt() { token } else { answer.fencing_token };
            self.journal.record(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
            return Some(Ok(valid_until));
        }
        let successor = (answer.successor_token != 0).then_some(answer.successor_token);
        let lost = Lost { client, lock, token, at, cause: cause(answer.end()), successor };
        Some(Err(lost))
    }
}

async fn timed<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match timeout(CALL_MAX, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) if is_unknown(&status) => Err(status),
        // No other refusal of these calls is expected.
        Ok(Err(status)) => Err(Status::new(status.code(), format!("refused: {}", status.message()))),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

/// The end of a lease, as named in histories.
pub(super) fn cause(end: LeaseEnd) -> String {
    end.as_str_name().trim_start_matches("LEASE_END_").to_lowercase()
}
