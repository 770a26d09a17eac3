//! One history, from the first process to the last record.

use crate::{
    clients::Clients,
    clock,
    config::{BOUNDS, Config},
    faults::{Inflicted, Scene, inflict},
    plan::{self, Event},
    seam::grants,
    stores::Stores,
    topology::World,
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::history::{Record, Run};
use std::time::Duration;
use tokio::time::sleep;

/// Fewer grants a second than this, and the clients did nothing.
const GRANTS_PER_SECOND_MIN: u64 = 10;

/// A history, and what the harness has to say of it.
pub(crate) struct Done {
    pub(crate) records: Vec<Record>,
    /// How many faults the plan had.
    pub(crate) planned: usize,
    /// Faults that had no effect, and are not counted.
    pub(crate) missed: Vec<String>,
}

/// Runs one history.
pub(crate) async fn history(config: &Config) -> Result<Done> {
    let events = plan::events(&config.kinds, config.seed, config.duration);
    let stores = Stores::serve(&config.socket("stores"))?;
    let world = config.topology.build(config).await.context("setting up")?;
    world.works().await?;
    let ports: Vec<u16> = world.servers.iter().map(|server| server.link.port).collect();
    let begin = clock::now();
    let clients = Clients::start(config, &ports).await?;
    let (faults, missed) = torture(&world, &clients, &events, config.duration).await?;
    world.heal().await.context("healing")?;
    let end = clock::now();
    clients.finish().await.context("the clients are told to end")?;
    let finals = crate::quiet::look(&world, &stores).await.context("looking at what is left")?;
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
    let grants = grants(&records);
    let least = config.duration.as_secs() * GRANTS_PER_SECOND_MIN;
    ensure!(grants >= least, "only {grants} grants in {:?}: what did the clients do?", config.duration);
    ensure!(missed.len() * 2 <= events.len(), "most faults had no effect: {}", missed.join("; "));
    Ok(Done { records, planned: events.len(), missed })
}

/// All faults of the plan; those that overlap in it run at once.
async fn torture(
    world: &World,
    clients: &Clients,
    events: &[Event],
    duration: Duration,
) -> Result<(Vec<Record>, Vec<String>)> {
    let begin = clock::now();
    let due = |at: Duration| clock::until(begin + clock::nanos(at));
    let (mut records, mut missed) = (Vec::new(), Vec::new());
    let mut rest = events;
    while let Some((first, after)) = rest.split_first() {
        sleep(due(first.at)).await;
        let one = async { inflict(Scene { world, clients, event: first }).await.with_context(|| named(first)) };
        let together = after.first().filter(|second| second.at < first.at + first.hold);
        let other = async {
            let Some(second) = together else { return Ok(None) };
            sleep(due(second.at)).await;
            inflict(Scene { world, clients, event: second }).await.with_context(|| named(second)).map(Some)
        };
        let (one, other) = tokio::try_join!(one, other)?;
        for Inflicted { records: done, missed: not } in [Some(one), other].into_iter().flatten() {
            records.extend(done);
            missed.extend(not);
        }
        rest = if together.is_some() { &after[1..] } else { after };
    }
    sleep(due(duration)).await;
    Ok((records, missed))
}

fn named(event: &Event) -> String {
    format!("{} at {:?} for {:?}", event.kind.name(), event.at, event.hold)
}
