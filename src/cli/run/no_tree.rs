//! Systems without subreapers: descendants that left the process group of the command cannot be found.

use super::process::Process;
use nix::sys::signal::Signal;
use std::collections::HashSet;

/// There is none.
#[derive(Debug)]
pub(super) enum Tree {}

/// What one look at the descendants found.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) living: Vec<Process>,
    pub(super) has_others: bool,
}

impl Tree {
    pub(super) fn of_this_process() -> Option<Self> {
        None
    }

    pub(super) fn look(&self) -> Seen {
        match *self {}
    }

    pub(super) fn kill(&self, _: HashSet<i32>) -> Vec<Process> {
        match *self {}
    }
}

/// Never called, as there is no tree.
pub(super) fn refusing(_: &[Process], _: impl Into<Option<Signal>> + Copy) -> Vec<Process> {
    Vec::new()
}

/// Never called, as there is no tree.
pub(super) fn await_exit() -> Option<i32> {
    None
}
