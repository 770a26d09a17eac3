//! The benchmark: load on real servers, and on the baselines beside them, in one run.
//!
//! So that its figures can be believed: servers, echo and Redis are processes of their own, so that what they use can
//! be told from what the load uses; each measurement has new ones; the baselines are measured in turn with what they
//! are compared to, on the same machine in the same minutes, and the middle one of several rounds counts; a fixed rate
//! charges a server with all that it kept waiting; and what fails is counted.
//!
//! The program that runs it has the commands `serve`, `bench-echo` ([`echo::serve`]) and `bench-child`
//! ([`become_program`]): the benchmark starts that program with them.

mod baselines;
mod caller;
mod child;
mod contest;
pub mod echo;
mod figures;
mod keeper;
mod load;
mod meter;
mod pace;
mod place;
pub mod plan;
mod redis;
mod report;
mod session;
mod usage;
mod workloads;

pub use child::become_program;
pub use report::Report;

use contest::Contender;
use plan::{Plan, Workload};
use report::Entry;
use uuid::Uuid;
use workloads::Run;

/// Measures everything, and says on standard error how it goes.
///
/// Dropped, the processes that it started end.
pub async fn run(plan: Plan) -> Report {
    // A server that is in use is not disturbed, and two runs at once do not meet.
    let run = Uuid::new_v4().simple().to_string();
    let mut report = Report::new(&plan, environment(&plan).await.as_deref());
    for &workload in &plan.workloads {
        let contenders = contest::contenders(&plan, workload);
        let mut entries: Vec<Entry> = contenders.iter().map(|contender| Entry::new(*contender)).collect();
        for round in 1..=plan.rounds {
            for entry in &mut entries {
                let label =
                    format!("{}, {}, round {round} of {}", workload.name(), entry.contender.name(), plan.rounds);
                let prefix = format!("bench/{run}/{}/{}/{round}/", workload.name(), entry.contender.key());
                let run = Run { plan: &plan, prefix: &prefix, label: &label };
                match Box::pin(once(run, workload, entry.contender)).await {
                    Ok((figures, errors)) => entry.add(figures, errors),
                    Err(error) => {
                        eprintln!("{label}: {error:#}");
                        entry.fail(format!("{error:#}"));
                    }
                }
            }
        }
        report.add(workload, entries);
    }
    report
}

/// What the Redis of the plan is, if there is one.
async fn environment(plan: &Plan) -> Option<String> {
    let place = place::Place::redis_alone(plan).await.ok()?;
    place.redis.as_ref()?.description().await.ok()
}

async fn once(
    run: Run<'_>,
    workload: Workload,
    contender: Contender,
) -> anyhow::Result<(figures::Figures, std::collections::BTreeMap<String, u64>)> {
    eprintln!("{}", run.label);
    let (figures, measured) = contest::measure(run, workload, contender).await?;
    Ok((figures, measured.tally.errors))
}
