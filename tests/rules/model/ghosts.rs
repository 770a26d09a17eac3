//! Exhaustive searches for ghosts: leases beside others that have ended and still occupy their places.

use super::{
    RELEASE, acquire, acquire_as, claim, drop_call,
    rules::{SECOND, Step, explore::Model, semaphore},
    try_acquire,
};

fn convert(lease: u32, shared: bool) -> Step {
    Step::Convert { lease, upgrades: 0, shared }
}

/// Request 30 shares the lock with a min_hold of 7 s, 31 with a lock_delay of 4 s, 2 without any. 0 has it alone.
#[test]
fn rules_match_the_oracle_for_ghosts_of_readers_and_a_writer() {
    let readers = [30, 31, 2].into_iter().flat_map(|reader| [acquire(reader, 1), claim(reader, 1)]);
    let rest = [
        acquire(0, 1),
        claim(0, 1),
        try_acquire(semaphore(1, 2, 0, 0), 1),
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        Step::Disconnect { lease: 0, attachment: 1 },
        convert(0, false),
        RELEASE,
        Step::Release { lease: 1 },
        Step::ForceRelease { right: true },
        Step::ForceReleaseGhost,
        Step::ToEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = readers.chain(rest).collect();
    Model { name: "ghosts of readers and a writer", start: vec![], alphabet, waiters_max: 2, depth: 5 }.explore();
}

/// Two readers are gone, and a writer and a reader wait.
#[test]
fn rules_match_the_oracle_for_a_queue_behind_ghosts() {
    let readers = [30, 31].map(|request| acquire_as(request, 1, request.into()));
    let waiters = [0, 2].map(|request| acquire_as(request, 1, request.into()));
    let time = [Step::Release { lease: 30 }, Step::Pass(2 * SECOND), Step::ApplyTime];
    let start = readers.into_iter().chain(time).chain(waiters).collect();
    let alphabet = vec![
        acquire(30, 2),
        acquire(31, 2),
        Step::AcquireOther { request: 31, attempt: 1 },
        drop_call(31, 1),
        claim(0, 1),
        drop_call(0, 1),
        claim(2, 1),
        try_acquire(4, 2),
        RELEASE,
        Step::Release { lease: 1 },
        Step::Release { lease: 2 },
        Step::ForceRelease { right: true },
        Step::ForceReleaseGhost,
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
        Step::Back(2 * SECOND),
        Step::ApplyTime,
    ];
    Model { name: "a queue behind ghosts", start, alphabet, waiters_max: 3, depth: 5 }.explore();
}

/// Of 2 permits: one request has a min_hold of 7 s, the one for both a lock_delay of 4 s.
#[test]
fn rules_match_the_oracle_for_ghosts_of_a_semaphore() {
    let [kept, plain, both] = [semaphore(1, 2, 0, 2), semaphore(1, 2, 0, 0), semaphore(2, 2, 0, 2)];
    let [lower, higher] = [semaphore(1, 1, 1, 0), semaphore(1, 3, 2, 0)];
    let calls = [kept, plain, both].into_iter().flat_map(|request| [acquire(request, 1), claim(request, 1)]);
    let rest = [
        try_acquire(lower, 1),
        try_acquire(higher, 1),
        try_acquire(2, 1),
        acquire(0, 1),
        claim(0, 1),
        RELEASE,
        Step::Release { lease: 1 },
        Step::ForceReleaseGhost,
        Step::ToEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = calls.chain(rest).collect();
    Model { name: "ghosts of a semaphore", start: vec![], alphabet, waiters_max: 2, depth: 5 }.explore();
}

/// Request 6 has a min_hold of 7 s, request 7 a lock_delay of 4 s, both alone at first; 30 shares the lock.
#[test]
fn rules_match_the_oracle_for_conversions_of_leases_with_delays() {
    let alphabet = vec![
        acquire(6, 1),
        acquire(7, 1),
        claim(7, 1),
        acquire(30, 1),
        claim(30, 1),
        convert(0, true),
        convert(0, false),
        convert(1, true),
        convert(1, false),
        Step::Convert { lease: 0, upgrades: 1, shared: true },
        RELEASE,
        Step::Release { lease: 1 },
        Step::ForceRelease { right: true },
        Step::ToEdge,
        Step::Pass(2 * SECOND),
        Step::Back(3_600 * SECOND),
    ];
    Model { name: "conversions of leases with delays", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}
