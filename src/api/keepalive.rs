//! KeepAlive: messages in, messages out. What they mean is the service's.

use super::{Api, convert, dispatch::Caller, reply};
use crate::{locks::session, store::Store};
use fencepost_proto::v1;
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};

pub(super) type KeepAliveStream = Pin<Box<dyn Stream<Item = Result<v1::KeepAliveResponse, Status>> + Send>>;

/// The response stream. It is polled, and dropped, with the transport's: no task of its own keeps it alive.
pub(super) fn serve<S: Store>(
    api: &Api<S>,
    caller: Caller,
    inbound: Streaming<v1::KeepAliveRequest>,
) -> KeepAliveStream {
    let inbound = inbound.map(|message| message.and_then(convert::keep_alive));
    let outbound = session::keep_alive(api.locks.clone(), caller, inbound, api.drain_grace);
    Box::pin(outbound.map(|message| message.map(reply::keep_alive).map_err(Status::from)))
}
