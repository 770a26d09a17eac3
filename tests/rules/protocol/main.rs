//! Model checking of the protocol between clients, server replicas and the store, in every order of events.
//!
//! The store is the pure rules themselves; clients and replicas are modelled here; the network loses, delays, repeats
//! and reorders messages. The search of each configuration is exhaustive: the invariants hold in every reachable state.

#![allow(clippy::unwrap_used, reason = "test code")]

mod client;
mod configurations;
mod conversions;
mod ghost;
mod key;
mod liveness;
mod mixed;
mod model;
mod modes;
mod replica;
mod state;
mod steps;
mod store;

use model::Protocol;
use stateright::{Checker, HasDiscoveries, Model};
use std::{collections::BTreeSet, time::Instant};

/// Checks that the invariants hold in every reachable state.
fn holds(name: &str, protocol: Protocol) {
    assert_eq!(protocol.bug, None);
    #[expect(clippy::disallowed_methods, reason = "how long the search took is for the reader of its output only")]
    let begin = Instant::now();
    let checker = protocol.checker().finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states ({} visits), depth {}, in {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begin.elapsed()
    );
    if let Some((invariant, path)) = checker.discoveries().into_iter().next() {
        let steps: Vec<_> = path.into_actions().into_iter().map(|action| format!("{action:?}")).collect();
        panic!("{name}: {invariant:?} is broken by\n{}", steps.join("\n"));
    }
    assert!(checker.is_done(), "{name}: the search is incomplete");
}

/// The same for a search that takes minutes. Only `make protocol-long` runs it.
fn holds_if_long(name: &str, protocol: Protocol) {
    if std::env::var_os("FENCEPOST_PROTOCOL_LONG").is_some() {
        holds(name, protocol);
    } else {
        println!("{name}: skipped; make protocol-long runs it");
    }
}

/// The number of steps to the violation of an invariant.
fn violation(protocol: Protocol, invariant: &str) -> usize {
    let invariant = protocol.properties().into_iter().find(|it| it.name == invariant).expect("an invariant").name;
    let found = HasDiscoveries::AnyOf(BTreeSet::from([invariant]));
    let bug = protocol.bug;
    let checker = protocol.checker().finish_when(found).threads(2).spawn_bfs().join();
    let path = checker.discovery(invariant).unwrap_or_else(|| panic!("{bug:?} breaks nothing"));
    path.into_actions().len()
}
