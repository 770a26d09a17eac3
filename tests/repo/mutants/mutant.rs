//! Mutants, and the tests that have to find them.

use super::{edit::Edit, marks::Marks};
use std::{fs, path::Path};

/// A deliberate mistake.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it breaks, for the reader of the results, with the project that shipped it, if we know one.
    pub(crate) breaks: &'static str,
    pub(crate) change: Change,
    pub(crate) killers: &'static [Killer],
}

/// The change of the source.
pub(crate) enum Change {
    /// In Rust: an edit at the mark with the mutant's name.
    AtMark(Edit),
    /// In a script: a replacement of a text that occurs once.
    OfText { file: &'static str, from: &'static str, to: &'static str },
}

/// A source with a mutant.
pub(crate) struct Mutated {
    pub(crate) file: String,
    pub(crate) original: String,
    pub(crate) text: String,
}

impl Mutant {
    /// Applies the change to its source, or returns why that is not possible.
    pub(crate) fn make(&self, root: &Path, marks: &Marks) -> Result<Mutated, String> {
        let (file, original, text) = match self.change {
            Change::AtMark(edit) => {
                let mark = marks.marks.get(self.name).ok_or("there is no mark with this name")?;
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

/// The tests that have to find a mutant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Killer {
    /// Unit tests of the rules.
    Units,
    /// All short sequences of commands, compared with the oracle.
    Model,
    /// Long random sequences of commands, compared with the oracle.
    Properties,
    /// The protocol between clients, replicas and store.
    Protocol,
    /// The scripts compared with the rules.
    Scripts,
    /// The conformance tests of the stores.
    Stores,
    /// Several servers on one Redis: sessions, and the knowledge of each server.
    Replicas,
    /// Releases that hand the lock to a call of their own server.
    HandOver,
    /// More commands than Redis can answer in time.
    Overload,
    /// Lost messages and missing permissions.
    Gaps,
    /// The store and the waiters under many orders of events.
    Schedules,
}
