//! The mutants, each with the tests that have to find it.

mod rules;
mod servers;

use super::mutant::Mutant;

/// All mutants.
pub(crate) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [rules::MUTANTS, servers::MUTANTS].into_iter().flatten()
}

/// Mutants in Rust, named after their marks.
macro_rules! at_marks {
    ($($name:literal, $breaks:literal, $edit:expr, [$($killer:ident),+];)+) => {
        pub(super) const MUTANTS: &[Mutant] = &[$(Mutant {
            name: $name, breaks: $breaks, edit: $edit, killers: &[$($killer),+],
        },)+];
    };
}
use at_marks;
