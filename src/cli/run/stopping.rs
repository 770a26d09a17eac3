//! Stops all processes of the command. The lock is not released before the last one has exited.

use super::{
    group::has,
    guard::Action,
    process::{Process, named, still_runs},
    signals::is_termination,
    supervise::{Stopping, Supervisor},
};
use fencepost_client::Moment;
use std::time::Duration;
use tokio::time::sleep;

/// How long it may take until the end of the last process is known, before one that cannot be seen is suspected.
const SETTLING: Duration = Duration::from_millis(200);
/// How long processes that the command left behind have to exit after SIGTERM, if the lease allows.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// How long killed processes have to disappear before `run` says that they have not. Only the kernel's work is left by
/// then.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two looks at the processes, first and at most. The exit of the last one is noticed at once.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Supervisor<'_> {
    /// Stops all processes that are left. Returns whether none is left; if not, the lease has ended meanwhile.
    pub(super) async fn stop_rest(&mut self) -> bool {
        let seen_by = Moment::now().plus(SETTLING);
        let left = loop {
            match self.group.left() {
                None => return true,
                Some(left) if left.is_empty() && !seen_by.from_now().is_zero() => self.next(PAUSE_MIN).await,
                Some(left) => break left,
            };
        };
        if self.stopping.is_none() {
            let left = named(&left);
            self.warning(&format!(
                "the command left processes behind ({left}): stopping them before releasing the lock"
            ));
            self.terminate();
        }
        let is_killed = matches!(self.stopping, Some(Stopping::Killed(_)));
        (!is_killed && self.exit_in_time().await) || self.until_killed().await
    }

    /// Waits until all have exited. Gives up after a while, at a second signal, and when the lease is about to end.
    async fn exit_in_time(&mut self) -> bool {
        let end = Moment::now().plus(LEFTOVER_GRACE);
        loop {
            if self.group.left().is_none() {
                return true;
            }
            let left = end.from_now();
            let check_in = match self.guard.action(self.held.valid_for()) {
                Action::Kill => return false,
                Action::Wait(check_in) | Action::Terminate(check_in) => check_in,
            };
            if left.is_zero() || self.next(check_in.min(left).min(PAUSE_MAX)).await {
                return false;
            }
        }
    }

    /// Kills all until none is left. Gives up only when the lease has ended too: until then, the lock is kept.
    async fn until_killed(&mut self) -> bool {
        let slow = Moment::now().plus(KILL_TIMEOUT);
        let (mut pause, mut logged) = (PAUSE_MIN, false);
        loop {
            let refused = self.group.kill();
            let asked = self.next(pause).await;
            let Some(living) = self.group.left() else { return true };
            let only_refused = !living.is_empty() && living.iter().all(|process| has(&refused, process));
            if only_refused || slow.from_now().is_zero() {
                if self.is_over() {
                    return false;
                }
                if !logged || asked {
                    self.log_kept(&living, &refused);
                    logged = true;
                }
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Whether another holder may get the lock soon.
    fn is_over(&self) -> bool {
        self.stopping.is_some() || self.guard.action(self.held.valid_for()) == Action::Kill
    }

    fn log_kept(&self, living: &[Process], refused: &[Process]) {
        let why = match refused {
            [] => "although it was killed".to_owned(),
            _ => format!("because run may not stop {}", named(refused)),
        };
        let living = still_runs(living, &self.held.tokens());
        self.error(&format!("{living}, {why}: the lock is kept until it has exited"));
    }

    /// Waits for this time or for the next event. Returns whether a signal asks `run` to exit.
    async fn next(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            signal = self.signals.next() => is_termination(signal),
            _ = self.group.event() => false,
            () = sleep(time) => false,
        }
    }
}
