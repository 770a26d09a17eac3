//! The limit of open files of this process. Each connection needs one.

use crate::config::CONNECTIONS_MAX_DEFAULT;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open files beside connections to the main port: the log, connections to the admin port and to the store, the
/// runtime's own.
const RESERVE: u64 = 256;

/// Raises the soft limit to the hard limit, which needs no rights. Shells and service managers set a low soft limit for
/// programs that use `select`. Returns how many connections may be open: `connections_max`, or fewer if the limit is
/// too low. Without a free file, a connection would wait in the backlog, and nothing would count it.
///
/// Warns of a limit that is too low for what the operator has asked for, so not if that is the default. But always if
/// nothing is left beside the reserve: then one connection may be open, and all others are closed.
pub(super) fn connections_within_limit(connections_max: usize) -> usize {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        Ok(hard)
    });
    let limit = match raised {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            return connections_max;
        }
    };
    let room = usize::try_from(limit.saturating_sub(RESERVE)).unwrap_or(usize::MAX).max(1);
    if room < connections_max && (connections_max != CONNECTIONS_MAX_DEFAULT || limit <= RESERVE) {
        tracing::warn!(
            limit,
            connections_max,
            room,
            "the limit of open files is too low for all connections: raise it (ulimit -Hn, LimitNOFILE= of systemd), \
             or lower --connections-max"
        );
    }
    room.min(connections_max)
}
