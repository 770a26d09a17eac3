//! `--test-faults`: a port that takes orders to lose leases and replies, for tests of programs that take locks.
//!
//! `POST /lose` revokes the lease of the lock that the body names, as an operator does. `POST /drop-reply` loses the
//! reply to the next acquire, release or renewal. A pause needs no order: SIGSTOP and SIGCONT make it.

use super::listen::{ListenError, only_loopback, tcp};
use crate::{
    api::Faults,
    config::Config,
    domain::{
        name::{BrokenRule, LockName, Reason},
        outcome::RevokeOutcome,
    },
    locks::Locks,
    store::Store,
};
use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use std::{io, sync::Arc};
use tokio::net::TcpListener;

/// What to do about a port of faults that other machines can reach.
const FOR_TESTS: &str = "ends leases for whoever asks: choose 127.0.0.1";
/// The reason in the log and in events.
const LOST: &str = "a test lost the lease";

/// Opens the port of faults; no listeners if there is none. Needs a running tokio runtime.
pub async fn bind_faults(config: &Config) -> Result<Vec<TcpListener>, ListenError> {
    let Some(address) = &config.test_faults else { return Ok(Vec::new()) };
    let failure = |error: io::Error| ListenError::Socket { error, advice: "choose another port with --test-faults" };
    let listeners = tcp::bind(address).await.map_err(failure)?;
    for listener in &listeners {
        only_loopback("test_faults", address, listener.local_addr().map_err(failure)?, FOR_TESTS)?;
    }
    Ok(listeners)
}

/// What the port offers.
pub(super) fn router<S: Store>(faults: Arc<Faults>, locks: Arc<Locks<S>>) -> Router {
    let drop_reply = move || {
        faults.drop_reply();
        async { StatusCode::NO_CONTENT }
    };
    Router::new().route("/drop-reply", post(drop_reply)).route("/lose", post(lose::<S>)).with_state(locks)
}

async fn lose<S: Store>(State(locks): State<Arc<Locks<S>>>, name: Bytes) -> Result<StatusCode, (StatusCode, String)> {
    let bad = |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST, format!("{error}\n"));
    let failed = |error: &dyn std::fmt::Display| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    let name = String::from_utf8(name.into()).map_err(|error| bad(&error))?;
    let name = LockName::new(name).map_err(|BrokenRule(rule)| bad(&rule))?;
    let reason = Reason::new(LOST.to_owned()).map_err(|BrokenRule(rule)| failed(&rule))?;
    // Also if its lease ends before it is revoked: nothing was lost then.
    let free = || (StatusCode::NOT_FOUND, format!("nobody holds lock {:?}\n", name.as_str()));
    let view = locks.view(&name, None).await.map_err(|error| failed(&error))?;
    let oldest = view.shared.and_then(|shared| shared.holders.into_iter().next());
    let lease = view.current.or(oldest).ok_or_else(free)?;
    match locks.force_release(&name, lease.token, reason).await.map_err(|error| failed(&error))? {
        RevokeOutcome::Revoked(_) => Ok(StatusCode::NO_CONTENT),
        RevokeOutcome::NotHeld | RevokeOutcome::TokenMismatch(_) => Err(free()),
    }
}
