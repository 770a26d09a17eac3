//! The command and everything it starts: one process group, which is signalled, watched and seen gone as one.
//!
//! A process that leaves the group (a daemon that calls setsid) is out of reach; the manual says so.

use crate::cli::exit::{CANNOT_RUN, Failure, NOT_FOUND, SIGNAL};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use std::{io, os::unix::process::CommandExt, process::Command, thread};
use tokio::sync::mpsc;

/// What the command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It ended, and this is its exit status as a shell says it.
    Ended(u8),
    /// It was stopped by this signal, to be continued.
    Stopped(Signal),
}

/// A command that runs, in a process group of its own.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    events: Option<mpsc::UnboundedReceiver<Event>>,
}

impl Group {
    /// Starts the command. Call [`watch`](Self::watch) next: between the two is the time to hand it the terminal.
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        // Orphans of the group come to us and not to init, which in a container may never reap them: a zombie would
        // look as if something still ran.
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{program}: command not found")),
            _ => Failure::new(CANNOT_RUN, format!("{program}: cannot be run: {error}")),
        })?;
        let leader =
            i32::try_from(child.id()).map_err(|error| Failure::new(CANNOT_RUN, format!("{program}: {error}")))?;
        Ok(Self { leader: Pid::from_raw(leader), events: None })
    }

    /// Begins to watch it, on a thread of its own: there is no other way to wait for a stop.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let leader = self.leader;
        thread::Builder::new().name("wait".to_owned()).spawn(move || wait(leader, &sender))?;
        self.events = Some(receiver);
        Ok(())
    }

    pub(super) fn id(&self) -> Pid {
        self.leader
    }

    /// What it does next; for ever pending once it has ended. Dropped, it loses nothing.
    pub(super) async fn event(&mut self) -> Event {
        if let Some(events) = &mut self.events
            && let Some(event) = events.recv().await
        {
            return event;
        }
        std::future::pending().await
    }

    /// Signals the command alone. That it is gone already is no trouble.
    pub(super) fn signal_leader(&self, signal: Signal) {
        let _ = kill(self.leader, signal);
    }

    /// Signals all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Asks all of the group to end, also what is stopped.
    pub(super) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Ends all of the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Is nothing of it left?
    pub(super) fn is_gone(&self) -> bool {
        killpg(self.leader, None) == Err(Errno::ESRCH)
    }
}

/// Reaps whatever comes to us, and tells of the command.
fn wait(leader: Pid, events: &mpsc::UnboundedSender<Event>) {
    loop {
        // Nobody may listen any more: what is left is reaped all the same.
        let _ = match waitpid(None, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(who, code)) if who == leader => events.send(Event::Ended(low_byte(code))),
            Ok(WaitStatus::Signaled(who, signal, _)) if who == leader => {
                events.send(Event::Ended(SIGNAL.saturating_add(low_byte(signal as i32))))
            }
            Ok(WaitStatus::Stopped(who, signal)) if who == leader => events.send(Event::Stopped(signal)),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            // No child is left.
            Err(_) => return,
        };
    }
}

fn low_byte(code: i32) -> u8 {
    code.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_has_the_shells_exit_code() {
        let failure = Group::start(&mut Command::new("fencepost-no-such-command")).unwrap_err();
        assert_eq!(failure.code, NOT_FOUND);
        let failure = Group::start(&mut Command::new("/")).unwrap_err();
        assert_eq!(failure.code, CANNOT_RUN);
    }

    #[test]
    fn exit_codes_are_bytes() {
        assert_eq!(low_byte(7), 7);
        assert_eq!(SIGNAL.saturating_add(low_byte(Signal::SIGTERM as i32)), 143);
    }
}
