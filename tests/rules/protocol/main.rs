//! The protocol between clients, server replicas and the store, in every order of events that a small world allows.
//!
//! The store is the pure rules themselves; clients and replicas are written down here as what they promise to do; the
//! network loses, delays, repeats and reorders. Each configuration is followed to its end: the promises hold in every
//! state that it can reach.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod calm;
mod client;
mod configurations;
mod ghost;
mod key;
mod model;
mod replica;
mod state;
mod steps;
mod store;

use model::Protocol;
use stateright::{Checker, HasDiscoveries, Model};
use std::{collections::BTreeSet, time::Instant};

/// Follows a configuration to its end.
fn holds(name: &str, protocol: Protocol) {
    assert_eq!(protocol.bug, None);
    #[expect(clippy::disallowed_methods, reason = "how long the search took is for the reader of its output only")]
    let begin = Instant::now();
    let checker = protocol.checker().finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states ({} met), depth {}, in {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begin.elapsed()
    );
    if let Some((promise, path)) = checker.discoveries().into_iter().next() {
        let steps: Vec<_> = path.into_actions().into_iter().map(|action| format!("{action:?}")).collect();
        panic!("{name}: {promise:?} is broken by\n{}", steps.join("\n"));
    }
    assert!(checker.is_done(), "{name}: the search did not come to its end");
}

/// The same for one that takes minutes: `make protocol-long` follows it.
fn in_the_long_run(name: &str, protocol: Protocol) {
    if std::env::var_os("FENCEPOST_PROTOCOL_LONG").is_some() {
        holds(name, protocol);
    } else {
        println!("{name}: left to make protocol-long");
    }
}

/// How many steps it takes to break a promise.
fn breach(protocol: Protocol, promise: &str) -> usize {
    let promise = protocol.properties().into_iter().find(|it| it.name == promise).expect("a promise").name;
    let found = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let bug = protocol.bug;
    let checker = protocol.checker().finish_when(found).threads(2).spawn_bfs().join();
    let path = checker.discovery(promise).unwrap_or_else(|| panic!("{bug:?} breaks nothing"));
    path.into_actions().len()
}
