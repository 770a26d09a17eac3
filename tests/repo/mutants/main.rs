//! Mistakes made on purpose in the rules and in the scripts, each of which a test must find: here it is checked that the table fits the
//! sources. `run.rs` makes them, when `make mutants` asks for it.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[macro_use]
mod mutant;
mod table;

use mutant::Mutant;
use std::{collections::BTreeSet, fs, path::Path};
use table::MUTANTS;

#[test]
fn the_table_fits_the_sources() {
    let mut names = BTreeSet::new();
    for Mutant { name, breaks, file, from, to, killers } in MUTANTS {
        assert!(!breaks.is_empty() && !killers.is_empty(), "{name}");
        assert!(names.insert(name), "{name}: there twice");
        assert_ne!(from, to, "{name}: no mistake");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{name}: its text must occur once in {file}");
    }
    assert!(MUTANTS.len() >= 30);
}
