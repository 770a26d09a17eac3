//! KeepAlive: converts messages. The service gives them their meaning.

use super::{Api, convert, reply};
use crate::{locks::keepalive, store::Store};
use fencepost_proto::v1;
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};

pub(super) type KeepAliveStream = Pin<Box<dyn Stream<Item = Result<v1::KeepAliveResponse, Status>> + Send>>;

/// The response stream. The transport polls and drops it: no task keeps it alive.
pub(super) fn serve<S: Store>(api: &Api<S>, inbound: Streaming<v1::KeepAliveRequest>) -> KeepAliveStream {
    let inbound = inbound.map(|message| message.and_then(convert::keep_alive));
    let outbound = keepalive::keep_alive(api.locks.clone(), inbound, api.drain_grace);
    Box::pin(outbound.map(|message| message.map(reply::keep_alive).map_err(Status::from)))
}
