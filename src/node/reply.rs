//! The one place that reads an error of Redis. It decides what the caller may believe: nothing was done, it may have
//! been done, or what is stored is not ours; and whether the connection can go on.
//!
//! The rule for what is not listed: it may have been done, because only that claim is never wrong.

use super::NodeError;
use deadpool_redis::redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// What becomes of the connection that brought an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is as good as before.
    Keep,
    /// It may be dead: ask.
    Check,
    /// It leads to the wrong place or nowhere: use it no more.
    Close,
}

/// An error of Redis, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) error: NodeError,
    pub(super) then: Then,
    /// Redis does not know the script, so it did not run.
    pub(super) no_script: bool,
}

impl Fault {
    /// Fewer or more replies than commands: no reply can be trusted to be the right one.
    pub(super) fn out_of_step() -> Self {
        unknown("Redis did not answer each command once", Then::Close)
    }
}

fn fault(error: NodeError, then: Then) -> Fault {
    Fault { error, then, no_script: false }
}

fn refused(why: impl Into<String>, then: Then) -> Fault {
    fault(NodeError::Unavailable(why.into()), then)
}

fn unknown(why: impl Into<String>, then: Then) -> Fault {
    fault(NodeError::OutcomeUnknown(why.into()), then)
}

/// A reply of Redis as the outcome of a command that was handed over.
pub(super) fn settle(reply: Result<Value, RedisError>) -> Result<Value, Fault> {
    reply.and_then(Value::extract_error).map_err(|error| understand(&error))
}

/// What an error of Redis means for a command that was handed over.
pub(super) fn understand(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => {
            Fault { no_script: true, ..refused("Redis does not keep the scripts that it is given", Then::Keep) }
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            understand_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
        }
        ErrorKind::Io if error.is_timeout() => unknown("Redis did not answer in time", Then::Check),
        ErrorKind::Io => unknown(format!("the connection to Redis broke: {error}"), Then::Close),
        // What follows on this connection could be the rest of what was not understood.
        ErrorKind::Parse => unknown(format!("Redis, or what is between, does not speak RESP: {error}"), Then::Close),
        ErrorKind::UnexpectedReturnType => fault(NodeError::Corrupt(error.to_string()), Then::Keep),
        ErrorKind::AuthenticationFailed => refused(wrong_password(&error.to_string()), Then::Close),
        ErrorKind::RESP3NotSupported => refused(
            "Redis is older than 6.0 (it does not know HELLO), and Fencepost needs 7.0: upgrade it, or name another one",
            Then::Close,
        ),
        // Found wrong before it was sent. The sentinel and cluster kinds belong to clients that are not used here.
        ErrorKind::InvalidClientConfig
        | ErrorKind::Client
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList
        | ErrorKind::ClusterConnectionNotFound => refused(error.to_string(), Then::Close),
        other => unknown(format!("{other:?}: {error}"), Then::Check),
    }
}

/// The same for an error of a new connection, where nothing that matters had been sent.
pub(crate) fn why_not_connected(error: &RedisError) -> String {
    match understand(error).error {
        NodeError::OutcomeUnknown(_) if error.is_timeout() => {
            "Redis did not answer in time: it is stopped or overloaded, or the network swallows what is sent to it"
                .to_owned()
        }
        NodeError::OutcomeUnknown(_) if error.is_connection_refusal() => {
            "nothing listens there: is Redis running, and are host and port right?".to_owned()
        }
        NodeError::OutcomeUnknown(why) if error.is_connection_dropped() || !error.is_io_error() => why,
        NodeError::OutcomeUnknown(_) if is_of_unknown_authority(&error.to_string()) => format!(
            "the certificate of Redis comes from an authority that is not trusted here: name the file of the right one in \
             SSL_CERT_FILE, or add it to the machine's root certificates ({error})"
        ),
        NodeError::OutcomeUnknown(_) => {
            format!("no connection to Redis (look at host, port and TLS of the URL): {error}")
        }
        NodeError::Unavailable(why) | NodeError::Corrupt(why) => why,
        NodeError::Overloaded => error.to_string(),
    }
}

/// What rustls says of an authority that it does not know, and of one that has the name of one that it knows.
fn is_of_unknown_authority(said: &str) -> bool {
    ["UnknownIssuer", "BadSignature"].iter().any(|why| said.contains(&format!("invalid peer certificate: {why}")))
}

fn understand_code(code: &str, detail: &str) -> Fault {
    let said = format!("(Redis says: {code} {detail})");
    match code {
        "LOADING" => {
            refused(format!("Redis is loading its data from disk; it serves when that is done {said}"), Then::Keep)
        }
        "BUSY" => refused(
            format!("somebody's script keeps Redis from all else; wait, or run SCRIPT KILL on it {said}"),
            Then::Keep,
        ),
        "OOM" => refused(
            format!("Redis is at its maxmemory; raise it, or remove what else is stored there {said}"),
            Then::Keep,
        ),
        "MISCONF" => refused(
            format!("Redis cannot save to disk and so refuses writes; look at its disk and its log {said}"),
            Then::Keep,
        ),
        "NOREPLICAS" => refused(
            format!("too few replicas follow this Redis for its min-replicas-to-write; bring them back {said}"),
            Then::Keep,
        ),
        // Without that nothing goes: a new link says so to everybody, and to the log, until it is given back.
        "NOPERM" if detail.contains("'evalsha'") => refused(no_permission(detail), Then::Close),
        "NOPERM" => refused(no_permission(detail), Then::Keep),
        "NOAUTH" => refused(
            format!("Redis wants a password and the URL has none; write it as redis://user:password@host:port {said}"),
            Then::Close,
        ),
        "WRONGPASS" => refused(wrong_password(detail), Then::Close),
        "DENIED" => refused(
            format!(
                "Redis is in protected mode and accepts only its own machine; set a password or protected-mode no {said}"
            ),
            Then::Close,
        ),
        "READONLY" | "MASTERDOWN" => refused(
            format!(
                "this Redis is a replica, or was made one; the connection is closed and the primary looked for {said}"
            ),
            Then::Close,
        ),
        "UNKILLABLE" => refused(
            format!("a script that has written keeps Redis from all else and cannot be stopped; wait for it {said}"),
            Then::Close,
        ),
        "WRONGTYPE" => fault(
            NodeError::Corrupt(format!(
                "a key of ours has a type that the server did not give it; remove that key {said}"
            )),
            Then::Keep,
        ),
        "EXECABORT" => refused(format!("Redis refused the transaction {said}"), Then::Keep),
        "ERR" => plain_error(detail, &said),
        // NOTBUSY and NOSUB are no answers to what is sent here; the rest is not known.
        _ => unknown(format!("Redis answered an error that is not known here {said}"), Then::Check),
    }
}

/// What a command stumbled over inside of a script, half way perhaps.
pub(crate) fn stumbled(said: &str) -> NodeError {
    if is_denied(said) {
        NodeError::OutcomeUnknown(no_permission(said.trim_start_matches("NOPERM ")))
    } else {
        NodeError::Corrupt(said.to_owned())
    }
}

/// What Redis 7.0 says of a command in a script that its user may not run, and what later ones do.
fn is_denied(said: &str) -> bool {
    ["user executing the script can't", "ACL failure"].iter().any(|words| said.contains(words))
}

/// `ERR` is said of everything. A script that fails half-way names itself in it; else the command was refused as a
/// whole.
fn plain_error(detail: &str, said: &str) -> Fault {
    if is_denied(detail) {
        refused(no_permission(detail), Then::Keep)
    } else if detail.contains("script:") || detail.contains("user_script") {
        fault(NodeError::Corrupt(format!("a script stumbled over what is stored {said}")), Then::Keep)
    } else if detail.contains("max number of clients") {
        refused(format!("Redis has no connection to spare; raise its maxclients {said}"), Then::Close)
    } else {
        refused(format!("Redis refused the command {said}"), Then::Keep)
    }
}

fn no_permission(detail: &str) -> String {
    format!(
        "the Redis user of the URL may not run a command or touch a key that Fencepost needs; grant it with ACL SETUSER … \
         +@scripting +@pubsub +@read +@write +@connection +info +time ~fp:* &fp:c:* (Redis says: NOPERM {detail})"
    )
}

fn wrong_password(detail: &str) -> String {
    format!("Redis does not accept the user or the password of the URL; correct it there (Redis says: {detail})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn of(code: &str, detail: &str) -> Fault {
        understand_code(code, detail)
    }

    #[test]
    fn what_redis_refuses_was_not_done() {
        for code in ["LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "NOPERM", "EXECABORT"] {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::Unavailable(_)), "{code}");
            assert_eq!(fault.then, Then::Keep, "{code}");
        }
        for code in ["READONLY", "MASTERDOWN", "UNKILLABLE", "NOAUTH", "WRONGPASS", "DENIED"] {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::Unavailable(_)), "{code}");
            assert_eq!(fault.then, Then::Close, "{code}");
        }
        assert!(matches!(of("ERR", "unknown command 'EVALSHA'").error, NodeError::Unavailable(_)));
        assert!(matches!(of("ERR", "max number of clients reached").error, NodeError::Unavailable(_)));
    }

    #[test]
    fn what_is_not_ours_is_corrupt() {
        assert!(matches!(of("WRONGTYPE", "Operation against …").error, NodeError::Corrupt(_)));
        let stumbled = "value is not an integer or out of range script: 0123, on @user_script:1.";
        assert!(matches!(of("ERR", stumbled).error, NodeError::Corrupt(_)));
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, "not a number"));
        assert!(matches!(understand(&error).error, NodeError::Corrupt(_)));
    }

    #[test]
    fn what_is_not_known_may_have_been_done() {
        for code in ["NOTBUSY", "NOSUB", "SOMETHINGNEW", ""] {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)), "{code}");
            assert_eq!(fault.then, Then::Check, "{code}");
        }
        for (kind, then) in [
            (io::ErrorKind::TimedOut, Then::Check),
            (io::ErrorKind::BrokenPipe, Then::Close),
            (io::ErrorKind::ConnectionReset, Then::Close),
            (io::ErrorKind::Other, Then::Close),
        ] {
            let fault = understand(&RedisError::from(io::Error::from(kind)));
            assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)), "{kind}");
            assert_eq!(fault.then, then, "{kind}");
        }
        let fault = understand(&RedisError::from((ErrorKind::Parse, "no RESP")));
        assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)) && fault.then == Then::Close);
    }
}
