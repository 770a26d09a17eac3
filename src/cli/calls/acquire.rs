//! `acquire`: acquires a lock. The caller renews the lease within its TTL.

use crate::cli::{
    acquiring,
    args::{CallArgs, LockArgs},
    connect::{RETRY_FOR, client},
    exit::Failure,
    run::Signals,
    text,
};
use clap::Args;
use fencepost_client::{
    Client, Lock,
    raw::{
        self,
        v1::{AcquireResponse, Lease, LeaseEnd, ReleaseRequest, acquire_response::Outcome},
    },
};

/// The variables of `--export`, as `run` names them and `release` reads them.
const VARIABLES: [&str; 5] =
    ["FENCEPOST_LOCK", "FENCEPOST_TOKEN", "FENCEPOST_LEASE_ID", "FENCEPOST_GRANT_ID", "FENCEPOST_SLOT"];

/// The lock to acquire, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct AcquireArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    lock: LockArgs,
    /// Print variables for a shell: eval "$(fencepost acquire NAME --export)" sets FENCEPOST_LOCK, FENCEPOST_TOKEN,
    /// FENCEPOST_LEASE_ID and FENCEPOST_GRANT_ID, which release and renew read, and FENCEPOST_SLOT. If the lock is not
    /// acquired, eval fails with the exit code of acquire, and the variables are unset
    #[arg(long, conflicts_with = "json")]
    export: bool,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn acquire(args: AcquireArgs) -> Result<(), Failure> {
    let result = run(&args).await;
    if let Err(failure) = &result
        && args.export
    {
        super::print(&unset(failure.code))?;
    }
    result
}

async fn run(args: &AcquireArgs) -> Result<(), Failure> {
    let client = client(&args.call.servers, RETRY_FOR)?;
    // As the other commands that acquire: a terminal that is closed withdraws the request, too.
    let mut signals = Signals::listen()?;
    let result = tokio::select! {
        result = acquiring::acquire(&client, &args.name, &args.lock, &args.call.servers) => result,
        signal = signals.termination() => Err(Failure::of_signal(signal).into()),
    };
    match result {
        Ok(lock) => {
            let reply = reply(lock);
            let text = if args.export { export(&reply) } else { acquired(&reply) };
            let printed = super::finish(args.call.json, "AcquireResponse", &reply, Ok(text));
            match (printed, reply.lease) {
                (Err(failure), Some(lease)) => Err(give_back(&client, lease, failure).await),
                (printed, _) => printed,
            }
        }
        Err(refused) => {
            acquiring::cleaned_up(&client).await;
            match refused.answer {
                Some(answer) => super::finish(args.call.json, "AcquireResponse", &answer, Err(refused.failure)),
                None => Err(refused.failure),
            }
        }
    }
}

/// Releases a lease of which nobody can learn, because the output could not be written. Otherwise the lock would stay
/// held for the TTL of the lease.
async fn give_back(client: &Client, Lease { lock_name, lease_id, .. }: Lease, failure: Failure) -> Failure {
    let released = client.calls().release(ReleaseRequest { lock_name, lease_id }).await;
    match released {
        Ok(_) if failure.message.is_empty() => failure,
        Ok(_) => Failure { message: failure.message + ": the lock was released", ..failure },
        Err(_) => Failure { message: failure.message + ": the lock is held until its TTL is over", ..failure },
    }
}

/// Hands the lease over to the caller, as the server would have answered. It is not renewed any more.
fn reply(lock: Lock) -> AcquireResponse {
    let (ttl, previous_end) = (lock.ttl(), lock.previous_end());
    let lease = Lease { ttl: Some(text::to_wire(ttl)), ..lock.into_lease().into() };
    let outcome = Outcome::Acquired.into();
    AcquireResponse { outcome, lease: Some(lease), previous_end: raw::end(previous_end).into(), ..Default::default() }
}

fn acquired(reply: &AcquireResponse) -> String {
    let lease = reply.lease.clone().unwrap_or_default();
    let mut lines = vec![
        format!("acquired {}", text::visible(&lease.lock_name)),
        format!("token     {}", lease.fencing_token),
        format!("lease id  {}", lease.lease_id),
        format!("grant id  {}", lease.grant_id),
        format!("ttl       {}", text::span(text::from_wire(lease.ttl.as_ref()))),
    ];
    if lease.slot != 0 {
        lines.push(format!("slot      {}", lease.slot));
    }
    let previous = reply.previous_end();
    if matches!(previous, LeaseEnd::Expired | LeaseEnd::Revoked) {
        lines.push(format!("previous  {}: check for unfinished work of its holder", text::end(previous)));
    }
    lines.join("\n")
}

/// The variables for a POSIX shell.
fn export(reply: &AcquireResponse) -> String {
    let Lease { lock_name, fencing_token, lease_id, grant_id, slot, .. } = reply.lease.clone().unwrap_or_default();
    // Empty without one, because the shell may have that of an earlier lease.
    let slot = if slot == 0 { String::new() } else { slot.to_string() };
    let values = [lock_name, fencing_token.to_string(), lease_id, grant_id, slot];
    let lines = VARIABLES.iter().zip(values).map(|(name, value)| format!("export {name}={}", quoted(&value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Unsets the variables, which may be those of an earlier lease, and fails.
fn unset(code: u8) -> String {
    format!("unset {}\n(exit {code})", VARIABLES.join(" "))
}

/// A word that a POSIX shell takes as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn reply() -> AcquireResponse {
        let lease = Lease {
            lock_name: "it's $a".to_owned(),
            lease_id: "secret".to_owned(),
            grant_id: "g".to_owned(),
            fencing_token: 7,
            ttl: Some(text::to_wire(Duration::from_secs(30))),
            mode: 0,
            slot: 0,
        };
        AcquireResponse {
            outcome: Outcome::Acquired.into(),
            lease: Some(lease),
            previous_end: LeaseEnd::Expired.into(),
            ..Default::default()
        }
    }

    #[test]
    fn all_fields_of_a_lease_are_printed() {
        let text = acquired(&reply());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["acquired it's $a", "token     7", "lease id  secret"]);
        assert_eq!(lines[5], "previous  expired: check for unfinished work of its holder");
    }

    #[test]
    fn variables_are_quoted_for_a_shell() {
        let text = export(&reply());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], [r"export FENCEPOST_LOCK='it'\''s $a'", "export FENCEPOST_TOKEN='7'"]);
        let ids = ["export FENCEPOST_LEASE_ID='secret'", "export FENCEPOST_GRANT_ID='g'", "export FENCEPOST_SLOT=''"];
        assert_eq!(lines[2..], ids);
        assert!(unset(75).starts_with("unset FENCEPOST_LOCK ") && unset(75).ends_with("\n(exit 75)"));
    }
}
