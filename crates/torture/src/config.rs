//! The configuration of a history. It determines the plan of faults and all choices of the clients.

use crate::{faults::FaultKind, redis, topology::Topology};
use fencepost_torture::history::{Bounds, PERMIT_LIMIT};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The configuration of one history.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) topology: Topology,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    /// The kinds of faults, in order of preference: see [`crate::plan`].
    pub(crate) kinds: Vec<FaultKind>,
    pub(crate) server_bin: PathBuf,
    /// The directory for sockets, logs and journals of this history.
    pub(crate) folder: PathBuf,
}

impl Config {
    /// The command line that repeats this history.
    pub(crate) fn args(&self) -> Vec<String> {
        let engine = std::env::var(redis::PROGRAM).ok().map(|program| format!("{}={program}", redis::PROGRAM));
        let words = [
            "torture".to_owned(),
            "run".to_owned(),
            format!("--topology={}", self.topology.name()),
            format!("--seed={}", self.seed),
            format!("--kinds={}", self.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")),
            format!("--duration={}", humantime::format_duration(self.duration)),
        ];
        engine.into_iter().chain(words).collect()
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sock"))
    }
}

/// The limits of docs/operating/limits.md, and what a busy machine may add.
pub(crate) const BOUNDS: Bounds = Bounds { claim_window: 3_000_000_000, beats: 1_000_000_000, slack: 2_000_000_000 };

/// The server built beside this program.
pub(crate) fn server_beside(own: &Path) -> PathBuf {
    own.with_file_name("fencepost")
}

/// The number of contended locks.
pub(crate) const HOT: u64 = 5;
/// The number of rarely contended locks.
pub(crate) const COLD: u64 = 40;
/// The number of locks that readers and writers share.
pub(crate) const MIXED: u64 = 4;
/// Locks used as semaphores, and exclusively now and then.
pub(crate) const SEMAPHORES: u64 = 3;
/// The number of locks of clients that retry under the same attempt number.
pub(crate) const REPEATED: u64 = 10;

pub(crate) fn hot(number: u64) -> String {
    format!("hot/{number}")
}

pub(crate) fn cold(number: u64) -> String {
    format!("cold/{number}")
}

pub(crate) fn mixed(number: u64) -> String {
    format!("mixed/{number}")
}

/// Whether readers and writers share the lock of this name.
pub(crate) fn is_mixed(lock: &str) -> bool {
    lock.starts_with("mixed/")
}

/// A semaphore.
pub(crate) fn semaphore(number: u64) -> String {
    format!("semaphore/{number}")
}

pub(crate) fn repeated(number: u64) -> String {
    format!("repeated/{number}")
}

pub(crate) fn all_locks() -> Vec<String> {
    let counted =
        (0..HOT).map(hot).chain((0..COLD).map(cold)).chain((0..MIXED).map(mixed)).chain((0..SEMAPHORES).map(semaphore));
    counted.chain((0..REPEATED).map(repeated)).collect()
}

/// The fence of a holder of this lock; of one with a slot, it is that of the slot (docs/guards.md).
pub(crate) fn fence(lock: &str, slot: u32) -> String {
    if slot == 0 { lock.to_owned() } else { format!("{lock}#{slot}") }
}

/// The fences of all locks, and of the slots of all semaphores.
pub(crate) fn all_fences() -> Vec<String> {
    let slots = |lock: String| (1..=PERMIT_LIMIT).map(move |slot| fence(&lock, slot));
    all_locks().into_iter().chain((0..SEMAPHORES).map(semaphore).flat_map(slots)).collect()
}
