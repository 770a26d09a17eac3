//! The time between the start of the command and the end of its last process, while the lease is watched.
//!
//! Whatever happens, nothing of the command runs once the lock can have passed on - unless this process is itself
//! paused or killed; that is what the token is for.

use super::{
    group::{Event, Group},
    guard::{Advice, Guard},
    signals::{Signals, concerns_group, ends},
    terminal::Terminal,
    voice::Voice,
};
use crate::cli::text;
use fencepost_client::{Held, Lost, Status};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::time::Duration;
use tokio::time::sleep;

/// How often to look whether processes that were signalled are gone.
const LOOK: Duration = Duration::from_millis(5);
/// What the command leaves behind has this long to end in order, if the lease allows.
const LEFTOVER_GRACE: Duration = Duration::from_secs(5);
/// After a kill only the system's own work is left.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// Where nobody can continue us, a stop does not take, and we go on after this.
const STOP_TAKES: Duration = Duration::from_millis(100);

/// How the command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, or by a signal that we passed on: its exit status.
    Own(u8),
    /// By us for the lease's sake, or too late: it cannot be said to have run under the lock.
    LeaseLost,
}

pub(super) struct Supervisor<'a> {
    pub(super) held: Held,
    pub(super) group: &'a mut Group,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: &'a Terminal,
    voice: &'a Voice,
    pub(super) guard: Guard,
    /// Asked to stop, or killed, for the lease's sake.
    stopping: Option<Stopping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    Asked,
    Killed,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        held: Held,
        group: &'a mut Group,
        signals: &'a mut Signals,
        terminal: &'a Terminal,
        voice: &'a Voice,
    ) -> Self {
        let guard = Guard::of(held.ttl());
        Self { held, group, signals, terminal, voice, guard, stopping: None }
    }

    /// Sees the command, and then whatever it leaves behind in its group, to the end.
    pub(super) async fn until_all_ended(mut self) -> Ending {
        let status = self.until_ended().await;
        self.terminal.take_back_from(self.group.id());
        self.until_gone().await;
        if self.stopping.is_some() {
            return Ending::LeaseLost;
        }
        if !self.held.is_valid() {
            self.voice.say(&format!(
                "the lease of {} was over before the last of the command's processes was",
                self.held.name()
            ));
            return Ending::LeaseLost;
        }
        Ending::Own(status)
    }

    async fn until_ended(&mut self) -> u8 {
        let mut changes = self.held.status_changes();
        let mut lost = Box::pin(self.held.lost());
        loop {
            let look_again = self.keep_safe();
            let watched = self.stopping != Some(Stopping::Killed);
            tokio::select! {
                biased;
                why = &mut lost, if watched => self.kill_for(&why),
                event = self.group.event() => match event {
                    Event::Ended(status) => return status,
                    Event::Stopped(signal) => self.stop_too(signal).await,
                },
                signal = self.signals.next() => self.pass_on(signal),
                Some(status) = changes.next(), if watched => self.warn(status),
                () = sleep(look_again) => {}
            }
        }
    }

    /// Does what the time left of the lease asks for, and says when to look again.
    fn keep_safe(&mut self) -> Duration {
        let left = self.held.valid_for();
        match self.guard.advise(left) {
            Advice::Fine(look_again) => look_again,
            Advice::Terminate(look_again) => {
                if self.stopping.is_none() {
                    let left = text::span(left);
                    self.voice.say(&format!(
                        "the lease of {} is not being renewed and ends in {left}: stopping the command",
                        self.held.name()
                    ));
                    self.group.terminate();
                    self.stopping = Some(Stopping::Asked);
                }
                look_again
            }
            Advice::Kill => {
                if self.stopping != Some(Stopping::Killed) {
                    let name = self.held.name();
                    let when = if left.is_zero() { "is over" } else { "is about to end" };
                    self.voice.say(&format!("the lease of {name} {when}: killed the command"));
                }
                // Again at each look: what was started between two kills would escape the first.
                self.group.kill();
                self.stopping = Some(Stopping::Killed);
                LOOK
            }
        }
    }

    /// The lock may have passed on already: no time for anything but this.
    fn kill_for(&mut self, why: &Lost) {
        self.group.kill();
        self.stopping = Some(Stopping::Killed);
        self.voice.say(&format!("{why} ({}): killed the command", self.held.name()));
    }

    fn warn(&self, status: Status) {
        let name = self.held.name();
        match status {
            Status::AtRisk { .. } => {
                let left = text::span(self.held.valid_for());
                self.voice.say(&format!("the lease of {name} is not being renewed; it is valid for another {left}"));
            }
            Status::Held => self.voice.say(&format!("the lease of {name} is being renewed again")),
            _ => {}
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCONT => self.go_on(),
            _ if concerns_group(signal) => self.group.signal(signal),
            _ => self.group.signal_leader(signal),
        }
    }

    /// Ctrl-Z, or a wish for the terminal from the background: then the whole job stops, as a shell expects.
    async fn stop_too(&mut self, signal: Signal) {
        if !matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU) {
            return;
        }
        if signal != Signal::SIGTSTP && self.terminal.is_with(self.group.id()) {
            // It asked for the terminal a moment before it got it.
            return self.group.signal(Signal::SIGCONT);
        }
        self.terminal.take_back_from(self.group.id());
        // Also those of its processes that go on at a Ctrl-Z: while we stand still nobody renews the lease.
        self.group.signal(Signal::SIGSTOP);
        // All of the job: those who share our group, in a pipe for one, were left out when the command got its own.
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        sleep(STOP_TAKES).await;
        self.go_on();
    }

    /// Continues the command if its lease is still good: however long we stood still, nobody renewed it.
    fn go_on(&mut self) {
        self.keep_safe();
        if self.stopping == Some(Stopping::Killed) {
            return;
        }
        self.terminal.give_to(self.group.id());
        self.group.signal(Signal::SIGCONT);
    }

    /// Stops what the command leaves behind in its group: it must be gone before the lease is given back.
    async fn until_gone(&mut self) {
        if self.group.is_gone() {
            return;
        }
        if self.stopping.is_none() {
            self.voice.say("the command left processes behind: stopping them before the lock is released");
            self.group.terminate();
        }
        let mut waited = Duration::ZERO;
        while waited < LEFTOVER_GRACE && !matches!(self.guard.advise(self.held.valid_for()), Advice::Kill) {
            tokio::select! {
                signal = self.signals.next() => if ends(signal) { break },
                () = sleep(LOOK) => waited += LOOK,
            }
            if self.group.is_gone() {
                return;
            }
        }
        let mut waited = Duration::ZERO;
        while waited < GONE_WITHIN {
            self.group.kill();
            sleep(LOOK).await;
            if self.group.is_gone() {
                return;
            }
            waited += LOOK;
        }
        self.voice.say("processes that the command left behind do not end, though killed");
    }
}
