//! Checks a request field by field, and reports all violations together.

use crate::{
    config::duration::as_written,
    domain::{limits::MAX_HOLD_MAX, name::BrokenRule, token::FencingToken},
};
use prost_types::Duration as ProtoDuration;
use std::{fmt::Display, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use uuid::Uuid;

/// The violations of a request. Allocates nothing while there are none.
#[derive(Debug, Default)]
pub(super) struct Fields {
    violations: Vec<(String, String)>,
    /// How many more there are that are not reported.
    more: usize,
}

/// The most violations that are reported. They are sent in headers, and a peer that receives more than some 8 or 16 KiB
/// of headers closes the whole connection.
const VIOLATIONS_MAX: usize = 16;

impl Fields {
    /// Notes that a field breaks a rule.
    pub(super) fn refuse(&mut self, field: impl Into<String>, rule: impl Into<String>) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push((field.into(), rule.into()));
        } else {
            self.more += 1;
        }
    }

    /// Unwraps a field's value, or notes the rule that it breaks.
    pub(super) fn take<T>(&mut self, field: &str, value: Result<T, BrokenRule>) -> Option<T> {
        value.map_err(|BrokenRule(rule)| self.refuse(field, rule)).ok()
    }

    /// Parses a UUID.
    pub(super) fn uuid(&mut self, field: &str, text: &str) -> Option<Uuid> {
        let uuid = Uuid::try_parse(text).ok();
        if uuid.is_none() {
            let rule = if text.is_empty() { "must be given" } else { "must be a UUID" };
            self.refuse(field, rule);
        }
        uuid
    }

    /// Parses a request id. A client that forgets to fill it in may send the nil UUID: two such clients would share one
    /// request, and with it the lease.
    pub(super) fn request_id(&mut self, field: &str, text: &str) -> Option<Uuid> {
        let id = self.uuid(field, text)?;
        if id.is_nil() {
            self.refuse(field, "must not be the nil UUID: make a new random one for each request, or leave it empty");
            return None;
        }
        Some(id)
    }

    /// Checks a token.
    pub(super) fn token(&mut self, field: &str, number: u64) -> Option<FencingToken> {
        let token = FencingToken::new(number);
        if token.is_none() {
            self.refuse(field, format!("must be a fencing token: above 0 and below 2^53; it is {number}"));
        }
        token
    }

    /// Checks a duration against a range.
    pub(super) fn duration(
        &mut self,
        field: &str,
        value: &ProtoDuration,
        min: Duration,
        max: Duration,
    ) -> Option<Duration> {
        match read(value) {
            Some(span) if min <= span && span <= max => Some(span),
            Some(span) => {
                self.refuse(field, range(min, max, &as_written(span)));
                None
            }
            None => {
                self.refuse(field, range(min, max, &format_args!("{} s and {} ns", value.seconds, value.nanos)));
                None
            }
        }
    }

    /// Checks a duration that may be left out, which is zero then.
    pub(super) fn optional_duration(&mut self, field: &str, value: Option<&ProtoDuration>, max: Duration) -> Duration {
        value.and_then(|value| self.duration(field, value, Duration::ZERO, max)).unwrap_or_default()
    }

    /// Checks a `max_hold`, which is at least the TTL. `None` is no bound.
    pub(super) fn max_hold(&mut self, value: Option<&ProtoDuration>, ttl: Duration) -> Option<Duration> {
        let value = value.filter(|value| **value != ProtoDuration::default())?;
        let span = read(value);
        if span.is_none_or(|span| span < ttl || MAX_HOLD_MAX < span) {
            let (min, max) = (as_written(ttl), as_written(MAX_HOLD_MAX));
            let it = span.map_or_else(|| format!("{} s and {} ns", value.seconds, value.nanos), as_written);
            self.refuse(
                "max_hold",
                format!("must be at least the TTL of the lease, {min}, and at most {max}; it is {it}"),
            );
        }
        span
    }

    /// Refuses a field of a feature that this server does not support yet. It must not be ignored.
    pub(super) fn unsupported(&mut self, field: &str, used: bool) {
        if used {
            self.refuse(field, "is not supported by this server yet: leave it out");
        }
    }

    /// Returns the error, if there is any violation.
    pub(super) fn done(self) -> Result<(), Status> {
        if self.violations.is_empty() { Ok(()) } else { Err(self.into_status()) }
    }

    /// Returns the error. For callers that know that there is a violation.
    pub(super) fn into_status(self) -> Status {
        let mut text: Vec<String> = self.violations.iter().map(|(field, rule)| format!("{field} {rule}")).collect();
        if self.more > 0 {
            text.push(format!("and {} more", self.more));
        }
        let mut details = ErrorDetails::new();
        for (field, rule) in self.violations {
            details.add_bad_request_violation(field, rule);
        }
        super::status::with_reason(&mut details, "INVALID_FIELD");
        Status::with_error_details(Code::InvalidArgument, text.join("; "), details)
    }
}

/// Converts a duration by protobuf's rules; `None` if it is negative or malformed. prost's own conversion normalises,
/// and panics on values that cannot be normalised (prost-types 0.14.4, seconds and nanos at their minimum).
fn read(value: &ProtoDuration) -> Option<Duration> {
    let nanos = u32::try_from(value.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(value.seconds).ok()?, nanos))
}

fn range(min: Duration, max: Duration, value: &dyn Display) -> String {
    let (min, max) = (as_written(min), as_written(max));
    format!("must be {min} to {max}; it is {value}")
}
