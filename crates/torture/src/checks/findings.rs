//! The findings of the checks.

use crate::{
    history::Nanos,
    verdict::{Check, Violation},
};
use std::fmt;

/// The findings of the checks so far.
pub(crate) struct Findings {
    begin: Nanos,
    pub(crate) violations: Vec<Violation>,
    pub(crate) excused: Vec<Violation>,
}

impl Findings {
    pub(crate) fn new(begin: Nanos) -> Self {
        Self { begin, violations: Vec::new(), excused: Vec::new() }
    }

    /// A time in a message: seconds since the clients started.
    pub(crate) fn at(&self, time: Nanos) -> Timestamp {
        Timestamp { begin: self.begin, time }
    }

    pub(crate) fn violation(&mut self, check: Check, lock: &str, message: impl Into<String>) {
        self.push(check, Some(lock), message.into(), None);
    }

    pub(crate) fn global_violation(&mut self, check: Check, message: impl Into<String>) {
        self.push(check, None, message.into(), None);
    }

    /// A violation, unless there is an excuse.
    pub(crate) fn excusable(&mut self, check: Check, lock: &str, message: String, excuse: Option<String>) {
        self.push(check, Some(lock), message, excuse);
    }

    fn push(&mut self, check: Check, lock: Option<&str>, message: String, excuse: Option<String>) {
        let list = if excuse.is_some() { &mut self.excused } else { &mut self.violations };
        list.push(Violation { check, lock: lock.map(str::to_owned), message, excuse });
    }
}

/// A time in a message.
#[derive(Clone, Copy)]
pub(crate) struct Timestamp {
    begin: Nanos,
    time: Nanos,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, span) =
            if self.time < self.begin { ("-", self.begin - self.time) } else { ("", self.time - self.begin) };
        write!(f, "{sign}{}", Period(span))
    }
}

/// A period in a message.
#[derive(Clone, Copy)]
pub(crate) struct Period(pub(crate) Nanos);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}
