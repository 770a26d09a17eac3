//! Supervises the command and its lease, from the start of the command to the exit of its last process.
//!
//! No process of the command runs once another holder can have the lock, unless `run` itself is paused or killed. The
//! token covers that case.

use super::{
    group::{Event, Group},
    guard::{Action, Guard},
    signals::{Signals, is_for_group, is_termination},
    stderr::Stderr,
    terminal::Terminal,
};
use crate::cli::{
    look::{ERROR, WARNING},
    text,
};
use fencepost_client::{Held, LockLost, Status};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::time::Duration;
use tokio::time::sleep;

/// How often to check whether signalled processes are gone.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long processes that the command left behind have to exit after SIGTERM, if the lease allows.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// How long killed processes have to disappear. Only the kernel's work is left by then.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long `run` waits to be stopped by its own SIGTSTP, which has no effect if no shell could continue it.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It exited with this status, by itself or after a forwarded signal.
    Exited(u8),
    /// It was stopped because of the lease, or outlived the lease.
    LeaseLost,
}

pub(super) struct Supervisor<'a> {
    pub(super) held: Held,
    pub(super) group: &'a mut Group,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: &'a Terminal,
    stderr: &'a Stderr,
    pub(super) guard: Guard,
    /// Set when the command was stopped because of the lease.
    stopping: Option<Stopping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    Terminated,
    Killed,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        held: Held,
        group: &'a mut Group,
        signals: &'a mut Signals,
        terminal: &'a Terminal,
        stderr: &'a Stderr,
    ) -> Self {
        let guard = Guard::of(held.ttl());
        Self { held, group, signals, terminal, stderr, guard, stopping: None }
    }

    /// Waits until the command has exited, and stops the processes that it left behind in its group.
    pub(super) async fn run(mut self) -> Outcome {
        let status = self.until_exited().await;
        self.terminal.take_back_from(self.group.id());
        self.stop_leftovers().await;
        if self.stopping.is_some() {
            return Outcome::LeaseLost;
        }
        if !self.held.is_valid() {
            let name = self.held.name();
            self.error(&format!("the lease of {name} ended before the last process of the command had exited"));
            return Outcome::LeaseLost;
        }
        Outcome::Exited(status)
    }

    async fn until_exited(&mut self) -> u8 {
        let mut changes = self.held.status_changes();
        let mut lost = Box::pin(self.held.lost());
        loop {
            let check_in = self.check_lease();
            let watched = self.stopping != Some(Stopping::Killed);
            tokio::select! {
                biased;
                why = &mut lost, if watched => self.kill(&why),
                event = self.group.event() => match event {
                    Event::Exited(status) => return status,
                    Event::Stopped(signal) => self.stop_job(signal).await,
                },
                signal = self.signals.next() => self.forward(signal),
                Some(status) = changes.next(), if watched => self.warn(&status),
                () = sleep(check_in) => {}
            }
        }
    }

    /// Stops the command if the lease is about to end. Returns the time until the next check.
    fn check_lease(&mut self) -> Duration {
        let left = self.held.valid_for();
        match self.guard.action(left) {
            Action::Wait(check_in) => check_in,
            Action::Terminate(check_in) => {
                if self.stopping.is_none() {
                    let (name, left) = (self.held.name(), text::span(left));
                    self.error(&format!(
                        "the lease of {name} is not being renewed and ends in {left}: stopping the command"
                    ));
                    self.group.terminate();
                    self.stopping = Some(Stopping::Terminated);
                }
                check_in
            }
            Action::Kill => {
                if self.stopping != Some(Stopping::Killed) {
                    let name = self.held.name();
                    let when = if left.is_zero() { "has ended" } else { "is about to end" };
                    self.error(&format!("the lease of {name} {when}: killed the command"));
                }
                // Again at each check, for processes that were started during the kill.
                self.group.kill();
                self.stopping = Some(Stopping::Killed);
                POLL_INTERVAL
            }
        }
    }

    /// Kills the group first and reports it then, because another holder may already have the lock.
    fn kill(&mut self, why: &LockLost) {
        self.group.kill();
        self.stopping = Some(Stopping::Killed);
        self.error(&format!("{why}: killed the command"));
    }

    fn error(&self, message: &str) {
        self.stderr.write_message(ERROR, message);
    }

    fn warning(&self, message: &str) {
        self.stderr.write_message(WARNING, message);
    }

    fn warn(&self, status: &Status) {
        let name = self.held.name();
        match status {
            Status::AtRisk { .. } => {
                let left = text::span(self.held.valid_for());
                self.warning(&format!("the lease of {name} is not being renewed; it is valid for another {left}"));
            }
            Status::Held => self.warning(&format!("the lease of {name} is being renewed again")),
            _ => {}
        }
    }

    fn forward(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCONT => self.resume(),
            _ if is_for_group(signal) => self.group.signal(signal),
            _ => self.group.signal_leader(signal),
        }
    }

    /// Stops the whole job, as a shell expects after Ctrl-Z, or after an access to the terminal from the background.
    async fn stop_job(&mut self, signal: Signal) {
        if !matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU) {
            return;
        }
        if signal != Signal::SIGTSTP && self.terminal.has_foreground(self.group.id()) {
            // It accessed the terminal just before it got the foreground.
            return self.group.signal(Signal::SIGCONT);
        }
        self.terminal.take_back_from(self.group.id());
        // SIGSTOP, because processes may ignore SIGTSTP. While `run` is stopped, nobody renews the lease.
        self.group.signal(Signal::SIGSTOP);
        // Stop our own process group as well, such as other processes of a pipeline: it is not the command's group.
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        sleep(STOP_TIMEOUT).await;
        self.resume();
    }

    /// Continues the command if its lease is still valid. Nobody renewed the lease while `run` was stopped.
    fn resume(&mut self) {
        self.check_lease();
        if self.stopping == Some(Stopping::Killed) {
            return;
        }
        self.terminal.give_to(self.group.id());
        self.group.signal(Signal::SIGCONT);
    }

    /// Stops the processes that the command left behind in its group. They must be gone before the lock is released.
    async fn stop_leftovers(&mut self) {
        if self.group.is_gone() {
            return;
        }
        if self.stopping.is_none() {
            self.warning("the command left processes behind: stopping them before releasing the lock");
            self.group.terminate();
        }
        let mut waited = Duration::ZERO;
        while waited < LEFTOVER_GRACE && !matches!(self.guard.action(self.held.valid_for()), Action::Kill) {
            tokio::select! {
                signal = self.signals.next() => if is_termination(signal) { break },
                () = sleep(POLL_INTERVAL) => waited += POLL_INTERVAL,
            }
            if self.group.is_gone() {
                return;
            }
        }
        let mut waited = Duration::ZERO;
        while waited < KILL_TIMEOUT {
            self.group.kill();
            sleep(POLL_INTERVAL).await;
            if self.group.is_gone() {
                return;
            }
            waited += POLL_INTERVAL;
        }
        self.error("processes that the command left behind were killed but have not exited");
    }
}
