//! Configurations in which clients share the lock, or have permits of it.

use super::{
    configurations::{breaks, faults, plain, repeated_through_the_same_server},
    holds, holds_if_long,
    model::{Bug, Protocol},
    modes::{Asks, ONE, TWO},
    state::Budget,
    store::SECOND,
};

const WRITER: Asks = Asks::Alone;
const READER: Asks = Asks::Shared;
const ONE_OF_TWO: Asks = Asks::Permits(1, TWO);
const BOTH: Asks = Asks::Permits(2, TWO);
/// By a program that knows of a lower limit.
const THE_ONLY_ONE: Asks = Asks::Permits(1, ONE);

/// Two clients that ask for this.
fn two(one: Asks, other: Asks) -> Protocol {
    Protocol { asks: [one, other, other], ..plain() }
}

/// Three clients of one replica, whose leases expire.
fn three(asks: [Asks; 3]) -> Protocol {
    Protocol { clients: 3, replicas: 1, releases: false, asks, ..plain() }
}

/// Pairs of clients that exclude each other, at least for a time.
const EXCLUSIVE: [(&str, Asks, Asks); 3] = [
    ("a reader and a writer", READER, WRITER),
    ("holders of one permit and of both", ONE_OF_TWO, BOTH),
    ("holders of one permit, of which one knows of a lower limit", ONE_OF_TWO, THE_ONLY_ONE),
];

/// Pairs of clients that stand beside each other.
const BESIDE: [(&str, Asks, Asks); 2] =
    [("two readers", READER, READER), ("two holders of one permit", ONE_OF_TWO, ONE_OF_TWO)];

type Check = fn(&str, Protocol);

/// Checks each of the pairs, in the world that `change` makes of theirs.
fn each<const N: usize>(
    pairs: [(&str, Asks, Asks); N],
    check: Check,
    what: &str,
    change: impl Fn(Protocol) -> Protocol,
) {
    for (name, one, other) in pairs {
        check(&format!("{name}, {what}"), change(two(one, other)));
    }
}

/// Checks that the invariants hold with these faults.
fn each_with(what: &str, budget: Budget) {
    each(EXCLUSIVE, holds, what, |protocol| Protocol { budget, ..protocol });
    each(BESIDE, holds_if_long, what, |protocol| Protocol { budget, ..protocol });
}

#[test]
fn invariants_hold_without_faults() {
    each(EXCLUSIVE, holds, "no faults", |protocol| protocol);
    each(BESIDE, holds, "no faults", |protocol| protocol);
}

#[test]
fn nobody_shares_a_semaphore() {
    holds("a reader and a holder of a permit", two(READER, ONE_OF_TWO));
    holds("a writer and a holder of a permit", two(WRITER, ONE_OF_TWO));
}

#[test]
fn invariants_hold_if_clients_cancel_and_waits_time_out() {
    each(EXCLUSIVE, holds, "cancels", |protocol| Protocol { cancels: true, ..protocol });
    each(EXCLUSIVE, holds, "timeouts", |protocol| Protocol { timeouts: true, ..protocol });
    each(BESIDE, holds_if_long, "cancels", |protocol| Protocol { cancels: true, ..protocol });
}

#[test]
fn invariants_hold_if_a_message_is_late() {
    each_with("a delay", faults(|it| it.delays = 1));
}

#[test]
fn invariants_hold_if_a_message_is_lost() {
    each_with("a loss", faults(|it| it.losses = 1));
}

#[test]
fn invariants_hold_after_the_crash_or_the_silence_of_a_replica() {
    each_with("a crash", faults(|it| it.crashes = 1));
    each(EXCLUSIVE, holds_if_long, "a leap", |it| Protocol { budget: faults(|it| it.leaps = 1), ..it });
    each(EXCLUSIVE, holds_if_long, "a suspicion", |it| Protocol { budget: faults(|it| it.suspicions = 1), ..it });
}

/// The first one lets its lease expire, or its release arrives late.
#[test]
fn invariants_hold_within_the_delay_after_a_lease() {
    let late = |protocol| Protocol { lock_delay: 2 * SECOND, budget: faults(|it| it.delays = 1), ..protocol };
    holds("two writers, a lock_delay", late(plain()));
    each(EXCLUSIVE, holds, "a lock_delay", late);
}

/// A writer, or the holder of all permits, and those who stand beside each other after it.
const QUEUES: [(&str, [Asks; 3]); 4] = [
    ("a writer and two readers", [WRITER, READER, READER]),
    ("a reader and two writers", [READER, WRITER, WRITER]),
    ("holders of one, one and both permits", [ONE_OF_TWO, ONE_OF_TWO, BOTH]),
    ("holders of one and both permits, and one that knows of a lower limit", [ONE_OF_TWO, BOTH, THE_ONLY_ONE]),
];

#[test]
fn invariants_hold_for_a_queue_of_three() {
    for (name, asks) in QUEUES {
        holds(name, three(asks));
        let check = if asks == QUEUES[0].1 { holds } else { holds_if_long };
        check(&format!("{name}, releases"), Protocol { releases: true, ..three(asks) });
        let (loss, crash) = (faults(|it| it.losses = 1), faults(|it| it.crashes = 1));
        holds_if_long(&format!("{name}, a loss"), Protocol { budget: loss, ..three(asks) });
        holds_if_long(&format!("{name}, a crash"), Protocol { budget: crash, replicas: 2, ..three(asks) });
    }
}

#[test]
fn deliberate_bugs_of_clients_and_replicas_break_an_invariant() {
    let delayed = |one, other| Protocol { budget: faults(|it| it.delays = 1), ..two(one, other) };
    breaks(Bug::NoBeats, "no lost waiter", two(READER, WRITER));
    breaks(Bug::IgnoresLostHints, "no lost waiter", Protocol { replicas: 2, ..three([WRITER, READER, READER]) });
    breaks(Bug::ValidFromReply, "exclusion", delayed(READER, WRITER));
    breaks(Bug::ValidFromReply, "exclusion", delayed(ONE_OF_TWO, BOTH));
    breaks(Bug::RenewedFromReply, "exclusion", Protocol { renewals: 1, ..delayed(READER, WRITER) });
    breaks(Bug::WorksUntilReleased, "exclusion", two(READER, WRITER));
    breaks(Bug::WorksUntilReleased, "exclusion", two(ONE_OF_TWO, BOTH));
    let asks = two(READER, WRITER).asks;
    breaks(Bug::CleansUpByAttempt, "exclusion", Protocol { asks, ..repeated_through_the_same_server() });
}
