//! The limit of open files of this process. Each connection needs one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open files beside connections: the log, connections to the store, the runtime's own.
const RESERVE: u64 = 256;

/// Raises the soft limit to the hard limit, which needs no rights. Shells and service managers set a low soft limit for
/// programs that use `select`.
pub(super) fn raise_limit(connections_max: usize) {
    let needed = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_add(RESERVE);
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        Ok(hard)
    });
    match raised {
        Ok(limit) if limit >= needed => {}
        Ok(limit) => tracing::warn!(
            limit,
            needed,
            connections_max,
            "the limit of open files is too low for all connections: raise it (ulimit -Hn, LimitNOFILE= of systemd), \
             or lower --connections-max"
        ),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}
