//! Model checking of one node: real candidates, leaders, servers' decisions and a real node that loses its memory, goes
//! back to a snapshot or is flushed, while servers crash, are paused, wake and leave.
//!
//! What was sent may arrive at any time, in any order, or never, when its server may be gone; its answer comes back
//! later or never. Candidates may begin at any time, so a leader that does not know that it is none is the common case.
//! There is no time: a server waits as long as it has to before it acts, and a lease lasts until its client is done.

mod attempt;
mod key;
mod mistake;
mod server;
mod state;
mod world;

use crate::search::{First, holds, holds_if_long, is_found, is_long};
use mistake::Mistake;
use stateright::Model;
use std::collections::{HashSet, VecDeque};
use world::{Faults, World};

const NONE: Faults = Faults { losses: 0, snapshots: 0, crashes: 0, pauses: 0, leaves: 0 };
const LOSS: Faults = Faults { losses: 1, ..NONE };
const TWO_LOSSES: Faults = Faults { losses: 2, ..NONE };

/// Server 0 leads at first. Then these servers may use the ballots that follow.
fn world(owners: &'static [usize], faults: Faults) -> World {
    let servers = 1 + owners.iter().max().expect("an owner");
    World { servers, owners, batches: 3, faults, is_apart: true, has_clock: true, mistake: None, is_exact: false }
}

/// Faults may overlap: then tokens alone are promised.
fn overlapping(owners: &'static [usize], faults: Faults) -> World {
    World { is_apart: false, ..world(owners, faults) }
}

fn found(mistake: Mistake, mut world: World) {
    world.mistake = Some(mistake);
    is_found(mistake, world, First::Near);
}

/// The classes of the states that a search meets, and the number of those states.
fn classes(world: &World) -> (HashSet<Vec<u64>>, usize) {
    let (mut seen, mut classes) = (HashSet::new(), HashSet::new());
    let (mut queue, mut actions) = (VecDeque::from(world.init_states()), Vec::new());
    while let Some(state) = queue.pop_front() {
        assert_eq!(state.breach, None);
        let class = state.key();
        let name = if world.is_exact { format!("{state:?}") } else { format!("{class:?}") };
        classes.insert(class);
        if seen.insert(name) {
            world.actions(&state, &mut actions);
            queue.extend(actions.drain(..).filter_map(|action| world.next_state(&state, action)));
        }
    }
    (classes, seen.len())
}

/// Leaving out what has no effect any more leaves no class of states out.
#[test]
fn the_key_leaves_nothing_out() {
    for owners in [&[0, 1], &[0, 0]] {
        let world = |is_exact| World { batches: 2, is_exact, ..world(owners, LOSS) };
        let (classes_of_all, all) = classes(&world(true));
        let (classes, count) = classes(&world(false));
        println!("alone: {owners:?}, 2 batches each, 1 loss: {count} states, one by one {all}");
        assert_eq!(classes.len(), count);
        let (more, fewer) = (classes_of_all.difference(&classes), classes.difference(&classes_of_all));
        let more: Vec<_> = more.collect();
        assert!(more.is_empty(), "{} more: {:?}", more.len(), &more[..3.min(more.len())]);
        assert_eq!(fewer.count(), 0);
    }
}

#[test]
fn a_loss() {
    holds("alone: 2 servers, 2 ballots, 1 loss", world(&[0, 1], LOSS));
    let snapshot = Faults { snapshots: 1, ..LOSS };
    holds_if_long(
        "alone: 3 ballots, 2 batches each, 1 loss, a snapshot",
        World { batches: 2, ..world(&[0, 1, 0], snapshot) },
    );
    holds_if_long("alone: 3 ballots, 1 loss, a snapshot", world(&[0, 1, 0], snapshot));
    holds_if_long("alone: 3 ballots (0 1 1), 1 loss, a snapshot", world(&[0, 1, 1], snapshot));
    holds_if_long("alone: 3 ballots, 1 loss, one leaves", world(&[0, 1, 0], Faults { leaves: 1, ..LOSS }));
    for owners in [[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 0]] {
        let owners: &'static [usize] = Box::leak(Box::new(owners));
        holds_if_long(&format!("alone: 4 ballots {owners:?}, 1 loss"), world(owners, LOSS));
    }
}

/// A fault begins when all is well after the one before.
#[test]
fn faults_apart() {
    for (name, faults) in [("a pause", Faults { pauses: 1, ..LOSS }), ("a crash", Faults { crashes: 1, ..LOSS })] {
        holds_if_long(
            &format!("alone: 4 ballots, 2 batches each, 1 loss and {name}"),
            short(world(&[0, 1, 0, 1], faults)),
        );
    }
}

#[test]
fn no_loss() {
    let faults = Faults { crashes: 1, pauses: 1, ..NONE };
    holds_if_long("alone: 3 ballots, a crash and a pause", world(&[0, 1, 0], faults));
}

#[test]
fn two_losses() {
    holds_if_long("alone: 3 ballots (0 1 1), 2 losses", world(&[0, 1, 1], TWO_LOSSES));
}

#[test]
fn three_servers() {
    let three = World { servers: 3, ..world(&[0, 1, 0], LOSS) };
    holds_if_long("alone: 3 servers, 3 ballots (0 1 0), 1 loss", three);
}

#[test]
fn tokens() {
    let pause = Faults { pauses: 1, ..LOSS };
    holds_if_long(
        "alone: tokens, 3 ballots, 2 batches each, 1 loss with a pause",
        short(overlapping(&[0, 1, 0], pause)),
    );
    let crash = Faults { crashes: 1, ..LOSS };
    holds_if_long(
        "alone: tokens, 4 ballots, 2 batches each, 1 loss with a crash",
        short(overlapping(&[0, 1, 0, 1], crash)),
    );
    let crash = Faults { crashes: 1, ..TWO_LOSSES };
    holds_if_long(
        "alone: tokens, 3 ballots, 2 batches each, 2 losses with a crash",
        short(overlapping(&[0, 1, 0], crash)),
    );
    // Without the clock, what servers have in memory is above all tokens.
    holds_if_long("alone: no clock, 4 ballots, 1 loss", World { has_clock: false, ..world(&[0, 1, 0, 1], LOSS) });
}

/// The same for a search that takes minutes. Only `make quorum-worlds` runs it.
fn found_if_long(mistake: Mistake, world: World) {
    found_first_if_long(mistake, world, First::Near);
}

/// The same where so many states are near that they would not go into memory.
fn found_deep_if_long(mistake: Mistake, world: World) {
    found_first_if_long(mistake, world, First::Deep);
}

fn found_first_if_long(mistake: Mistake, mut world: World, first: First) {
    if is_long() {
        world.mistake = Some(mistake);
        is_found(mistake, world, first);
    } else {
        println!("{mistake:?}: skipped; make quorum-worlds runs it");
    }
}

/// The world with two batches of each leader.
fn short(mut world: World) -> World {
    world.batches = 2;
    world
}

#[test]
fn mistakes_against_exclusion() {
    found(Mistake::AdmitsCommitted, short(world(&[0, 1, 1], LOSS)));
    found(Mistake::AsksNobody, short(world(&[0, 1, 0], LOSS)));
    found(Mistake::ClaimsAtAck, short(world(&[0, 1, 0], LOSS)));
    found_if_long(Mistake::ReportsBefore, short(world(&[0, 1, 0], LOSS)));
    found_if_long(Mistake::LeavesAtOnce, short(world(&[0, 1, 0], Faults { leaves: 1, ..LOSS })));
    for mistake in [Mistake::KnownByPromise, Mistake::ForgetsAtNo, Mistake::DropsAtPromise] {
        found_if_long(mistake, short(world(&[0, 1, 0, 1], LOSS)));
    }
    found_if_long(Mistake::SameBallotLate, world(&[0, 1, 1], TWO_LOSSES));
}

#[test]
fn mistakes_against_tokens() {
    let pause = Faults { pauses: 1, ..LOSS };
    for mistake in [Mistake::KeepsTokens, Mistake::SameBallot] {
        found_if_long(mistake, short(overlapping(&[0, 1, 0], pause)));
    }
    found_if_long(Mistake::OverStanding, overlapping(&[0, 1, 0, 1], pause));
    found_deep_if_long(Mistake::NoSkipByLeader, short(overlapping(&[0, 1, 0, 1], pause)));
}
