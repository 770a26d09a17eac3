//! Session: converts messages. The service gives them their meaning.

use super::{Api, convert, dispatch::Caller, reply};
use crate::{
    domain::limits::Limits,
    locks::{
        Permission,
        session::{self, FromClient, Operation},
    },
    store::Store,
};
use fencepost_proto::v1::{self, session_request::Message};
use std::{pin::Pin, sync::Arc};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};

pub(super) type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

/// The response stream. The transport polls and drops it: no task keeps it alive.
pub(super) fn serve<S: Store>(
    api: &Api<S>,
    (caller, permission): (Caller, Option<Arc<dyn Permission>>),
    inbound: Streaming<v1::SessionRequest>,
) -> SessionStream {
    let limits = api.locks.limits().clone();
    let from = caller.clone();
    let inbound = inbound.map(move |message| message.and_then(|message| convert_message(message, &from, &limits)));
    let outbound = session::session(api.locks.clone(), (caller, permission), inbound, api.drain_grace);
    Box::pin(outbound.map(|message| message.map(reply::session).map_err(Status::from)))
}

/// Converts a message. An operation that breaks a rule is answered with the error; any other message that breaks one
/// ends the stream.
fn convert_message(
    request: v1::SessionRequest,
    caller: &Caller,
    limits: &Limits,
) -> Result<FromClient<Status>, Status> {
    let operation = match request.message {
        Some(Message::Acquire(acquire)) => convert::session_acquire(acquire, caller.identity(), limits),
        Some(Message::Release(release)) => convert::lease(release.lock_name, &release.lease_id)
            .map(|(name, lease_id)| Operation::Release(name, lease_id)),
        Some(Message::Renew(renew)) => renewal(renew, limits),
        Some(Message::Cancel(cancel)) => return Ok(FromClient::Cancel(cancel.operation)),
        Some(Message::Attach(attach)) => return convert::attach(attach).map(FromClient::Keep),
        Some(Message::Detach(detach)) => return Ok(FromClient::Keep(convert::detach(detach))),
        Some(Message::Answer(answer)) => return Ok(FromClient::Keep(convert::answer(answer))),
        None => return Err(convert::no_message("acquire, release, renew, cancel, attach, detach or answer")),
    };
    Ok(match operation {
        Ok(operation) => FromClient::Begin(request.operation, operation),
        Err(error) => FromClient::Refuse(request.operation, error),
    })
}

fn renewal(renew: v1::RenewRequest, limits: &Limits) -> Result<Operation, Status> {
    let ttl = convert::optional_ttl(renew.ttl, limits)?;
    let (name, lease_id) = convert::lease(renew.lock_name, &renew.lease_id)?;
    Ok(Operation::Renew { name, lease_id, ttl, arrived: Instant::now() })
}
