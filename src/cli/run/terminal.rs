//! The foreground of the terminal. Only the foreground process group may read from a terminal, and the command has its
//! own group. So `run` gives it the foreground, as a shell does, and takes it back when the command stops or exits.

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal},
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};
use std::io::{self, IsTerminal};

/// The terminal on standard input, if there is one.
#[derive(Debug)]
pub(super) struct Terminal {
    present: bool,
}

impl Terminal {
    pub(super) fn on_stdin() -> Self {
        Self { present: io::stdin().is_terminal() }
    }

    /// Whether this group is in the foreground.
    pub(super) fn has_foreground(&self, group: Pid) -> bool {
        self.present && tcgetpgrp(io::stdin()) == Ok(group)
    }

    /// Gives the foreground to this group, unless `run` itself is in the background.
    pub(super) fn give_to(&self, group: Pid) {
        self.move_foreground(getpgrp(), group);
    }

    /// Takes the foreground back if this group has it.
    pub(super) fn take_back_from(&self, group: Pid) {
        self.move_foreground(group, getpgrp());
    }

    fn move_foreground(&self, from: Pid, to: Pid) {
        if !self.has_foreground(from) {
            return;
        }
        // A background process that calls tcsetpgrp is stopped by SIGTTOU unless it blocks the signal.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        // An error means that the terminal is gone.
        let _ = tcsetpgrp(io::stdin(), to);
        let _ = before.thread_set_mask();
    }
}
