//! The commands that are one call each: a request made of the arguments, and a pure judgement of the reply.

pub(super) mod acquire;
pub(super) mod admin;
pub(super) mod lease;
pub(super) mod show;
pub(super) mod watch;

use super::{exit::Failure, json};
use prost::Message;
use std::io::{self, Write};

/// Prints the reply, as JSON or as the judgement has it, and ends as the judgement says.
fn answer(as_json: bool, name: &str, reply: &impl Message, judged: Result<String, Failure>) -> Result<(), Failure> {
    if as_json {
        print(&json::line(name, reply)?)?;
    } else if let Ok(text) = &judged {
        print(text)?;
    }
    judged.map(|_| ())
}

/// A line, or several, of the answer.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}
