//! Mistakes in the scripts of a node, one after the other, and whether the comparison with the twin finds each of them.
//! `make script-mutants` runs it: a mistake that is not found costs as much time as the whole comparison.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod answers;
mod both;
mod edits;
mod kept;
mod lives;
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

/// Mistakes that the comparison does not find, by the part and a piece of what the line becomes, and why.
const NOT_FOUND: &[(&str, &str, &str)] = &[
    ("head", "mark, 17) >= struct", "a list with the same number is the same list here"),
    ("head", "master_replid:', 2, true)", "INFO does not begin with it"),
    ("kept", "return left <= right end", "they differ"),
    ("kept", "#header > 139 then return", "the time in a header has more than one digit"),
    ("kept", "#header <= 139 then error", "the same"),
    ("kept", "#header < 140 then error", "the same"),
    ("kept", "type(answer) ~= 'table'", "this engine gives errors as texts, others as tables"),
    ("kept", "type(answer) == 'table' or", "the same"),
    ("batch", "#header > 139 and", "the longer way has the same result"),
    ("batch", "header:sub(82, 138) ~= from", "the same"),
    ("batch", "header:sub(81, 139) ~= from", "the same"),
    ("batch", "from:sub(35, 59)", "it has 58 bytes"),
    ("batch", "if raise >= 0 then", "to raise by nothing changes nothing"),
    ("batch", "", "an answer of INCRBY that is another one: no other client runs within a script"),
    ("batch", "past - 2, VALUES_MAX do", "a record is two values"),
    ("batches", "for name = key, #KEYS, 5", "a header that was not read by the one command is read by the longer way"),
    ("batches", "KEYS[name], KEYS[name + 2]", "the same"),
    ("batches", "KEYS[name], KEYS[name - 1]", "the same"),
    ("batches", "names[#names - 2] =", "the same"),
    ("batches", "names[#names + 3] =", "the same"),
    ("batches", "found[name], found[name + 2]", "the same"),
    ("batches", "for name = 2, #names, 2", "the same"),
    ("batches", "for name = 1, #names, 3", "the same"),
    ("batches", "if #written > 1 then", "they are pairs"),
    ("stage", "VALUES_MAX + 1, #ARGV", "a pair is written twice"),
    ("admit", "to:sub(35, 59)", "only the first 24 bytes are compared"),
    ("beat", "#header <= 139", "the time in a header has more than one digit"),
    ("beat", "#header < 140", "the same"),
    ("beat", "KEYS[3 + PARTITIONS + at]", "of a stranger's sequencer nothing is told"),
    ("prefix", "if prefix == '' then", "the twin knows no ACL: the tests of classic clients find it"),
    ("prefix", "", "the same"),
];

/// An empty piece means that the line is left out, which only one line of a part may be.
fn is_known((part, piece, _): &(&str, &str, &str), edit: &Edit) -> bool {
    *part == edit.part && if piece.is_empty() { edit.to.is_empty() } else { edit.to.contains(piece) }
}

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
            None if NOT_FOUND.iter().any(|known| is_known(known, &edit)) => println!("known: {shown}"),
            None => {
                println!("NOT FOUND: {shown}");
                missed.push(shown);
            }
        }
    }
    assert!(count > 0, "no part has this name");
    assert!(missed.is_empty(), "{} of {count} are not found:\n{}", missed.len(), missed.join("\n"));
}
