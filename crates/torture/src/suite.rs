//! Runs many histories, several in parallel, until its time is over. The state is saved after each history, so that an
//! interrupted suite can continue, and rare kinds of faults are preferred.

use crate::{clock, config::Config, faults::FaultKind, plan, rng::Rng, run, topology::Topology};
use anyhow::{Context, Result};
use fencepost_torture::{checks::check, report, totals::Totals, verdict::Verdict};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// One in so many histories has only faults made by clients: waiting is judged only where no other fault reaches.
const CALM_EVERY: u64 = 12;
/// One in so many only kills clients, for the same reason.
const ORPHANS_EVERY: u64 = 12;

/// One in so many only breaks or delays links between servers and Redis, with acquires in flight.
const STORE_LINKS_EVERY: u64 = 4;

/// The options of a suite.
#[derive(Clone, Debug)]
pub(crate) struct SuiteOptions {
    pub(crate) lasts: Duration,
    pub(crate) jobs: usize,
    pub(crate) topologies: Vec<Topology>,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) server_bin: PathBuf,
    /// Where to keep the state and the histories with violations.
    pub(crate) folder: PathBuf,
}

/// The state of a suite, over all of its runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Histories started.
    begun: u64,
    /// Injected faults, by topology and kind.
    faults: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) totals: Totals,
    /// Histories that could not be run, because the harness or the product failed.
    pub(crate) failures: Vec<String>,
}

impl State {
    fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        serde_json::from_str(&fs::read_to_string(path)?).with_context(|| path.display().to_string())
    }

    fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_string(self)?)?;
        Ok(fs::rename(new, path)?)
    }

    /// The next history, with the rarest kinds first.
    fn next(&mut self, options: &SuiteOptions, folder: &Path) -> Config {
        let number = self.begun;
        self.begun += 1;
        let topology = options.topologies[usize::try_from(number).unwrap_or(0) % options.topologies.len()];
        let seed = Rng::new(options.seed, number).next() >> 16;
        let mut kinds = plan::shuffled(topology.kinds(), seed);
        kinds.sort_by_key(|kind| self.rank(topology, *kind));
        // Rotates through the variants for each topology.
        let round = number / options.topologies.len() as u64;
        if round % CALM_EVERY == CALM_EVERY - 1 {
            kinds.clear();
        } else if round % ORPHANS_EVERY == ORPHANS_EVERY - 2 {
            kinds = vec![FaultKind::ClientKilled];
        } else if number % STORE_LINKS_EVERY == 1 && kinds.iter().any(|kind| kind.breaks_store_link()) {
            kinds.retain(|kind| kind.breaks_store_link());
        }
        let (duration, server_bin, folder) = (options.duration, options.server_bin.clone(), folder.to_owned());
        Config { topology, seed, duration, kinds, server_bin, folder }
    }

    /// Low is rare, in total and in this topology.
    fn rank(&self, topology: Topology, kind: FaultKind) -> u64 {
        let of = |counts: &BTreeMap<String, u64>| counts.get(&kind.name()).copied().unwrap_or(0);
        let here = self.faults.get(topology.name()).map_or(0, of);
        here + self.faults.values().map(of).sum::<u64>()
    }

    fn add(&mut self, config: &Config, done: Result<Verdict>) {
        match done {
            Ok(verdict) => {
                let faults = self.faults.entry(config.topology.name().to_owned()).or_default();
                for (kind, count) in &verdict.counts.faults {
                    *faults.entry(kind.clone()).or_default() += count;
                }
                self.totals.add(&verdict);
            }
            Err(error) => self.failures.push(format!("{}: {error:#}", config.args().join(" "))),
        }
    }
}

/// Runs histories until the time is over, and returns the state including earlier runs.
pub(crate) async fn run(options: SuiteOptions) -> Result<State> {
    fs::create_dir_all(&options.folder)?;
    let path = options.folder.join("state.json");
    // A copy, so that a rebuild does not change the server during the suite.
    let server_bin = options.folder.join(format!("fencepost-{}", std::process::id()));
    fs::copy(&options.server_bin, &server_bin).with_context(|| options.server_bin.display().to_string())?;
    let options = SuiteOptions { server_bin: server_bin.clone(), ..options };
    let state = Arc::new(Mutex::new(State::read(&path)?));
    let until = clock::now() + clock::nanos(options.lasts);
    let mut jobs = JoinSet::new();
    for _ in 0..options.jobs {
        let (options, state, path) = (options.clone(), Arc::clone(&state), path.clone());
        // Each job has its own threads: while one checks its history, which takes seconds, the stores and proxies of
        // the others continue.
        jobs.spawn_blocking(move || crate::runtime()?.block_on(run_sequentially(options, state, path, until)));
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    fs::remove_file(server_bin)?;
    let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(state)
}

async fn run_sequentially(options: SuiteOptions, state: Arc<Mutex<State>>, path: PathBuf, until: u64) -> Result<()> {
    // Do not start a history that would not end in time.
    while clock::until(until) > options.duration {
        let folder = crate::folder()?;
        let config = state.lock().unwrap_or_else(PoisonError::into_inner).next(&options, folder.path());
        let verdict = match run::history(&config).await {
            Ok(done) => {
                let verdict = check(&done.records);
                if !verdict.is_good() {
                    let name = format!("bad-{}-{}.jsonl", config.topology.name(), config.seed);
                    crate::write(&options.folder.join(name), &done.records)?;
                    keep(&folder, &options.folder, &config)?;
                }
                Ok(verdict)
            }
            Err(error) => {
                keep(&folder, &options.folder, &config)?;
                Err(error)
            }
        };
        println!("{}", line(&config, verdict.as_ref()));
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.add(&config, verdict);
        state.write(&path)?;
    }
    Ok(())
}

/// Keeps the logs of a bad history.
fn keep(folder: &tempfile::TempDir, to: &Path, config: &Config) -> Result<()> {
    let to = to.join(format!("logs-{}-{}", config.topology.name(), config.seed));
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let (Some(name), true) = (path.file_name(), path.extension().is_some_and(|end| end == "log")) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

fn line(config: &Config, verdict: Result<&Verdict, &anyhow::Error>) -> String {
    let name = format!("{:<14} seed {:<16}", config.topology.name(), config.seed);
    match verdict {
        Ok(verdict) => {
            let faults: u64 = verdict.counts.faults.values().sum();
            let (operations, wrong) = (verdict.counts.operations, verdict.violations.len());
            let judged = if wrong == 0 { "good".to_owned() } else { format!("{wrong} VIOLATIONS") };
            format!("{name} {operations:>6} operations {faults:>4} faults  {judged}")
        }
        Err(error) => format!("{name} FAILED: {error:#}"),
    }
}

/// The report of the suite.
pub(crate) fn page(state: &State) -> String {
    let mut page = report::of_all(&state.totals);
    for failure in &state.failures {
        page.push_str(&format!("could not be run: {failure}\n"));
    }
    page
}
