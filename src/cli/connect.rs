//! The client that the commands share, and what a call that failed is called.

use super::{
    args::ServerArgs,
    exit::{Failure, NOT_OBTAINED, UNAVAILABLE, USAGE},
    text,
};
use fencepost_client::{CallError, Client, FieldViolation, v1::GetRequest};
use std::{error::Error, time::Duration};
use tonic::Code;

/// How long a single call is repeated: a person is waiting.
pub(super) const PROMPT: Duration = Duration::from_secs(2);

/// A client of the servers that the arguments name.
pub(super) fn client(args: &ServerArgs, holder: String, retry_for: Duration) -> Result<Client, Failure> {
    let builder = args.addresses().into_iter().fold(Client::builder(), |builder, address| builder.server(address));
    let built = builder.holder(holder).retry_for(retry_for).build();
    built.map_err(|error| Failure::new(USAGE, format!("{error}; name a server with --server or FENCEPOST_SERVER")))
}

/// Fails if there is no server to wait at. A client that waits in line goes on trying for as long as it was told to
/// wait, since a server may be restarting; who mistyped an address should hear of it sooner.
pub(super) async fn reachable(client: &Client, lock_name: &str, args: &ServerArgs) -> Result<(), Failure> {
    match client.calls().get(GetRequest { lock_name: lock_name.to_owned() }).await {
        Err(error) if error.is_unreachable() || error.not_grpc().is_some() => Err(failed(&error, Effect::Reads, args)),
        // Whatever else there is to say, the request itself will be told.
        _ => Ok(()),
    }
}

/// What a call changes, and so what it means that its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it only asks.
    Reads,
    /// Something: repeated with the same ids, it has the effect of one.
    Writes,
}

/// What happened, why, and what to do about it.
pub(super) fn failed(error: &CallError, effect: Effect, args: &ServerArgs) -> Failure {
    let trouble = Trouble {
        code: error.code(),
        message: error.message().to_owned(),
        not_grpc: error.not_grpc().map(str::to_owned),
        unreachable: error.is_unreachable(),
        unanswered: error.is_outcome_unknown(),
        cause: root_cause(error),
        reason: error.reason().unwrap_or_default(),
        violations: error.field_violations(),
        retry_delay: error.retry_delay(),
    };
    trouble.explain(effect, &args.addresses().join(", "))
}

/// The words at the bottom of a chain of errors: the layers above only say that something below them failed.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

/// What is known of a call that failed.
struct Trouble {
    code: Code,
    message: String,
    not_grpc: Option<String>,
    unreachable: bool,
    unanswered: bool,
    cause: String,
    reason: String,
    violations: Vec<FieldViolation>,
    retry_delay: Option<Duration>,
}

impl Trouble {
    fn explain(&self, effect: Effect, servers: &str) -> Failure {
        if let Some(words) = &self.not_grpc {
            let unknown = if self.unanswered && effect == Effect::Writes {
                "; if it is, the call may or may not have been done: look with 'fencepost get'"
            } else {
                ""
            };
            let advice = "is that the address of a Fencepost server? Name one with --server or FENCEPOST_SERVER";
            return Failure::new(UNAVAILABLE, format!("{words}: {advice}{unknown}"));
        }
        if self.unreachable {
            let advice =
                "is it running? Start one with 'fencepost serve', or name another with --server or FENCEPOST_SERVER";
            return Failure::new(
                UNAVAILABLE,
                format!("cannot reach the server at {servers} ({}): {advice}", self.cause),
            );
        }
        let words = if self.message.is_empty() { self.cause.as_str() } else { self.message.as_str() };
        match (self.code, self.reason.as_str()) {
            _ if self.unanswered && effect == Effect::Writes => Failure::new(
                UNAVAILABLE,
                format!(
                    "outcome unknown: {servers} did not answer ({words}); it may or may not have been done: look with 'fencepost get'"
                ),
            ),
            _ if self.unanswered => Failure::new(UNAVAILABLE, format!("no answer from {servers} ({words}): try again")),
            (Code::InvalidArgument, _) => Failure::new(USAGE, invalid(words, &self.violations)),
            (Code::ResourceExhausted, _) => Failure::new(NOT_OBTAINED, exhausted(words, self.retry_delay)),
            (Code::Aborted, "REQUEST_ENDED") => Failure::new(NOT_OBTAINED, ENDED),
            (Code::Aborted, "OVERTAKEN") => Failure::new(NOT_OBTAINED, OVERTAKEN),
            (Code::Unimplemented, _) => Failure::new(
                UNAVAILABLE,
                format!(
                    "{servers} does not know this call: is it a Fencepost server, and not older than this program?"
                ),
            ),
            (code, _) => Failure::new(UNAVAILABLE, format!("{servers} refused the call: {words} ({code:?})")),
        }
    }
}

pub(super) const ENDED: &str = "this request has already ended: ask again, with another --request-id if one was given";
pub(super) const OVERTAKEN: &str = "a newer attempt of this request took over, and has the answer";

/// A request that breaks a rule, field by field.
pub(super) fn invalid(message: &str, violations: &[FieldViolation]) -> String {
    let rules: Vec<_> = violations.iter().map(|broken| format!("{} {}", broken.field, broken.description)).collect();
    let why = if rules.is_empty() { message.to_owned() } else { rules.join("; ") };
    format!("the server refused the request: {why}")
}

/// Too many wait.
pub(super) fn exhausted(message: &str, retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(delay) => {
            format!("the server has no room for this request: {message}; try again in {}", text::span(delay))
        }
        None => format!("the server has no room for this request: {message}; try again later"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(code: Code) -> Trouble {
        Trouble {
            code,
            message: "words".to_owned(),
            not_grpc: None,
            unreachable: false,
            unanswered: false,
            cause: "the cause".to_owned(),
            reason: String::new(),
            violations: Vec::new(),
            retry_delay: None,
        }
    }

    fn said(trouble: &Trouble, effect: Effect) -> (u8, String) {
        let failure = trouble.explain(effect, "a:7420");
        (failure.code, failure.message)
    }

    #[test]
    fn a_server_that_is_down_says_what_to_do() {
        let (code, message) = said(&Trouble { unreachable: true, ..trouble(Code::Unavailable) }, Effect::Writes);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.contains("a:7420 (the cause)") && message.contains("fencepost serve"), "{message}");
    }

    #[test]
    fn a_port_that_is_not_grpc_is_named() {
        let words = Some("a:7420 does not speak gRPC (it sent \"+PONG\")".to_owned());
        let other = Trouble { not_grpc: words, unreachable: true, ..trouble(Code::Unknown) };
        let (code, message) = said(&other, Effect::Writes);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.starts_with("a:7420 does not speak gRPC") && message.contains("--server"), "{message}");
        assert!(!message.contains("may or may not"), "{message}");
        let silent = Trouble { unreachable: false, unanswered: true, ..other };
        assert!(said(&silent, Effect::Writes).1.contains("may or may not"));
        assert!(!said(&silent, Effect::Reads).1.contains("may or may not"));
    }

    #[test]
    fn only_a_write_has_an_unknown_outcome() {
        let silent = Trouble { unanswered: true, ..trouble(Code::Unavailable) };
        assert!(said(&silent, Effect::Writes).1.contains("may or may not"));
        assert!(said(&silent, Effect::Reads).1.contains("try again"));
    }

    #[test]
    fn refusals_have_codes_of_their_own() {
        let mut invalid = trouble(Code::InvalidArgument);
        assert_eq!(said(&invalid, Effect::Writes), (USAGE, "the server refused the request: words".to_owned()));
        invalid.reason = "ANY".to_owned();
        let full = Trouble { retry_delay: Some(Duration::from_millis(200)), ..trouble(Code::ResourceExhausted) };
        let (code, message) = said(&full, Effect::Writes);
        assert_eq!(code, NOT_OBTAINED);
        assert!(message.ends_with("try again in 200 ms"), "{message}");
        let ended = Trouble { reason: "REQUEST_ENDED".to_owned(), ..trouble(Code::Aborted) };
        assert_eq!(said(&ended, Effect::Writes), (NOT_OBTAINED, ENDED.to_owned()));
        assert!(said(&trouble(Code::Unimplemented), Effect::Reads).1.contains("older"));
        assert_eq!(said(&trouble(Code::Internal), Effect::Reads).0, UNAVAILABLE);
    }
}
