//! Tower layers around the API, one idea a file.

mod calls;
mod status;
mod traces;

pub(super) use calls::CallsLayer;
pub(super) use traces::TracesLayer;
