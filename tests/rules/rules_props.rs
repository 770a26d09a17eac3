//! Property test: long random sequences of commands, checked after each step like those of the exhaustive search.

#[path = "../support/rules/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "test code; no test uses all of it")]
mod rules;

use proptest::{prelude::*, test_runner::FileFailurePersistence};
use rules::{SECOND, Step, World, semaphore};
use std::borrow::Cow;

/// All kinds of requests: with and without a bound on the time of their lease, with delays, and readers.
const MIXED: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31];
/// Readers, of which some leave delays, and few that are none.
const READERS: &[u8] = &[0, 2, 3, 4, 5, 8, 9, 10, 14, 30, 31, 32];

/// Requests for permits of all limits of up to 4, in three versions; and others.
fn requests_for_permits() -> impl Strategy<Value = Vec<u8>> {
    let any = (1..=4_u32, 0..3_u8, 0..3_u8).prop_flat_map(|(permits, version, copy)| {
        (1..=permits).prop_map(move |count| semaphore(count, permits, version, copy))
    });
    request_sets(any.boxed())
}

/// The same, with one limit of each version, so that few of them are refused.
fn requests_that_agree() -> impl Strategy<Value = Vec<u8>> {
    let agreeing = prop::sample::subsequence(vec![1_u32, 2, 3, 4], 3).prop_shuffle();
    agreeing.prop_flat_map(|limits| {
        let any = (0..3_u8, 0..3_u8).prop_flat_map(move |(version, copy)| {
            let permits = limits[usize::from(version)];
            let count = prop_oneof![Just(1), 1..=permits];
            count.prop_map(move |count| semaphore(count, permits, version, copy))
        });
        request_sets(any.boxed())
    })
}

/// Requests for permits, and none to six of other kinds.
fn request_sets(for_permits: BoxedStrategy<u8>) -> impl Strategy<Value = Vec<u8>> {
    let others = prop_oneof![Just(vec![]), prop::collection::vec(prop::sample::select(MIXED), 1..=6)];
    (prop::collection::vec(for_permits, 3..24), others).prop_map(|(some, others)| [some, others].concat())
}

/// How often commands find others that are in their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Much time passes, and each call has several attempts: leases, queues and memories are short.
    Slow,
    /// Little time passes, and most calls are of a first attempt: there are several holders and waiters.
    Busy,
}

/// A command of one of these requests. Its lease, if it has one, is an age: 0 is the newest lease granted.
fn step(requests: impl Into<Cow<'static, [u8]>>, pace: Pace) -> impl Strategy<Value = Step> {
    let is_slow = u32::from(pace == Pace::Slow);
    let attempt = prop_oneof![6 - 5 * is_slow => Just(1), 1 + 8 * is_slow => 1..4_u32];
    let call = (prop::sample::select(requests.into()), attempt);
    let copy = move || prop_oneof![9 - 6 * is_slow => Just(0), 1 => 1..3_u8];
    let lease = prop_oneof![4 => Just(0), 7 - 6 * is_slow => 0..4_u32, 1 => 0..8_u32];
    let attachment = 1..4_u32;
    let span =
        || prop_oneof![1..5_u64, 1..SECOND, SECOND..15 * SECOND, Just(SECOND), Just(3 * SECOND), Just(10 * SECOND)];
    let time = prop_oneof![
        6 => span().prop_map(Step::Pass),
        3 => Just(Step::ToEdge),
        2 => Just(Step::BeforeEdge),
        1 => prop_oneof![Just(1), span(), Just(3_600 * SECOND)].prop_map(Step::Back),
    ];
    prop_oneof![
        12 => (call.clone(), copy(), prop::bool::weighted(0.8))
            .prop_map(|((request, attempt), copy, wait)| Step::Acquire { request, attempt, copy, wait, lease: 0 }),
        1 => call.clone().prop_map(|(request, attempt)| Step::AcquireOther { request, attempt }),
        1 => call.clone().prop_map(|(request, attempt)| Step::Keep { request, attempt }),
        10 => (call.clone(), copy())
            .prop_map(|((request, attempt), copy)| Step::Claim { request, attempt, copy, lease: 0 }),
        2 => (call.clone(), copy()).prop_map(|((request, attempt), copy)| Step::GiveUp { request, attempt, copy }),
        1 + 3 * is_slow => (call, copy()).prop_map(|((request, attempt), copy)| Step::Drop { request, attempt, copy }),
        4 => lease.clone().prop_map(|lease| Step::Release { lease }),
        3 => (lease.clone(), prop::option::of(SECOND..20 * SECOND))
            .prop_map(|(lease, ttl)| Step::Renew { lease, ttl }),
        2 => (lease.clone(), attachment.clone())
            .prop_map(|(lease, attachment)| Step::RenewKept { lease, attachment }),
        2 => (lease.clone(), 1..4_u32, attachment.clone())
            .prop_map(|(lease, attempt, attachment)| Step::Attach { lease, attempt, attachment }),
        1 => (lease.clone(), attachment.clone())
            .prop_map(|(lease, attachment)| Step::Detach { lease, attachment }),
        1 => (lease.clone(), attachment).prop_map(|(lease, attachment)| Step::Disconnect { lease, attachment }),
        5 => (lease, prop_oneof![4 => Just(0), 1 => 1..4_u8], any::<bool>())
            .prop_map(|(lease, upgrades, shared)| Step::Convert { lease, upgrades, shared }),
        1 => any::<bool>().prop_map(|right| Step::ForceRelease { right }),
        1 => Just(Step::ForceReleaseGhost),
        1 + 11 * is_slow => time,
        3 => Just(Step::ApplyTime),
    ]
}

/// A sequence of commands of these requests, slow or busy.
fn steps_of(requests: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<Step>> {
    let pace = prop_oneof![1 => Just(Pace::Slow), 2 => Just(Pace::Busy)];
    (requests, pace).prop_flat_map(|(requests, pace)| prop::collection::vec(step(requests, pace), 1..600))
}

/// Replaces the age of a lease by its number. Commands that may grant a lease get a new number.
fn numbered(step: Step, number: u32) -> Step {
    let old = |age: u32| number.saturating_sub(age);
    match step {
        Step::Acquire { request, attempt, copy, wait, .. } => {
            Step::Acquire { request, attempt, copy, wait, lease: number + 1 }
        }
        Step::Claim { request, attempt, copy, .. } => Step::Claim { request, attempt, copy, lease: number + 1 },
        Step::Release { lease } => Step::Release { lease: old(lease) },
        Step::Renew { lease, ttl } => Step::Renew { lease: old(lease), ttl },
        Step::RenewKept { lease, attachment } => Step::RenewKept { lease: old(lease), attachment },
        Step::Attach { lease, attempt, attachment } => Step::Attach { lease: old(lease), attempt, attachment },
        Step::Detach { lease, attachment } => Step::Detach { lease: old(lease), attachment },
        Step::Disconnect { lease, attachment } => Step::Disconnect { lease: old(lease), attachment },
        Step::Convert { lease, upgrades, shared } => Step::Convert { lease: old(lease), upgrades, shared },
        other => other,
    }
}

fn run(steps: Vec<Step>, waiters_max: usize) {
    let mut world = World::new(waiters_max);
    for step in steps {
        world.run(numbered(step, world.granted()));
    }
}

/// Found by the search below: the command names the older lease, and its delay is what it ends.
#[test]
fn a_revocation_ends_the_delay_of_a_lease_that_expires_in_its_turn() {
    let acquire = |request| Step::Acquire { request, attempt: 1, copy: 0, wait: false, lease: 0 };
    let revoke = Step::ForceRelease { right: true };
    let until_the_end = [Step::ToEdge, Step::Pass(1)];
    let until_the_delay_is_over = Step::Pass(2 * SECOND - 1);
    let mut steps = vec![acquire(30), acquire(32), Step::Release { lease: 0 }];
    steps.extend(until_the_end);
    steps.extend([revoke, until_the_delay_is_over, Step::ApplyTime, revoke]);
    run(steps, 1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn rules_match_the_oracle_for_random_commands(
        steps in prop::collection::vec(step(MIXED, Pace::Slow), 1..600),
        waiters_max in 1..MIXED.len(),
    ) {
        run(steps, waiters_max);
    }

    #[test]
    fn rules_match_the_oracle_for_random_commands_of_readers(
        steps in prop::collection::vec(step(READERS, Pace::Slow), 1..600),
        waiters_max in 1..READERS.len(),
    ) {
        run(steps, waiters_max);
    }
    #[test]
    fn rules_match_the_oracle_for_random_commands_of_a_semaphore(
        steps in steps_of(requests_that_agree()),
        waiters_max in 1..10_usize,
    ) {
        run(steps, waiters_max);
    }

    #[test]
    fn rules_match_the_oracle_for_random_commands_with_any_permits(
        steps in steps_of(requests_for_permits()),
        waiters_max in 1..10_usize,
    ) {
        run(steps, waiters_max);
    }
}
