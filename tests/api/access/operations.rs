//! Every operation of the API, by a call or on a stream, as the refusal that it gets or does not get.

use crate::{
    support::{acquire_request, within},
    world::{Credentials, Shown, World, channel},
};
use fencepost_proto::v1::{
    self, keep_alive_request::Message as Keep, keep_alive_response::Message as Kept, session_request::Message as Ask,
    session_response::Message as Answer,
};
use prost::Message as _;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_reflection::pb::v1 as reflect;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(30);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    WaitingAcquire,
    Release,
    Renew,
    Convert,
    Describe,
    Observe,
    ListWaiters,
    Get,
    List,
    Watch,
    CheckToken,
    ForceRelease,
    ForceReleaseOnAdminPort,
    Drain,
    DrainOnAdminPort,
    Reflection,
    KeepAlive,
    Session,
    AttachOnKeepAlive,
    AttachOnSession,
    AcquireOnSession,
    ReleaseOnSession,
    RenewOnSession,
}

use Operation::*;

/// All of them, but for drains, which end the server.
pub(crate) const ALL: [Operation; 22] = [
    Acquire,
    WaitingAcquire,
    Release,
    Renew,
    Convert,
    Describe,
    Observe,
    ListWaiters,
    Get,
    List,
    Watch,
    CheckToken,
    ForceRelease,
    ForceReleaseOnAdminPort,
    Reflection,
    KeepAlive,
    Session,
    AttachOnKeepAlive,
    AttachOnSession,
    AcquireOnSession,
    ReleaseOnSession,
    RenewOnSession,
];

/// Those that drain the server.
pub(crate) const DRAINS: [Operation; 2] = [Drain, DrainOnAdminPort];

impl Operation {
    /// Whether an identity is enough.
    pub(crate) fn needs_no_rule(self) -> bool {
        matches!(self, Reflection | KeepAlive | Session)
    }

    /// Whether it is part of a stream, whose opening is asked about before.
    pub(crate) fn is_on_stream(self) -> bool {
        matches!(self, AttachOnKeepAlive | AttachOnSession | AcquireOnSession | ReleaseOnSession | RenewOnSession)
    }

    /// Whether it is about a lock.
    pub(crate) fn has_lock(self) -> bool {
        !self.needs_no_rule() && !DRAINS.contains(&self)
    }
}

/// Carries out an operation on a lock of this name. What the operation comes to does not matter, unless it is refused.
pub(crate) async fn carry_out(
    world: &World,
    credentials: &Credentials,
    operation: Operation,
    lock: &str,
) -> Result<(), Status> {
    within(asked(world, credentials, operation, lock)).await
}

async fn asked(world: &World, credentials: &Credentials, operation: Operation, lock: &str) -> Result<(), Status> {
    let (mut locks, lock_name) = (world.locks(credentials), lock.to_owned());
    let on_admin_port = [ForceReleaseOnAdminPort, DrainOnAdminPort].contains(&operation);
    let mut operator = world.operator(if on_admin_port { world.admin } else { world.addr }, credentials);
    match operation {
        Acquire => locks.acquire(acquire_request(lock, TTL)).await.map(drop),
        WaitingAcquire => {
            let wait_timeout = crate::support::span(Duration::from_millis(10));
            locks.acquire(v1::AcquireRequest { wait_timeout, ..acquire_request(lock, TTL) }).await.map(drop)
        }
        Release => locks.release(release(lock)).await.map(drop),
        Convert => locks.convert(convert(lock)).await.map(drop),
        Describe => {
            let lease_id = Uuid::new_v4().to_string();
            locks.describe(v1::DescribeRequest { lock_name, lease_id, ..Default::default() }).await.map(drop)
        }
        Observe => locks.observe(v1::ObserveRequest { lock_name }).await.map(drop),
        ListWaiters => locks.list_waiters(v1::ListWaitersRequest { lock_name, ..Default::default() }).await.map(drop),
        Renew => locks.renew(renew(lock)).await.map(drop),
        Get => locks.get(v1::GetRequest { lock_name }).await.map(drop),
        List => locks.list(v1::ListRequest { prefix: lock_name, ..Default::default() }).await.map(drop),
        Watch => locks.watch(v1::WatchRequest { prefix: lock_name }).await.map(drop),
        CheckToken => locks.check_token(v1::CheckTokenRequest { lock_name, fencing_token: 1 }).await.map(drop),
        ForceRelease | ForceReleaseOnAdminPort => {
            let request = v1::ForceReleaseRequest { lock_name, expected_token: 1, reason: "test".to_owned() };
            operator.force_release(request).await.map(drop)
        }
        Drain | DrainOnAdminPort => operator.drain(v1::DrainRequest {}).await.map(drop),
        Reflection => {
            let service =
                tonic::service::interceptor::InterceptedService::new(channel(world.addr), credentials.clone());
            let mut client = reflect::server_reflection_client::ServerReflectionClient::new(service);
            client.server_reflection_info(tokio_stream::pending()).await.map(drop)
        }
        KeepAlive => locks.keep_alive(tokio_stream::pending()).await.map(drop),
        Session => locks.session(tokio_stream::pending()).await.map(drop),
        AttachOnKeepAlive => {
            let (requests, mut answers) = keep_alive(&mut locks).await?;
            requests.send(v1::KeepAliveRequest { message: Some(Keep::Attach(attach(lock))) }).await.unwrap();
            loop {
                match answers.message().await?.unwrap().message.unwrap() {
                    Kept::Beat(_) => {}
                    Kept::AtRisk(_) => return Err(Status::permission_denied("at risk")),
                    _ => return Ok(()),
                }
            }
        }
        AttachOnSession => on_session(&mut locks, 0, Ask::Attach(attach(lock))).await,
        AcquireOnSession => {
            let acquire =
                v1::SessionAcquire { request: Some(acquire_request(lock, TTL)), handle: 1, ..Default::default() };
            on_session(&mut locks, 1, Ask::Acquire(acquire)).await
        }
        ReleaseOnSession => on_session(&mut locks, 1, Ask::Release(release(lock))).await,
        RenewOnSession => on_session(&mut locks, 1, Ask::Renew(renew(lock))).await,
    }
}

fn convert(lock: &str) -> v1::ConvertRequest {
    v1::ConvertRequest {
        lock_name: lock.to_owned(),
        lease_id: Uuid::new_v4().to_string(),
        fencing_token: 1,
        mode: v1::LockMode::Shared.into(),
    }
}

fn release(lock: &str) -> v1::ReleaseRequest {
    v1::ReleaseRequest { lock_name: lock.to_owned(), lease_id: Uuid::new_v4().to_string() }
}

fn renew(lock: &str) -> v1::RenewRequest {
    v1::RenewRequest { lock_name: lock.to_owned(), lease_id: Uuid::new_v4().to_string(), ttl: None }
}

/// A lease that nobody has: attached, it is lost.
fn attach(lock: &str) -> v1::AttachLeases {
    let lease_id = Uuid::new_v4().to_string();
    let lease =
        v1::LeaseAttachment { handle: 1, lock_name: lock.to_owned(), lease_id, attempt: 1, ..Default::default() };
    v1::AttachLeases { leases: vec![lease] }
}

async fn keep_alive(
    locks: &mut v1::lock_service_client::LockServiceClient<Shown>,
) -> Result<(mpsc::Sender<v1::KeepAliveRequest>, Streaming<v1::KeepAliveResponse>), Status> {
    let (requests, outbound) = mpsc::channel(8);
    Ok((requests, locks.keep_alive(ReceiverStream::new(outbound)).await?.into_inner()))
}

/// Sends a message on a session, and waits for the answer.
async fn on_session(
    locks: &mut v1::lock_service_client::LockServiceClient<Shown>,
    operation: u64,
    message: Ask,
) -> Result<(), Status> {
    let (requests, outbound) = mpsc::channel(8);
    let mut answers = locks.session(ReceiverStream::new(outbound)).await?.into_inner();
    requests.send(v1::SessionRequest { operation, message: Some(message) }).await.unwrap();
    loop {
        match answers.message().await?.unwrap().message.unwrap() {
            Answer::Beat(_) => {}
            Answer::AtRisk(_) => return Err(Status::permission_denied("at risk")),
            Answer::Error(error) => {
                let details = error.encode_to_vec().into();
                return Err(Status::with_details(Code::from(error.code), error.message, details));
            }
            _ => return Ok(()),
        }
    }
}
