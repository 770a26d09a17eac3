//! Searches through worlds, to the end.

use stateright::{Checker, HasDiscoveries, Model};
use std::{fmt::Debug, hash::Hash, time::Instant};

/// A world with promises. Each state knows how they were broken, if they were.
pub(crate) trait Promises:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq + Send + Sync>
    + Send
    + Sync
    + 'static
{
    fn breach(state: &Self::State) -> Option<&'static str>;
}

/// Checks that the promises hold in every reachable state.
pub(crate) fn holds<M: Promises>(name: &str, world: M) {
    #[expect(clippy::disallowed_methods, reason = "how long the search took is for the reader of its output only")]
    let begin = Instant::now();
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_dfs().join();
    println!(
        "{name}: {} states ({} visits), depth {}, in {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begin.elapsed()
    );
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let breach = M::breach(path.last_state());
        let steps: Vec<_> = path.into_actions().into_iter().map(|action| format!("{action:?}")).collect();
        panic!("{name}: {property:?} is broken: {breach:?}\n{}", steps.join("\n"));
    }
    assert!(checker.is_done(), "{name}: the search is incomplete");
}

/// The same for a search that takes minutes. Only `make quorum-worlds` runs it.
pub(crate) fn holds_if_long<M: Promises>(name: &str, world: M) {
    if is_long() {
        holds(name, world);
    } else {
        println!("{name}: skipped; make quorum-worlds runs it");
    }
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("FENCEPOST_QUORUM_WORLDS").is_some()
}

/// Where a search looks for a mistake first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum First {
    /// At long histories.
    Deep,
    /// At short ones.
    Near,
}

/// Checks that a world with a mistake is large enough to show what that breaks.
pub(crate) fn is_found<M: Promises>(mistake: impl Debug, world: M, first: First) {
    #[expect(clippy::disallowed_methods, reason = "how long the search took is for the reader of its output only")]
    let begin = Instant::now();
    let builder = world.checker().finish_when(HasDiscoveries::AnyFailures).threads(2);
    let (states, discoveries) = match first {
        First::Deep => of(&builder.spawn_dfs().join()),
        First::Near => of(&builder.spawn_bfs().join()),
    };
    let steps = discoveries.first().unwrap_or_else(|| panic!("{mistake:?}: not found in {states} states"));
    println!("{mistake:?}: found, {states} states, {steps} steps, {:.1?}", begin.elapsed());
}

/// The number of states, and of the steps to each breach.
fn of<M: Promises>(checker: &impl Checker<M>) -> (usize, Vec<usize>) {
    let steps = checker.discoveries().into_values().map(|path| path.into_actions().len());
    (checker.unique_state_count(), steps.collect())
}
