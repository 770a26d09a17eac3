//! Checks requests and converts them into the service's types.

use super::{
    fields::Fields,
    fingerprint::{Asks, fingerprint},
};
use crate::{
    domain::{
        ids::{Call, CallId, LeaseId, RequestId},
        lease::{Delays, Extra, MaxHold, Terms},
        limits::{
            LOCK_DELAY_MAX, LOCK_NAME_BYTES_MAX, Limits, MIN_HOLD_MAX, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PERMITS_MAX,
            WAITERS_PAGE_MAX,
        },
        mode::{ConvertTo, Mode, PermitLimit, Permits},
        name::{Holder, Identity, LockName, Metadata, Owner, Reason},
        token::FencingToken,
    },
    locks::{
        AcquireCall,
        keepalive::{AttachLease, FromClient},
        session::{self, Operation},
    },
};
use fencepost_proto::v1;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;
use uuid::Uuid;

/// Checks an Acquire of a caller whose identity was verified, or not.
pub(super) fn acquire(
    request: v1::AcquireRequest,
    identity: Option<Identity>,
    limits: &Limits,
    arrived: Instant,
    deadline: Option<Instant>,
) -> Result<(LockName, AcquireCall), Status> {
    let mut fields = Fields::default();
    let ttl = match &request.ttl {
        None => Some(limits.ttl_default()),
        Some(ttl) => fields.duration("ttl", ttl, limits.ttl_min, limits.ttl_max),
    };
    let wait = match &request.wait_timeout {
        None => Some(Duration::ZERO),
        Some(wait) => fields.duration("wait_timeout", wait, Duration::ZERO, limits.wait_max),
    };
    let request_id = match request.request_id.as_str() {
        // Nobody knows the id, so nobody can repeat the request. Any unique id will do.
        "" => Some(Uuid::new_v4()),
        text => fields.request_id("request_id", text),
    };
    let mode = mode(&request, &mut fields);
    let min_hold = fields.optional_duration("min_hold", request.min_hold.as_ref(), MIN_HOLD_MAX);
    let lock_delay = fields.optional_duration("lock_delay", request.lock_delay.as_ref(), LOCK_DELAY_MAX);
    let delays = Delays::new(min_hold, lock_delay);
    let max_hold = fields.max_hold(request.max_hold.as_ref(), ttl.unwrap_or(limits.ttl_min));
    let name = fields.take("lock_name", LockName::new(request.lock_name));
    let holder = fields.take("holder", Holder::new(request.holder));
    let owner = fields.take("owner", Owner::new(request.owner)).unwrap_or_default();
    let metadata = fields.take("metadata", Metadata::new(request.metadata));
    match (name, holder, metadata, ttl, wait, request_id) {
        (Some(name), Some(holder), Some(metadata), Some(ttl), Some(wait), Some(request_id)) => {
            fields.done()?;
            let (waiters_max, tell_when_wanted) = (request.max_waiters, request.tell_when_wanted);
            let extra = Extra { delays, owner, identity, waiters_max, tell_when_wanted, description: 0 };
            let asks = Asks { ttl, max_hold, extra: &extra, mode: &mode };
            let fingerprint = fingerprint(&asks, &holder, &metadata, request.min_token);
            let terms = Terms {
                fingerprint,
                ttl,
                holder,
                metadata,
                min_token: request.min_token,
                max_hold: max_hold.and_then(MaxHold::new),
                extra: extra.boxed(),
                mode,
            };
            // Random, and never 0: the version of the UUID is in this half.
            let id = CallId(Uuid::new_v4().as_u64_pair().0);
            let call = Call { request: RequestId(request_id), attempt: request.attempt.max(1), id };
            Ok((name, AcquireCall { call, terms, wait, arrived, deadline, attachment: None, waiter: None }))
        }
        _ => Err(fields.into_status()),
    }
}

fn mode(request: &v1::AcquireRequest, fields: &mut Fields) -> Mode {
    let v1::AcquireRequest { permits, permit_limit, permit_limit_version, .. } = *request;
    let mode = match v1::LockMode::try_from(request.mode) {
        Ok(v1::LockMode::Shared) => Mode::Shared,
        Ok(v1::LockMode::Unspecified | v1::LockMode::Exclusive) => Mode::Exclusive,
        Ok(v1::LockMode::Semaphore) => {
            if !(1..=PERMITS_MAX).contains(&permit_limit) {
                fields.refuse("permit_limit", format!("must be 1 to {PERMITS_MAX} with mode SEMAPHORE"));
            } else if permit_limit < permits {
                fields.refuse("permits", format!("must be at most permit_limit, which is {permit_limit}"));
            }
            let limit = PermitLimit { permits: permit_limit, version: permit_limit_version };
            return Permits::new(permits.max(1), limit).map_or(Mode::Exclusive, |it| Mode::Semaphore(Box::new(it)));
        }
        Err(_) => {
            fields.unsupported("mode", true);
            Mode::Exclusive
        }
    };
    let of_semaphores = [
        ("permits", permits != 0),
        ("permit_limit", permit_limit != 0),
        ("permit_limit_version", permit_limit_version != 0),
    ];
    for (field, _) in of_semaphores.into_iter().filter(|(_, is_set)| *is_set) {
        fields.refuse(field, "must be 0 unless the mode is SEMAPHORE");
    }
    mode
}

/// Checks a Convert.
pub(super) fn conversion(
    request: v1::ConvertRequest,
) -> Result<(LockName, (LeaseId, FencingToken), ConvertTo), Status> {
    let mut fields = Fields::default();
    let to = match v1::LockMode::try_from(request.mode) {
        Ok(v1::LockMode::Exclusive) => Some(ConvertTo::Exclusive),
        Ok(v1::LockMode::Shared) => Some(ConvertTo::Shared),
        Ok(v1::LockMode::Unspecified | v1::LockMode::Semaphore) | Err(_) => {
            fields.refuse("mode", "must be EXCLUSIVE or SHARED");
            None
        }
    };
    let token = fields.token("fencing_token", request.fencing_token);
    let lease_id = fields.uuid("lease_id", &request.lease_id);
    let name = fields.take("lock_name", LockName::new(request.lock_name));
    match (name, lease_id, token, to) {
        (Some(name), Some(lease_id), Some(token), Some(to)) => {
            fields.done()?;
            Ok((name, (LeaseId(lease_id), token), to))
        }
        _ => Err(fields.into_status()),
    }
}

/// What a lease is to be described with: its metadata, its label if that changes, and the number of the description.
pub(super) type Description = (Metadata, Option<Holder>, u64);

/// Checks a Describe.
pub(super) fn description(request: v1::DescribeRequest) -> Result<(LockName, LeaseId, Description), Status> {
    let mut fields = Fields::default();
    let lease_id = fields.uuid("lease_id", &request.lease_id);
    let name = fields.take("lock_name", LockName::new(request.lock_name));
    let metadata = fields.take("metadata", Metadata::new(request.metadata));
    let holder = request.holder.map(|holder| fields.take("holder", Holder::new(holder)));
    match (name, lease_id, metadata) {
        (Some(name), Some(lease_id), Some(metadata)) => {
            fields.done()?;
            Ok((name, LeaseId(lease_id), (metadata, holder.flatten(), request.number)))
        }
        _ => Err(fields.into_status()),
    }
}

/// Checks a ListWaiters. Returns the position after which the page begins, and its size.
pub(super) fn list_waiters(request: v1::ListWaitersRequest) -> Result<(LockName, Option<u64>, u32), Status> {
    let mut fields = Fields::default();
    let size = request.page_size;
    if size > WAITERS_PAGE_MAX {
        fields.refuse("page_size", format!("must be 1 to {WAITERS_PAGE_MAX}, or 0 for the default; it is {size}"));
    }
    let token = Some(request.page_token).filter(|token| !token.is_empty());
    // Digits alone: a sign would be read as well.
    let after = token.map(|token| token.parse().ok().filter(|_| token.bytes().all(|byte| byte.is_ascii_digit())));
    if after == Some(None) {
        fields.refuse("page_token", "was not issued by this listing");
    }
    match fields.take("lock_name", LockName::new(request.lock_name)) {
        Some(name) => {
            fields.done()?;
            Ok((name, after.flatten(), if size == 0 { WAITERS_PAGE_MAX } else { size }))
        }
        None => Err(fields.into_status()),
    }
}

/// Checks the name and the lease id that Release and Renew have in common.
pub(super) fn lease(lock_name: String, lease_id: &str) -> Result<(LockName, LeaseId), Status> {
    let mut fields = Fields::default();
    let lease_id = fields.uuid("lease_id", lease_id);
    let name = fields.take("lock_name", LockName::new(lock_name));
    match (name, lease_id) {
        (Some(name), Some(lease_id)) => Ok((name, LeaseId(lease_id))),
        _ => Err(fields.into_status()),
    }
}

/// Checks a TTL that may be left out.
pub(super) fn optional_ttl(ttl: Option<prost_types::Duration>, limits: &Limits) -> Result<Option<Duration>, Status> {
    let mut fields = Fields::default();
    let ttl = ttl.map(|ttl| fields.duration("ttl", &ttl, limits.ttl_min, limits.ttl_max));
    fields.done()?;
    Ok(ttl.flatten())
}

/// Checks a lock name.
pub(super) fn name(lock_name: String) -> Result<LockName, Status> {
    let mut fields = Fields::default();
    match fields.take("lock_name", LockName::new(lock_name)) {
        Some(name) => Ok(name),
        None => Err(fields.into_status()),
    }
}

/// Checks a CheckToken.
pub(super) fn check_token(request: v1::CheckTokenRequest) -> Result<(LockName, FencingToken), Status> {
    let mut fields = Fields::default();
    let token = fields.token("fencing_token", request.fencing_token);
    let name = fields.take("lock_name", LockName::new(request.lock_name));
    match (name, token) {
        (Some(name), Some(token)) => Ok((name, token)),
        _ => Err(fields.into_status()),
    }
}

/// Checks a ForceRelease.
pub(super) fn force_release(request: v1::ForceReleaseRequest) -> Result<(LockName, FencingToken, Reason), Status> {
    let mut fields = Fields::default();
    let token = fields.token("expected_token", request.expected_token);
    let reason = fields.take("reason", Reason::new(request.reason));
    let name = fields.take("lock_name", LockName::new(request.lock_name));
    match (name, token, reason) {
        (Some(name), Some(token), Some(reason)) => Ok((name, token, reason)),
        _ => Err(fields.into_status()),
    }
}

/// Checks a prefix of names.
pub(super) fn prefix(prefix: &str) -> Result<(), Status> {
    let mut fields = Fields::default();
    if prefix.len() > LOCK_NAME_BYTES_MAX {
        fields.refuse("prefix", format!("must have at most {LOCK_NAME_BYTES_MAX} bytes; it has {}", prefix.len()));
    }
    fields.done()
}

/// Checks the size of a page.
pub(super) fn page_size(size: u32) -> Result<usize, Status> {
    let mut fields = Fields::default();
    if size > PAGE_SIZE_MAX {
        fields.refuse("page_size", format!("must be 1 to {PAGE_SIZE_MAX}, or 0 for the default; it is {size}"));
    }
    fields.done()?;
    Ok(usize::try_from(if size == 0 { PAGE_SIZE_DEFAULT } else { size }).unwrap_or(usize::MAX))
}

/// Checks an acquire on a session, which has no deadline of its own.
pub(super) fn session_acquire(
    request: v1::SessionAcquire,
    identity: Option<Identity>,
    limits: &Limits,
) -> Result<Operation, Status> {
    let v1::SessionAcquire { request, handle, release_on_disconnect } = request;
    let (name, call) = acquire(request.unwrap_or_default(), identity, limits, Instant::now(), None)?;
    Ok(Operation::Acquire(Box::new(session::Acquire { name, call, handle, release_on_disconnect })))
}

/// Checks a message of a KeepAlive stream.
pub(super) fn keep_alive(request: v1::KeepAliveRequest) -> Result<FromClient, Status> {
    use v1::keep_alive_request::Message;
    match request.message {
        Some(Message::Answer(message)) => Ok(answer(message)),
        Some(Message::Detach(message)) => Ok(detach(message)),
        Some(Message::Attach(message)) => attach(message),
        None => Err(no_message("attach, detach or answer")),
    }
}

/// The error for a stream message that is empty.
pub(super) fn no_message(wanted: &str) -> Status {
    let mut fields = Fields::default();
    fields.refuse("message", format!("must be given: {wanted}"));
    fields.into_status()
}

pub(super) fn answer(answer: v1::BeatAnswer) -> FromClient {
    FromClient::Answer(answer.beat)
}

pub(super) fn detach(detach: v1::DetachLeases) -> FromClient {
    FromClient::Detach(detach.handles)
}

/// Checks the leases that a stream is to keep alive.
pub(super) fn attach(attach: v1::AttachLeases) -> Result<FromClient, Status> {
    let mut fields = Fields::default();
    let mut leases = Vec::with_capacity(attach.leases.len());
    for (place, lease) in attach.leases.into_iter().enumerate() {
        let lease_id = Uuid::try_parse(&lease.lease_id);
        match (LockName::new(lease.lock_name), lease_id) {
            (Ok(name), Ok(lease_id)) => leases.push(AttachLease {
                handle: lease.handle,
                name,
                lease_id: LeaseId(lease_id),
                attempt: lease.attempt.max(1),
                release_on_disconnect: lease.release_on_disconnect,
            }),
            (Err(rule), _) => fields.refuse(format!("attach.leases[{place}].lock_name"), rule.0),
            (_, Err(_)) => fields.refuse(format!("attach.leases[{place}].lease_id"), "must be a UUID"),
        }
    }
    fields.done()?;
    Ok(FromClient::Attach(leases))
}
