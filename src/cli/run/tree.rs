//! The descendants of this process, wherever they moved: into groups of their own (timeout, a shell with job control, a
//! nested run), into sessions of their own (setsid, script, daemons).
//!
//! This process is their subreaper: a process whose parent has exited becomes a child of this one. So the parents of
//! each descendant lead here, and once this process has no children, no descendant is left.

use super::process::{Id, Process, State};
use nix::{
    errno::Errno,
    sys::{
        signal::Signal,
        wait::{Id as WaitId, WaitPidFlag, waitid},
    },
    unistd::getpgid,
};
use procfs::process::{Process as Entry, Stat, all_processes};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use std::collections::{HashMap, HashSet};

/// Finds and signals the descendants of this process.
#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    /// Children that this process had before the command: those of a shell that replaced itself by run. They are none
    /// of the command's, nor are their descendants.
    strangers: HashSet<Id>,
}

/// What one look at the descendants found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Parents before their children.
    pub(super) living: Vec<Process>,
    /// Zombies.
    dead: Vec<Process>,
    /// Whether this process has children that are none of the living: dead ones, or strangers.
    pub(super) has_others: bool,
}

impl Tree {
    /// Becomes the subreaper of the descendants. `None` if this is not possible, or if /proc does not show them.
    pub(super) fn of_this_process() -> Option<Self> {
        nix::sys::prctl::set_child_subreaper(true).ok()?;
        let root = i32::try_from(std::process::id()).ok()?;
        // Ids in the /proc of another PID namespace are not ours.
        Entry::myself().and_then(|entry| entry.stat()).ok().filter(|stat| stat.pid == root)?;
        let all = all();
        let strangers = descendants(&all, root, &HashSet::new()).into_iter().map(|process| process.id).collect();
        Some(Self { root, strangers })
    }

    /// Looks at all processes once. A process that starts or loses its parent meanwhile may be missed: look again.
    pub(super) fn look(&self) -> Seen {
        self.among(&all())
    }

    fn among(&self, all: &[Process]) -> Seen {
        let known = descendants(all, self.root, &self.strangers);
        let has_strangers = all.iter().any(|process| self.strangers.contains(&process.id));
        let (dead, living): (Vec<_>, Vec<_>) = known.into_iter().partition(|process| process.state == State::Dead);
        let has_others = has_strangers || dead.iter().any(|process| process.parent == self.root);
        Seen { living, dead, has_others }
    }

    /// Kills all that are alive, and those in `groups`, in which descendants have exited. Returns those that this
    /// process may not signal.
    pub(super) fn kill(&self, mut groups: HashSet<i32>) -> Vec<Process> {
        let all = all();
        let Seen { living, dead, .. } = self.among(&all);
        let known = [&living[..], &dead].concat();
        // The kernel kills a group at once. One by one, a process that is replaced by its child again and again (it
        // forks and exits) would never be hit: a look finds the dead of it, or none.
        groups.extend(known.iter().map(|process| process.group));
        for group in own_groups(&groups, &known, &all, self.root) {
            // Without its leader, a group that still exists is the one that was seen: its number is not given out anew.
            let leader = known.iter().find(|process| process.id.pid == group.as_raw());
            if leader.map_or_else(|| Entry::new(group.as_raw()).is_err(), is_same) {
                let _ = nix::sys::signal::killpg(group, Signal::SIGKILL);
            }
        }
        refusing(&living, Signal::SIGKILL)
    }
}

/// Signals each of them. Returns those that this process may not signal.
pub(super) fn refusing(processes: &[Process], signal: impl Into<Option<Signal>> + Copy) -> Vec<Process> {
    let refuses = |process: &&Process| send(process, signal.into()) == Err(Errno::EPERM);
    processes.iter().filter(refuses).cloned().collect()
}

/// Signals this process, and never another one that has got its pid since. Without a signal, only asks whether it may.
fn send(process: &Process, signal: Option<Signal>) -> Result<(), Errno> {
    let (Some(pid), raw) = (Pid::from_raw(process.id.pid), nix::unistd::Pid::from_raw(process.id.pid)) else {
        return Ok(());
    };
    let open = pidfd_open(pid, PidfdFlags::empty());
    // After the descriptor is open: if the pid is still that of the process, so is the descriptor.
    if !is_same(process) {
        return Ok(());
    }
    match (open, signal.and_then(|signal| rustix::process::Signal::from_named_raw(signal as i32))) {
        (Ok(open), Some(signal)) => {
            pidfd_send_signal(open, signal).map_err(|error| Errno::from_raw(error.raw_os_error()))
        }
        // Linux before 5.3 has no such descriptors, and sandboxes refuse them.
        _ => nix::sys::signal::kill(raw, signal),
    }
}

/// Waits until a child has exited, and returns its process group. The child is not reaped: it has no group after that.
/// It may be all that is ever seen of one that was replaced by its child.
pub(super) fn await_exit() -> Option<i32> {
    let dead = waitid(WaitId::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).ok()?.pid()?;
    getpgid(Some(dead)).ok().map(nix::unistd::Pid::as_raw)
}

/// Whether its pid is still the one of this process.
fn is_same(process: &Process) -> bool {
    Entry::new(process.id.pid).and_then(|entry| entry.stat()).is_ok_and(|stat| stat.starttime == process.id.started)
}

/// All processes of which the system lets this one know.
fn all() -> Vec<Process> {
    // A process that exits meanwhile has no state any more.
    let stats = all_processes().into_iter().flatten().flatten().filter_map(|entry| entry.stat().ok());
    stats.map(process).collect()
}

fn process(stat: Stat) -> Process {
    let state = match stat.state {
        // The main thread may exit before the other ones.
        'Z' | 'X' | 'x' if stat.num_threads <= 1 => State::Dead,
        'T' | 't' => State::Stopped,
        _ => State::Running,
    };
    let id = Id { pid: stat.pid, started: stat.starttime };
    Process { id, parent: stat.ppid, group: stat.pgrp, name: stat.comm, state }
}

/// The descendants of `root`, without the strangers and the descendants of these.
fn descendants(all: &[Process], root: i32, strangers: &HashSet<Id>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all.iter().filter(|process| !strangers.contains(&process.id)) {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        // Removed: pids that were read at different times could make a circle.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.id.pid);
            found.push(child.clone());
        }
    }
    found
}

/// Those of the process groups in which no process is seen that is no descendant of `root`. A process with an ancestor
/// that is not among all is none: that one exited meanwhile, and left it its group.
fn own_groups(groups: &HashSet<i32>, known: &[Process], all: &[Process], root: i32) -> Vec<nix::unistd::Pid> {
    let known: HashSet<Id> = known.iter().map(|process| process.id).collect();
    let parents: HashMap<i32, i32> = all.iter().map(|process| (process.id.pid, process.parent)).collect();
    let is_other = |process: &&Process| {
        // An ancestor of root may be one that the system hides.
        let ancestors = || std::iter::successors(Some(process.id.pid), |pid| parents.get(pid).copied());
        process.state != State::Dead
            && !known.contains(&process.id)
            && ancestors().take(parents.len()).any(|pid| pid == root || pid == 0)
    };
    let shared: HashSet<i32> = all.iter().filter(is_other).map(|process| process.group).collect();
    // No group has the number 0, which means the caller's own; killpg takes 1 for everything.
    groups.difference(&shared).filter(|group| **group > 1).map(|group| nix::unistd::Pid::from_raw(*group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, state: State) -> Process {
        Process { id: Id { pid, started: 9 }, parent, group, name: format!("p{pid}"), state }
    }

    fn tree(root: i32) -> Tree {
        Tree { root, strangers: HashSet::new() }
    }

    fn pids(processes: &[Process]) -> Vec<i32> {
        let mut pids: Vec<_> = processes.iter().map(|process| process.id.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn some() -> Vec<Process> {
        use State::{Dead, Running, Stopped};
        vec![
            process(10, 1, 10, Running),
            process(11, 10, 11, Running),
            process(12, 11, 11, Dead),
            process(13, 11, 13, Stopped),
            process(14, 13, 10, Running),
            process(20, 10, 20, Running),
            process(21, 20, 20, Running),
            process(30, 1, 30, Running),
        ]
    }

    #[test]
    fn descendants_are_found_wherever_they_moved_and_strangers_are_left_alone() {
        let strangers = HashSet::from([Id { pid: 20, started: 9 }]);
        let tree = Tree { strangers, ..tree(10) };
        let seen = tree.among(&some());
        assert_eq!(pids(&seen.living), [11, 13, 14]);
        assert!(seen.has_others);
        // The pid of the stranger belongs to another process by now.
        let reused = Tree { strangers: HashSet::from([Id { pid: 20, started: 8 }]), ..tree };
        assert_eq!(pids(&reused.among(&some()).living), [11, 13, 14, 20, 21]);
    }

    #[test]
    fn the_dead_do_not_live() {
        let tree = tree(10);
        let seen = |processes: &[Process]| tree.among(processes);
        assert_eq!(seen(&[]), Seen::default());
        let dead = process(11, 10, 11, State::Dead);
        assert_eq!(
            seen(std::slice::from_ref(&dead)),
            Seen { living: vec![], dead: vec![dead.clone()], has_others: true }
        );
        assert!(!seen(&[process(12, 11, 11, State::Dead), process(11, 1, 11, State::Running)]).has_others);
    }

    fn own(groups: &[i32], known: &[Process], all: &[Process]) -> Vec<i32> {
        let groups = groups.iter().copied().collect();
        let mut own: Vec<_> = own_groups(&groups, known, all, 10).into_iter().map(nix::unistd::Pid::as_raw).collect();
        own.sort_unstable();
        own
    }

    #[test]
    fn a_group_with_other_members_is_not_killed_as_a_whole() {
        let all = some();
        let living = tree(10).among(&all).living;
        assert_eq!(own(&[10, 11, 13, 20], &living, &all), [11, 13, 20], "10 is the group of the root");
        let above = process(1, 0, 1, State::Running);
        let stranger = process(40, 1, 13, State::Running);
        let all = [&all[..], &[above, stranger]].concat();
        assert_eq!(own(&[10, 11, 13, 20], &living, &all), [11, 20], "a stranger is in 13");
    }

    /// 12 was replaced by its child 13 during the look, 13 by 14, and 14 by 15.
    #[test]
    fn a_group_is_killed_if_only_its_dead_are_found_or_none() {
        let root = process(10, 1, 10, State::Running);
        let dead = process(12, 10, 11, State::Dead);
        let children = [process(14, 13, 11, State::Running), process(15, 14, 11, State::Running)];
        let all = [&[root.clone(), dead], &children[..]].concat();
        let seen = tree(10).among(&all);
        assert_eq!((seen.living.len(), pids(&seen.dead)), (0, vec![12]));
        assert_eq!(own(&[11], &seen.dead, &all), [11]);
        assert_eq!(own(&[11], &[], &[&[root], &children[..]].concat()), [11], "one of them was reaped before");
    }

    #[test]
    fn a_circle_ends() {
        let circle = [process(11, 12, 11, State::Running), process(12, 11, 11, State::Running)];
        assert_eq!(descendants(&circle, 11, &HashSet::new()).len(), 2);
    }
}
