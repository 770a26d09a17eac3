//! Model checking of the quorum: real candidates, leaders and nodes, in every order of events. `alone` has one node,
//! the rest three.
//!
//! What was sent may arrive at any time, in any order, more than once, or never; its answer is heard at once or lost.
//! (Who hears later acts later, and what it sends may be late as well.) The search of each world is exhaustive: the
//! invariants hold in every reachable state. `RESULTS.md` has the figures of one run of all worlds.
#![allow(clippy::unwrap_used, reason = "test code")]

mod alone;
mod classes;
mod key;
mod mistake;
mod node;
mod search;
mod server;
mod world;

use fencepost::store::quorum::content::Bytes;
use mistake::Mistake;
use search::{First, holds, holds_if_long, is_long};
use world::{List, World};

/// The first list of nodes.
const OLD: List = (0, &[0, 1, 2]);

/// The list with one node replaced.
const NEW: List = (1, &[0, 1, 3]);

/// Servers that go by these lists and carry out so many commands, and losses of memory.
fn world(servers: &[(List, u8)], losses: u8) -> World {
    World { servers: servers.to_vec(), losses, mistake: None, exact: false }
}

/// Checks that the world is large enough to show what the mistake breaks.
fn is_found(mistake: Mistake, world: World) {
    search::is_found(mistake, World { mistake: Some(mistake), ..world }, First::Deep);
}

/// Leaving out what has no effect any more, and the numbers of the nodes, leaves no class of states out.
#[test]
fn the_key_leaves_nothing_out() {
    classes::are_the_same("one server, a command, a loss", &world(&[(OLD, 1)], 1));
    classes::are_the_same("two servers", &world(&[(OLD, 0), (OLD, 0)], 0));
}

#[test]
fn two_servers() {
    holds("two servers, two commands each", world(&[(OLD, 2), (OLD, 2)], 0));
}

#[test]
fn three_servers() {
    holds_if_long("three servers, a command each", world(&[(OLD, 1), (OLD, 1), (OLD, 1)], 0));
}

#[test]
fn a_loss() {
    holds("two servers, a command of the first, a loss", world(&[(OLD, 1), (OLD, 0)], 1));
    holds_if_long("two servers, a command each, a loss", world(&[(OLD, 1), (OLD, 1)], 1));
    holds_if_long("three servers, a command of the first, a loss", world(&[(OLD, 1), (OLD, 0), (OLD, 0)], 1));
}

#[test]
fn two_losses() {
    holds_if_long("two servers, a command of the first, two losses", world(&[(OLD, 1), (OLD, 0)], 2));
}

#[test]
fn a_replaced_node() {
    holds("a node is replaced: a server of the old list, one of the new", world(&[(OLD, 1), (NEW, 1)], 0));
    holds("a node is replaced: a server of the new list, one of the old", world(&[(NEW, 1), (OLD, 1)], 0));
    holds_if_long("a node is replaced: old, new, old", world(&[(OLD, 1), (NEW, 1), (OLD, 1)], 0));
}

#[test]
fn mistakes_show_without_a_loss() {
    is_found(Mistake::NoPromise, world(&[(OLD, 1), (OLD, 0)], 0));
    is_found(Mistake::OldListHeard, world(&[(NEW, 1), (OLD, 0)], 0));
    is_found(Mistake::BestBySequence, world(&[(OLD, 2), (OLD, 1), (OLD, 0)], 0));
}

#[test]
fn mistakes_show_after_a_loss() {
    for mistake in [
        Mistake::VotesAtOnce,
        Mistake::ForgetsPromise,
        Mistake::AdmitsUnconfirmed,
        Mistake::AdmitsConfirmedByOne,
        Mistake::AdmitsWithCommitted,
        Mistake::AsksOnce,
    ] {
        is_found(mistake, world(&[(OLD, 1), (OLD, 0)], 1));
    }
    if is_long() {
        is_found(Mistake::SameLifeOnly, world(&[(OLD, 1), (OLD, 0), (OLD, 0)], 1));
    } else {
        println!("{:?}: skipped; make quorum-worlds runs it", Mistake::SameLifeOnly);
    }
}
