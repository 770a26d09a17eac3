//! What the checks have found so far.

use crate::{
    history::Nanos,
    verdict::{Check, Violation},
};
use std::fmt;

/// What the checks have found so far.
pub(crate) struct Findings {
    begin: Nanos,
    pub(crate) violations: Vec<Violation>,
    pub(crate) excused: Vec<Violation>,
}

impl Findings {
    pub(crate) fn new(begin: Nanos) -> Self {
        Self { begin, violations: Vec::new(), excused: Vec::new() }
    }

    /// A time as people read it: seconds since the clients began.
    pub(crate) fn at(&self, time: Nanos) -> At {
        At { begin: self.begin, time }
    }

    pub(crate) fn wrong(&mut self, check: Check, lock: &str, message: impl Into<String>) {
        self.found(check, Some(lock), message.into(), None);
    }

    pub(crate) fn wrong_at_large(&mut self, check: Check, message: impl Into<String>) {
        self.found(check, None, message.into(), None);
    }

    /// Wrong, unless there is an excuse.
    pub(crate) fn excusable(&mut self, check: Check, lock: &str, message: String, excuse: Option<String>) {
        self.found(check, Some(lock), message, excuse);
    }

    fn found(&mut self, check: Check, lock: Option<&str>, message: String, excuse: Option<String>) {
        let list = if excuse.is_some() { &mut self.excused } else { &mut self.violations };
        list.push(Violation { check, lock: lock.map(str::to_owned), message, excuse });
    }
}

/// A time in a message.
#[derive(Clone, Copy)]
pub(crate) struct At {
    begin: Nanos,
    time: Nanos,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, span) =
            if self.time < self.begin { ("-", self.begin - self.time) } else { ("", self.time - self.begin) };
        write!(f, "{sign}{}", Span(span))
    }
}

/// A period in a message.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) Nanos);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}
