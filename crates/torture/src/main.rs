//! The torture harness. `torture --help` says what it does.

mod client;
mod clients;
mod clock;
mod config;
mod faults;
mod journal;
mod plan;
mod process;
mod proxy;
mod pump;
mod quiet;
mod redis;
mod resp;
mod results;
mod rng;
mod run;
mod seam;
mod server;
mod stores;
mod suite;
mod topology;
mod wall;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use config::Config;
use faults::Kind;
use fencepost_torture::history::Record;
use std::{
    ffi::OsString,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use topology::Topology;

/// Torture of Fencepost: real processes under real faults, and checks of what happened.
#[derive(Parser)]
#[command(name = "torture")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one history and check it
    Run(RunArgs),
    /// Run many histories, one after the other and some at once; goes on where it ended
    Suite(SuiteArgs),
    /// Check a history that was recorded
    Check {
        /// Lines of JSON, as `run --out` writes them
        file: PathBuf,
    },
    /// Show the faults that a history would have
    Plan(RunArgs),
    #[command(hide = true)]
    Client { orders: String },
    #[command(hide = true, trailing_var_arg = true)]
    Under {
        parent: u32,
        #[arg(allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// What to put under torture
    #[arg(long, value_enum)]
    topology: Topology,
    /// Decides all that is drawn at random; drawn itself if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// The kinds of faults, those first that are wanted most; none for a calm history; all, as the seed has them, if
    /// not given
    #[arg(long, value_delimiter = ',')]
    kinds: Option<Vec<String>>,
    /// For how long the clients work
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Where to write the history
    #[arg(long)]
    out: Option<PathBuf>,
    /// The server; by default the one that was built beside this program
    #[arg(long)]
    server_bin: Option<PathBuf>,
    /// Keep the folder with sockets, logs and journals
    #[arg(long)]
    keep: bool,
}

#[derive(clap::Args)]
struct SuiteArgs {
    /// How long to go on
    #[arg(long = "for", default_value = "5m", value_parser = humantime::parse_duration)]
    lasts: Duration,
    /// How many histories at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// What to put under torture, in turn
    #[arg(long, value_enum, value_delimiter = ',', default_value = "redis,redis-replica,memory,redis,redis-replica")]
    topologies: Vec<Topology>,
    /// For how long the clients of one history work
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// The seeds of histories are derived from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the state is kept, and histories in which something is wrong
    #[arg(long, default_value = "target/torture/suite")]
    state: PathBuf,
    /// A table to add the totals to
    #[arg(long)]
    results: Option<PathBuf>,
    /// The server; by default the one that was built beside this program
    #[arg(long)]
    server_bin: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    match Args::parse().command {
        Command::Under { parent, command } => process::under(parent, &command).map(|()| ExitCode::SUCCESS),
        Command::Client { orders } => {
            let orders = serde_json::from_str(&orders)?;
            runtime()?.block_on(client::run(orders)).map(|()| ExitCode::SUCCESS)
        }
        Command::Check { file } => Ok(tell(&read(&file)?)),
        Command::Plan(args) => {
            let config = args.config(Path::new(""))?;
            for event in plan::events(&config.kinds, config.seed, config.duration) {
                println!("{:?} {} for {:?}", event.at, event.kind.name(), event.hold);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => run_one(&args),
        Command::Suite(args) => run_many(args),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

impl RunArgs {
    fn config(&self, folder: &Path) -> Result<Config> {
        let seed = self.seed.unwrap_or_else(|| clock::now() % 1_000_000_007);
        let server_bin = self.server_bin.clone().map_or_else(server_beside, Ok)?;
        let all = || Ok(plan::shuffled(self.topology.kinds(), seed));
        let kinds = self.kinds.as_ref().map_or_else(all, |names| kinds_of(names))?;
        let (topology, duration, folder) = (self.topology, self.duration, folder.to_owned());
        Ok(Config { topology, seed, duration, kinds, server_bin, folder })
    }
}

fn server_beside() -> Result<PathBuf> {
    Ok(config::server_beside(&std::env::current_exe()?))
}

/// A suite fails if more than one history in so many could not be made.
const NOT_MADE_SHARE: u64 = 5;

fn run_many(args: SuiteArgs) -> Result<ExitCode> {
    let server_bin = args.server_bin.map_or_else(server_beside, Ok)?;
    let SuiteArgs { lasts, jobs, topologies, duration, seed, state: folder, results, .. } = args;
    let state =
        runtime()?.block_on(suite::run(suite::Wish { lasts, jobs, topologies, duration, seed, server_bin, folder }))?;
    println!("\n{}", suite::page(&state).trim_end());
    if let Some(results) = results {
        results::add(&results, &state)?;
    }
    // One that cannot be made now and then (a Redis that does not start in time, say) is told of, and says nothing
    // about the server.
    let made = state.totals.histories;
    let few_failed = state.failures.len() as u64 * NOT_MADE_SHARE <= made;
    let is_good = state.totals.wrong() == 0 && made > 0 && few_failed;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn kinds_of(names: &[String]) -> Result<Vec<Kind>> {
    let named = names.iter().filter(|name| !name.is_empty());
    named.map(|name| Kind::from_str(name, false).map_err(anyhow::Error::msg)).collect()
}

/// Where the processes of a history live: in memory, if the system has such a place. A disk that keeps writers waiting
/// for seconds, because others use it, shows in what clients do, and nothing of that is the servers'.
fn folder() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("torture-");
    Ok(builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir())?)
}

fn run_one(args: &RunArgs) -> Result<ExitCode> {
    let folder = folder()?;
    let config = args.config(folder.path())?;
    println!("{}", config.args().join(" "));
    let done = runtime()?.block_on(run::history(&config));
    if args.keep || done.is_err() {
        println!("kept: {}", folder.keep().display());
    }
    let done = done?;
    if let Some(out) = &args.out {
        write(out, &done.records)?;
    }
    println!("{} faults planned, {} without effect", done.planned, done.missed.len());
    for missed in &done.missed {
        println!("had no effect: {missed}");
    }
    Ok(tell(&done.records))
}

fn tell(history: &[Record]) -> ExitCode {
    let verdict = seam::judge(history);
    println!("{}", seam::page(&verdict).trim_end());
    if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(path: &Path, records: &[Record]) -> Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path).with_context(|| path.display().to_string())?);
    for record in records {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let records = text.lines().map(serde_json::from_str).collect::<Result<Vec<Record>, _>>()?;
    if records.is_empty() {
        bail!("{}: no record in it", path.display());
    }
    Ok(records)
}
