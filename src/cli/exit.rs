//! Exit codes, and the failure that carries an exit code and its message.

use super::look::hanging;
use nix::sys::signal::Signal;
use std::{fmt, io};

/// Success.
pub const OK: u8 = 0;
/// The answer is no: the command worked, but what it asked for was refused or is not true.
pub const NO: u8 = 1;
/// Invalid command line; the code that clap uses.
pub const COMMAND_LINE: u8 = 2;
/// The server refused the request as malformed, or an argument is invalid.
pub const USAGE: u8 = 64;
/// No server answered, or the outcome is unknown.
pub const UNAVAILABLE: u8 = 69;
/// `run`, `hold`: the lease was lost; `run`: the command was stopped because the lease was about to end.
pub const LEASE_LOST: u8 = 70;
/// The output could not be written.
pub const OUTPUT: u8 = 74;
/// The lock was not acquired. A later retry may succeed.
pub const NOT_ACQUIRED: u8 = 75;
/// The server refused the credentials, or no rule of it permits the call.
pub const NOT_PERMITTED: u8 = 77;
/// The configuration of the server is invalid.
pub const CONFIG: u8 = 78;
/// `run`: the command cannot be executed.
pub const CANNOT_RUN: u8 = 126;
/// `run`: the command was not found.
pub const NOT_FOUND: u8 = 127;
/// Terminated by a signal: this plus the number of the signal.
pub const SIGNAL: u8 = 128;

/// What each code means, for `--help` and the manual.
const MEANINGS: [(&str, &str); 13] = [
    ("0", "success; run: the exit status of the command"),
    (
        "1",
        "the answer is no: renew, convert, describe or release of a lease that has ended, describe with a number that \
         is not the newest, check-token of a token that is not current, force-release that changed nothing; hold: \
         the lock was not released; deadlocks: there is one; doctor: a check found an error; health, status: a server is not ready; serve: the server cannot listen, or failed later; quorum \
         create, replace, rebuild: refused, such as for a Redis that is in use; quorum status: locks have no \
         majority",
    ),
    ("2", "invalid command line"),
    (
        "64",
        "the server refused the request as malformed, or because others ask for the lock in another mode or with \
         another --limit, or an argument is invalid; drain: no server is named",
    ),
    (
        "69",
        "no server answered, the server could not carry out the call, or the outcome is unknown; doctor, \
         quorum: a Redis cannot be reached; quorum replace: the new Redis did not get all locks; quorum \
         rebuild: a Redis changed meanwhile",
    ),
    ("70", "run, hold: the lease was lost; run: the command was stopped because the lease was about to end"),
    ("74", "the output could not be written"),
    (
        "75",
        "the lock was not acquired: it is held, the wait timed out, the request has ended, or too many calls \
         wait; watch, observe: too many streams",
    ),
    ("77", "the server refused the credentials, or no rule permits the call; access check: no rule permits it"),
    (
        "78",
        "serve: the configuration is invalid; doctor, quorum: a file for TLS cannot be used; doctor, access check: \
         the access file cannot be used",
    ),
    ("126", "run: the command cannot be executed"),
    ("127", "run: the command was not found"),
    ("128+n", "terminated by signal n; run: the command was terminated by signal n"),
];

/// The table that `--help` and the manual show, in lines that fit into this many columns.
pub fn table(width: usize) -> String {
    let rows = MEANINGS.map(|(code, meaning)| hanging(&format!("{code:>5}  "), meaning, width));
    format!("Exit codes:\n{}", rows.join("\n"))
}

/// The reason for an exit code other than 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of the exit codes of this module.
    pub code: u8,
    /// What happened, why, and what to do; empty if there is nothing to add to stdout.
    pub message: String,
}

impl Failure {
    /// A failure with a message.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A failure without a message.
    pub fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    /// The end by a signal.
    pub fn of_signal(signal: Signal) -> Self {
        Self::silent(SIGNAL.saturating_add(signal as u8))
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
            // The reader of stdout is gone. Exit as if by SIGPIPE, which Rust programs ignore.
            io::ErrorKind::BrokenPipe => Self::silent(SIGNAL + 13),
            _ => Self::new(OUTPUT, format!("cannot write the output: {error}")),
        }
    }
}
