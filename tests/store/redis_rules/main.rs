//! The scripts against the rules: random commands to both, and every answer and effect compared. Time is a value here
//! too: the scripts are given a clock that reads what the test wrote, in place of Redis' own.
#![allow(clippy::unwrap_used)] // also in what the tests share

mod both;
mod classic;
mod op;
mod told;

use both::{Both, CLASSIC};
use deadpool_redis::redis;
use fencepost::domain::limits::CALLS_PER_ATTEMPT_MAX;
use op::{Op, Which};
use proptest::{collection::vec, prelude::*, test_runner::Config};
use std::cell::RefCell;

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        8 => Just(Which::Current),
        3 => Just(Which::Last),
        1 => Just(Which::Earlier),
        1 => Just(Which::Sibling),
        2 => Just(Which::Stranger),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let request = 1..5_u128;
    let attempt = prop_oneof![6 => Just(1_u32), 3 => Just(2), 1 => Just(3)];
    let late = prop_oneof![3 => Just(0_u64), 1 => Just(500_000), 1 => Just(500_001), 1 => Just(3_000_000)];
    let id = || prop_oneof![4 => Just(1_u64), 2 => Just(2), 1 => 3..40_u64];
    let stream = 1..3_u128;
    let spans = prop_oneof![
        Just(1_u64),
        Just(1_000),
        Just(500_000),
        Just(999_999),
        Just(1_000_000),
        Just(2_999_999),
        Just(3_000_000),
        Just(3_000_001),
        Just(9_999_999),
        Just(10_000_000),
        Just(30_000_000),
        0..40_000_000_u64
    ];
    let back = prop_oneof![
        Just(1_000_u64),
        Just(500_000),
        Just(3_000_000),
        Just(10_000_000),
        Just(3_600_000_000),
        1_000..40_000_000_u64
    ];
    prop_oneof![
        10 => (request.clone(), attempt.clone(), id(), any::<bool>(), 0..3_u8)
            .prop_map(|(request, attempt, id, wait, odd)| Op::Acquire { request, attempt, id, wait, odd }),
        6 => (request.clone(), attempt.clone(), id())
            .prop_map(|(request, attempt, id)| Op::Claim { request, attempt, id }),
        3 => (request.clone(), attempt.clone(), id())
            .prop_map(|(request, attempt, id)| Op::GiveUp { request, attempt, id }),
        3 => (request.clone(), attempt.clone()).prop_map(|(request, attempt)| Op::Decline { request, attempt }),
        4 => (request.clone(), attempt.clone(), id())
            .prop_map(|(request, attempt, id)| Op::Drop { request, attempt, id }),
        6 => (which(), request, attempt.clone(), id())
            .prop_map(|(which, request, attempt, id)| Op::ReleaseTo { which, request, attempt, id }),
        6 => which().prop_map(Op::Release),
        3 => (which(), prop_oneof![Just(0_u64), 1..60_u64]).prop_map(|(which, ttl)| Op::Renew(which, ttl)),
        5 => (which(), stream.clone()).prop_map(|(which, stream)| Op::RenewKept(which, stream)),
        3 => (which(), attempt, stream.clone()).prop_map(|(which, attempt, stream)| Op::Attach(which, attempt, stream)),
        1 => (which(), stream.clone()).prop_map(|(which, stream)| Op::Detach(which, stream)),
        1 => (which(), stream).prop_map(|(which, stream)| Op::Disconnect(which, stream)),
        1 => any::<bool>().prop_map(Op::ForceRelease),
        5 => Just(Op::Poll),
        4 => (1..4_u128).prop_map(Op::FromReplica),
        1 => (1..6_u128).prop_map(Op::Incarnation),
        1 => (1..6_u128).prop_map(Op::Present),
        3 => late.prop_map(Op::Late),
        1 => prop_oneof![Just(0_u64), Just(5_000_000), Just(3_600_000_000)].prop_map(Op::Known),
        8 => spans.prop_map(Op::Pass),
        1 => back.prop_map(Op::StepBack),
    ]
}

/// Runs random sequences of these commands, half as many as asked for.
fn compare(classic: Option<&str>, op: impl Strategy<Value = Op>) {
    let both = RefCell::new(Both::start(classic));
    let asked = |name: &str| std::env::var(name).ok().map(|count| count.parse::<u32>().expect("a number"));
    let sequences = asked("FENCEPOST_SEQUENCES").unwrap_or(2_000);
    let longest = asked("FENCEPOST_COMMANDS").unwrap_or(60);
    let mut config = Config { cases: sequences / 2, failure_persistence: None, ..Config::default() };
    config.max_shrink_iters = 4_000;
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&vec(op, 1..=usize::try_from(longest).unwrap()), |ops| {
        let mut both = both.borrow_mut();
        both.forget();
        for op in &ops {
            both.step(op).map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} sequences, {} commands, each answered alike", sequences / 2, both.borrow().commands);
}

#[test]
fn the_scripts_do_what_the_rules_say() {
    compare(None, op());
}

#[test]
fn beside_classic_clients_too() {
    let classic = prop_oneof![2 => any::<bool>().prop_map(Op::ClassicTake), 3 => Just(Op::ClassicGive)];
    compare(Some(CLASSIC), prop_oneof![13 => op(), 1 => classic]);
}

/// Sequences on which the two, or the test, once differed.
#[test]
fn what_random_sequences_found() {
    let acquire = |request| Op::Acquire { request, attempt: 1, id: 1, wait: false, odd: 0 };
    let wait = |request| Op::Acquire { request, attempt: 1, id: 1, wait: true, odd: 0 };
    let drop = |request| Op::Drop { request, attempt: 1, id: 1 };
    let give_up = |request| Op::GiveUp { request, attempt: 1, id: 1 };
    let last = CALLS_PER_ATTEMPT_MAX as u64 + 1;
    let mut more_calls_than_remembered: Vec<_> =
        (1..=last).map(|id| Op::Acquire { request: 1, attempt: 1, id, wait: false, odd: 0 }).collect();
    more_calls_than_remembered.push(Op::Drop { request: 1, attempt: 1, id: last });
    let found = [
        // Of two cleanups of one attempt the one whose time was over earlier came last, and its mark took the other's
        // place.
        (None, vec![drop(3), Op::Late(500_000), drop(3), Op::Pass(1), acquire(3)]),
        // The clock stepped back over the end of a lease that nothing had noticed: its classic key is made again, with
        // what is left.
        (
            Some(CLASSIC),
            vec![acquire(2), Op::Late(500_001), Op::Pass(27_000_000), acquire(1), Op::StepBack(10_000_000), give_up(1)],
        ),
        // A lease was over, and a classic client had the lock, when the clock stepped back; no command in time noticed
        // either.
        (
            Some(CLASSIC),
            vec![
                acquire(1),
                Op::Late(500_001),
                Op::Pass(5_000_000),
                Op::ClassicTake(false),
                acquire(1),
                Op::StepBack(1_000),
                Op::ClassicGive,
                acquire(1),
            ],
        ),
        // What chance comes by seldom: a release that claims is of a life of Redis that is over.
        (
            None,
            vec![
                acquire(1),
                wait(2),
                wait(4),
                Op::Release(Which::Current),
                Op::Present(2),
                Op::Incarnation(2),
                Op::Claim { request: 2, attempt: 1, id: 1 },
                Op::Incarnation(1),
                Op::ReleaseTo { which: Which::Current, request: 4, attempt: 1, id: 1 },
            ],
        ),
        // Or it comes later than it may claim.
        (
            None,
            vec![
                acquire(1),
                wait(2),
                Op::Late(3_000_000),
                Op::ReleaseTo { which: Which::Current, request: 2, attempt: 1, id: 1 },
            ],
        ),
        // An offer is declined by the replica that has a call of it after all.
        (
            None,
            vec![
                acquire(1),
                wait(2),
                Op::Release(Which::Current),
                Op::Decline { request: 2, attempt: 1 },
                Op::Claim { request: 2, attempt: 1, id: 1 },
            ],
        ),
        // The clock stepped back behind the start of a lease, and a call that does not wait asks how long it lasts.
        (None, vec![acquire(1), Op::StepBack(3_600_000_000), acquire(2)]),
        // More calls of one attempt than are remembered: the last one leaves, and the others may still be there.
        (None, [&more_calls_than_remembered[..], &[acquire(2)]].concat()),
        // A renewal after a step back sets the end to what it was: the time left is another.
        (Some(CLASSIC), vec![acquire(4), Op::StepBack(3_000_000), Op::Renew(Which::Current, 4)]),
    ];
    for (classic, ops) in found {
        let mut both = Both::start(classic);
        both.forget();
        ops.iter().for_each(|op| both.step(op).unwrap());
    }
}

/// Where chance comes by seldom: what quick paths have to see of the line, and of those who stand in it.
#[test]
fn quick_paths_see_the_line() {
    let mut both = Both::start(None);
    let ask = |request| Op::Acquire { request, attempt: 1, id: 1, wait: false, odd: 0 };
    let wait = |request| Op::Acquire { request, attempt: 1, id: 1, wait: true, odd: 0 };
    let hand_to = |request| Op::ReleaseTo { which: Which::Current, request, attempt: 1, id: 1 };
    let (give, second) = (Op::Release(Which::Current), 1_000_000);
    let cases = [
        // Who came before, through another server, is next.
        vec![ask(1), Op::Poll, Op::FromReplica(2), wait(2), Op::FromReplica(1), wait(3), give.clone()],
        // A server of a life of Redis that is over.
        vec![ask(1), give.clone(), Op::Present(2), Op::Incarnation(2), ask(2), Op::Incarnation(1), ask(3), wait(4)],
        // Who was dropped is forgotten from its own time on, whoever came first to see that.
        vec![
            ask(1),
            wait(2),
            wait(3),
            Op::Drop { request: 2, attempt: 1, id: 1 },
            Op::Pass(3_900_000),
            wait(4),
            Op::Pass(100_000),
            hand_to(3),
            Op::Pass(9_500_000),
            ask(2),
        ],
        // There is room for three.
        vec![ask(1), wait(2), wait(3), wait(4), wait(5)],
        // The clock stepped back, so that a replica seems to have been heard of later than now.
        vec![
            Op::FromReplica(2),
            Op::Poll,
            Op::FromReplica(1),
            Op::Poll,
            Op::StepBack(20 * second),
            ask(1),
            wait(2),
            Op::Pass(31 * second),
            Op::FromReplica(2),
            Op::Poll,
        ],
        // The next one's replica has been silent for too long.
        vec![ask(1), wait(2), Op::Pass(4 * second), hand_to(2)],
        // Somebody missed an offer, and the last one in line is served.
        vec![
            ask(1),
            wait(2),
            give,
            Op::Pass(3 * second + 1),
            ask(3),
            wait(4),
            hand_to(4),
            Op::Claim { request: 2, attempt: 1, id: 1 },
        ],
        // Somebody else is next.
        vec![ask(1), wait(2), wait(3), hand_to(3)],
        // Who is next waits at another server.
        vec![ask(1), Op::FromReplica(2), wait(2), Op::FromReplica(1), hand_to(2)],
        // The third candidate is attached from its grant on: no stream that asked before that takes it.
        vec![ask(1), wait(2), hand_to(2), Op::Attach(Which::Current, 0, 1)],
    ];
    for ops in cases {
        both.forget();
        ops.iter().for_each(|op| both.step(op).unwrap_or_else(|failure| panic!("{failure}")));
    }
}

/// Where chance comes by seldom: what quick paths have to see in the memory of ended requests.
#[test]
fn quick_paths_see_what_is_remembered() {
    let mut both = Both::start(None);
    let ask = |request| Op::Acquire { request, attempt: 1, id: 1, wait: false, odd: 0 };
    let pair = |request| [ask(request), Op::Release(Which::Current)];
    // The clock steps back over an end: it is remembered from then on, and no longer.
    let stepped_back =
        [&pair(1)[..], &[Op::StepBack(5_000_000), ask(2), Op::Pass(10_500_000), ask(1), ask(2)]].concat();
    // Ends that were put aside, young ones and old ones, and those that are over.
    let mut aside = Vec::new();
    for round in 0..9 {
        aside.extend(pair(2 + round % 3));
        aside.extend([ask(2 + round % 3), Op::Pass(3_500_000), ask(2), Op::Release(Which::Current)]);
        aside.extend([ask(3), ask(4), Op::Release(Which::Last), Op::Release(Which::Current)]);
        aside.extend([Op::Release(Which::Earlier), Op::Renew(Which::Earlier, 0), Op::Release(Which::Sibling)]);
    }
    let pause = |tenths: u64| [Op::Pass(tenths * 100_000)];
    let old = [
        &pair(2)[..],
        &pause(1),
        &pair(3),
        &pause(98),
        &pair(1),
        &pause(3),
        &pair(4),
        &pause(1),
        &pair(3),
        &pause(1),
        &pair(2),
        &[ask(1)],
    ];
    // After the clock stepped back over what was forgotten, it stays forgotten.
    let back =
        [&aside[..], &[Op::StepBack(9_000_000), ask(2), ask(3), ask(4), Op::StepBack(30_000_000), ask(2), ask(3)]]
            .concat();
    // So does one end of several, when a later one is what the clock stepped back over.
    let forgotten = [
        &pair(1)[..],
        &pause(10),
        &pair(2),
        &pause(95),
        &pair(3),
        &[Op::StepBack(3_000_000), ask(2), ask(1), Op::Release(Which::Current)],
    ];
    for ops in [stepped_back, aside, old.concat(), back, forgotten.concat()] {
        both.forget();
        for op in &ops {
            both.step(op).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

/// Redis finds an entry of a small hash by a look at all before it: a hundred are as dear as all else that an acquire
/// does.
#[test]
fn ends_that_come_fast_are_kept_where_one_is_found_at_once() {
    let mut both = Both::start(None);
    let ask = |request| Op::Acquire { request, attempt: 1, id: 1, wait: false, odd: 0 };
    // By the quick paths, and by the rules, which a clock that stepped back asks for.
    for (pause, step, wanted) in [
        (100_000, Op::Pass(1), "hashtable"),
        (400_000, Op::Pass(1), "listpack"),
        (100_000, Op::StepBack(1), "hashtable"),
        (400_000, Op::StepBack(1), "listpack"),
    ] {
        both.forget();
        for request in 1..=2 {
            for op in [ask(request), step.clone(), Op::Release(Which::Current), Op::Pass(pause)] {
                both.step(&op).unwrap();
            }
        }
        let keys: Vec<String> = redis::cmd("KEYS").arg("*:e:*").query(&mut both.connection).unwrap();
        let mut encoding = redis::cmd("OBJECT");
        let encoding: String = encoding.arg("ENCODING").arg(&keys[0]).query(&mut both.connection).unwrap();
        assert_eq!((keys.len(), encoding.as_str()), (1, wanted), "{pause} {step:?}");
    }
}
