//! Many histories, several at once, until the time is over. What was done is kept in a file after each, so that a suite
//! can be interrupted and go on later, and kinds of faults that were rare come first.

use crate::{clock, config::Config, faults::Kind, plan, rng::Rng, run, seam, topology::Topology};
use anyhow::{Context, Result};
use fencepost_torture::{report, totals::Totals, verdict::Verdict};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// One in so many histories has no fault but what clients do: waiting is judged only where no fault reaches.
const CALM_EVERY: u64 = 12;
/// One in so many has clients killed and nothing else, for the same reason.
const ORPHANS_EVERY: u64 = 12;

/// One in so many has only links between servers and Redis broken or delayed, with acquires under way.
const STORE_LINKS_EVERY: u64 = 4;

/// What a suite is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) lasts: Duration,
    pub(crate) jobs: usize,
    pub(crate) topologies: Vec<Topology>,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    pub(crate) server_bin: PathBuf,
    /// Where to keep the state, and histories in which something is wrong.
    pub(crate) folder: PathBuf,
}

/// What a suite has done, over all times that it was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Histories that were begun.
    begun: u64,
    /// Faults that were injected, by topology and kind.
    faults: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) totals: Totals,
    /// Histories that could not be made: the harness or the product did not do as it must.
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

    /// The next history, with the kinds that were rarest first.
    fn next(&mut self, wish: &Wish, folder: &Path) -> Config {
        let number = self.begun;
        self.begun += 1;
        let topology = wish.topologies[usize::try_from(number).unwrap_or(0) % wish.topologies.len()];
        let seed = Rng::new(wish.seed, number).next() >> 16;
        let mut kinds = plan::shuffled(topology.kinds(), seed);
        kinds.sort_by_key(|kind| self.rank(topology, *kind));
        // Of each topology in turn.
        let round = number / wish.topologies.len() as u64;
        if round % CALM_EVERY == CALM_EVERY - 1 {
            kinds.clear();
        } else if round % ORPHANS_EVERY == ORPHANS_EVERY - 2 {
            kinds = vec![Kind::ClientKilled];
        } else if number % STORE_LINKS_EVERY == 1 && kinds.iter().any(|kind| kind.breaks_store_link()) {
            kinds.retain(|kind| kind.breaks_store_link());
        }
        let (duration, server_bin, folder) = (wish.duration, wish.server_bin.clone(), folder.to_owned());
        Config { topology, seed, duration, kinds, server_bin, folder }
    }

    /// Low is rare: in all, and in this topology.
    fn rank(&self, topology: Topology, kind: Kind) -> u64 {
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

/// What it has come to, with what was done before.
pub(crate) async fn run(wish: Wish) -> Result<State> {
    fs::create_dir_all(&wish.folder)?;
    let path = wish.folder.join("state.json");
    // A build of another version while the suite runs must not get into it.
    let server_bin = wish.folder.join(format!("fencepost-{}", std::process::id()));
    fs::copy(&wish.server_bin, &server_bin).with_context(|| wish.server_bin.display().to_string())?;
    let wish = Wish { server_bin: server_bin.clone(), ..wish };
    let state = Arc::new(Mutex::new(State::read(&path)?));
    let until = clock::now() + clock::nanos(wish.lasts);
    let mut jobs = JoinSet::new();
    for _ in 0..wish.jobs {
        let (wish, state, path) = (wish.clone(), Arc::clone(&state), path.clone());
        // Each on threads of its own: while one judges what it has recorded, which takes seconds, the stores and
        // proxies of the others go on.
        jobs.spawn_blocking(move || crate::runtime()?.block_on(one_after_the_other(wish, state, path, until)));
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    fs::remove_file(server_bin)?;
    let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(state)
}

async fn one_after_the_other(wish: Wish, state: Arc<Mutex<State>>, path: PathBuf, until: u64) -> Result<()> {
    // A history that would not be over in time is not begun.
    while clock::until(until) > wish.duration {
        let folder = crate::folder()?;
        let config = state.lock().unwrap_or_else(PoisonError::into_inner).next(&wish, folder.path());
        let verdict = match run::history(&config).await {
            Ok(done) => {
                let verdict = seam::judge(&done.records);
                if !verdict.is_good() {
                    let name = format!("bad-{}-{}.jsonl", config.topology.name(), config.seed);
                    crate::write(&wish.folder.join(name), &done.records)?;
                    keep(&folder, &wish.folder, &config)?;
                }
                Ok(verdict)
            }
            Err(error) => {
                keep(&folder, &wish.folder, &config)?;
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

/// The logs of what went wrong.
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

/// All of it on a page.
pub(crate) fn page(state: &State) -> String {
    let mut page = report::of_all(&state.totals);
    for failure in &state.failures {
        page.push_str(&format!("could not be made: {failure}\n"));
    }
    page
}
