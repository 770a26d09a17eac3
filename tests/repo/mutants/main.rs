//! Mutants: deliberate mistakes in the rules, the servers and the scripts, each of which a test must find. In Rust, a
//! line `// mutant: NAME` marks the code that a mutant changes. This test checks that marks and mutants match, and that
//! each mutant can be made. `run.rs` makes them and runs their tests: `make mutants`.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod cases;
mod edit;
mod marks;
mod mutant;
mod syntax;
mod table;

use marks::Marks;
use std::{collections::BTreeSet, path::Path};

#[test]
fn every_mark_has_its_mutant_and_every_mutant_its_mark() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let marks = Marks::of(root);
    let mut unused: BTreeSet<_> = marks.marks.keys().map(String::as_str).collect();
    let (mut names, mut problems) = (BTreeSet::new(), Vec::new());
    for mutant in table::mutants() {
        let name = mutant.name;
        assert!(!mutant.breaks.is_empty() && !mutant.killers.is_empty(), "{name}");
        assert!(names.insert(name), "{name}: twice in the table");
        unused.remove(name);
        match mutant.make(&marks) {
            Err(why) => problems.push(format!("{name}: {why}")),
            Ok(made) if made.text == made.original => problems.push(format!("{name}: changes nothing")),
            Ok(made) => {
                let broken = syntax::tokens(&made.text).err();
                problems.extend(broken.map(|why| format!("{name}: {}: the result is not Rust: {why}", made.file)));
            }
        }
    }
    problems.extend(unused.iter().map(|name| format!("{name}: marked, but not in the table")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(names.len() >= 30);
}

/// `make mutants` writes the results. A mutant that was deleted or renamed since has no row there.
#[test]
fn the_results_name_no_mutant_that_is_gone() {
    let names: BTreeSet<_> = table::mutants().map(|mutant| mutant.name).collect();
    let rows = include_str!("RESULTS.md").lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let gone: Vec<_> = rows.filter_map(|row| row.split(" | ").next()?.strip_prefix("| ")).collect();
    assert!(gone.len() >= 30, "{gone:?}");
    let gone: Vec<_> = gone.into_iter().filter(|name| !names.contains(name)).collect();
    assert_eq!(gone, Vec::<&str>::new(), "delete their rows, or run make mutants");
}
