//! `run`: acquires a lock, runs a command, and releases the lock when all processes of the command have exited.

mod group;
mod guard;
mod holding;
mod process;
mod signals;
mod stderr;
mod stopping;
mod supervise;
mod terminal;
#[cfg_attr(not(target_os = "linux"), path = "no_tree.rs")]
mod tree;

use super::{
    acquiring,
    args::{LockArgs, ServerArgs},
    connect::client,
    exit::{Failure, LEASE_LOST, USAGE},
    look::{ERROR, WARNING},
    text,
};
use clap::Args;
use fencepost_client::{Client, Lock};
use fencepost_proto::v1::LeaseEnd;
use futures_util::future::join_all;
use group::Group;
use holding::Holding;
pub(super) use signals::Signals;
use std::{ffi::OsString, process::Command, time::Duration};
pub(super) use stderr::Stderr;
use supervise::{Outcome, Supervisor};
use terminal::Terminal;

/// How long a failed call is retried: long enough for a restart of the server.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(5);

/// Said once, before the command can leave processes behind.
const OUT_OF_REACH: &str = "on this system, run cannot find all processes that the command starts: run stops only the \
                            command's process group; processes that leave it (timeout, setsid, a nested run) may \
                            continue without the lock";

/// What to run, and under which lock.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The command runs in its own process group, with FENCEPOST_TOKEN, FENCEPOST_LOCK and FENCEPOST_GRANT_ID in its \
environment, and FENCEPOST_SLOT if it has one permit of a semaphore (--limit). It should send the token with every \
write to the store that the lock protects. run exits with the exit status of the command.

With --also the command runs under several locks, and is stopped when one of them is lost. Each has a token of its \
own: FENCEPOST_TOKENS and FENCEPOST_GRANT_IDS are JSON objects with those of all locks by name, and the other \
variables are those of NAME. The locks are acquired in the order of the bytes of their names, in which all clients \
acquire them, so runs with the same locks do not wait for each other in a circle. Those that are acquired first are \
held while later ones are waited for.

run renews the lease while the command runs. If that fails, it stops the command and all its descendants before \
another holder can get the lock: with SIGTERM when a quarter of the TTL is left (at most 10 s), and with SIGKILL \
when a twentieth is left (at least 50 ms). If the lease is revoked, it sends SIGKILL at once. Processes that the \
command leaves behind, daemons included, are stopped before the lock is released: with SIGTERM, and with SIGKILL \
after 5 s.

Descendants are found wherever they moved: under timeout, setsid, script, a shell with job control, or a nested \
run. If run may not signal one (sudo, setuid programs), it says at once which one still runs under which token; it \
keeps the lock until that one has exited, or exits with 70 once the lease has ended. run cannot stop what others \
start for the command (systemd-run, at, a container engine), nor anything while run itself is paused or after it \
was killed. The token covers these cases. On systems other than Linux, and where /proc is missing, run warns and \
stops only the process group, which timeout, setsid and a nested run leave.

Signals: INT, HUP, QUIT, WINCH and CONT are forwarded to the process group; TERM, USR1 and USR2 to the command \
only. Ctrl-Z stops all descendants, since nobody renews the lease meanwhile.

Exit codes: that of the command; 128+n if signal n terminated it; 64 the server refused the request as malformed; \
69 no server answered; 70 the lease was lost, or the command was stopped because the lease was about to end; 75 the \
lock was not acquired; 126 the command cannot be executed; 127 the command was not found.")]
pub(crate) struct RunArgs {
    /// Name of the lock
    name: String,

    /// Name of a further lock to hold at the same time; may be repeated. All are acquired, within one --wait, or none
    // Those that need another one are named, too: clap does not ask for `limit` where `also` excludes it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["min_token", "min_hold", "request_id"])]
    #[arg(conflicts_with_all = ["shared", "limit", "permits", "limit_version"])]
    also: Vec<String>,

    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    servers: ServerArgs,
    /// Command and its arguments; from the first word that is no option of run on, all words belong to it
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

/// Runs the command under the lock. Returns the exit code.
pub(super) async fn run(args: RunArgs) -> Result<u8, Failure> {
    // Listen before the lock is requested: from then on, a signal must not end this process without a cleanup.
    let mut signals = Signals::listen()?;
    let client = client(&args.servers, RETRY_FOR)?;
    let result = locked(&client, &args, &mut signals).await;
    // An abandoned request is cleaned up, and a dropped lock is released, in the background.
    acquiring::cleaned_up(&client).await;
    result
}

async fn locked(client: &Client, args: &RunArgs, signals: &mut Signals) -> Result<u8, Failure> {
    let locks = tokio::select! {
        biased;
        acquired = Box::pin(acquire(client, args)) => acquired?,
        signal = signals.termination() => return Err(Failure::of_signal(signal)),
    };
    let (terminal, stderr) = (Terminal::on_stdin(), Stderr::new());
    let mut group = match start(args, &locks, &terminal) {
        Ok(group) => group,
        Err(failure) => {
            release_all(locks, &stderr).await;
            return Err(failure);
        }
    };
    if !group.reaches_descendants() {
        stderr.write_message(WARNING, OUT_OF_REACH);
    }
    let outcome = Supervisor::new(Holding::of(&locks), &mut group, signals, &terminal, &stderr).run().await;
    // The supervisor has written the message of a failure.
    match outcome {
        Outcome::Exited(status) => {
            release_all(locks, &stderr).await;
            Ok(status)
        }
        Outcome::LeaseLost => {
            release_all(locks, &stderr).await;
            Err(Failure::silent(LEASE_LOST))
        }
        Outcome::StillRuns => {
            locks.into_iter().for_each(Lock::detach);
            Err(Failure::silent(LEASE_LOST))
        }
    }
}

/// Acquires the lock, or all of them.
async fn acquire(client: &Client, args: &RunArgs) -> Result<Vec<Lock>, Failure> {
    let RunArgs { name, also, lock, servers, .. } = args;
    if also.is_empty() {
        let acquired = acquiring::acquire(client, name, lock, servers).await;
        return acquired.map(|lock| vec![lock]).map_err(|refused| refused.failure);
    }
    let names = std::iter::once(name).chain(also).cloned().collect();
    acquiring::acquire_all(client, names, lock, servers).await
}

fn start(args: &RunArgs, locks: &[Lock], terminal: &Terminal) -> Result<Group, Failure> {
    let mut words = args.command.iter();
    // clap requires at least one word.
    let program = words.next().ok_or_else(|| Failure::new(USAGE, "no command to run"))?;
    let mut command = Command::new(program);
    command.args(words);
    // The one of the name that stands first on the command line, wherever its turn was.
    if let Some(lock) = locks.iter().find(|lock| lock.name() == args.name) {
        command.env("FENCEPOST_TOKEN", lock.token().to_string());
        command.env("FENCEPOST_LOCK", lock.name());
        command.env("FENCEPOST_GRANT_ID", lock.grant_id());
        match lock.slot() {
            Some(slot) => command.env("FENCEPOST_SLOT", slot.to_string()),
            // The command must not see the slot of another lease.
            None => command.env_remove("FENCEPOST_SLOT"),
        };
    }
    command
        .env("FENCEPOST_TOKENS", by_name(locks, |lock| lock.token().to_string()))
        .env("FENCEPOST_GRANT_IDS", by_name(locks, |lock| lock.grant_id().to_owned()))
        // The command must not see the secret of another lease.
        .env_remove("FENCEPOST_LEASE_ID");
    Group::start(&mut command, |leader| terminal.give_to(leader))
}

/// A JSON object with a text for each lock name: tokens are texts in all JSON of this program.
fn by_name(locks: &[Lock], value: impl Fn(&Lock) -> String) -> String {
    let fields = locks.iter().map(|lock| (lock.name().to_owned(), value(lock).into()));
    serde_json::Value::Object(fields.collect()).to_string()
}

/// Releases the locks whose leases are still valid, the last one first, and waits for all answers at the same time. A
/// failure is reported.
async fn release_all(locks: Vec<Lock>, stderr: &Stderr) {
    join_all(locks.into_iter().rev().map(|lock| release(lock, stderr))).await;
}

/// Releases the lock if the lease is still valid. Returns whether it was held until then. A failure is reported.
pub(super) async fn release(lock: Lock, stderr: &Stderr) -> bool {
    if !lock.is_valid() {
        lock.detach();
        return false;
    }
    let (name, valid_for) = (lock.name().to_owned(), lock.valid_for());
    // There is nothing to release once the lease has expired.
    match tokio::time::timeout(valid_for, lock.release()).await {
        Ok(Ok(released)) if released.was_held() => return true,
        Ok(Ok(released)) => {
            let message = match fencepost_client::raw::end(released.end) {
                end @ (LeaseEnd::Released | LeaseEnd::Expired | LeaseEnd::Revoked) => {
                    format!("the lease of {name} {} before it was released", text::end(end))
                }
                _ => format!("the lease of {name} ended before it was released; the server no longer knows how"),
            };
            stderr.write_message(ERROR, &message);
        }
        Ok(Err(error)) => stderr.write_message(ERROR, &format!("{name}: {error}")),
        Err(_) => stderr.write_message(
            WARNING,
            &format!("{name} was not released, because the server did not answer; the lease expires by its TTL"),
        ),
    }
    false
}
