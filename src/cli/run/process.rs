//! A process of the command, for signals and for messages.

use crate::cli::text;
use std::fmt;

/// How many processes a message names.
const NAMED_MAX: usize = 5;

/// A process as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Id,
    pub(super) parent: i32,
    /// Its process group.
    pub(super) group: i32,
    /// The name of its program; empty for the whole group of the command, on systems where only that is known.
    pub(super) name: String,
    pub(super) state: State,
}

/// Which process it is. A pid alone may belong to another process by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) pid: i32,
    /// When it started, in ticks since the boot.
    pub(super) started: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It runs, or can run at any time.
    Running,
    /// It is stopped until SIGCONT, or by a debugger.
    Stopped,
    /// It has exited, and its parent or its debugger has not asked for its status yet. It does nothing any more.
    Dead,
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(out, "process group {}", self.group),
            name => write!(out, "process {} ({})", self.id.pid, text::visible(name)),
        }
    }
}

/// Names the processes: `process 7 (sh) and process 8 (cat)`.
pub(super) fn named(processes: &[Process]) -> String {
    let some = text::list(processes.iter().take(NAMED_MAX));
    match processes.len().saturating_sub(NAMED_MAX) {
        _ if processes.is_empty() => "a process that run cannot see".to_owned(),
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// Says that they still run: `process 7 (sh) still runs under token 5`.
pub(super) fn still_runs(processes: &[Process], tokens: &str) -> String {
    let verb = if processes.len() > 1 { "run" } else { "runs" };
    format!("{} still {verb} under {tokens}", named(processes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, name: &str) -> Process {
        Process { id: Id { pid, started: 1 }, parent: 1, group: pid, name: name.to_owned(), state: State::Running }
    }

    #[test]
    fn a_message_names_some_processes_and_counts_the_others() {
        assert_eq!(still_runs(&[process(7, "sh")], "token 5"), "process 7 (sh) still runs under token 5");
        let two = [process(7, "sh"), process(8, "")];
        assert_eq!(still_runs(&two, "token 5"), "process 7 (sh) and process group 8 still run under token 5");
        let many: Vec<_> = (1..=7).map(|pid| process(pid, "a")).collect();
        assert!(named(&many).ends_with("process 5 (a) and 2 more"), "{}", named(&many));
        assert_eq!(still_runs(&[], "token 5"), "a process that run cannot see still runs under token 5");
        assert_eq!(process(7, "a\u{202e}b\n").to_string(), r"process 7 (a\u{202e}b\n)");
    }
}
