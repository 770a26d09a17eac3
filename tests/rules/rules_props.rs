//! Long random sequences of commands, checked after each step like those of the exhaustive model.

#[path = "../support/rules/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "test code, of which each test uses its part")]
mod rules;

use proptest::{prelude::*, test_runner::FileFailurePersistence};
use rules::{Command, SECOND, World};

const REQUESTS: u8 = 6;

/// A command whose lease, if it names one, is an age: 0 is the newest that was ever granted.
fn command() -> impl Strategy<Value = Command> {
    let call = (0..REQUESTS, 1..4_u32);
    let copy = || prop_oneof![3 => Just(0), 1 => 1..3_u8];
    let lease = prop_oneof![4 => Just(0), 1 => 0..4_u32];
    let attachment = 1..4_u32;
    let span =
        || prop_oneof![1..5_u64, 1..SECOND, SECOND..15 * SECOND, Just(SECOND), Just(3 * SECOND), Just(10 * SECOND)];
    prop_oneof![
        12 => (call.clone(), copy(), prop::bool::weighted(0.8))
            .prop_map(|((request, attempt), copy, wait)| Command::Acquire { request, attempt, copy, wait, lease: 0 }),
        1 => call.clone().prop_map(|(request, attempt)| Command::AcquireOther { request, attempt }),
        1 => call.clone().prop_map(|(request, attempt)| Command::AcquireLate { request, attempt }),
        10 => (call.clone(), copy())
            .prop_map(|((request, attempt), copy)| Command::Claim { request, attempt, copy, lease: 0 }),
        1 => call.clone().prop_map(|(request, attempt)| Command::ClaimLate { request, attempt }),
        2 => (call.clone(), copy()).prop_map(|((request, attempt), copy)| Command::GiveUp { request, attempt, copy }),
        4 => (call, copy(), prop_oneof![Just(0), 0..SECOND / 2])
            .prop_map(|((request, attempt), copy, window)| Command::Drop { request, attempt, copy, window }),
        4 => lease.clone().prop_map(|lease| Command::Release { lease }),
        3 => (lease.clone(), prop::option::of(SECOND..20 * SECOND))
            .prop_map(|(lease, ttl)| Command::Renew { lease, ttl }),
        2 => (lease.clone(), attachment.clone())
            .prop_map(|(lease, attachment)| Command::RenewAttached { lease, attachment }),
        2 => (lease.clone(), 1..4_u32, attachment.clone())
            .prop_map(|(lease, attempt, attachment)| Command::Attach { lease, attempt, attachment }),
        1 => (lease.clone(), attachment.clone())
            .prop_map(|(lease, attachment)| Command::Detach { lease, attachment }),
        1 => (lease, attachment).prop_map(|(lease, attachment)| Command::Disconnect { lease, attachment }),
        1 => any::<bool>().prop_map(|right| Command::ForceRelease { right }),
        6 => span().prop_map(Command::Pass),
        3 => Just(Command::ToEdge),
        2 => Just(Command::BeforeEdge),
        1 => prop_oneof![Just(1), span(), Just(3_600 * SECOND)].prop_map(Command::Back),
        3 => Just(Command::Settle),
    ]
}

/// Puts the number of a lease in the place of its age; a new one where a lease may be granted.
fn numbered(command: Command, step: u32) -> Command {
    let old = |age: u32| step.saturating_sub(age);
    match command {
        Command::Acquire { request, attempt, copy, wait, .. } => {
            Command::Acquire { request, attempt, copy, wait, lease: step + 1 }
        }
        Command::Claim { request, attempt, copy, .. } => Command::Claim { request, attempt, copy, lease: step + 1 },
        Command::Release { lease } => Command::Release { lease: old(lease) },
        Command::Renew { lease, ttl } => Command::Renew { lease: old(lease), ttl },
        Command::RenewAttached { lease, attachment } => Command::RenewAttached { lease: old(lease), attachment },
        Command::Attach { lease, attempt, attachment } => Command::Attach { lease: old(lease), attempt, attachment },
        Command::Detach { lease, attachment } => Command::Detach { lease: old(lease), attachment },
        Command::Disconnect { lease, attachment } => Command::Disconnect { lease: old(lease), attachment },
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_rules_do_what_the_oracle_says(
        commands in prop::collection::vec(command(), 1..600),
        waiters_max in 1..REQUESTS as usize,
    ) {
        let mut world = World::new(waiters_max);
        for command in commands {
            let command = numbered(command, world.granted());
            world.run(command);
        }
    }
}
