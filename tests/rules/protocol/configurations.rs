//! The configurations: each is small enough for an exhaustive search, and allows other faults.

use super::{
    holds, holds_if_long,
    model::{Bug, Protocol},
    modes::Asks,
    state::Budget,
    store::SECOND,
    violation,
};

/// Two clients and two replicas, without faults. Each client sends one request once.
pub(crate) fn plain() -> Protocol {
    Protocol {
        clients: 2,
        asks: [Asks::Alone; 3],
        replicas: 2,
        requests: 1,
        attempts: 1,
        renewals: 0,
        ttl: 3 * SECOND,
        tick: SECOND,
        lock_delay: 0,
        wait: true,
        cancels: false,
        timeouts: false,
        releases: true,
        slow_calls: false,
        behind: 0,
        budget: Budget::default(),
        bug: None,
    }
}

pub(crate) fn faults(change: impl FnOnce(&mut Budget)) -> Budget {
    let mut budget = Budget::default();
    change(&mut budget);
    budget
}

/// Clients that may retry once at any time.
fn retrying() -> Protocol {
    Protocol { attempts: 2, ..plain() }
}

#[test]
fn invariants_hold_without_faults() {
    holds("two clients", plain());
}

#[test]
fn invariants_hold_if_clients_cancel() {
    holds("two clients that cancel", Protocol { cancels: true, ..plain() });
}

#[test]
fn invariants_hold_if_clients_retry() {
    holds_if_long("two clients that retry", retrying());
}

#[test]
fn invariants_hold_if_waits_time_out() {
    holds("two clients whose waits time out", Protocol { timeouts: true, ..plain() });
}

#[test]
fn invariants_hold_for_a_queue_of_three() {
    holds("three clients", Protocol { clients: 3, replicas: 1, releases: false, ..plain() });
}

#[test]
fn invariants_hold_after_a_replica_crash() {
    holds("two clients, a crash", Protocol { budget: faults(|it| it.crashes = 1), ..plain() });
}

#[test]
fn invariants_hold_if_a_replica_is_found_dead_and_lives() {
    holds("two clients, a suspicion", Protocol { budget: faults(|it| it.suspicions = 1), ..plain() });
}

#[test]
fn invariants_hold_if_a_replica_is_found_dead_after_a_crash() {
    let budget = faults(|it| (it.crashes, it.suspicions) = (1, 1));
    holds("two clients, a crash, a suspicion", Protocol { budget, ..plain() });
}

#[test]
fn invariants_hold_if_a_message_is_lost() {
    holds("two clients, a loss", Protocol { budget: faults(|it| it.losses = 1), ..plain() });
}

#[test]
fn invariants_hold_if_messages_are_late() {
    holds("two clients, a delay", Protocol { budget: faults(|it| it.delays = 1), ..plain() });
}

#[test]
fn invariants_hold_for_slow_calls_and_renewals() {
    let budget = faults(|it| it.delays = 1);
    holds(
        "renewals, a delay",
        Protocol { replicas: 1, renewals: 1, slow_calls: true, releases: false, budget, ..plain() },
    );
}

#[test]
fn invariants_hold_after_a_long_silence() {
    holds("two clients, a leap", Protocol { budget: faults(|it| it.leaps = 1), ..plain() });
}

#[test]
fn invariants_hold_if_a_proxy_repeats_a_call() {
    holds("two clients, a repeat", Protocol { slow_calls: true, budget: faults(|it| it.repeats = 1), ..plain() });
}

/// As sent by a client that does not count attempts, or by gRPC's own retry policy. The TTL is longer than the time to
/// which a cleanup cuts a lease.
pub(crate) fn repeated_through_the_same_server() -> Protocol {
    let budget = faults(|it| (it.repeats, it.losses) = (1, 1));
    Protocol { slow_calls: true, replicas: 1, ttl: 6 * SECOND, tick: 3 * SECOND, budget, ..plain() }
}

#[test]
fn invariants_hold_if_a_call_is_repeated_through_the_same_server() {
    holds("a repeat through the same server, a loss", repeated_through_the_same_server());
}

#[test]
fn tokens_rise_if_the_store_loses_its_memory() {
    let budget = faults(|it| (it.restarts, it.ticks) = (1, Some(3)));
    let protocol = Protocol { wait: false, replicas: 1, behind: 50 * SECOND, budget, ..plain() };
    holds("a store that loses its memory, its clock behind", protocol);
}

#[test]
fn invariants_hold_if_a_client_retries_and_cancels_while_messages_are_late() {
    let budget = faults(|it| it.delays = 1);
    let protocol = Protocol { clients: 1, attempts: 2, cancels: true, slow_calls: true, budget, ..plain() };
    holds("one client that retries and cancels, a delay", protocol);
}

#[test]
fn invariants_hold_after_a_crash_and_retries() {
    holds_if_long("a crash and retries", Protocol { budget: faults(|it| it.crashes = 1), ..retrying() });
}

/// Checks that the bug breaks this invariant.
pub(crate) fn breaks(bug: Bug, invariant: &str, protocol: Protocol) {
    let steps = violation(Protocol { bug: Some(bug), ..protocol }, invariant);
    println!("{bug:?} breaks {invariant:?} in {steps} steps");
}

#[test]
fn deliberate_bugs_of_clients_and_replicas_break_an_invariant() {
    let delayed = |delays| Protocol { budget: faults(|it| it.delays = delays), ..plain() };
    breaks(Bug::NoBeats, "no lost waiter", plain());
    breaks(Bug::IgnoresLostHints, "no lost waiter", plain());
    let crash = Protocol { clients: 3, releases: false, budget: faults(|it| it.crashes = 1), ..plain() };
    breaks(Bug::OnlyHeadBeats, "no lost waiter", crash);
    let leap = Protocol { clients: 3, releases: false, budget: faults(|it| it.leaps = 1), ..plain() };
    breaks(Bug::IgnoresSilence, "no lost waiter", leap);
    let suspicion = Protocol { budget: faults(|it| it.suspicions = 1), ..plain() };
    breaks(Bug::IgnoresSilence, "no lost waiter", suspicion);
    breaks(Bug::ValidFromReply, "exclusion", delayed(1));
    breaks(Bug::RenewedFromReply, "exclusion", Protocol { renewals: 1, ..delayed(1) });
    breaks(Bug::WorksUntilReleased, "exclusion", plain());
    breaks(Bug::CleansUpByAttempt, "exclusion", repeated_through_the_same_server());
    breaks(Bug::NoNotAfter, "dropped is final", delayed(2));
}
