//! The one place that reads errors of Redis. It decides what the caller may rely on (nothing was done, the command may
//! have run, or what is stored is not ours) and whether the connection can go on.
//!
//! An error that is not listed means that the command may have run, because only that is never wrong.

use super::{NodeError, tls};
use deadpool_redis::redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// What to do with the connection that brought an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing is wrong with it.
    Keep,
    /// It may be dead: check it.
    Check,
    /// It leads to the wrong address or nowhere: close it.
    Close,
}

/// An error of Redis, classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) error: NodeError,
    pub(super) action: Action,
    /// Redis does not know the script, so it did not run.
    pub(super) no_script: bool,
}

impl Fault {
    /// Fewer or more replies than commands: it is not known which reply belongs to which command.
    pub(super) fn out_of_step() -> Self {
        unknown("Redis did not send one answer to each command", Action::Close)
    }
}

fn fault(error: NodeError, action: Action) -> Fault {
    Fault { error, action, no_script: false }
}

fn refused(why: impl Into<String>, action: Action) -> Fault {
    fault(NodeError::Unavailable(why.into()), action)
}

fn unknown(why: impl Into<String>, action: Action) -> Fault {
    fault(NodeError::OutcomeUnknown(why.into()), action)
}

/// The outcome of a command that was sent, from the reply of Redis.
pub(super) fn outcome(reply: Result<Value, RedisError>) -> Result<Value, Fault> {
    reply.and_then(Value::extract_error).map_err(|error| classify(&error))
}

/// What an error means for a command that was sent.
pub(super) fn classify(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => {
            Fault { no_script: true, ..refused("Redis does not keep the scripts that the server loads", Action::Keep) }
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            classify_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
        }
        ErrorKind::Io if error.is_timeout() => unknown("Redis did not answer in time", Action::Check),
        ErrorKind::Io => unknown(format!("the connection to Redis broke: {error}"), Action::Close),
        // The next bytes on this connection may be the rest of the reply that was not understood.
        ErrorKind::Parse => {
            unknown(format!("Redis, or a proxy before it, does not speak RESP: {error}"), Action::Close)
        }
        ErrorKind::UnexpectedReturnType => fault(NodeError::Corrupt(error.to_string()), Action::Keep),
        ErrorKind::AuthenticationFailed => refused(wrong_password(&error.to_string()), Action::Close),
        ErrorKind::RESP3NotSupported => refused(
            "Redis is older than 6.0 (it does not know HELLO), and Fencepost needs 7.0: upgrade it, or name another \
             one",
            Action::Close,
        ),
        // Found before the command was sent. The kinds of Sentinel and cluster clients do not occur here.
        ErrorKind::InvalidClientConfig
        | ErrorKind::Client
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList
        | ErrorKind::ClusterConnectionNotFound => refused(error.to_string(), Action::Close),
        other => unknown(format!("{other:?}: {error}"), Action::Check),
    }
}

/// What an error means for a new connection, on which no command was sent yet.
pub(super) fn connect_error(error: &RedisError) -> String {
    if error.is_io_error()
        && let Some(why) = tls::explain(&error.to_string())
    {
        return why;
    }
    match classify(error).error {
        NodeError::OutcomeUnknown(_) if error.is_timeout() => {
            "Redis did not answer in time: it is stopped or overloaded, or the network drops packets".to_owned()
        }
        NodeError::OutcomeUnknown(_) if error.is_connection_refusal() => {
            "nothing listens there: is Redis running, and are host and port right?".to_owned()
        }
        NodeError::OutcomeUnknown(why) if error.is_connection_dropped() || !error.is_io_error() => why,
        NodeError::OutcomeUnknown(_) => {
            format!("cannot connect to Redis (check host, port and TLS of the URL): {error}")
        }
        NodeError::Unavailable(why) | NodeError::Corrupt(why) => why,
    }
}

/// The errors that say that nothing was done, by their codes: what each means and what to do, before what Redis said.
const REFUSALS: [(&str, &str, Action); 16] = [
    ("LOADING", "Redis is loading its data from disk; it serves when that is done", Action::Keep),
    ("BUSY", "a script of another client blocks Redis; wait, or run SCRIPT KILL", Action::Keep),
    ("OOM", "Redis has reached its maxmemory; raise it, or remove other data", Action::Keep),
    ("MISCONF", "Redis cannot save to disk and refuses writes; check its disk and its log", Action::Keep),
    ("NOREPLICAS", "too few replicas follow this Redis for its min-replicas-to-write; bring them back", Action::Keep),
    (
        "NOAUTH",
        "Redis answers, but requires a password, which the URL lacks: write it as redis://user:password@host:port in \
         --store or FENCEPOST_STORE, or in the file of --store-password-file",
        Action::Close,
    ),
    (
        "DENIED",
        "Redis is in protected mode and accepts only its own machine; set a password or protected-mode no",
        Action::Close,
    ),
    ("READONLY", OF_A_REPLICA, Action::Close),
    ("MASTERDOWN", OF_A_REPLICA, Action::Close),
    // The member of a Redis Cluster checks whether it has the slot of the keys before it carries anything out.
    (
        "MOVED",
        "this Redis does not have the slot of Fencepost's keys any more; the server closes the connection and looks \
         for the primary",
        Action::Close,
    ),
    ("ASK", OF_A_SLOT_UNDER_WAY, Action::Keep),
    ("TRYAGAIN", OF_A_SLOT_UNDER_WAY, Action::Keep),
    (
        "CLUSTERDOWN",
        "the Redis Cluster is down as this member sees it: most primaries are away, or slots have none; see CLUSTER \
         NODES",
        Action::Keep,
    ),
    ("CROSSSLOT", "keys of one script are in several slots of the Redis Cluster", Action::Keep),
    (
        "UNKILLABLE",
        "a script blocks Redis and cannot be killed, because it has written; wait until it ends",
        Action::Close,
    ),
    ("EXECABORT", "Redis refused the transaction", Action::Keep),
];
const OF_A_REPLICA: &str = "this Redis is a replica; the server closes the connection and looks for the primary";
const OF_A_SLOT_UNDER_WAY: &str = "the slot of Fencepost's keys is being moved to another member of the Redis Cluster; \
                                   Redis serves again when that is done";

fn classify_code(code: &str, detail: &str) -> Fault {
    let said = format!("(Redis says: {code} {detail})");
    if let Some((_, why, action)) = REFUSALS.iter().find(|(known, ..)| *known == code) {
        return refused(format!("{why} {said}"), *action);
    }
    match code {
        // Nothing works without it. The handshake of a new connection fails by it, which all callers and the log are
        // told until the permission is back.
        "NOPERM" if detail.contains("'evalsha'") => refused(no_permission(detail), Action::Close),
        "NOPERM" => refused(no_permission(detail), Action::Keep),
        "WRONGPASS" => refused(wrong_password(detail), Action::Close),
        "WRONGTYPE" => fault(
            NodeError::Corrupt(format!(
                "a key of Fencepost has another type than the server gave it; remove that key {said}"
            )),
            Action::Keep,
        ),
        "ERR" => plain_error(detail, &said),
        // NOTBUSY and NOSUB do not answer any command that is sent here; other codes are not known.
        _ => unknown(format!("Redis answered with an unknown error {said}"), Action::Check),
    }
}

/// The error that a script caught from a command and reported. What it did before that command was done.
pub(crate) fn script_error(said: &str) -> NodeError {
    if is_denied(said) {
        NodeError::OutcomeUnknown(no_permission(said.trim_start_matches("NOPERM ")))
    } else if is_about_slots(said) {
        NodeError::OutcomeUnknown(stopped_by_slots(said))
    } else {
        NodeError::Corrupt(said.to_owned())
    }
}

/// Whether the user lacks a permission for a command within a script, in the words of Redis 7.0 or of later ones.
fn is_denied(said: &str) -> bool {
    ["user executing the script can't", "ACL failure"].iter().any(|words| said.contains(words))
}

/// Whether a member of a Redis Cluster stopped a script half-way. It asks for the slot of a key at each command of a
/// script. While the slot is being moved, a key that the script itself has deleted counts as moved.
fn is_about_slots(said: &str) -> bool {
    ["access a non local key in a cluster node", "while the cluster is down"].iter().any(|words| said.contains(words))
}

fn stopped_by_slots(said: &str) -> String {
    format!("a script was stopped half-way, because its slot is being moved or the Redis Cluster is down: {said}")
}

/// Classifies `ERR`, the code of all kinds of errors. The error of a script that failed half-way names the script; any
/// other refuses the whole command.
fn plain_error(detail: &str, said: &str) -> Fault {
    // Redis repeats the arguments of a command that it does not know, and those of AUTH and HELLO are secret.
    if let Some((what, _)) = detail.split_once(", with args beginning with") {
        return refused(format!("Redis refused the command (Redis says: ERR {what})"), Action::Keep);
    }
    if is_denied(detail) {
        refused(no_permission(detail), Action::Keep)
    } else if is_about_slots(detail) {
        unknown(stopped_by_slots(detail), Action::Keep)
    } else if detail.contains("script:") || detail.contains("user_script") {
        fault(NodeError::Corrupt(format!("a script failed on the stored data {said}")), Action::Keep)
    } else if detail.contains("max number of clients") {
        refused(format!("Redis has reached its maxclients; raise it {said}"), Action::Close)
    } else {
        refused(format!("Redis refused the command {said}"), Action::Keep)
    }
}

fn no_permission(detail: &str) -> String {
    format!(
        "the Redis user of the URL may not run a command or touch a key that Fencepost needs; grant it with ACL \
         SETUSER … +@scripting +@pubsub +@read +@write +@connection +info +time ~{{fp}}:* &{{fp}}:to:* (with the \
         name of --store-prefix in place of fp), and the keys of \
         --classic-prefix if there is one (Redis says: NOPERM {detail})"
    )
}

fn wrong_password(detail: &str) -> String {
    format!(
        "Redis answers, and does not accept the user or the password: correct redis://user:password@host:port in \
         --store or FENCEPOST_STORE, or --store-user and the file of --store-password-file (Redis says: {detail})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn of(code: &str, detail: &str) -> Fault {
        classify_code(code, detail)
    }

    #[test]
    fn arguments_that_redis_repeats_are_not_shown() {
        let said = of("ERR", "unknown command 'AUTH', with args beginning with: 'me' 's3cret' ").error.to_string();
        assert!(said.contains("unknown command 'AUTH'") && !said.contains("cret"), "{said}");
    }

    #[test]
    fn a_refused_command_was_not_run() {
        let kept = ["LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "NOPERM", "EXECABORT"];
        for code in kept.into_iter().chain(["ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT"]) {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::Unavailable(_)), "{code}");
            assert_eq!(fault.action, Action::Keep, "{code}");
        }
        for code in ["READONLY", "MASTERDOWN", "UNKILLABLE", "NOAUTH", "WRONGPASS", "DENIED", "MOVED"] {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::Unavailable(_)), "{code}");
            assert_eq!(fault.action, Action::Close, "{code}");
        }
        assert!(matches!(of("ERR", "unknown command 'EVALSHA'").error, NodeError::Unavailable(_)));
        assert!(matches!(of("ERR", "max number of clients reached").error, NodeError::Unavailable(_)));
    }

    #[test]
    fn data_of_others_is_corrupt() {
        assert!(matches!(of("WRONGTYPE", "Operation against …").error, NodeError::Corrupt(_)));
        let half_way = "value is not an integer or out of range script: 0123, on @user_script:1.";
        assert!(matches!(of("ERR", half_way).error, NodeError::Corrupt(_)));
        let error = RedisError::from((ErrorKind::UnexpectedReturnType, "not a number"));
        assert!(matches!(classify(&error).error, NodeError::Corrupt(_)));
    }

    #[test]
    fn a_script_that_lost_its_slot_half_way_may_have_done_something() {
        for said in [
            "Script attempted to access a non local key in a cluster node script: 0123, on @user_script:1.",
            "Script attempted to execute a command while the cluster is down script: 0123, on @user_script:1.",
            "Script attempted to execute a write command while the cluster is down and readonly script: 0123, on \
             @user_script:1.",
        ] {
            let fault = of("ERR", said);
            assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)) && fault.action == Action::Keep, "{fault:?}");
            assert!(matches!(script_error(said), NodeError::OutcomeUnknown(_)));
        }
    }

    #[test]
    fn an_unknown_error_means_an_unknown_outcome() {
        for code in ["NOTBUSY", "NOSUB", "SOMETHINGNEW", ""] {
            let fault = of(code, "x");
            assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)), "{code}");
            assert_eq!(fault.action, Action::Check, "{code}");
        }
        for (kind, action) in [
            (io::ErrorKind::TimedOut, Action::Check),
            (io::ErrorKind::BrokenPipe, Action::Close),
            (io::ErrorKind::ConnectionReset, Action::Close),
            (io::ErrorKind::Other, Action::Close),
        ] {
            let fault = classify(&RedisError::from(io::Error::from(kind)));
            assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)), "{kind}");
            assert_eq!(fault.action, action, "{kind}");
        }
        let fault = classify(&RedisError::from((ErrorKind::Parse, "no RESP")));
        assert!(matches!(fault.error, NodeError::OutcomeUnknown(_)) && fault.action == Action::Close);
    }
}
