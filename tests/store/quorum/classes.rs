//! Compares the search by classes of states with the search of all states one by one.

use super::world::{State, World};
use stateright::Model;
use std::collections::{BTreeSet, HashSet, VecDeque};

/// The number of states that the search meets, and their classes.
fn search(world: &World) -> (usize, BTreeSet<String>) {
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from(world.init_states());
    let (mut classes, mut actions) = (BTreeSet::new(), Vec::new());
    while let Some(state) = queue.pop_front() {
        assert_eq!(state.breach, None);
        let class = class(world, &state);
        let name = if world.exact { format!("{state:?}") } else { class.clone() };
        classes.insert(class);
        if !seen.insert(name) {
            continue;
        }
        actions.clear();
        world.actions(&state, &mut actions);
        queue.extend(actions.drain(..).filter_map(|action| world.next_state(&state, action)));
    }
    (seen.len(), classes)
}

/// The class of a state: without what has no effect any more.
fn class(world: &World, state: &State) -> String {
    let mut state = state.clone();
    state.exact = false;
    world.prune(None, &mut state, None);
    state.key()
}

pub(crate) fn are_the_same(name: &str, world: &World) {
    let (count, classes) = search(world);
    let (exact_count, exact_classes) = search(&World { exact: true, ..world.clone() });
    println!("{name}: {count} states, one by one {exact_count}");
    assert_eq!(classes.len(), count);
    let (more, fewer) = (exact_classes.difference(&classes), classes.difference(&exact_classes));
    assert!(
        classes == exact_classes,
        "{name}: one by one, there are {} more classes: {:#?}\nand {} fewer: {:#?}",
        more.clone().count(),
        more.take(3).collect::<Vec<_>>(),
        fewer.clone().count(),
        fewer.take(3).collect::<Vec<_>>()
    );
}
