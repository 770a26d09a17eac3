//! The commands that make one call each: a request built from the arguments, and a pure function that turns the
//! response into text or a failure.

pub(super) mod acquire;
pub(super) mod admin;
pub(super) mod describe;
pub(super) mod lease;
pub(super) mod observe;
pub(in crate::cli) mod show;
mod table;
pub(super) mod waiters;
pub(super) mod watch;

use super::{
    exit::{Failure, UNAVAILABLE},
    json,
};
use prost::Message;
use std::io::{self, Write};

/// Prints the response, as JSON or as `result` has it. Returns the failure of `result`.
fn finish(as_json: bool, name: &str, reply: &impl Message, result: Result<String, Failure>) -> Result<(), Failure> {
    if as_json {
        print(&json::line(name, reply)?)?;
    } else if let Ok(text) = &result {
        print(text)?;
    }
    result.map(|_| ())
}

/// The server sent an enum value that this version does not know.
fn unknown_answer() -> Failure {
    Failure::new(UNAVAILABLE, "the server sent an answer that this version does not know: upgrade this program")
}

/// Prints lines to stdout.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}
