//! Tower layers around the API, one idea a file.

mod broken_off;
mod calls;
mod content_type;
mod deadline;
mod late;
mod open_calls;
mod request_time;
mod status;
mod traces;
mod unread;
mod unreadable;

pub(super) use broken_off::BrokenOffLayer;
pub(super) use calls::CallsLayer;
pub(super) use content_type::ContentTypeLayer;
pub(super) use deadline::DeadlineLayer;
pub(super) use open_calls::{OpenCalls, STREAMS_MAX};
pub(super) use request_time::RequestTimeLayer;
pub(super) use traces::TracesLayer;
pub(super) use unread::Unread;
pub(super) use unreadable::UnreadableLayer;
