//! Mistakes made on purpose in the rules, the servers and the scripts, each of which a test must find. In Rust their
//! places are marked in the sources, by a line `// mutant: NAME`. Here it is checked that each mark has its mutant and
//! each mutant its mark, and that every mistake can be made. `run.rs` makes them and runs the tests: `make mutants`.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod cases;
mod edit;
mod marks;
mod mutant;
mod syntax;
mod table;

use marks::Marks;
use mutant::Change;
use std::{collections::BTreeSet, path::Path};

#[test]
fn every_mark_has_its_mutant_and_every_mutant_its_mark() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let marks = Marks::of(root);
    let mut unused: BTreeSet<_> = marks.marks.keys().map(String::as_str).collect();
    let (mut names, mut complaints) = (BTreeSet::new(), Vec::new());
    for mutant in table::mutants() {
        let name = mutant.name;
        assert!(!mutant.breaks.is_empty() && !mutant.killers.is_empty(), "{name}");
        assert!(names.insert(name), "{name}: in the table twice");
        if matches!(mutant.change, Change::AtMark(_)) {
            unused.remove(name);
        }
        match mutant.make(root, &marks) {
            Err(why) => complaints.push(format!("{name}: {why}")),
            Ok(made) if made.text == made.original => complaints.push(format!("{name}: changes nothing")),
            Ok(made) if made.file.ends_with(".rs") => {
                let broken = syntax::tokens(&made.text).err();
                complaints.extend(broken.map(|why| format!("{name}: leaves no Rust: {why}")));
            }
            Ok(_) => {}
        }
    }
    complaints.extend(unused.iter().map(|name| format!("{name}: marked, and not in the table")));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(names.len() >= 30);
}
