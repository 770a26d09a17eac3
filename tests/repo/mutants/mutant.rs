//! Mutants, and the tests that have to find them.

use super::{edit::Edit, marks::Marks};

/// A deliberate mistake.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it breaks, for the reader of the results, with the project that shipped it, if we know one.
    pub(crate) breaks: &'static str,
    /// The change of the source, at the mark with the mutant's name.
    pub(crate) edit: Edit,
    pub(crate) killers: &'static [Killer],
}

/// A source with a mutant.
pub(crate) struct Mutated {
    pub(crate) file: String,
    pub(crate) original: String,
    pub(crate) text: String,
}

impl Mutant {
    /// Applies the change to its source, or returns why that is not possible.
    pub(crate) fn make(&self, marks: &Marks) -> Result<Mutated, String> {
        let mark = marks.marks.get(self.name).ok_or("there is no mark with this name")?;
        if let Some(killer) = self.killers.iter().find(|killer| !killer.reaches(&mark.file)) {
            return Err(format!("{killer:?} tests nothing in {}", mark.file));
        }
        let original = &marks.sources[&mark.file];
        let text = self.edit.make(original, mark)?;
        Ok(Mutated { file: mark.file.clone(), original: original.clone(), text })
    }
}

/// The folder of the rules, which build without the rest.
pub(crate) const RULES: &str = "src/domain/";

/// The tests that have to find a mutant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Killer {
    /// Unit tests, of the rules alone if the mutant is there.
    Units,
    /// All short sequences of commands, compared with the oracle.
    Model,
    /// Long random sequences of commands, compared with the oracle.
    Properties,
    /// The protocol between clients, replicas and store.
    Protocol,
    /// Several servers among which partitions move.
    Moves,
    /// Lost messages and missing permissions.
    Gaps,
    /// The store and the waiters under many orders of events.
    Schedules,
}

impl Killer {
    /// Whether it needs the rules alone.
    pub(crate) fn tests_rules(self) -> bool {
        matches!(self, Self::Units | Self::Model | Self::Properties | Self::Protocol)
    }

    /// Whether it can find a mutant in this file: some tests run with a copy of the rules and nothing else.
    fn reaches(self, file: &str) -> bool {
        file.starts_with(RULES) || matches!(self, Self::Units) || !self.tests_rules()
    }
}
