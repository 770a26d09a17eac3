//! The command and all processes that it starts.
//!
//! The command is the leader of a process group: that is the job which a terminal and its signals know. Its descendants
//! may leave the group, and are found by their parents ([`Tree`]). Where the system cannot do that, only the group is
//! in reach; the manual says so, and `run` warns.

use super::{
    process::{Id, Process, State},
    signals::is_termination,
    tree::{Tree, await_exit, refusing},
};
use crate::cli::exit::{CANNOT_RUN, Failure, NOT_FOUND, SIGNAL, UNAVAILABLE};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use parking_lot::Mutex;
use rustix::process::{WaitOptions, WaitStatus};
use std::{
    collections::HashSet,
    io,
    os::unix::process::CommandExt,
    process::Command,
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::Duration,
};
use tokio::sync::mpsc;

/// How often all processes are stopped again, until none of them runs any more.
const STOP_PASSES_MAX: u32 = 50;
/// The time between two of these.
const STOP_PASS: Duration = Duration::from_millis(1);
/// How many looks in a row must find no living process. One look may miss a process whose parent exits meanwhile.
const CLEAN_LOOKS: u32 = 2;

/// A state change of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It exited with this status; 128+n after signal n, as in a shell.
    Exited(u8),
    /// It was suspended by this signal.
    Stopped(Signal),
    /// No child of this process is left.
    Childless,
}

/// The process groups of the children that have exited since the first kill; `None` before.
type Graves = Arc<Mutex<Option<HashSet<i32>>>>;

/// A running command with its descendants.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// Whether the pid of the leader is still its own.
    leader_runs: bool,
    events: mpsc::UnboundedReceiver<Event>,
    tree: Option<Tree>,
    childless: bool,
    clean_looks: u32,
    graves: Graves,
    /// Those that [`stop`](Self::stop) stopped, to be continued.
    stopped: Vec<Process>,
}

impl Group {
    /// Starts the command; `started` runs before its first event.
    pub(super) fn start(command: &mut Command, started: impl FnOnce(Pid)) -> Result<Self, Failure> {
        let tree = Tree::of_this_process();
        let (sender, events) = mpsc::unbounded_channel();
        // The thread is there before the command, which could not be left alone if there were no thread.
        let (leaders, leader) = sync_channel::<Pid>(1);
        let graves = Graves::default();
        let noted = Arc::clone(&graves);
        let watching = thread::Builder::new().name("wait".to_owned()).spawn(move || {
            if let Ok(leader) = leader.recv() {
                wait(leader, &sender, &noted);
            }
        });
        watching.map_err(|error| Failure::new(UNAVAILABLE, format!("cannot watch a command: {error}")))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{program}: command not found")),
            _ => Failure::new(CANNOT_RUN, format!("{program}: cannot be executed: {error}")),
        })?;
        // Pids are positive numbers of this type; the standard library shows them as unsigned ones.
        let leader = Pid::from_raw(child.id().cast_signed());
        started(leader);
        // An error means that the thread has ended, which only a panic can cause: the command ends by its lease.
        let _ = leaders.send(leader);
        let stopped = Vec::new();
        Ok(Self { leader, leader_runs: true, events, tree, childless: false, clean_looks: 0, graves, stopped })
    }

    pub(super) fn id(&self) -> Pid {
        self.leader
    }

    /// Whether descendants that left the process group are in reach.
    pub(super) fn reaches_descendants(&self) -> bool {
        self.tree.is_some()
    }

    /// The next event; pending forever after the last one. Cancel-safe.
    pub(super) async fn event(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => {
                self.note(event);
                event
            }
            None => std::future::pending().await,
        }
    }

    /// Sends a signal to the command only. Returns it if it may not be signalled.
    pub(super) fn signal_leader(&self, signal: Signal) -> Vec<Process> {
        if !self.leader_runs || kill(self.leader, signal) != Err(Errno::EPERM) {
            return vec![];
        }
        self.or_unseen(self.members().into_iter().filter(|it| it.id.pid == self.leader.as_raw()).collect())
    }

    /// Sends a signal to the process group, as a terminal does. Returns those that may not be signalled, if it is one
    /// that asks to exit.
    pub(super) fn signal(&self, signal: Signal) -> Vec<Process> {
        let nobody = self.leader_runs && killpg(self.leader, signal) == Err(Errno::EPERM);
        match (is_termination(signal), nobody) {
            (false, _) => vec![],
            (true, true) => self.or_unseen(self.members()),
            // The call succeeds if it reaches one of several.
            (true, false) => refusing(&self.members(), None),
        }
    }

    /// Asks all processes to exit, suspended ones included. Returns those that may not be signalled.
    pub(super) fn terminate(&self) -> Vec<Process> {
        let Some(tree) = &self.tree else {
            let refused = killpg(self.leader, Signal::SIGTERM) == Err(Errno::EPERM);
            let _ = killpg(self.leader, Signal::SIGCONT);
            return if refused { self.members() } else { vec![] };
        };
        let living = tree.look().living;
        let refused = refusing(&living, Signal::SIGTERM);
        refusing(&living, Signal::SIGCONT);
        refused
    }

    /// Kills all processes. Returns those that may not be signalled. One that is being started meanwhile may be missed:
    /// repeat it until none [is left](Self::left).
    pub(super) fn kill(&self) -> Vec<Process> {
        let refused =
            (self.leader_runs || self.tree.is_none()) && killpg(self.leader, Signal::SIGKILL) == Err(Errno::EPERM);
        match &self.tree {
            Some(tree) => tree.kill(self.graves.lock().get_or_insert_default().clone()),
            None if refused => self.members(),
            None => vec![],
        }
    }

    /// Stops all processes with SIGSTOP, which they cannot ignore, until [`resume`](Self::resume). Those that are
    /// stopped already stay so then: whoever stopped them continues them, such as a nested run that checks its own
    /// lease first. Returns those that may not be signalled.
    pub(super) fn stop(&mut self) -> Vec<Process> {
        let _ = killpg(self.leader, Signal::SIGSTOP);
        let (Some(tree), mut refused) = (&self.tree, Vec::new()) else { return vec![] };
        for _ in 0..STOP_PASSES_MAX {
            let is_new = |it: &Process| it.state == State::Running && !has(&self.stopped, it) && !has(&refused, it);
            let running: Vec<_> = tree.look().living.into_iter().filter(is_new).collect();
            if running.is_empty() {
                break;
            }
            let refusing = refusing(&running, Signal::SIGSTOP);
            self.stopped.extend(running.into_iter().filter(|process| !has(&refusing, process)));
            refused.extend(refusing);
            thread::sleep(STOP_PASS);
        }
        refused
    }

    /// Continues the process group, and what [`stop`](Self::stop) stopped outside of it.
    pub(super) fn resume(&mut self) {
        if self.leader_runs {
            let _ = killpg(self.leader, Signal::SIGCONT);
        }
        refusing(&std::mem::take(&mut self.stopped), Signal::SIGCONT);
    }

    /// The processes that are left; `None` if none is. Those that cannot be seen are missing, so the list may be empty.
    pub(super) fn left(&mut self) -> Option<Vec<Process>> {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        let Some(tree) = &self.tree else {
            return (killpg(self.leader, None) != Err(Errno::ESRCH)).then(|| self.members());
        };
        if self.childless {
            return None;
        }
        // Children that are none of the living: the dead that a debugger keeps, and those that this process had before.
        let seen = tree.look();
        self.clean_looks = if seen.living.is_empty() && seen.has_others { self.clean_looks + 1 } else { 0 };
        (self.clean_looks < CLEAN_LOOKS).then_some(seen.living)
    }

    fn note(&mut self, event: Event) {
        self.leader_runs &= !matches!(event, Event::Exited(_));
        self.childless |= event == Event::Childless;
    }

    /// The process group, as far as it can be seen.
    fn members(&self) -> Vec<Process> {
        match &self.tree {
            Some(tree) => {
                let group = self.leader.as_raw();
                tree.look().living.into_iter().filter(|process| process.group == group).collect()
            }
            None => self.or_unseen(vec![]),
        }
    }

    /// These, or the process group as a whole if /proc shows none of them: it may hide other users' processes.
    fn or_unseen(&self, seen: Vec<Process>) -> Vec<Process> {
        let group = self.leader.as_raw();
        let whole = || Process {
            id: Id { pid: group, started: 0 },
            parent: 0,
            group,
            name: String::new(),
            state: State::Running,
        };
        if seen.is_empty() { vec![whole()] } else { seen }
    }
}

/// Whether the process is one of these.
pub(super) fn has(processes: &[Process], process: &Process) -> bool {
    processes.iter().any(|other| other.id == process.id)
}

/// Reaps children, and reports events of the command.
fn wait(leader: Pid, events: &mpsc::UnboundedSender<Event>, graves: &Graves) {
    loop {
        if graves.lock().is_some() {
            let group = await_exit();
            graves.lock().as_mut().zip(group).map(|(graves, group)| graves.insert(group));
        }
        // Only a blocking wait reports that the command was suspended.
        let event = match rustix::process::wait(WaitOptions::UNTRACED) {
            Ok(Some((who, status))) if who.as_raw_nonzero().get() == leader.as_raw() => event(status),
            Err(rustix::io::Errno::CHILD) => Some(Event::Childless),
            Ok(_) | Err(_) => None,
        };
        // Sending fails if the receiver is gone; the remaining processes are reaped nevertheless.
        let _ = event.map(|event| events.send(event));
        if event == Some(Event::Childless) {
            return;
        }
    }
}

/// What the status says; `None` if it is no event of these.
fn event(status: WaitStatus) -> Option<Event> {
    if let Some(signal) = status.stopping_signal() {
        return Signal::try_from(signal).ok().map(Event::Stopped);
    }
    let killed = || status.terminating_signal().map(|signal| SIGNAL.saturating_add(low_byte(signal)));
    status.exit_status().map(low_byte).or_else(killed).map(Event::Exited)
}

fn low_byte(code: i32) -> u8 {
    code.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_start_has_the_exit_code_of_a_shell() {
        let start = |program: &str| Group::start(&mut Command::new(program), |_| {}).unwrap_err();
        assert_eq!(start("fencepost-no-such-command").code, NOT_FOUND);
        assert_eq!(start("/").code, CANNOT_RUN);
    }

    #[test]
    fn exit_codes_are_bytes() {
        assert_eq!(low_byte(7), 7);
        assert_eq!(SIGNAL.saturating_add(low_byte(Signal::SIGTERM as i32)), 143);
    }
}
