//! Who may read from the terminal. The command has a process group of its own, and only the foreground group may read:
//! so it is handed the foreground, as a shell does, and it is taken back when the command stops or ends.

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal},
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};
use std::io::{self, IsTerminal};

/// The terminal on standard input, if there is one.
#[derive(Debug)]
pub(super) struct Terminal {
    there: bool,
}

impl Terminal {
    pub(super) fn on_stdin() -> Self {
        Self { there: io::stdin().is_terminal() }
    }

    /// Has this group the foreground?
    pub(super) fn is_with(&self, group: Pid) -> bool {
        self.there && tcgetpgrp(io::stdin()) == Ok(group)
    }

    /// Hands the foreground to this group, if it is ours to give: run in the background, we leave it where it is.
    pub(super) fn give_to(&self, group: Pid) {
        self.pass_on(getpgrp(), group);
    }

    /// Takes the foreground back, if this group still has it.
    pub(super) fn take_back_from(&self, group: Pid) {
        self.pass_on(group, getpgrp());
    }

    fn pass_on(&self, from: Pid, to: Pid) {
        if !self.is_with(from) {
            return;
        }
        // Whoever does this from the background is stopped by this signal unless it is blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        // A terminal that is gone by now needs no foreground.
        let _ = tcsetpgrp(io::stdin(), to);
        let _ = before.thread_set_mask();
    }
}
