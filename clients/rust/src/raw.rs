//! The calls and messages of the API as they are on the wire: everything in this crate that depends on the libraries of
//! the transport.
//!
//! **Unstable.** These types follow the versions of tonic and prost that this crate uses: a minor version may change
//! them. Nothing outside of this module does, but for conversions from and to them, [`Client::calls`] and
//! [`ClientBuilder::raw_endpoint`].
//!
//! Unlike the types of the client, the messages here print their lease ids, which are secrets: do not log them.
//!
//! [`Client::calls`]: crate::Client::calls
//! [`ClientBuilder::raw_endpoint`]: crate::ClientBuilder::raw_endpoint

pub use crate::attempts::Timed;
pub use crate::calls::Calls;
pub use fencepost_proto::v1;
pub use tonic::transport::{Channel, Endpoint};

use crate::{CallError, LeaseEnd, ServerAddress, Tls, connect};

/// Connects to a server, for calls of generated clients: those of [`v1`], or of other services such as health. They are
/// not retried.
///
/// The files of `tls` are read for each connection; [`ClientBuilder::build`](crate::ClientBuilder::build) checks them
/// earlier. Dropped, it abandons the connection attempt.
pub async fn connect(address: &ServerAddress, tls: &Tls) -> Result<Channel, CallError> {
    connect::connect(address, tls).await
}

/// The end of a lease as on the wire.
pub fn end(end: Option<LeaseEnd>) -> v1::LeaseEnd {
    end.map_or(v1::LeaseEnd::Unspecified, Into::into)
}

/// The gRPC status of a failed call.
pub fn status(error: &CallError) -> &tonic::Status {
    error.status()
}
