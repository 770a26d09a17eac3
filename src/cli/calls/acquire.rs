//! `acquire`: acquires a lock. The caller renews the lease within its TTL.

use crate::cli::{
    args::{CallArgs, LockArgs},
    connect::{CallKind, RETRY_FOR, client, failed, reachable},
    exit::{Failure, NOT_ACQUIRED, SIGNAL, UNAVAILABLE},
    text,
};
use clap::Args;
use fencepost_client::{
    Client,
    v1::{AcquireRequest, AcquireResponse, Lease, LeaseEnd, acquire_response::Outcome},
};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long to wait, after a failure or a signal, for the cleanup of the request.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock to acquire, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct AcquireArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn acquire(args: AcquireArgs) -> Result<(), Failure> {
    let client = client(&args.call.servers, String::new(), RETRY_FOR)?;
    let no_signals = |error| Failure::new(UNAVAILABLE, format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let answer = tokio::select! {
        answer = call(&client, &args) => answer,
        _ = interrupt.recv() => Err(Failure::silent(SIGNAL + 2)),
        _ = terminate.recv() => Err(Failure::silent(SIGNAL + 15)),
    };
    match answer {
        Ok(reply) => {
            super::finish(args.call.json, "AcquireResponse", &reply, result(&args.name, args.lock.wait, &reply))
        }
        Err(failure) => {
            // The client removes the abandoned request from the queue in the background: let it finish.
            let _ = tokio::time::timeout(CLEANUP_TIMEOUT, client.flush()).await;
            Err(failure)
        }
    }
}

async fn call(client: &Client, args: &AcquireArgs) -> Result<AcquireResponse, Failure> {
    if !args.lock.wait.is_zero() {
        reachable(client, &args.name, &args.call.servers).await?;
    }
    let answer = client.calls().acquire(request(args)).await;
    answer.map_err(|error| failed(&error, CallKind::Write, &args.call.servers))
}

fn request(args: &AcquireArgs) -> AcquireRequest {
    let lock = &args.lock;
    AcquireRequest {
        lock_name: args.name.clone(),
        holder: lock.holder(),
        ttl: lock.ttl.map(text::to_wire),
        wait_timeout: Some(text::to_wire(lock.wait)),
        request_id: lock.request_id.clone().unwrap_or_default(),
        metadata: lock.metadata.iter().cloned().collect(),
        min_token: lock.min_token,
        ..Default::default()
    }
}

fn result(name: &str, wait: Duration, reply: &AcquireResponse) -> Result<String, Failure> {
    match (reply.outcome(), &reply.lease) {
        (Outcome::Acquired, Some(lease)) => Ok(acquired(lease, reply.previous_end())),
        (Outcome::Contended, _) => Err(Failure::new(NOT_ACQUIRED, text::held(name, &reply.holders, reply.waiters))),
        (Outcome::TimedOut, _) => Err(Failure::new(NOT_ACQUIRED, timed_out(name, wait, reply))),
        _ => Err(super::unknown_answer()),
    }
}

fn timed_out(name: &str, wait: Duration, reply: &AcquireResponse) -> String {
    let held = text::held(name, &reply.holders, reply.waiters);
    format!("timed out after {}: {held}", text::span(wait))
}

fn acquired(lease: &Lease, previous: LeaseEnd) -> String {
    let mut lines = vec![
        format!("acquired {}", lease.lock_name),
        format!("token     {}", lease.fencing_token),
        format!("lease id  {}", lease.lease_id),
        format!("grant id  {}", lease.grant_id),
        format!("ttl       {}", text::span(text::from_wire(lease.ttl.as_ref()))),
    ];
    if matches!(previous, LeaseEnd::Expired | LeaseEnd::Revoked) {
        lines.push(format!("previous  {}: check for unfinished work of its holder", text::end(previous)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_client::v1::LockHolder;

    fn reply(outcome: Outcome) -> AcquireResponse {
        let holder = LockHolder { holder: "worker-7".to_owned(), fencing_token: 9, ..Default::default() };
        AcquireResponse { outcome: outcome.into(), holders: vec![holder], waiters: 2, ..Default::default() }
    }

    #[test]
    fn all_fields_of_a_lease_are_printed() {
        let lease = Lease {
            lock_name: "a".to_owned(),
            lease_id: "secret".to_owned(),
            grant_id: "g".to_owned(),
            fencing_token: 7,
            ttl: Some(text::to_wire(Duration::from_secs(30))),
        };
        let reply = AcquireResponse {
            outcome: Outcome::Acquired.into(),
            lease: Some(lease),
            previous_end: LeaseEnd::Expired.into(),
            ..Default::default()
        };
        let text = result("a", Duration::ZERO, &reply).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["acquired a", "token     7", "lease id  secret"]);
        assert_eq!(lines[5], "previous  expired: check for unfinished work of its holder");
    }

    #[test]
    fn refusals_name_the_holder() {
        let failure = result("a", Duration::ZERO, &reply(Outcome::Contended)).unwrap_err();
        assert_eq!(failure, Failure::new(NOT_ACQUIRED, "a is held by worker-7 (token 9) for another 0 ms; 2 waiters"));
        let failure = result("a", Duration::from_secs(10), &reply(Outcome::TimedOut)).unwrap_err();
        assert_eq!(failure.code, NOT_ACQUIRED);
        assert!(failure.message.starts_with("timed out after 10 s: a is held by worker-7"), "{failure}");
    }

    #[test]
    fn an_unknown_answer_is_a_failure() {
        assert_eq!(result("a", Duration::ZERO, &AcquireResponse::default()).unwrap_err().code, UNAVAILABLE);
        assert_eq!(result("a", Duration::ZERO, &reply(Outcome::Acquired)).unwrap_err().code, UNAVAILABLE);
    }
}
