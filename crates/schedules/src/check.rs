//! Runs a scenario under many schedules.

use shuttle::{
    Config, MaxSteps, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
};
use std::{env, sync::Arc};

/// Schedules of each scenario, unless `FENCEPOST_SCHEDULES` is set.
const SCHEDULES: usize = 2_000;
/// Most races need one task to be preempted once or twice.
const PREEMPTIONS: usize = 3;
/// More than any scenario needs: a longer one is stuck.
const STEPS_MAX: usize = 100_000;
/// The stack of a task. The futures of the service are large in a build without optimisation.
const STACK: usize = 1 << 18;

/// Runs `scenario` half of the time under random schedules, and half under schedules with few preemptions.
/// `FENCEPOST_SEED` selects other schedules.
pub fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let schedules = number("FENCEPOST_SCHEDULES").and_then(|it| usize::try_from(it).ok()).unwrap_or(SCHEDULES);
    let seed = number("FENCEPOST_SEED").unwrap_or(1);
    let scenario = Arc::new(scenario);
    run(RandomScheduler::new_from_seed(seed, schedules.div_ceil(2)), scenario.clone());
    run(PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules / 2), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        crate::time::reset();
        scenario();
    });
}
