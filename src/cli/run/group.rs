//! The command and all processes that it starts, as one process group.
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

/// A state change of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It exited with this status; 128+n after signal n, as in a shell.
    Exited(u8),
    /// It was suspended by this signal.
    Stopped(Signal),
}

/// A running command in its own process group.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    events: Option<mpsc::UnboundedReceiver<Event>>,
}

impl Group {
    /// Starts the command. Give it the terminal next, and then call [`watch`](Self::watch).
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        // Become the parent of the group's orphans. In a container, init may never reap them, and a zombie would look
        // like a running process.
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{program}: command not found")),
            _ => Failure::new(CANNOT_RUN, format!("{program}: cannot be executed: {error}")),
        })?;
        let leader =
            i32::try_from(child.id()).map_err(|error| Failure::new(CANNOT_RUN, format!("{program}: {error}")))?;
        Ok(Self { leader: Pid::from_raw(leader), events: None })
    }

    /// Starts a thread that waits for events of the command. Only a blocking waitpid reports that it was suspended.
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

    /// The next event; pending forever once the command has exited. Cancel-safe.
    pub(super) async fn event(&mut self) -> Event {
        if let Some(events) = &mut self.events
            && let Some(event) = events.recv().await
        {
            return event;
        }
        std::future::pending().await
    }

    /// Sends a signal to the command only. Does nothing if it has exited.
    pub(super) fn signal_leader(&self, signal: Signal) {
        let _ = kill(self.leader, signal);
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Asks the whole group to exit, suspended processes included.
    pub(super) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Kills the whole group.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Whether no process of the group is left.
    pub(super) fn is_gone(&self) -> bool {
        killpg(self.leader, None) == Err(Errno::ESRCH)
    }
}

/// Reaps children, and reports events of the command.
fn wait(leader: Pid, events: &mpsc::UnboundedSender<Event>) {
    loop {
        // Sending fails if the receiver is gone; the remaining processes are reaped nevertheless.
        let _ = match waitpid(None, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(who, code)) if who == leader => events.send(Event::Exited(low_byte(code))),
            Ok(WaitStatus::Signaled(who, signal, _)) if who == leader => {
                events.send(Event::Exited(SIGNAL.saturating_add(low_byte(signal as i32))))
            }
            Ok(WaitStatus::Stopped(who, signal)) if who == leader => events.send(Event::Stopped(signal)),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            // No children are left.
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
    fn a_command_that_cannot_start_has_the_exit_code_of_a_shell() {
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
