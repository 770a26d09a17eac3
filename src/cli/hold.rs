//! `hold`: acquires a lock and keeps it until a signal.

use super::{
    acquiring,
    args::{LockArgs, ServerArgs},
    calls::print,
    connect::client,
    exit::{Failure, LEASE_LOST, NO},
    look::WARNING,
    run::{RETRY_FOR, Signals, Stderr, release},
    text,
};
use clap::Args;
use fencepost_client::{Lock, Status};

/// The lock to hold.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
hold renews the lease until it gets a signal (Ctrl-C, TERM or HUP), releases the lock, and exits with 0. If the \
lease is lost, it exits with 70 at once.")]
pub(crate) struct HoldArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    servers: ServerArgs,
}

/// Holds the lock until a signal.
pub(super) async fn hold(args: HoldArgs) -> Result<(), Failure> {
    // Listen before the lock is requested: from then on, a signal must not end this process without a cleanup.
    let mut signals = Signals::listen()?;
    let client = client(&args.servers, RETRY_FOR)?;
    let result = async {
        let lock = tokio::select! {
            biased;
            acquired = Box::pin(acquiring::acquire(&client, &args.name, &args.lock, &args.servers)) => {
                acquired.map_err(|refused| refused.failure)?
            }
            signal = signals.termination() => return Err(Failure::of_signal(signal)),
        };
        keep(lock, &mut signals).await
    };
    let result = result.await;
    acquiring::cleaned_up(&client).await;
    result
}

async fn keep(lock: Lock, signals: &mut Signals) -> Result<(), Failure> {
    let stderr = Stderr::new();
    let name = lock.name().to_owned();
    // In a thread: a blocked stdout must not delay renewals.
    let text = format!("holding {} (token {})", text::visible(&name), lock.token());
    let mut printing = tokio::task::spawn_blocking(move || print(&text));
    let mut printed = false;
    let (mut lost, mut changes) = (Box::pin(lock.lost()), lock.status_changes());
    loop {
        tokio::select! {
            biased;
            why = &mut lost => {
                lock.detach();
                return Err(Failure::new(LEASE_LOST, format!("{why}: stop the work")));
            }
            _ = signals.termination() => break,
            Some(status) = changes.next() => match status {
                Status::AtRisk { .. } => stderr.write_message(WARNING, &format!(
                    "the lease of {name} is not being renewed; it is valid for another {}",
                    text::span(lock.valid_for()),
                )),
                Status::Held => stderr.write_message(WARNING, &format!("the lease of {name} is being renewed again")),
                _ => {}
            },
            result = &mut printing, if !printed => {
                printed = true;
                // An error of the thread means that the process ends.
                if let Ok(Err(failure)) = result {
                    release(lock, &stderr).await;
                    return Err(failure);
                }
            }
        }
    }
    if release(lock, &stderr).await { Ok(()) } else { Err(Failure::silent(NO)) }
}
