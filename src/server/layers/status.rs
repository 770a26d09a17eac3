//! The status of a call, as its headers and trailers have it.

use crate::telemetry::metrics::{CODES, UNKNOWN};
use hyper::HeaderMap;
use tonic::Status;

/// The code of a call that went well.
pub(super) const OK: usize = 0;
/// The code in the head of an error, or in the trailers of an answer.
pub(super) fn code(headers: &HeaderMap) -> Option<usize> {
    let code = headers.get(Status::GRPC_STATUS)?.to_str().ok()?.parse();
    Some(code.unwrap_or(UNKNOWN))
}

/// The name of a code.
pub(super) fn name(code: usize) -> &'static str {
    CODES.get(code).unwrap_or(&CODES[UNKNOWN])
}
