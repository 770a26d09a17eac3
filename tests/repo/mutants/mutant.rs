//! What a mutant is, and who has to find it.

/// A mistake, made by replacing a text that occurs once.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it breaks, for the reader of the results; the peer that shipped it, where we know of one.
    pub(crate) breaks: &'static str,
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) killers: &'static [Killer],
}

/// A test target, and the tests of it that count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Killer {
    /// The rules' own unit tests.
    Units,
    /// Every short sequence of commands, beside the oracle.
    Model,
    /// Long random sequences, beside the oracle.
    Properties,
    /// The protocol of clients, replicas and store.
    Protocol,
    /// The scripts beside the rules.
    Scripts,
    /// What every store must do.
    Stores,
    /// Several servers on one Redis: sessions, and what each knows.
    Replicas,
    /// Releases that claim for a call of their own server.
    HandOver,
    /// More commands than Redis can answer in time.
    Crowd,
    /// What is said where messages are lost, and rights are missing.
    Gaps,
    /// The store and the waiters under one order of events after the other.
    Schedules,
}

macro_rules! mutants {
    ($(in $file:literal: $($name:literal, $breaks:literal, $from:literal => $to:literal, [$($killer:ident),+];)+)+) => {
        /// All of them.
        pub(crate) const MUTANTS: &[Mutant] = &[$($(Mutant {
            name: $name, breaks: $breaks, file: $file, from: $from, to: $to, killers: &[$($killer),+],
        },)+)+];
    };
}
