//! Makes each mistake of the table in a copy of the sources, runs the tests that are named for it until one fails, and writes RESULTS.md. A
//! mistake that nothing finds, or that does not compile, fails the run. Not part of an ordinary run: each is a build.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod bench;
#[macro_use]
mod mutant;
mod table;

use bench::{Bench, Verdict};
use std::{fmt::Write, fs, path::Path, time::Instant};
use table::MUTANTS;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_mistake_is_found() {
    // A part of the table by the beginning of its files, while one works on it.
    let only = std::env::var("FENCEPOST_MUTANTS_IN").unwrap_or_default();
    let bench = Bench::set_up(root());
    let mut results = String::from(
        "# Mutants\n\nMistakes made on purpose, and the tests that found them. Written by `make mutants`.\n\n\
         | Mutant | What it breaks | Killed by | Time |\n|---|---|---|---|\n",
    );
    let mut survivors = Vec::new();
    for mutant in MUTANTS.iter().filter(|mutant| mutant.file.starts_with(&only)) {
        #[expect(clippy::disallowed_methods, reason = "how long it took is for the reader of the results only")]
        let begin = Instant::now();
        let verdict = bench.try_out(mutant);
        let took = begin.elapsed().as_secs_f32();
        println!("{}: {verdict:?} in {took:.0} s", mutant.name);
        match verdict {
            Verdict::Killed(by) => {
                writeln!(results, "| {} | {} | {by} | {took:.0} s |", mutant.name, mutant.breaks).unwrap();
            }
            Verdict::Survived => survivors.push(mutant.name),
        }
    }
    assert!(survivors.is_empty(), "nothing finds {survivors:?}");
    if only.is_empty() {
        fs::write(root().join("tests/repo/mutants/RESULTS.md"), results).unwrap();
    } else {
        println!("{results}");
    }
}
