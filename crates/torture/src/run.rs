//! Runs one history, from the first process to the last record.

use crate::{
    clients::Clients,
    clock,
    config::{BOUNDS, Config},
    faults::{FaultContext, InjectedFault, inject},
    plan::{self, PlannedFault},
    sampling,
    stores::Stores,
    topology::Deployment,
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::history::{AcquireEnd, Record, Run};
use std::time::Duration;
use tokio::{sync::mpsc, time::sleep};

/// With fewer grants per second the clients were not working.
const GRANTS_PER_SECOND_MIN: u64 = 10;

/// A recorded history and its faults.
pub(crate) struct RecordedRun {
    pub(crate) records: Vec<Record>,
    /// The number of planned faults.
    pub(crate) planned: usize,
    /// Faults without effect, which are not counted.
    pub(crate) missed: Vec<String>,
}

/// Runs one history.
pub(crate) async fn history(config: &Config) -> Result<RecordedRun> {
    let planned = plan::faults(&config.kinds, config.seed, config.duration);
    let stores = Stores::serve(&config.socket("stores"))?;
    let deployment = config.topology.build(config).await.context("setting up")?;
    deployment.wait_until_serving().await?;
    let ports: Vec<u16> = deployment.servers.iter().map(|server| server.link.port).collect();
    let begin = clock::now();
    let clients = Clients::start(config, &ports).await?;
    let (send, mut sampled) = mpsc::unbounded_channel();
    let (end, faults, missed) = tokio::select! {
        // Never ends.
        () = sampling::run(&deployment, send), if deployment.quorum.is_some() => unreachable!("it reads on"),
        done = async {
            let (mut faults, missed) = torture(&deployment, &clients, &planned, config.duration).await?;
            deployment.heal().await.context("healing")?;
            faults.extend(deployment.unasked_failover().await?);
            let end = clock::now();
            clients.finish().await.context("stopping the clients")?;
            anyhow::Ok((end, faults, missed))
        } => done?,
    };
    let finals = crate::final_state::record(&deployment, &stores).await.context("checking the final state")?;
    let run = Run {
        seed: config.seed,
        topology: config.topology.name().to_owned(),
        args: config.args(),
        begin,
        end,
        bounds: BOUNDS,
    };
    let mut records = vec![Record::Run(run)];
    records.extend(clients.records()?);
    records.extend(stores.steps().into_iter().map(Record::Store));
    records.extend(faults);
    records.extend(finals);
    while let Ok(kept) = sampled.try_recv() {
        records.push(kept);
    }
    let grants = count_grants(&records);
    let least = config.duration.as_secs() * GRANTS_PER_SECOND_MIN;
    ensure!(grants >= least, "only {grants} grants in {:?}: the clients hardly worked", config.duration);
    ensure!(missed.len() * 2 <= planned.len(), "most faults had no effect: {}", missed.join("; "));
    Ok(RecordedRun { records, planned: planned.len(), missed })
}

/// Injects all planned faults; overlapping ones run concurrently.
async fn torture(
    deployment: &Deployment,
    clients: &Clients,
    planned: &[PlannedFault],
    duration: Duration,
) -> Result<(Vec<Record>, Vec<String>)> {
    let begin = clock::now();
    let due = |at: Duration| clock::until(begin + clock::nanos(at));
    let (mut records, mut missed) = (Vec::new(), Vec::new());
    let mut rest = planned;
    while let Some((first, after)) = rest.split_first() {
        sleep(due(first.at)).await;
        let one =
            async { inject(FaultContext { deployment, clients, fault: first }).await.with_context(|| describe(first)) };
        let together = after.first().filter(|second| second.at < first.at + first.hold);
        let other = async {
            let Some(second) = together else { return Ok(None) };
            sleep(due(second.at)).await;
            inject(FaultContext { deployment, clients, fault: second })
                .await
                .with_context(|| describe(second))
                .map(Some)
        };
        let (one, other) = tokio::try_join!(one, other)?;
        for InjectedFault { records: injected, missed: without_effect } in [Some(one), other].into_iter().flatten() {
            records.extend(injected);
            missed.extend(without_effect);
        }
        rest = if together.is_some() { &after[1..] } else { after };
    }
    sleep(due(duration)).await;
    Ok((records, missed))
}

fn describe(fault: &PlannedFault) -> String {
    format!("{} at {:?} for {:?}", fault.kind.name(), fault.at, fault.hold)
}

fn count_grants(records: &[Record]) -> u64 {
    let granted =
        |record: &&Record| matches!(record, Record::Acquire(one) if matches!(one.end, AcquireEnd::Acquired(_)));
    records.iter().filter(granted).map(|_| 1).sum()
}
