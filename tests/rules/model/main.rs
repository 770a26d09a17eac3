//! Exhaustive searches: every sequence of a small alphabet of commands up to a depth, checked after each step.

#[path = "../../support/rules/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "test code; no test uses all of it")]
mod rules;

mod conversions;
mod ghosts;

use rules::{SECOND, Step, explore::Model, semaphore};

fn acquire(request: u8, attempt: u32) -> Step {
    acquire_as(request, attempt, 0)
}

fn acquire_as(request: u8, attempt: u32, lease: u32) -> Step {
    Step::Acquire { request, attempt, copy: 0, wait: true, lease }
}

fn try_acquire(request: u8, attempt: u32) -> Step {
    Step::Acquire { request, attempt, copy: 0, wait: false, lease: 0 }
}

fn claim(request: u8, attempt: u32) -> Step {
    Step::Claim { request, attempt, copy: 0, lease: 0 }
}

fn give_up(request: u8, attempt: u32) -> Step {
    Step::GiveUp { request, attempt, copy: 0 }
}

fn drop_call(request: u8, attempt: u32) -> Step {
    Step::Drop { request, attempt, copy: 0 }
}

const RELEASE: Step = Step::Release { lease: 0 };

#[test]
fn rules_match_the_oracle_for_two_requests_with_two_attempts() {
    let calls = [(0, 1), (0, 2), (1, 1), (1, 2)];
    let of_calls = calls.iter().flat_map(|&(request, attempt)| {
        [acquire(request, attempt), claim(request, attempt), give_up(request, attempt), drop_call(request, attempt)]
    });
    let rest = [try_acquire(1, 1), try_acquire(1, 2), RELEASE, Step::ToEdge, Step::BeforeEdge];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "two requests with two attempts", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}

/// As sent by a client that does not count attempts, or by a proxy that repeats calls.
#[test]
fn rules_match_the_oracle_for_two_requests_with_two_calls_of_one_attempt() {
    let calls = (0..2_u8).flat_map(|request| (0..2_u8).map(move |copy| (request, 1, copy)));
    let of_calls = calls.flat_map(|(request, attempt, copy)| {
        [
            Step::Acquire { request, attempt, copy, wait: true, lease: 0 },
            Step::Claim { request, attempt, copy, lease: 0 },
            Step::GiveUp { request, attempt, copy },
            Step::Drop { request, attempt, copy },
        ]
    });
    let alphabet = of_calls.chain([acquire(0, 2), RELEASE, Step::ToEdge, Step::BeforeEdge]).collect();
    Model { name: "two requests with two calls of one attempt", start: vec![], alphabet, waiters_max: 2, depth: 6 }
        .explore();
}

#[test]
fn rules_match_the_oracle_for_a_queue_of_four_requests() {
    let start = (0..4).map(|request| acquire_as(request, 1, request.into())).collect();
    let of_calls = (1..4).flat_map(|request| [acquire(request, 2), claim(request, 1), drop_call(request, 1)]);
    let rest = [
        acquire(4, 1),
        give_up(1, 1),
        claim(2, 2),
        RELEASE,
        Step::ForceRelease { right: true },
        Step::ToEdge,
        Step::Pass(SECOND),
        Step::ApplyTime,
    ];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "a queue of four requests", start, alphabet, waiters_max: 3, depth: 6 }.explore();
}

#[test]
fn rules_match_the_oracle_for_commands_on_a_lease() {
    let alphabet = vec![
        acquire(0, 1),
        acquire(0, 2),
        try_acquire(1, 1),
        drop_call(0, 1),
        Step::Renew { lease: 0, ttl: None },
        Step::Renew { lease: 0, ttl: Some(SECOND) },
        Step::Renew { lease: 0, ttl: Some(20 * SECOND) },
        Step::Renew { lease: 1, ttl: None },
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        Step::Attach { lease: 0, attempt: 1, attachment: 2 },
        Step::Attach { lease: 0, attempt: 2, attachment: 3 },
        Step::RenewKept { lease: 0, attachment: 1 },
        Step::Detach { lease: 0, attachment: 1 },
        Step::Disconnect { lease: 0, attachment: 1 },
        Step::Disconnect { lease: 0, attachment: 3 },
        Step::ForceRelease { right: true },
        Step::ForceRelease { right: false },
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
    ];
    Model { name: "commands on a lease", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}

/// Request 3 may hold the lock for 7 s, with a TTL of 5 s.
#[test]
fn rules_match_the_oracle_for_a_lease_with_a_max_hold() {
    let alphabet = vec![
        acquire(3, 1),
        acquire(3, 2),
        acquire(1, 1),
        claim(1, 1),
        claim(3, 1),
        drop_call(3, 1),
        Step::Renew { lease: 0, ttl: None },
        Step::Renew { lease: 0, ttl: Some(SECOND) },
        Step::Renew { lease: 0, ttl: Some(20 * SECOND) },
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        RELEASE,
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
        Step::Back(2 * SECOND),
    ];
    Model { name: "a lease with a max_hold", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}

/// Request 6 has a min_hold of 7 s, request 7 a lock_delay of 4 s.
#[test]
fn rules_match_the_oracle_for_delays_after_a_lease() {
    let alphabet = vec![
        acquire(6, 1),
        acquire(7, 1),
        try_acquire(1, 1),
        acquire(1, 2),
        claim(7, 1),
        claim(1, 2),
        drop_call(7, 1),
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        Step::Disconnect { lease: 0, attachment: 1 },
        Step::ForceRelease { right: true },
        Step::ForceRelease { right: false },
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
        Step::Back(2 * SECOND),
        Step::ApplyTime,
    ];
    Model { name: "delays after a lease", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}

/// Requests 2, 4 and 5 share the lock, 0 has it alone.
#[test]
fn rules_match_the_oracle_for_readers_and_a_writer() {
    let readers = [2, 4].into_iter().flat_map(|reader| [acquire(reader, 1), claim(reader, 1), drop_call(reader, 1)]);
    let rest = [
        acquire(0, 1),
        claim(0, 1),
        drop_call(0, 1),
        give_up(0, 1),
        give_up(2, 1),
        try_acquire(5, 1),
        RELEASE,
        Step::Release { lease: 1 },
        Step::ForceRelease { right: true },
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = readers.chain(rest).collect();
    Model { name: "readers and a writer", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}

#[test]
fn rules_match_the_oracle_for_a_queue_of_readers_and_writers() {
    let start = [0, 2, 4, 1, 5].map(|request| acquire_as(request, 1, request.into())).to_vec();
    let of_calls = [2, 4, 1, 5].into_iter().flat_map(|request| [claim(request, 1), drop_call(request, 1)]);
    let rest = [
        acquire(2, 2),
        claim(2, 2),
        acquire(1, 2),
        claim(1, 2),
        give_up(1, 1),
        acquire(10, 1),
        RELEASE,
        Step::ToEdge,
        Step::Pass(SECOND),
    ];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "a queue of readers and writers", start, alphabet, waiters_max: 5, depth: 6 }.explore();
}

/// Requests 4 and 9 share the lock, for 2 s and 5 s; 9 at most for 7 s.
#[test]
fn rules_match_the_oracle_for_commands_on_shared_leases() {
    let start = vec![acquire_as(9, 1, 9), acquire_as(4, 1, 4)];
    let alphabet = vec![
        acquire(9, 2),
        acquire(4, 2),
        acquire(0, 1),
        claim(0, 1),
        drop_call(9, 1),
        drop_call(4, 1),
        Step::Renew { lease: 0, ttl: None },
        Step::Renew { lease: 1, ttl: None },
        Step::Renew { lease: 1, ttl: Some(20 * SECOND) },
        Step::Attach { lease: 0, attempt: 1, attachment: 1 },
        Step::Attach { lease: 1, attempt: 1, attachment: 1 },
        Step::Attach { lease: 1, attempt: 2, attachment: 2 },
        Step::RenewKept { lease: 1, attachment: 1 },
        Step::Detach { lease: 1, attachment: 1 },
        Step::Disconnect { lease: 1, attachment: 1 },
        Step::ForceRelease { right: true },
        Step::ForceRelease { right: false },
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::BeforeEdge,
        Step::Pass(2 * SECOND),
        Step::Back(2 * SECOND),
    ];
    Model { name: "commands on shared leases", start, alphabet, waiters_max: 2, depth: 5 }.explore();
}

/// Of 2 permits; then a limit of 1 replaces that, and one of 3 this.
#[test]
fn rules_match_the_oracle_for_a_semaphore_and_its_limits() {
    let [one, both] = [semaphore(1, 2, 0, 0), semaphore(2, 2, 0, 0)];
    let [lower, higher, other] = [semaphore(1, 1, 1, 0), semaphore(1, 3, 2, 0), semaphore(1, 2, 1, 0)];
    let of_calls = [one, both].into_iter().flat_map(|request| [acquire(request, 1), claim(request, 1)]);
    let rest = [
        drop_call(both, 1),
        acquire(both, 2),
        acquire(lower, 1),
        claim(lower, 1),
        try_acquire(higher, 1),
        try_acquire(other, 2),
        acquire(0, 1),
        claim(0, 1),
        try_acquire(2, 1),
        RELEASE,
        Step::Release { lease: 1 },
        Step::ToEdge,
        Step::Pass(2 * SECOND),
    ];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "a semaphore and its limits", start: vec![], alphabet, waiters_max: 3, depth: 5 }.explore();
}

/// All of 3 permits are held, and others wait for 1, 2, 3 and 1 of them.
#[test]
fn rules_match_the_oracle_for_a_queue_for_permits() {
    let waiters = [semaphore(1, 3, 0, 0), semaphore(2, 3, 0, 1), semaphore(3, 3, 0, 1), semaphore(1, 3, 0, 1)];
    let holder = semaphore(3, 3, 0, 0);
    let start = [holder].into_iter().chain(waiters).zip(1..).map(|(it, lease)| acquire_as(it, 1, lease)).collect();
    let of_calls = waiters.into_iter().flat_map(|request| [claim(request, 1), drop_call(request, 1)]);
    let rest = [
        acquire(waiters[1], 2),
        claim(waiters[1], 2),
        give_up(waiters[2], 1),
        try_acquire(semaphore(1, 2, 1, 0), 1),
        try_acquire(semaphore(1, 4, 2, 0), 1),
        RELEASE,
        Step::ToEdge,
        Step::Pass(SECOND),
    ];
    let alphabet = of_calls.chain(rest).collect();
    Model { name: "a queue for permits", start, alphabet, waiters_max: 5, depth: 5 }.explore();
}

/// Requests for permits exclude readers, and both wait for the writer. A new leader keeps positions of each.
#[test]
fn rules_match_the_oracle_for_permits_readers_and_a_writer() {
    let [one, low, both] = [semaphore(1, 2, 0, 0), semaphore(1, 1, 1, 0), semaphore(2, 2, 0, 0)];
    let keep = |request| Step::Keep { request, attempt: 1 };
    let waits = [one, low, 2, 0].into_iter().flat_map(|request| [acquire(request, 1), claim(request, 1)]);
    let rest = [
        drop_call(one, 1),
        acquire(one, 2),
        try_acquire(both, 1),
        try_acquire(both, 2),
        try_acquire(2, 2),
        drop_call(2, 1),
        give_up(0, 1),
        keep(one),
        keep(low),
        keep(2),
        Step::ForceRelease { right: true },
        RELEASE,
        Step::ToEdge,
        Step::Pass(2 * SECOND),
        Step::ApplyTime,
    ];
    let alphabet = waits.chain(rest).collect();
    Model { name: "permits, readers and a writer", start: vec![], alphabet, waiters_max: 2, depth: 5 }.explore();
}

#[test]
fn rules_match_the_oracle_for_commands_that_arrive_out_of_order() {
    let alphabet = vec![
        acquire(0, 1),
        acquire(0, 2),
        try_acquire(0, 2),
        claim(0, 1),
        claim(0, 2),
        give_up(0, 2),
        drop_call(0, 1),
        drop_call(0, 2),
        Step::AcquireOther { request: 0, attempt: 1 },
        Step::AcquireOther { request: 0, attempt: 2 },
        acquire(1, 1),
        claim(1, 1),
        RELEASE,
        Step::ApplyTime,
        Step::ToEdge,
        Step::BeforeEdge,
    ];
    Model { name: "commands that arrive out of order", start: vec![], alphabet, waiters_max: 1, depth: 7 }.explore();
}

#[test]
fn rules_match_the_oracle_when_the_clock_steps_back() {
    let alphabet = vec![
        acquire(0, 1),
        acquire(0, 2),
        acquire(1, 1),
        claim(1, 1),
        drop_call(0, 1),
        drop_call(1, 1),
        Step::Renew { lease: 0, ttl: None },
        RELEASE,
        Step::ApplyTime,
        Step::ToEdge,
        Step::Pass(SECOND),
        Step::Pass(3_600 * SECOND),
        Step::Back(1),
        Step::Back(2 * SECOND),
        Step::Back(3_600 * SECOND),
    ];
    Model { name: "a clock that steps back", start: vec![], alphabet, waiters_max: 2, depth: 6 }.explore();
}
