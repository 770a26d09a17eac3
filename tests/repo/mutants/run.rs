//! Makes each mistake of the table in a copy of the sources, runs the tests that are named for it until one fails, and
//! writes RESULTS.md. A mistake that nothing finds, or that does not compile, fails the run. Not part of an ordinary
//! run: each is a build.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod bench;
mod edit;
mod marks;
mod mutant;
mod syntax;
mod table;

use bench::{Bench, Verdict};
use marks::Marks;
use std::{fmt::Write, fs, path::Path, time::Instant};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_mistake_is_found() {
    // A part of the table by the beginning of its files, while one works on it.
    let only = std::env::var("FENCEPOST_MUTANTS_IN").unwrap_or_default();
    let marks = Marks::of(root());
    let bench = Bench::set_up(root());
    let mut results = String::from(
        "# Mutants\n\nMistakes made on purpose, and the tests that found them. Written by `make mutants`.\n\n\
         | Mutant | What it breaks | Killed by | Time |\n|---|---|---|---|\n",
    );
    let mut not_found = Vec::new();
    for mutant in table::mutants() {
        let made = mutant.make(root(), &marks).unwrap_or_else(|why| panic!("{}: {why}", mutant.name));
        if !made.file.starts_with(&only) {
            continue;
        }
        #[expect(clippy::disallowed_methods, reason = "how long it took is for the reader of the results only")]
        let begin = Instant::now();
        let verdict = bench.try_out(mutant, made);
        let took = begin.elapsed().as_secs_f32();
        println!("{}: {verdict} in {took:.0} s", mutant.name);
        match verdict {
            Verdict::Killed(by) => {
                writeln!(results, "| {} | {} | {by} | {took:.0} s |", mutant.name, mutant.breaks).unwrap();
            }
            Verdict::Survived | Verdict::Broken(_) => not_found.push(mutant.name),
        }
    }
    assert!(not_found.is_empty(), "not found, or not compiled: {not_found:?}");
    if only.is_empty() {
        fs::write(root().join("tests/repo/mutants/RESULTS.md"), results).unwrap();
    } else {
        println!("{results}");
    }
}
