//! Mistakes in the scripts of a node, one after the other, and whether the comparison with the twin finds each of them.
//! `make script-mutants` runs it: a mistake that is not found costs as much time as the whole comparison.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod answers;
mod both;
mod edits;
mod kept;
mod op;
#[path = "../../support/redis.rs"]
mod redis_server;
mod requests;

use both::Both;
use edits::Edit;
use proptest::{
    collection::vec,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Sequences in which a mistake has to show.
const SEQUENCES: u32 = 150;

/// Mistakes that change nothing that a server can see, by the part, the line and what it becomes, and why.
const WITHOUT_EFFECT: &[(&str, &str, &str)] = &[];

/// How it showed; nothing, if it did not.
fn found(edit: &Edit) -> Option<String> {
    let shown = catch_unwind(AssertUnwindSafe(|| {
        let mut both = Both::start();
        let (_, text) = edits::PARTS.into_iter().find(|(part, _)| *part == edit.part).unwrap();
        both.breaks(text, &edit.text);
        let both = RefCell::new(both);
        let config = Config { cases: SEQUENCES, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        TestRunner::new_with_rng(config, rng).run(&vec(op::op(), 1..=80), |ops| {
            let mut both = both.borrow_mut();
            both.forget();
            ops.iter().try_for_each(|op| both.step(op)).map_err(TestCaseError::fail)
        })
    }));
    match shown {
        Ok(Ok(())) => None,
        Ok(Err(_)) => Some("another answer, or other keys".to_owned()),
        Err(_) => Some("an error".to_owned()),
    }
}

#[test]
fn each_mistake_in_a_script_is_found() {
    let only = std::env::var("FENCEPOST_SCRIPT").ok();
    let edits = edits::all().into_iter().filter(|edit| only.as_ref().is_none_or(|only| only == edit.part));
    let (mut missed, mut count) = (Vec::new(), 0);
    for edit in edits {
        count += 1;
        let shown = format!("{}.lua:{}: `{}` becomes `{}`", edit.part, edit.line, edit.from, edit.to);
        match found(&edit) {
            Some(how) => println!("found by {how}: {shown}"),
            None if WITHOUT_EFFECT.iter().any(|(part, to, _)| *part == edit.part && *to == edit.to) => {
                println!("without effect: {shown}");
            }
            None => {
                println!("NOT FOUND: {shown}");
                missed.push(shown);
            }
        }
    }
    assert!(count > 0, "no part has this name");
    assert!(missed.is_empty(), "{} of {count} are not found:\n{}", missed.len(), missed.join("\n"));
}
