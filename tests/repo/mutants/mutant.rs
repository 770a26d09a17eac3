//! What a mutant is, and who has to find it.

use super::{edit::Edit, marks::Marks};
use std::{fs, path::Path};

/// A mistake made on purpose.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it breaks, for the reader of the results; the peer that shipped it, where we know of one.
    pub(crate) breaks: &'static str,
    pub(crate) change: Change,
    pub(crate) killers: &'static [Killer],
}

/// How it is made.
pub(crate) enum Change {
    /// In Rust: at the mark of its name.
    AtMark(Edit),
    /// In a script: by replacing a text that occurs once.
    OfText { file: &'static str, from: &'static str, to: &'static str },
}

/// A source with a mistake in it.
pub(crate) struct Mutated {
    pub(crate) file: String,
    pub(crate) original: String,
    pub(crate) text: String,
}

impl Mutant {
    /// Makes the mistake; or says why the sources have no place for it.
    pub(crate) fn make(&self, root: &Path, marks: &Marks) -> Result<Mutated, String> {
        let (file, original, text) = match self.change {
            Change::AtMark(edit) => {
                let mark = marks.marks.get(self.name).ok_or("no mark has its name")?;
                let original = &marks.sources[&mark.file];
                (mark.file.clone(), original.clone(), edit.make(original, mark)?)
            }
            Change::OfText { file, from, to } => {
                let original = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
                match original.matches(from).count() {
                    1 => (file.to_owned(), original.clone(), original.replacen(from, to, 1)),
                    count => return Err(format!("its text occurs {count} times in {file}")),
                }
            }
        };
        Ok(Mutated { file, original, text })
    }
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
