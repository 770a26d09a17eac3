//! Exhaustive searches for conversions of exclusive leases to shared ones, and the reverse.

use super::{
    RELEASE, acquire, acquire_as, claim, drop_call, give_up,
    rules::{SECOND, Step, explore::Model, semaphore},
    try_acquire,
};

/// Makes a lease of this age shared, as one who knows its present token.
fn downgrade(lease: u32) -> Step {
    Step::Convert { lease, upgrades: 0, shared: true }
}

fn upgrade(lease: u32) -> Step {
    Step::Convert { lease, upgrades: 0, shared: false }
}

/// Sent before the last upgrade, and late.
const LATE_DOWNGRADE: Step = Step::Convert { lease: 0, upgrades: 1, shared: true };
const LATE_UPGRADE: Step = Step::Convert { lease: 0, upgrades: 1, shared: false };

/// Requests 0 and 1 have the lock alone, 2 and 4 share it.
#[test]
fn rules_match_the_oracle_for_conversions_beside_readers_and_a_writer() {
    let readers = [2, 4].into_iter().flat_map(|reader| [acquire(reader, 1), claim(reader, 1)]);
    let rest = [
        acquire(0, 1),
        acquire(0, 2),
        drop_call(0, 1),
        drop_call(2, 1),
        acquire(1, 1),
        claim(1, 1),
        downgrade(0),
        upgrade(0),
        downgrade(1),
        upgrade(1),
        LATE_DOWNGRADE,
        LATE_UPGRADE,
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = readers.chain(rest).collect();
    Model { name: "conversions beside readers and a writer", start: vec![], alphabet, waiters_max: 3, depth: 5 }
        .explore();
}

/// Request 9 may hold the lock for 7 s, with a TTL of 5 s.
#[test]
fn rules_match_the_oracle_for_conversions_of_one_lease() {
    let alphabet = vec![
        acquire(9, 2),
        try_acquire(4, 1),
        drop_call(9, 1),
        downgrade(0),
        upgrade(0),
        downgrade(1),
        LATE_DOWNGRADE,
        LATE_UPGRADE,
        Step::Convert { lease: 0, upgrades: 2, shared: true },
        Step::Convert { lease: 0, upgrades: 2, shared: false },
        Step::Renew { lease: 0, ttl: None },
        Step::Renew { lease: 0, ttl: Some(20 * SECOND) },
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        Step::RenewKept { lease: 0, attachment: 1 },
        Step::Disconnect { lease: 0, attachment: 1 },
        Step::ForceRelease { right: true },
        Step::ForceRelease { right: false },
        RELEASE,
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
        Step::Back(2 * SECOND),
    ];
    let start = vec![acquire_as(9, 1, 9)];
    Model { name: "conversions of one lease", start, alphabet, waiters_max: 1, depth: 5 }.explore();
}

/// A writer has the lock, and a reader, a writer and another reader wait.
#[test]
fn rules_match_the_oracle_for_conversions_before_a_queue() {
    let start = [0, 2, 1, 4].map(|request| acquire_as(request, 1, request.into())).to_vec();
    let of_calls = [2, 1, 4].into_iter().flat_map(|request| [claim(request, 1), drop_call(request, 1)]);
    let rest = [
        acquire(10, 1),
        give_up(1, 1),
        downgrade(0),
        upgrade(0),
        downgrade(1),
        upgrade(1),
        LATE_UPGRADE,
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::Pass(SECOND),
    ];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "conversions before a queue", start, alphabet, waiters_max: 4, depth: 5 }.explore();
}

/// Request 7 has a lock_delay of 4 s. Requests for permits wait for the writer, and exclude readers while they wait.
#[test]
fn rules_match_the_oracle_for_conversions_beside_permits_and_delays() {
    let [one, both] = [semaphore(1, 2, 0, 0), semaphore(2, 2, 0, 0)];
    let calls = [0, one, 2].into_iter().flat_map(|request| [acquire(request, 1), claim(request, 1)]);
    let rest = [
        acquire(7, 1),
        try_acquire(both, 1),
        drop_call(one, 1),
        downgrade(0),
        upgrade(0),
        Step::Convert { lease: 0, upgrades: 1, shared: true },
        upgrade(1),
        RELEASE,
        Step::ToEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = calls.chain(rest).collect();
    Model { name: "conversions beside permits and delays", start: vec![], alphabet, waiters_max: 2, depth: 6 }
        .explore();
}
