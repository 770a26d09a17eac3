//! `deadlocks`: finds owners that wait for each other. It reports, and changes nothing.
//!
//! No two locks are read at one moment, so all queues are read twice, the second time after the end of the first. Who
//! waits or holds in both rounds did so at the moment between them.

mod circles;
mod graph;
mod report;
mod rounds;

use super::{
    args::CallArgs,
    calls::print,
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO},
    json,
    look::Look,
    write_note,
};
use clap::Args;
use graph::{Blocked, Blocker, Deadlock, Known, Unknown};
use serde_json::{Value, json};

/// The locks to look at.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
An owner is what a request names with --owner. It waits for those who hold the lock, and for those who are before it in \
the queue, unless they share the lock with it. Owners that wait for each other in a circle are a deadlock, if each of \
them does one thing at a time: one that does several may go on. A request without an owner belongs to nobody, so what \
it holds is not known. Of a lock that many share, the oldest 8 holders are known. With a prefix, only circles within \
these locks are found.

All queues are read twice, and only who waits or holds in both rounds counts. Nothing is aborted: a wait ends by its \
timeout, or release one of the locks. Exit codes: 0 there is no deadlock; 1 there is one; 69 no server answered.")]
pub(crate) struct DeadlocksArgs {
    /// Only locks whose names start with this prefix
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    call: CallArgs,
}

/// Prints the deadlocks. Fails if there is one.
pub(super) async fn deadlocks(args: DeadlocksArgs) -> Result<(), Failure> {
    let client = client(&args.call.servers, RETRY_FOR)?;
    let (first, second) = rounds::read_twice(&client, &args.prefix)
        .await
        .map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    let known = Known::of(&first, &second);
    let found = known.deadlocks();
    if args.call.json {
        print(&json(&found, known.unknown)?)?;
    } else {
        print(&report::text(&found, Look::of_stdout()))?;
        for note in report::notes(found.len(), known.unknown) {
            write_note(&note);
        }
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::silent(NO)) }
}

/// The requests and holders in the mapping of protobuf.
fn json(found: &[Deadlock], unknown: Unknown) -> Result<String, Failure> {
    let each = |one: &Blocked| -> Result<Value, Failure> {
        let (mut holders, mut ahead) = (Vec::new(), Vec::new());
        for blocker in &one.blockers {
            match blocker {
                Blocker::Holder(holder) => holders.push(json::value("LockHolder", holder)?),
                Blocker::Ahead(waiter) => ahead.push(json::value("LockWaiter", waiter)?),
            }
        }
        let waiter = json::value("LockWaiter", &one.waiter)?;
        Ok(json!({ "lockName": one.lock_name, "waiter": waiter, "holders": holders, "ahead": ahead }))
    };
    let deadlocks = found.iter().map(|Deadlock(waits)| waits.iter().map(each).collect::<Result<Vec<_>, _>>());
    let deadlocks = deadlocks.collect::<Result<Vec<_>, _>>()?;
    let Unknown { without_owner, not_shown } = unknown;
    Ok(json!({ "deadlocks": deadlocks, "withoutOwner": without_owner, "holdersNotShown": not_shown }).to_string())
}
