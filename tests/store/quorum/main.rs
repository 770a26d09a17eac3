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
mod rebuild;
mod search;
mod server;
mod world;

use fencepost::testing::store::content::Bytes;
use mistake::Mistake;
use search::{First, holds, holds_if_long, is_long};
use world::{List, World};

/// The first list of nodes.
const OLD: List = (0, &[0, 1, 2]);

/// The list with one node replaced.
const NEW: List = (1, &[0, 1, 3]);

/// The lists after one rebuild, and after two.
const AFTER: List = (2, &[0, 1, 2]);
const AFTER_TWO: List = (4, &[0, 1, 2]);
/// The list of the second rebuild, if the first one did not come so far.
const AFTER_SECOND: List = (3, &[0, 1, 2]);

/// Servers that go by these lists and carry out so many commands, and losses of memory.
fn world(servers: &[(List, u8)], losses: u8) -> World {
    World { servers: servers.to_vec(), losses, rebuilds: 0, lost: 0, mistake: None, exact: false }
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
    classes::are_the_same("a rebuild", &World { rebuilds: 1, ..rebuilt_twice(&[(AFTER, 0)], 0) });
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

/// One rebuild, of which the losses are in the world.
fn rebuilt(servers: &[(List, u8)], losses: u8) -> World {
    World { rebuilds: 1, ..world(servers, losses) }
}

/// Two rebuilds, after two nodes have lost their memory.
fn rebuilt_twice(servers: &[(List, u8)], losses: u8) -> World {
    World { rebuilds: 2, lost: 2, ..world(servers, losses) }
}

#[test]
fn a_rebuild() {
    holds("a rebuild, two losses: a server after it, and an old one", rebuilt(&[(AFTER, 0), (OLD, 0)], 2));
    holds_if_long("a rebuild, two losses: an old server, one after it", rebuilt(&[(OLD, 1), (AFTER, 1)], 2));
    holds_if_long("a rebuild, two losses: the old server has the higher ballot", rebuilt(&[(AFTER, 1), (OLD, 1)], 2));
}

#[test]
fn two_rebuilds() {
    holds("two rebuilds, a server after the first", rebuilt_twice(&[(AFTER, 0)], 0));
    holds_if_long("two rebuilds, two servers after the first", rebuilt_twice(&[(AFTER, 1), (AFTER, 0)], 0));
    holds_if_long("two rebuilds, a loss meanwhile", rebuilt_twice(&[(AFTER, 0)], 1));
    holds_if_long("two rebuilds, a server after each", rebuilt_twice(&[(AFTER, 1), (AFTER_TWO, 0)], 0));
    holds_if_long("two rebuilds, the second one first", rebuilt_twice(&[(AFTER, 1), (AFTER_SECOND, 0)], 0));
}

#[test]
fn mistakes_of_a_rebuild_show() {
    is_found(Mistake::RebuildsFromFirst, rebuilt(&[(OLD, 1), (AFTER, 0)], 2));
    if is_long() {
        is_found(Mistake::RebuildsUnfenced, rebuilt(&[(OLD, 1), (OLD, 1)], 2));
    }
    is_found(Mistake::RebuildsShareList, rebuilt_twice(&[(AFTER, 1), (AFTER, 0)], 0));
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
