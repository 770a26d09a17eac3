//! Tower layers around the API, one idea a file.

mod broken_off;
mod calls;
mod deadline;
mod request_time;
mod status;
mod traces;
mod unread;

pub(super) use broken_off::BrokenOffLayer;
pub(super) use calls::CallsLayer;
pub(super) use deadline::DeadlineLayer;
pub(super) use request_time::RequestTimeLayer;
pub(super) use traces::TracesLayer;
pub(super) use unread::Unread;
