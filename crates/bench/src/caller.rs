//! Makes the calls, as lean as it goes: the generated client, and no retries, that would hide what is to be seen.

use super::{plan::Via, session::Session};
use anyhow::{Context, Result};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, GetRequest, Lease, LeaseEnd, ReleaseRequest, acquire_response::Outcome,
    lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// How long to wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What went wrong with an operation; equal ones are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub String);

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self(format!("{:?}: {}", status.code(), status.message()))
    }
}

/// One way to the servers; its clones share a connection.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    client: LockServiceClient<Channel>,
    session: Option<Session>,
}

/// Opens connections, in turn to each of the servers.
pub(super) async fn connect(urls: &[String], connections: usize, via: Via) -> Result<Vec<Caller>> {
    let mut callers = Vec::with_capacity(connections);
    for url in urls.iter().cycle().take(connections) {
        let endpoint = Endpoint::from_shared(url.clone()).with_context(|| format!("{url} is not an address"))?;
        let channel = endpoint.connect_timeout(CONNECT_MAX).connect().await;
        let mut client = LockServiceClient::new(channel.with_context(|| format!("cannot connect to {url}"))?);
        let session = match via {
            Via::Unary => None,
            Via::Session => Some(Session::open(&mut client).await?),
        };
        callers.push(Caller { client, session });
    }
    Ok(callers)
}

impl Caller {
    /// Takes a lock, within `wait`; any other outcome is a fault.
    pub(super) async fn acquire(&mut self, name: &str, ttl: Duration, wait: Duration) -> Result<Granted, Fault> {
        let request = AcquireRequest {
            lock_name: name.to_owned(),
            holder: "bench".to_owned(),
            ttl: Some(wire(ttl)),
            wait_timeout: Some(wire(wait)),
            // As client libraries do, so that a retry has the effect of one.
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

    /// Gives it back; that it had ended already is a fault.
    pub(super) async fn release(&mut self, granted: Granted) -> Result<(), Fault> {
        let request = ReleaseRequest { lock_name: granted.lease.lock_name, lease_id: granted.lease.lease_id };
        let response = match &self.session {
            None => self.client.release(request).await?.into_inner(),
            Some(session) => session.release(request).await?,
        };
        match response.end() {
            LeaseEnd::Released => Ok(()),
            end => Err(Fault(format!("a release found that the lease was not held any more: {}", end.as_str_name()))),
        }
    }

    /// How many wait for a lock.
    pub(super) async fn waiters(&mut self, name: &str) -> Result<u32, Fault> {
        let response = self.client.get(GetRequest { lock_name: name.to_owned() }).await?.into_inner();
        Ok(response.lock.unwrap_or_default().waiters)
    }

    /// For streams of its own on the connection.
    pub(super) fn client(&self) -> LockServiceClient<Channel> {
        self.client.clone()
    }

    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
}

/// A lease that was granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub lease: Lease,
    /// How long the server says that it held the call.
    pub held_for: Duration,
}

fn granted(response: AcquireResponse) -> Result<Granted, Fault> {
    let outcome = response.outcome();
    let held_for = response.held_for.and_then(|span| Duration::try_from(span).ok()).unwrap_or_default();
    match (outcome, response.lease) {
        (Outcome::Acquired, Some(lease)) => Ok(Granted { lease, held_for }),
        _ => Err(Fault(format!("an acquire was answered {}", outcome.as_str_name()))),
    }
}

/// A span for the wire.
pub(super) fn wire(span: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(span).unwrap_or_default()
}
