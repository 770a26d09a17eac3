//! `run`: a command under a lock. Takes it, runs the command, and gives the lock back when nothing of the command is
//! left.

mod group;
mod guard;
mod signals;
mod supervise;
mod terminal;
mod voice;

use super::{
    args::{LockArgs, ServerArgs},
    connect::{self, Effect, client, failed, reachable},
    exit::{Failure, LEASE_LOST, NOT_OBTAINED, SIGNAL, UNAVAILABLE, USAGE},
    text,
};
use clap::Args;
use fencepost_client::{Acquire, AcquireError, Client, Lock};
use group::Group;
use signals::{Signals, ends};
use std::{ffi::OsString, process::Command, time::Duration};
use supervise::{Ending, Supervisor};
use terminal::Terminal;
use uuid::Uuid;
use voice::Voice;

/// How long a call is repeated: somebody may be restarting the server.
const PATIENT: Duration = Duration::from_secs(5);
/// How long to wait for what goes on in the background before this process ends.
const SETTLE: Duration = Duration::from_secs(2);

/// What to run, and under which lock.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The command runs in a process group of its own, with FENCEPOST_TOKEN, FENCEPOST_LOCK and FENCEPOST_GRANT_ID in its environment:
have it send the token with every write to the store that the lock protects. Its exit status becomes that of run.

The lease is kept alive while the command runs. Should that fail, the whole group is stopped before the lock can pass on:
SIGTERM when a quarter of the TTL is left (at most 10 s), SIGKILL when a twentieth is (at least 50 ms); a lease that was revoked
means SIGKILL at once. What the command leaves behind in its group is stopped before the lock is released. A process that leaves
the group (with setsid), and everything if run itself is paused or killed, is out of reach: that is what the token is for.

Passed on: INT, HUP, QUIT, WINCH and CONT to the whole group; TERM, USR1 and USR2 to the command alone.

Exit codes: the command's own; 128+n if signal n ended it; 64 the server refused the request as malformed; 69 no server answered;
70 the lease was lost, or in danger and the command stopped for it; 75 the lock was not obtained; 126 the command cannot be run;
127 it was not found.")]
pub(crate) struct RunArgs {
    /// The lock's name
    name: String,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    servers: ServerArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command, and says what the exit code is to be.
pub(super) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let request_id = match &args.lock.request_id {
        None => None,
        Some(text) => Some(text.parse::<Uuid>().map_err(|_| Failure::new(USAGE, "--request-id must be a UUID"))?),
    };
    // Before the lock is asked for: from then on every signal has to be dealt with in order.
    let mut signals =
        Signals::listen().map_err(|error| Failure::new(UNAVAILABLE, format!("cannot listen for signals: {error}")))?;
    let client = client(&args.servers, args.lock.holder(), PATIENT)?;
    let result = locked(&client, &args, request_id, &mut signals).await;
    // A request that was given up, or a lock that was dropped, is being taken back.
    let _ = tokio::time::timeout(SETTLE, client.settle()).await;
    result
}

async fn locked(
    client: &Client,
    args: &RunArgs,
    request_id: Option<Uuid>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let mut acquiring = Box::pin(acquire(client, args, request_id));
    let lock = loop {
        tokio::select! {
            biased;
            acquired = &mut acquiring => break acquired?,
            signal = signals.next() => if ends(signal) {
                return Err(Failure::silent(SIGNAL.saturating_add(signal as u8)));
            },
        }
    };
    let (terminal, voice) = (Terminal::on_stdin(), Voice::new());
    let mut group = match start(args, &lock, &terminal) {
        Ok(group) => group,
        Err(failure) => {
            give_back(lock, &voice).await;
            return Err(failure);
        }
    };
    let ending = Supervisor::new(lock.held(), &mut group, signals, &terminal, &voice).until_all_ended().await;
    give_back(lock, &voice).await;
    match ending {
        Ending::Own(status) => Ok(status),
        // It was said when it happened.
        Ending::LeaseLost => Err(Failure::silent(LEASE_LOST)),
    }
}

async fn acquire(client: &Client, args: &RunArgs, request_id: Option<Uuid>) -> Result<Lock, Failure> {
    if !args.lock.wait.is_zero() {
        reachable(client, &args.name, &args.servers).await?;
    }
    request(client, args, request_id).await.map_err(|error| not_acquired(&error, args))
}

fn request(client: &Client, args: &RunArgs, request_id: Option<Uuid>) -> Acquire {
    let lock = &args.lock;
    let mut acquire = client.acquire(args.name.as_str()).wait(lock.wait).min_token(lock.min_token);
    if let Some(ttl) = lock.ttl {
        acquire = acquire.ttl(ttl);
    }
    if let Some(id) = request_id {
        acquire = acquire.request_id(id);
    }
    lock.metadata.iter().fold(acquire, |acquire, (key, value)| acquire.metadata(key, value))
}

fn start(args: &RunArgs, lock: &Lock, terminal: &Terminal) -> Result<Group, Failure> {
    let mut words = args.command.iter();
    // clap sees to it that there is one.
    let program = words.next().ok_or_else(|| Failure::new(USAGE, "no command to run"))?;
    let mut command = Command::new(program);
    command
        .args(words)
        .env("FENCEPOST_TOKEN", lock.token().to_string())
        .env("FENCEPOST_LOCK", lock.name())
        .env("FENCEPOST_GRANT_ID", lock.grant_id())
        // The secret of another lease is none of the command's business.
        .env_remove("FENCEPOST_LEASE_ID");
    let mut group = Group::start(&mut command)?;
    terminal.give_to(group.id());
    if let Err(error) = group.watch() {
        group.kill();
        return Err(Failure::new(UNAVAILABLE, format!("cannot watch the command: {error}")));
    }
    Ok(group)
}

/// Gives the lock back if it is still ours. That this fails changes nothing of what the command did.
async fn give_back(lock: Lock, voice: &Voice) {
    if !lock.is_valid() {
        return lock.detach();
    }
    let (name, valid_for) = (lock.name().to_owned(), lock.valid_for());
    // Once it has ended by itself, there is nothing left to give back.
    match tokio::time::timeout(valid_for, lock.release()).await {
        Ok(Ok(released)) if released.was_held() => {}
        Ok(Ok(released)) => {
            voice.say(&format!("the lease of {name} {} before the command had ended", text::end(released.end)));
        }
        Ok(Err(error)) => voice.say(&format!("{name}: {error}")),
        Err(_) => voice.say(&format!("{name} was not released: the server does not answer; the lease ends by its TTL")),
    }
}

fn not_acquired(error: &AcquireError, args: &RunArgs) -> Failure {
    let name = &args.name;
    match error {
        AcquireError::Contended { holders, waiters } => Failure::new(NOT_OBTAINED, text::held(name, holders, *waiters)),
        AcquireError::TimedOut { holders, waiters } => {
            let held = text::held(name, holders, *waiters);
            Failure::new(NOT_OBTAINED, format!("gave up after {}: {held}", text::span(args.lock.wait)))
        }
        AcquireError::Invalid { message, violations } => Failure::new(USAGE, connect::invalid(message, violations)),
        AcquireError::Exhausted { message, retry_after } => {
            Failure::new(NOT_OBTAINED, connect::exhausted(message, *retry_after))
        }
        AcquireError::Ended => Failure::new(NOT_OBTAINED, connect::ENDED),
        AcquireError::Overtaken => Failure::new(NOT_OBTAINED, connect::OVERTAKEN),
        AcquireError::Unavailable { source }
        | AcquireError::OutcomeUnknown { source }
        | AcquireError::Refused { source } => failed(source, Effect::Writes, &args.servers),
        AcquireError::LostOnArrival { token } => Failure::new(
            NOT_OBTAINED,
            format!(
                "{name} was granted (token {token}), but its lease was over on arrival: try again, with a longer --ttl"
            ),
        ),
        other => Failure::new(UNAVAILABLE, format!("{name}: {other}")),
    }
}
