//! How a command ends: one table of exit codes, and the failure that carries one with the words that explain it.

use std::{fmt, io};

/// Done.
pub const OK: u8 = 0;
/// The answer is no: nothing is broken, but what was asked is not so.
pub const NO: u8 = 1;
/// The command line makes no sense; clap's own code for that.
pub const COMMAND_LINE: u8 = 2;
/// The server refused the request as malformed.
pub const USAGE: u8 = 64;
/// No server answered, or whether it did what was asked is unknown.
pub const UNAVAILABLE: u8 = 69;
/// `run`: the lease was lost, or in danger and the command stopped for it.
pub const LEASE_LOST: u8 = 70;
/// The answer could not be written.
pub const OUTPUT: u8 = 74;
/// The lock was not obtained; trying again later may help.
pub const NOT_OBTAINED: u8 = 75;
/// The configuration of the server cannot be used.
pub const CONFIG: u8 = 78;
/// `run`: the command was found but cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// `run`: the command was not found.
pub const NOT_FOUND: u8 = 127;
/// A signal ended it: this and the signal's number.
pub const SIGNAL: u8 = 128;

/// The table that `--help` and the manual show.
pub const TABLE: &str = "\
Exit codes:
    0  done; run: the command's own status, whatever it is
    1  the answer is no: release or renew of a lease that had ended, check-token of any but the current token, force-release
       that changed nothing; doctor: an error was found; bench: nothing succeeded; serve: cannot listen or go on
    2  bad command line
   64  the server refused the request as malformed, or an argument is
   69  no server answered, or could do it, or the outcome is unknown; doctor: Redis cannot be reached
   70  run: the lease was lost, or in danger and the command stopped for it
   74  the answer could not be written
   75  the lock was not obtained: held by another, the wait or the request ended, or too many wait or watch
   78  serve: the configuration cannot be used
  126  run: the command cannot be run
  127  run: the command was not found
128+n  ended by signal n; run: the command was";

/// Why a command does not end with 0, for people and for scripts.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of the exit codes of this module.
    pub code: u8,
    /// What happened, why, and what to do; empty if the answer on standard output says it all.
    pub message: String,
}

impl Failure {
    /// A failure with something to say.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// An exit code and nothing to say.
    pub fn silent(code: u8) -> Self {
        Self::new(code, "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Whoever read our answer had enough of it.
            io::ErrorKind::BrokenPipe => Self::silent(SIGNAL + 13),
            _ => Self::new(OUTPUT, format!("cannot write the answer: {error}")),
        }
    }
}
