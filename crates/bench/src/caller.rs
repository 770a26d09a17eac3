//! Makes calls with little overhead: the generated client, and no retries, which would hide errors.

use super::{
    plan::{Mode, Via},
    session::Session,
};
use anyhow::{Context, Result};
use fencepost_client::{ServerAddress, Tls, raw};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, GetRequest, Lease, LeaseEnd, LockMode, ReleaseRequest, acquire_response::Outcome,
    lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tonic::{Status, transport::Channel};

/// A server to call.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub address: ServerAddress,
    pub tls: Tls,
}

/// Why an operation failed. Equal messages are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub String);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(format!("{:?}: {}", status.code(), status.message()))
    }
}

/// One connection to a server, shared by its clones.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    client: LockServiceClient<Channel>,
    session: Option<Session>,
}

/// Opens connections to the servers in turn.
pub(super) async fn connect(servers: &[Server], connections: usize, via: Via) -> Result<Vec<Caller>> {
    let mut callers = Vec::with_capacity(connections);
    for Server { address, tls } in servers.iter().cycle().take(connections) {
        let channel = raw::connect(address, tls).await;
        let mut client = LockServiceClient::new(channel.with_context(|| format!("cannot connect to {address}"))?);
        let session = match via {
            Via::Unary => None,
            Via::Session => Some(Session::open(&mut client).await?),
        };
        callers.push(Caller { client, session });
    }
    Ok(callers)
}

impl Caller {
    /// Acquires a lock within `wait`. Any other outcome is a failure.
    pub(super) async fn acquire(&mut self, name: &str, ttl: Duration, wait: Duration) -> Result<Granted, Failure> {
        self.acquire_as(name, ttl, wait, Mode::Exclusive).await
    }

    /// Acquires a lock in this mode, as a reader if that is mixed.
    pub(super) async fn acquire_as(
        &mut self,
        name: &str,
        ttl: Duration,
        wait: Duration,
        mode: Mode,
    ) -> Result<Granted, Failure> {
        let (mode, permit_limit) = match mode {
            Mode::Exclusive => (LockMode::Exclusive, 0),
            Mode::Shared | Mode::Mixed => (LockMode::Shared, 0),
            Mode::Semaphore(permits) => (LockMode::Semaphore, permits),
        };
        let request = AcquireRequest {
            mode: mode.into(),
            permit_limit,
            lock_name: name.to_owned(),
            holder: "bench".to_owned(),
            ttl: Some(wire(ttl)),
            wait_timeout: Some(wire(wait)),
            // As client libraries do, so that a retry has the effect of one request.
            request_id: uuid::Uuid::new_v4().to_string(),
            attempt: 1,
            ..Default::default()
        };
        let response = match &self.session {
            None => self.client.acquire(request).await?.into_inner(),
            Some(session) => session.acquire(request).await?,
        };
        granted(response)
    }

    /// Releases a lease. A lease that has ended already is a failure.
    pub(super) async fn release(&mut self, granted: Granted) -> Result<(), Failure> {
        let request = ReleaseRequest { lock_name: granted.lease.lock_name, lease_id: granted.lease.lease_id };
        let response = match &self.session {
            None => self.client.release(request).await?.into_inner(),
            Some(session) => session.release(request).await?,
        };
        match response.end() {
            LeaseEnd::Released => Ok(()),
            end => Err(Failure(format!("a released lease had ended before: {}", end.as_str_name()))),
        }
    }

    /// The number of waiters of a lock.
    pub(super) async fn waiters(&mut self, name: &str) -> Result<u32, Failure> {
        let response = self.client.get(GetRequest { lock_name: name.to_owned() }).await?.into_inner();
        Ok(response.lock.unwrap_or_default().waiters)
    }

    /// The generated client, for further streams on the connection.
    pub(super) fn client(&self) -> LockServiceClient<Channel> {
        self.client.clone()
    }

    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
}

/// A granted lease.
#[derive(Debug)]
pub(super) struct Granted {
    pub lease: Lease,
    /// How long the server held the call, as it reports.
    pub held_for: Duration,
}

fn granted(response: AcquireResponse) -> Result<Granted, Failure> {
    let outcome = response.outcome();
    let held_for = response.held_for.and_then(|span| Duration::try_from(span).ok()).unwrap_or_default();
    match (outcome, response.lease) {
        (Outcome::Acquired, Some(lease)) => Ok(Granted { lease, held_for }),
        _ => Err(Failure(format!("unexpected outcome of an acquire: {}", outcome.as_str_name()))),
    }
}

/// Encodes a duration.
pub(super) fn wire(span: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(span).unwrap_or_default()
}
