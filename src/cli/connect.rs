//! The client that the commands share, and the messages for failed calls.

use super::{
    args::{ServerArgs, in_environment},
    exit::{COMMAND_LINE, Failure, NO, NOT_ACQUIRED, NOT_PERMITTED, UNAVAILABLE, USAGE},
    text,
};
use crate::config::misspelt;
use fencepost_client::{
    CallError, Client, Code, ConfigError, FieldViolation, TlsFailure, facts, raw::v1::GetRequest, token_in,
};
use std::time::Duration;

/// How long a failed call is retried. Short, because a person is waiting.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(2);

/// A client of the servers that the arguments name.
pub(super) fn client(args: &ServerArgs, retry_for: Duration) -> Result<Client, Failure> {
    require_no_misspelt_server(args)?;
    let builder = args.addresses().into_iter().fold(Client::builder(), |builder, address| builder.server(address));
    let builder = builder.tls(args.tls()?).retry_for(retry_for);
    let builder = match args.credentials() {
        None => builder,
        Some((by, file)) => {
            let token = move || token_in(&file).map_err(|why| format!("{by}: {why}"));
            // Now, to tell what is wrong with the file. Later it is read again for each call, because it may change.
            token().map_err(|why| Failure::new(USAGE, why))?;
            builder.bearer_token(move || token().map_err(Into::into))
        }
    };
    builder.build().map_err(|error| unusable(&error))
}

/// Refuses to call the default server where a variable was probably meant to name another one: a lock of the wrong
/// server excludes nobody.
fn require_no_misspelt_server(args: &ServerArgs) -> Result<(), Failure> {
    if args.is_on_command_line() || in_environment().is_some() {
        return Ok(());
    }
    let Some(name) = misspelt(&std::env::vars_os().collect(), facts::ENVIRONMENT_SERVER) else { return Ok(()) };
    let meant = facts::ENVIRONMENT_SERVER;
    Err(Failure::new(
        COMMAND_LINE,
        format!("{name} is set, and is no variable of fencepost: did you mean {meant}? Rename it, or give --server"),
    ))
}

/// The failure for servers or files that cannot be used.
pub(super) fn unusable(error: &ConfigError) -> Failure {
    let advice = match error {
        ConfigError::Tls(_) => "; check --ca, --cert and --key (FENCEPOST_CA, FENCEPOST_CERT, FENCEPOST_KEY)",
        ConfigError::NotTls { .. } => {
            ", or leave out --ca, --cert and --key (FENCEPOST_CA, FENCEPOST_CERT, FENCEPOST_KEY)"
        }
        ConfigError::TokenInPlainText { .. } => ", or leave out --credentials (FENCEPOST_CREDENTIALS)",
        _ => "; name a server with --server or FENCEPOST_SERVER",
    };
    Failure::new(USAGE, format!("{error}{advice}"))
}

/// Fails if no server is reachable. A waiting client retries for the whole wait, because the server may be restarting.
/// This check reports a mistyped address at once.
pub(super) async fn reachable(client: &Client, lock_name: &str, args: &ServerArgs) -> Result<(), Failure> {
    match client.calls().get(GetRequest { lock_name: lock_name.to_owned() }).await {
        Err(error) if error.is_unreachable() || error.explanation().is_some() => {
            Err(failed(&error, CallKind::Read, args))
        }
        // The request itself reports any other error.
        _ => Ok(()),
    }
}

/// Whether a call changes state, so that an unknown outcome matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// It only reads.
    Read,
    /// It changes state. A repeat with the same ids has no further effect.
    Write,
    /// It may be granted a lock.
    Acquire,
}

/// The failure of a call: what happened, why, and what to do.
pub(super) fn failed(error: &CallError, kind: CallKind, args: &ServerArgs) -> Failure {
    let call = FailedCall {
        code: error.code(),
        message: error.message().to_owned(),
        explanation: error.explanation().map(str::to_owned),
        tls: error.tls_failure().cloned(),
        unreachable: error.is_unreachable(),
        unanswered: error.is_outcome_unknown(),
        cause: error.cause(),
        did_nothing: error.did_nothing(),
        reason: error.reason().unwrap_or_default(),
        violations: error.field_violations(),
        retry_delay: error.retry_delay(),
        last_answer: error.last_answer().map(|answer| format!("; {}", answer.as_last_answer())).unwrap_or_default(),
    };
    call.explain(kind, &args.addresses().join(", "))
}

/// The details of a failed call.
struct FailedCall {
    code: Code,
    message: String,
    explanation: Option<String>,
    tls: Option<TlsFailure>,
    unreachable: bool,
    unanswered: bool,
    did_nothing: bool,
    cause: String,
    reason: String,
    violations: Vec<FieldViolation>,
    retry_delay: Option<Duration>,
    /// What a server answered to an earlier try, if the last one got no answer; otherwise empty.
    last_answer: String,
}

impl FailedCall {
    fn explain(&self, kind: CallKind, servers: &str) -> Failure {
        let answer = &self.last_answer;
        if let Some(message) = self.explanation.as_ref().filter(|_| self.code != Code::Unimplemented) {
            let unknown = match &self.tls {
                _ if !self.unanswered || kind == CallKind::Read => "",
                Some(_) => "; the call may or may not have taken effect: check with 'fencepost get'",
                None => "; if it is, the call may or may not have taken effect: check with 'fencepost get'",
            };
            let advice = self.tls.as_ref().map_or(
                ": is this the address of a Fencepost server? Name a server with --server or FENCEPOST_SERVER",
                tls_advice,
            );
            return Failure::new(UNAVAILABLE, format!("{message}{answer}{advice}{unknown}"));
        }
        // What it means for a caller who waited that the call had no effect.
        let nothing = if kind == CallKind::Acquire { "nothing was granted" } else { "nothing was done" };
        if self.unreachable {
            let advice =
                "is it running? Start one with 'fencepost serve', or name another with --server or FENCEPOST_SERVER";
            let without = if kind == CallKind::Read { String::new() } else { format!(", so {nothing}") };
            return Failure::new(
                UNAVAILABLE,
                format!("cannot reach the server at {servers} ({}{answer}){without}: {advice}", self.cause),
            );
        }
        let message = if self.message.is_empty() { self.cause.as_str() } else { self.message.as_str() };
        match (self.code, self.reason.as_str()) {
            _ if self.unanswered && kind != CallKind::Read => Failure::new(
                UNAVAILABLE,
                format!(
                    "outcome unknown: {servers} did not answer ({message}{answer}), so the call may or may not have taken \
                     effect: check with 'fencepost get'"
                ),
            ),
            _ if self.unanswered => {
                Failure::new(UNAVAILABLE, format!("no answer from {servers} ({message}{answer}): try again"))
            }
            (Code::InvalidArgument, _) => Failure::new(USAGE, invalid(message, &self.violations)),
            // Other requests for the lock say something else.
            (Code::FailedPrecondition, "PERMIT_LIMIT_MISMATCH" | "MODE_MISMATCH" | "NOT_CONVERTIBLE") => {
                Failure::new(USAGE, invalid(message, &[]))
            }
            (Code::ResourceExhausted, _) => Failure::new(NOT_ACQUIRED, exhausted(message, self.retry_delay)),
            (Code::Unauthenticated | Code::PermissionDenied, reason) => {
                Failure::new(NOT_PERMITTED, format!("{servers} refused the call: {message}{}", what_to_show(reason)))
            }
            (Code::Aborted, "TOKEN_OUTDATED") => Failure::new(NO, message),
            (Code::Aborted, "REQUEST_ENDED") => Failure::new(NOT_ACQUIRED, ENDED),
            (Code::Aborted, "OVERTAKEN") => Failure::new(NOT_ACQUIRED, OVERTAKEN),
            (_, "DRAINING") => Failure::new(
                UNAVAILABLE,
                format!("{servers} is draining, so {nothing}: try again when it runs again, or name another --server"),
            ),
            _ if self.did_nothing => {
                Failure::new(UNAVAILABLE, format!("{servers} cannot serve the call: {message}; {nothing}: try again"))
            }
            (Code::Unimplemented, _) => Failure::new(
                UNAVAILABLE,
                format!(
                    "{servers} does not implement this call: it is not a Fencepost server, or older than this program, \
                     or this is its admin port"
                ),
            ),
            (code, _) => Failure::new(UNAVAILABLE, format!("{servers} refused the call: {message} ({code})")),
        }
    }
}

/// What to do about refused credentials, as the end of the sentence.
fn what_to_show(reason: &str) -> &'static str {
    match reason {
        "CREDENTIALS_MISSING" => "; give the file of a token with --credentials or FENCEPOST_CREDENTIALS",
        "CREDENTIALS_INVALID" | "CREDENTIALS_EXPIRED" => "; put another one into the file of --credentials",
        _ => "",
    }
}

/// What to do about a failure of TLS, as the end of its sentence.
fn tls_advice(failure: &TlsFailure) -> &'static str {
    match failure {
        TlsFailure::Untrusted => "; pass the file of its authority with --ca or FENCEPOST_CA",
        TlsFailure::Expired => "; give the server a new one, or correct the clock",
        TlsFailure::NotYetValid => "; correct the clock, or give the server another one",
        TlsFailure::WrongName { .. } => "; name the server as its certificate does, or issue one for this name",
        TlsFailure::BadCertificate(_) => "; give the server another one",
        // Its text says what to do.
        TlsFailure::NotTls => "",
        TlsFailure::ClientCertificateMissing => "; pass one with --cert and --key (FENCEPOST_CERT, FENCEPOST_KEY)",
        TlsFailure::ClientCertificateRefused(_) => {
            "; pass one that is valid and issued by an authority that the server trusts (--cert, --key)"
        }
        TlsFailure::Files(_) => "; check --ca, --cert and --key (FENCEPOST_CA, FENCEPOST_CERT, FENCEPOST_KEY)",
        _ => "; is this the address of a Fencepost server with TLS?",
    }
}

pub(super) const ENDED: &str = "this request has already ended: try again, with a new --request-id if you gave one";
pub(super) const OVERTAKEN: &str = "a newer attempt of this request replaced this one, and gets the answer";

/// The message for a request that breaks a rule, with all violations.
pub(super) fn invalid(message: &str, violations: &[FieldViolation]) -> String {
    let rules: Vec<_> = violations.iter().map(|it| format!("{} {}", it.field, it.description)).collect();
    let why = if rules.is_empty() { message.to_owned() } else { rules.join("; ") };
    format!("the server refused the request: {why}")
}

/// The message for a request that exceeds a bound of the server.
pub(super) fn exhausted(message: &str, retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(delay) => {
            format!("a limit of the server is reached: {message}; try again in {}", text::span(delay))
        }
        None => format!("a limit of the server is reached: {message}; try again later"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_call(code: Code) -> FailedCall {
        FailedCall {
            code,
            message: "message".to_owned(),
            explanation: None,
            tls: None,
            unreachable: false,
            unanswered: false,
            did_nothing: false,
            cause: "the cause".to_owned(),
            reason: String::new(),
            violations: Vec::new(),
            retry_delay: None,
            last_answer: String::new(),
        }
    }

    fn explained(call: &FailedCall, kind: CallKind) -> (u8, String) {
        let failure = call.explain(kind, "a:7420");
        (failure.code, failure.message)
    }

    #[test]
    fn a_server_starts_where_a_client_is_configured() {
        let tls = [facts::ENVIRONMENT_CA, facts::ENVIRONMENT_CERT, facts::ENVIRONMENT_KEY];
        let names = tls.into_iter().chain([facts::ENVIRONMENT_SERVER, facts::ENVIRONMENT_CREDENTIALS]);
        let environment = names.map(|name| (name.into(), "x".into())).collect();
        assert!(crate::config::Config::load([], &environment, |_| Ok(())).is_ok());
    }

    #[test]
    fn the_message_for_an_unreachable_server_gives_advice() {
        let call = FailedCall { unreachable: true, ..failed_call(Code::Unavailable) };
        let (code, message) = explained(&call, CallKind::Write);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.contains("a:7420 (the cause)") && message.contains("fencepost serve"), "{message}");
    }

    #[test]
    fn a_port_that_is_not_grpc_is_named() {
        let explanation = Some("a:7420 does not speak gRPC (it sent \"+PONG\")".to_owned());
        let other = FailedCall { explanation, unreachable: true, ..failed_call(Code::Unknown) };
        let (code, message) = explained(&other, CallKind::Write);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.starts_with("a:7420 does not speak gRPC") && message.contains("--server"), "{message}");
        assert!(!message.contains("may or may not"), "{message}");
        let silent = FailedCall { unreachable: false, unanswered: true, ..other };
        assert!(explained(&silent, CallKind::Write).1.contains("may or may not"));
        assert!(!explained(&silent, CallKind::Read).1.contains("may or may not"));
    }

    #[test]
    fn only_a_write_has_an_unknown_outcome() {
        let silent = FailedCall { unanswered: true, ..failed_call(Code::Unavailable) };
        assert!(explained(&silent, CallKind::Write).1.contains("may or may not"));
        assert!(explained(&silent, CallKind::Read).1.contains("try again"));
    }

    #[test]
    fn a_wait_that_no_server_ends_says_that_nothing_was_granted() {
        let gone = FailedCall { unreachable: true, ..failed_call(Code::Unavailable) };
        assert!(explained(&gone, CallKind::Acquire).1.contains("a:7420 (the cause), so nothing was granted: is it"));
        assert!(explained(&gone, CallKind::Write).1.contains("so nothing was done"));
        assert!(!explained(&gone, CallKind::Read).1.contains("nothing"));
        let draining =
            FailedCall { did_nothing: true, reason: "DRAINING".to_owned(), ..failed_call(Code::Unavailable) };
        let (code, message) = explained(&draining, CallKind::Acquire);
        assert!(code == UNAVAILABLE && message.starts_with("a:7420 is draining, so nothing was granted"), "{message}");
    }

    #[test]
    fn refusals_have_their_own_exit_codes() {
        let invalid = failed_call(Code::InvalidArgument);
        let message = "the server refused the request: message".to_owned();
        assert_eq!(explained(&invalid, CallKind::Write), (USAGE, message));
        let retry_delay = Some(Duration::from_millis(200));
        let full = FailedCall { retry_delay, ..failed_call(Code::ResourceExhausted) };
        let (code, message) = explained(&full, CallKind::Write);
        assert_eq!(code, NOT_ACQUIRED);
        assert!(message.ends_with("try again in 200 ms"), "{message}");
        let ended = FailedCall { reason: "REQUEST_ENDED".to_owned(), ..failed_call(Code::Aborted) };
        assert_eq!(explained(&ended, CallKind::Write), (NOT_ACQUIRED, ENDED.to_owned()));
        assert!(explained(&failed_call(Code::Unimplemented), CallKind::Read).1.contains("older"));
        assert_eq!(explained(&failed_call(Code::Internal), CallKind::Read).0, UNAVAILABLE);
    }
}
