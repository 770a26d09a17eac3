//! The worlds: each small enough to be followed to its end, each with something of its own to go wrong.

use super::{
    breach, holds, in_the_long_run,
    model::{Bug, Protocol},
    state::Budget,
    store::SECOND,
};

/// Two clients and two replicas, each client with one request that it sends once, and no faults.
pub(crate) fn plain() -> Protocol {
    Protocol {
        clients: 2,
        replicas: 2,
        requests: 1,
        attempts: 1,
        renewals: 0,
        ttl: 3 * SECOND,
        tick: SECOND,
        wait: true,
        hints: true,
        cancels: false,
        timeouts: false,
        releases: true,
        slow_calls: false,
        behind: 0,
        budget: Budget::default(),
        bug: None,
    }
}

fn faults(change: impl FnOnce(&mut Budget)) -> Budget {
    let mut budget = Budget::default();
    change(&mut budget);
    budget
}

/// Clients that ask a second time, for whatever reason they may have.
fn retrying() -> Protocol {
    Protocol { attempts: 2, ..plain() }
}

#[test]
fn no_faults() {
    holds("two clients", plain());
}

#[test]
fn clients_cancel() {
    holds("two clients that cancel", Protocol { cancels: true, ..plain() });
}

#[test]
fn clients_retry() {
    in_the_long_run("two clients that retry", retrying());
}

#[test]
fn waits_end() {
    holds("two clients whose waits end", Protocol { timeouts: true, ..plain() });
}

#[test]
fn three_in_line() {
    holds("three clients", Protocol { clients: 3, replicas: 1, releases: false, ..plain() });
}

#[test]
fn one_crash() {
    holds("two clients, a crash", Protocol { budget: faults(|it| it.crashes = 1), ..plain() });
}

#[test]
fn one_loss() {
    holds("two clients, a loss", Protocol { budget: faults(|it| it.losses = 1), ..plain() });
}

#[test]
fn one_delay() {
    holds("two clients, a delay", Protocol { budget: faults(|it| it.delays = 1), ..plain() });
}

#[test]
fn slow_calls_and_renewals() {
    let budget = faults(|it| it.delays = 1);
    holds(
        "renewals, a delay",
        Protocol { replicas: 1, renewals: 1, slow_calls: true, releases: false, budget, ..plain() },
    );
}

#[test]
fn one_leap() {
    holds("two clients, a leap", Protocol { budget: faults(|it| it.leaps = 1), ..plain() });
}

#[test]
fn one_repeat() {
    holds("two clients, a repeat", Protocol { slow_calls: true, budget: faults(|it| it.repeats = 1), ..plain() });
}

/// A client that does not count its attempts, or gRPC's own retry policy. The TTL is longer than what a cleanup leaves
/// of it.
fn repeated_through_the_same_server() -> Protocol {
    let budget = faults(|it| (it.repeats, it.losses) = (1, 1));
    Protocol { slow_calls: true, replicas: 1, ttl: 6 * SECOND, tick: 3 * SECOND, budget, ..plain() }
}

#[test]
fn one_repeat_through_the_same_server() {
    holds("a repeat through the same server, a loss", repeated_through_the_same_server());
}

#[test]
fn a_store_that_forgets() {
    let budget = faults(|it| (it.failovers, it.ticks) = (1, Some(3)));
    let protocol = Protocol { wait: false, hints: false, replicas: 1, behind: 50 * SECOND, budget, ..plain() };
    holds("a store that forgets, its clock behind", protocol);
}

#[test]
fn one_client_retries_and_cancels_while_things_are_late() {
    let budget = faults(|it| it.delays = 1);
    let protocol = Protocol { clients: 1, attempts: 2, cancels: true, slow_calls: true, budget, ..plain() };
    holds("one client that retries and cancels, a delay", protocol);
}

#[test]
fn crash_and_retry() {
    in_the_long_run("a crash and retries", Protocol { budget: faults(|it| it.crashes = 1), ..retrying() });
}

/// The mistake shows, and as the breach of this promise.
fn shows(bug: Bug, promise: &str, protocol: Protocol) {
    let steps = breach(Protocol { bug: Some(bug), ..protocol }, promise);
    println!("{bug:?} breaks {promise:?} in {steps} steps");
}

#[test]
fn mistakes_of_clients_and_replicas_show() {
    let delayed = |delays| Protocol { budget: faults(|it| it.delays = delays), ..plain() };
    shows(Bug::NoPolls, "no lost waiter", plain());
    let crash = Protocol { clients: 3, releases: false, budget: faults(|it| it.crashes = 1), ..plain() };
    shows(Bug::OnlyTheHeadPolls, "no lost waiter", crash);
    let leap = Protocol { clients: 3, releases: false, budget: faults(|it| it.leaps = 1), ..plain() };
    shows(Bug::DeafToDeletion, "no lost waiter", leap);
    shows(Bug::ValidFromReply, "exclusion", delayed(1));
    shows(Bug::RenewedFromReply, "exclusion", Protocol { renewals: 1, ..delayed(1) });
    shows(Bug::WorksUntilReleased, "exclusion", plain());
    shows(Bug::CleansUpByAttempt, "exclusion", repeated_through_the_same_server());
    shows(Bug::NoNotAfter, "dropped is final", delayed(2));
}
