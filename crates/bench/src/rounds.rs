//! One run: all workloads, each by all contenders, in rounds.

use crate::{
    contenders::{self, Contender},
    figures,
    plan::{Plan, Workload},
    report::{Entry, Report},
    testbed,
    workloads::Run,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Measures everything, and reports progress on stderr.
///
/// Dropped, it ends the processes that it started.
pub(crate) async fn run(plan: Plan) -> Report {
    // Unique lock names: a server in use is not disturbed, nor is another run.
    let run = Uuid::new_v4().simple().to_string();
    let mut report = Report::new(&plan, environment(&plan).await.as_deref());
    for &workload in &plan.workloads {
        let contenders = contenders::of(&plan, workload);
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

/// The version and persistence of the plan's Redis, if there is one.
async fn environment(plan: &Plan) -> Option<String> {
    let testbed = testbed::Testbed::redis_alone(plan).await.ok()?;
    testbed.redis.as_ref()?.description().await.ok()
}

async fn once(
    run: Run<'_>,
    workload: Workload,
    contender: Contender,
) -> anyhow::Result<(figures::Figures, BTreeMap<String, u64>)> {
    eprintln!("{}", run.label);
    let (figures, measured) = contenders::measure(run, workload, contender).await?;
    Ok((figures, measured.tally.errors))
}
