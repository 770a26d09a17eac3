//! Supervises the command and its lease, from the start of the command to the exit of its last process.
//!
//! No process of the command runs once another holder can have the lock, unless `run` itself is paused or killed, or
//! the system does not permit `run` to stop a process. The token covers these cases.

use super::{
    group::{Event, Group},
    guard::{Action, Guard},
    holding::Holding,
    process::{named, still_runs},
    signals::{Signals, is_for_group},
    stderr::Stderr,
    terminal::Terminal,
};
use crate::cli::{
    look::{ERROR, WARNING},
    text,
};
use fencepost_client::{Held, Status};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::time::Duration;
use tokio::time::sleep;

/// How long `run` waits to be stopped by its own SIGTSTP, which has no effect if no shell could continue it.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It exited with this status, by itself or after a forwarded signal, and none of its processes is left.
    Exited(u8),
    /// It was stopped because of the lease, or outlived the lease. None of its processes is left.
    LeaseLost,
    /// The lease ended, but processes still run that could not be stopped. The lock must not be released.
    StillRuns,
}

pub(super) struct Supervisor<'a> {
    pub(super) held: Holding,
    pub(super) group: &'a mut Group,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: &'a Terminal,
    stderr: &'a Stderr,
    pub(super) guard: Guard,
    /// Set when the command was stopped because of the lease.
    pub(super) stopping: Option<Stopping>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    Terminated,
    /// For this reason.
    Killed(String),
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        held: Holding,
        group: &'a mut Group,
        signals: &'a mut Signals,
        terminal: &'a Terminal,
        stderr: &'a Stderr,
    ) -> Self {
        let guard = Guard::of(held.ttl());
        Self { held, group, signals, terminal, stderr, guard, stopping: None }
    }

    /// Waits until the command has exited, and stops the processes that it left behind.
    pub(super) async fn run(mut self) -> Outcome {
        let status = self.until_exited().await;
        self.terminal.take_back_from(self.group.id());
        let all_gone = self.stop_rest().await;
        let (name, tokens) = (self.held.weakest(), self.held.tokens());
        match (&self.stopping, status) {
            (Some(Stopping::Killed(why)), _) if all_gone => self.error(&format!("{why}: killed the command")),
            (Some(Stopping::Killed(why)), _) => {
                let living = still_runs(&self.group.left().unwrap_or_default(), &tokens);
                self.error(&format!("{why}, but {living}: run cannot stop it; end it yourself"));
            }
            (None, Some(status)) if all_gone && self.held.is_valid() => return Outcome::Exited(status),
            (Some(Stopping::Terminated), _) if all_gone => {}
            _ if all_gone => {
                self.error(&format!("the lease of {name} ended before the last process of the command had exited"));
            }
            _ => {
                let living = still_runs(&self.group.left().unwrap_or_default(), &tokens);
                self.error(&format!(
                    "the lease of {name} has ended, but {living}: run cannot stop it; end it yourself"
                ));
            }
        }
        if all_gone { Outcome::LeaseLost } else { Outcome::StillRuns }
    }

    /// Waits until the command has exited. Returns its status, or `None` if it was killed because of the lease.
    async fn until_exited(&mut self) -> Option<u8> {
        let mut changes = self.held.changes();
        let mut lost = Box::pin(self.held.clone().lost());
        loop {
            let check_in = self.check_lease()?;
            tokio::select! {
                biased;
                why = &mut lost => {
                    self.kill(why.to_string());
                    return None;
                }
                event = self.group.event() => match event {
                    Event::Exited(status) => return Some(status),
                    Event::Stopped(signal) => self.stop_job(signal).await,
                    // It comes after the exit of the command.
                    Event::Childless => {}
                },
                signal = self.signals.next() => self.forward(signal),
                (held, status) = changes.next() => self.warn(&held, &status),
                () = sleep(check_in) => {}
            }
        }
    }

    /// Stops the command if the lease is about to end. Returns the time until the next check; `None` if it was killed.
    fn check_lease(&mut self) -> Option<Duration> {
        let left = self.held.valid_for();
        match self.guard.action(left) {
            _ if matches!(self.stopping, Some(Stopping::Killed(_))) => None,
            Action::Wait(check_in) => Some(check_in),
            Action::Terminate(check_in) => {
                if self.stopping.is_none() {
                    let (name, left) = (self.held.weakest(), text::span(left));
                    let why = if self.held.reaches_max_hold() {
                        format!("{name} was held for its --max-hold, and its lease ends in {left}")
                    } else {
                        format!("the lease of {name} is not being renewed and ends in {left}")
                    };
                    self.error(&format!("{why}: stopping the command"));
                    self.terminate();
                    self.stopping = Some(Stopping::Terminated);
                }
                Some(check_in)
            }
            Action::Kill => {
                let why = match self.held.loss() {
                    Some(lost) => lost.to_string(),
                    None => format!("the lease of {} is about to end", self.held.weakest()),
                };
                self.kill(why);
                None
            }
        }
    }

    /// Kills all processes, and says so when they are gone, because another holder may already have the lock.
    fn kill(&mut self, why: String) {
        self.group.kill();
        self.stopping = Some(Stopping::Killed(why));
    }

    /// Asks all processes to exit.
    pub(super) fn terminate(&self) {
        let refused = self.group.terminate();
        if !refused.is_empty() {
            self.error(&format!("{}: run may not stop it", still_runs(&refused, &self.held.tokens())));
        }
    }

    pub(super) fn error(&self, message: &str) {
        self.stderr.write_message(ERROR, message);
    }

    pub(super) fn warning(&self, message: &str) {
        self.stderr.write_message(WARNING, message);
    }

    fn warn(&self, held: &Held, status: &Status) {
        let name = held.name();
        match status {
            Status::AtRisk { .. } => {
                let left = text::span(held.valid_for());
                self.warning(&format!("the lease of {name} is not being renewed; it is valid for another {left}"));
            }
            Status::Held => self.warning(&format!("the lease of {name} is being renewed again")),
            _ => {}
        }
    }

    fn forward(&mut self, signal: Signal) {
        let refused = match signal {
            Signal::SIGCONT => return self.resume(),
            _ if is_for_group(signal) => self.group.signal(signal),
            _ => self.group.signal_leader(signal),
        };
        if !refused.is_empty() {
            let living = still_runs(&refused, &self.held.tokens());
            self.error(&format!(
                "{signal} was not delivered, because run may not signal {}: {living}",
                named(&refused)
            ));
        }
    }

    /// Stops the whole job, as a shell expects after Ctrl-Z, or after an access to the terminal from the background.
    async fn stop_job(&mut self, signal: Signal) {
        if !matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU) {
            return;
        }
        if signal != Signal::SIGTSTP && self.terminal.has_foreground(self.group.id()) {
            // It accessed the terminal just before it got the foreground.
            self.group.signal(Signal::SIGCONT);
            return;
        }
        self.terminal.take_back_from(self.group.id());
        // All processes, wherever they moved: while `run` is stopped, nobody renews the lease.
        let refused = self.group.stop();
        if !refused.is_empty() {
            let living = still_runs(&refused, &self.held.tokens());
            self.warning(&format!("{living} while run is stopped and the lease is not renewed: run may not stop it"));
        }
        // Stop our own process group as well, such as other processes of a pipeline: it is not the command's group.
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        sleep(STOP_TIMEOUT).await;
        self.resume();
    }

    /// Continues the command if its lease is still valid. Nobody renewed the lease while `run` was stopped.
    fn resume(&mut self) {
        if self.check_lease().is_some() {
            self.terminal.give_to(self.group.id());
            self.group.resume();
        }
    }
}
