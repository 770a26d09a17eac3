//! Makes each mutant of the table in a copy of the sources, runs its tests until one fails, and writes RESULTS.md. A
//! mutant that no test finds, or that does not compile, fails the run. Not part of `make test`, because each mutant is
//! a build.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod edit;
mod marks;
mod mutant;
mod sandbox;
mod syntax;
mod table;

use marks::Marks;
use sandbox::{Sandbox, Verdict};
use std::{collections::HashMap, fs, path::Path, time::Instant};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

const HEAD: &str = "# Mutants\n\nDeliberate mistakes, and the tests that found them. Written by `make mutants`.\n\n\
    | Mutant | What it breaks | Killed by | Time |\n|---|---|---|---|\n";

/// The rows of an earlier run, by mutant.
fn rows(results: &str) -> HashMap<String, String> {
    let rows = results.lines().filter_map(|row| Some((row.strip_prefix("| ")?.split_once(" |")?.0, row)));
    rows.map(|(name, row)| (name.to_owned(), row.to_owned())).collect()
}

#[test]
fn every_mutant_is_found() {
    // Selects the mutants in files that start with this path, for work on them. The rows of the others stay.
    let only = std::env::var("FENCEPOST_MUTANTS_IN").unwrap_or_default();
    let path = root().join("tests/repo/mutants/RESULTS.md");
    let mut rows = rows(&fs::read_to_string(&path).unwrap());
    let marks = Marks::of(root());
    let sandbox = Sandbox::set_up(root());
    let mut not_found = Vec::new();
    for mutant in table::mutants() {
        let made = mutant.make(&marks).unwrap_or_else(|why| panic!("{}: {why}", mutant.name));
        if !made.file.starts_with(&only) {
            continue;
        }
        #[expect(clippy::disallowed_methods, reason = "the duration is only for the reader of the results")]
        let begin = Instant::now();
        let verdict = sandbox.test(mutant, made);
        let took = begin.elapsed().as_secs_f32();
        println!("{}: {verdict} in {took:.0} s", mutant.name);
        rows.remove(mutant.name);
        match verdict {
            Verdict::Killed(by) => {
                let row = format!("| {} | {} | {by} | {took:.0} s |", mutant.name, mutant.breaks);
                rows.insert(mutant.name.to_owned(), row);
            }
            Verdict::Survived | Verdict::Broken(_) => not_found.push(mutant.name),
        }
    }
    // Also after a failure: what was found stays known, and the rest can be run alone.
    let found = table::mutants().filter_map(|mutant| rows.get(mutant.name));
    let results = found.fold(HEAD.to_owned(), |results, row| results + row + "\n");
    fs::write(path, results).unwrap();
    assert!(not_found.is_empty(), "not found, or does not compile: {not_found:?}");
}
