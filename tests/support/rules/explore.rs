//! Exhaustive search: every sequence of an alphabet of commands up to a depth.
//!
//! Breadth first; a known state is not expanded again. States that differ only in their date are equal.

use super::{Step, World};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Instant,
};

/// A search. The lease of a command is its age: 0 is the newest lease that is remembered.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) start: Vec<Step>,
    pub(crate) alphabet: Vec<Step>,
    pub(crate) waiters_max: usize,
    pub(crate) depth: usize,
}

struct Path {
    world: World,
    steps: Vec<Step>,
}

impl Model {
    /// Runs every sequence, and prints the number of states.
    pub(crate) fn explore(&self) {
        #[expect(clippy::disallowed_methods, reason = "how long the search took is for the reader of its output only")]
        let begin = Instant::now();
        let mut seen = HashSet::new();
        let empty = Path { world: World::new(self.waiters_max), steps: Vec::new() };
        let start = self.start.iter().fold(empty, |path, step| path.then(*step));
        let mut frontier = vec![start];
        let mut steps = 0_u64;
        for depth in 1..=self.depth {
            let mut next = Vec::new();
            for path in &frontier {
                for step in self.alphabet.iter().filter_map(|step| with_lease(*step, &path.world)) {
                    let after = path.then(step);
                    steps += 1;
                    let mut hasher = DefaultHasher::new();
                    after.world.key().hash(&mut hasher);
                    if seen.insert(hasher.finish()) && depth < self.depth {
                        next.push(after);
                    }
                }
            }
            frontier = next;
        }
        println!(
            "{}: {} commands to depth {}: {} states, {steps} steps in {:.1?}",
            self.name,
            self.alphabet.len(),
            self.depth,
            seen.len(),
            begin.elapsed()
        );
    }
}

impl Path {
    fn then(&self, step: Step) -> Self {
        let mut world = self.world.clone();
        let mut steps = self.steps.clone();
        steps.push(step);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.run(step))) {
            println!("failed after {steps:#?}");
            resume_unwind(panic);
        }
        world.forget_leases();
        Self { world, steps }
    }
}

/// The command with the number of its lease in this world; `None` if there is no such lease.
fn with_lease(step: Step, world: &World) -> Option<Step> {
    let lease = |age: u32| world.leases().get(age as usize).copied();
    Some(match step {
        Step::Acquire { request, attempt, copy, wait, .. } => {
            Step::Acquire { request, attempt, copy, wait, lease: world.unused_lease(request) }
        }
        Step::Claim { request, attempt, copy, .. } => {
            Step::Claim { request, attempt, copy, lease: world.unused_lease(request) }
        }
        Step::Release { lease: age } => Step::Release { lease: lease(age)? },
        Step::Renew { lease: age, ttl } => Step::Renew { lease: lease(age)?, ttl },
        Step::RenewKept { lease: age, attachment } => Step::RenewKept { lease: lease(age)?, attachment },
        Step::Attach { lease: age, attempt, attachment } => Step::Attach { lease: lease(age)?, attempt, attachment },
        Step::Detach { lease: age, attachment } => Step::Detach { lease: lease(age)?, attachment },
        Step::Disconnect { lease: age, attachment } => Step::Disconnect { lease: lease(age)?, attachment },
        Step::Convert { lease: age, upgrades, shared } => Step::Convert { lease: lease(age)?, upgrades, shared },
        other => other,
    })
}
