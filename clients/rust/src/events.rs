//! The events of the client for the program's log: each once, never at the rate of retries. Their target is
//! `fencepost_client`. None of them has a lease id, a request id or a credential.

use crate::facts;
use crate::lease::LeaseState;
use crate::status::LockLost;
use std::fmt::Display;
use std::time::Duration;

const TARGET: &str = "fencepost_client";

/// Renewals of a lock begin to fail.
pub(crate) fn renewals_fail(lease: &LeaseState, left: Duration, cause: &str) {
    let (lock, token) = (&lease.name, lease.token());
    tracing::warn!(
        target: TARGET, lock, token, cause,
        "renewals of {lock} fail, it is valid for another {left:.1?}: {cause}"
    );
}

/// Renewals of a lock work again.
pub(crate) fn renewed_again(lease: &LeaseState) {
    let (lock, token) = (&lease.name, lease.token());
    tracing::info!(target: TARGET, lock, token, "{lock} is renewed again");
}

/// Renewals of a lock do not extend it as far as before.
pub(crate) fn bounded(lease: &LeaseState, left: Duration) {
    let (lock, token) = (&lease.name, lease.token());
    tracing::warn!(
        target: TARGET, lock, token,
        "{lock} reaches its max_hold: no renewal extends it, and it is valid for another {left:.1?}"
    );
}

/// A lock is lost.
pub(crate) fn lost(lost: &LockLost) {
    tracing::warn!(target: TARGET, lock = lost.name, token = lost.token, cause = ?lost.cause, "{lost}");
}

/// A server failed, and the next one is tried.
pub(crate) fn server_failed(server: &dyn Display, cause: &dyn Display, next: &str) {
    tracing::info!(target: TARGET, %server, %cause, "server {server} failed ({cause}), trying {next}");
}

/// A server has another store than one that was used before.
pub(crate) fn other_store(server: &dyn Display, other: &dyn Display) {
    let why = facts::OTHER_STORE.replace("{}", &other.to_string());
    tracing::warn!(target: TARGET, %server, %other, "{server} {why}");
}

/// A release in the background gave up.
pub(crate) fn not_released(lock: &str, cause: &dyn Display) {
    tracing::warn!(
        target: TARGET, lock, %cause,
        "{lock} could not be released in the background: {cause}; it is free after its TTL"
    );
}
