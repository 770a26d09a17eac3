//! The calls of one worker, each written down before it is sent and when it is over.

use super::outcome::{acquire_end, duration, is_unknown, valid_until, wire, words};
use crate::{
    clock,
    journal::{Journal, OPEN},
};
use fencepost_proto::v1::{
    self, AcquireRequest, LeaseEnd, ReleaseRequest, RenewRequest, lock_service_client::LockServiceClient,
    renew_response::Outcome,
};
use fencepost_torture::history::{Acquire, AcquireEnd, Lost, Nanos, Record, Release, ReleaseEnd, Renewed};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::{Status, transport::Channel};
use uuid::Uuid;

/// One transmission of anything that does not wait.
pub(super) const CALL_MAX: Duration = Duration::from_millis(800);

/// All that stays the same over the transmissions of a request.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) lock: String,
    pub(super) request: Uuid,
    pub(super) ttl: Duration,
    pub(super) min_token: u64,
}

/// One transmission of an Acquire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub(super) attempt: u32,
    pub(super) server: usize,
    pub(super) wait: Duration,
    /// After which the call is dropped, if it is not over by then.
    pub(super) drop_after: Option<Duration>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) end: AcquireEnd,
    pub(super) lease: Option<v1::Lease>,
}

#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: u32,
    channels: Vec<Channel>,
    pub(super) journal: Arc<Journal>,
}

impl Caller {
    pub(super) fn new(client: u32, channels: Vec<Channel>, journal: Arc<Journal>) -> Self {
        Self { client, channels, journal }
    }

    pub(super) fn servers(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn service(&self, server: usize) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channels[server % self.channels.len()].clone())
    }

    pub(super) async fn acquire(&self, terms: &Terms, sent: Transmission) -> Answer {
        let Transmission { attempt, server, wait, drop_after } = sent;
        let invoke = clock::now();
        let mut record = Acquire {
            client: self.client,
            lock: terms.lock.clone(),
            request: terms.request.to_string(),
            attempt,
            server: u32::try_from(server).unwrap_or(u32::MAX),
            ttl: clock::nanos(terms.ttl),
            wait: clock::nanos(wait),
            min_token: terms.min_token,
            invoke,
            ret: invoke,
            end: AcquireEnd::Unknown(OPEN.to_owned()),
        };
        let id = self.journal.open(Record::Acquire(record.clone()));
        let message = AcquireRequest {
            lock_name: terms.lock.clone(),
            holder: format!("client {}", self.client),
            ttl: wire(terms.ttl),
            wait_timeout: wire(wait),
            request_id: terms.request.to_string(),
            attempt,
            min_token: terms.min_token,
            ..Default::default()
        };
        let patience = wait + CALL_MAX;
        let mut request = tonic::Request::new(message);
        request.set_timeout(patience);
        let mut service = self.service(server);
        let answer = timeout(drop_after.unwrap_or(patience), service.acquire(request)).await;
        record.ret = clock::now();
        let (end, lease) = match answer {
            Ok(answer) => acquire_end(answer.map(tonic::Response::into_inner), invoke, record.ret),
            Err(_) if drop_after.is_some() => (AcquireEnd::Dropped, None),
            Err(_) => (AcquireEnd::Unknown("no answer in time".to_owned()), None),
        };
        record.end = end.clone();
        self.journal.close(id, Record::Acquire(record));
        Answer { end, lease }
    }

    /// One transmission. True if its outcome is known.
    pub(super) async fn release(&self, lease: &v1::Lease, server: usize) -> bool {
        let invoke = clock::now();
        let (lock, token) = (lease.lock_name.clone(), lease.fencing_token);
        let end = ReleaseEnd::Unknown(OPEN.to_owned());
        let mut record = Release { client: self.client, lock, token, invoke, ret: invoke, end };
        let id = self.journal.open(Record::Release(record.clone()));
        let request = ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
        let mut service = self.service(server);
        let answer = timed(service.release(request)).await;
        record.ret = clock::now();
        record.end = match answer {
            Ok(answer) if answer.end() == LeaseEnd::Released => ReleaseEnd::Released,
            Ok(answer) => ReleaseEnd::Gone(cause(answer.end())),
            Err(status) => ReleaseEnd::Unknown(words(&status)),
        };
        let known = !matches!(record.end, ReleaseEnd::Unknown(_));
        self.journal.close(id, Record::Release(record));
        known
    }

    /// One transmission: the new end of the lease, or that it is lost; neither if nobody knows.
    pub(super) async fn renew(&self, lease: &v1::Lease, server: usize) -> Option<Result<Nanos, Lost>> {
        let sent = clock::now();
        let request = RenewRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone(), ttl: None };
        let mut service = self.service(server);
        let answer = timed(service.renew(request)).await.ok()?;
        let at = clock::now();
        let (client, lock, token) = (self.client, lease.lock_name.clone(), lease.fencing_token);
        if answer.outcome() == Outcome::Renewed {
            let valid_until = valid_until(sent, at, duration(answer.held_for), duration(answer.ttl));
            let token = answer.fencing_token;
            self.journal.note(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
            return Some(Ok(valid_until));
        }
        let successor = (answer.successor_token != 0).then_some(answer.successor_token);
        let lost = Lost { client, lock, token, at, cause: cause(answer.end()), successor };
        Some(Err(lost))
    }
}

async fn timed<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match timeout(CALL_MAX, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) if is_unknown(&status) => Err(status),
        // Nothing that a worker sends is refused otherwise.
        Ok(Err(status)) => Err(Status::new(status.code(), format!("refused: {}", status.message()))),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

/// How a lease ended, as histories say it.
pub(super) fn cause(end: LeaseEnd) -> String {
    end.as_str_name().trim_start_matches("LEASE_END_").to_lowercase()
}
