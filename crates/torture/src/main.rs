//! The torture harness. See `torture --help`.

mod client;
mod clients;
mod clock;
mod config;
mod faults;
mod final_state;
mod journal;
mod plan;
mod process;
mod proxy;
mod pump;
mod redis;
mod reroute;
mod resp;
mod results;
mod rng;
mod run;
mod sampling;
mod server;
mod shim;
mod stores;
mod suite;
mod topology;
mod wall;
mod wires;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use config::Config;
use faults::FaultKind;
use fencepost_torture::{checks, history::Record, report};
use std::{
    ffi::OsString,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use topology::Topology;

/// Torture tests of Fencepost: real processes under real faults, and checks of the recorded history
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
    /// Run many histories, some of them in parallel; continues an interrupted suite
    Suite(SuiteArgs),
    /// Check a recorded history
    Check {
        /// The history: lines of JSON, as written by `run --out`
        file: PathBuf,
    },
    /// Show the faults of a history
    Plan(RunArgs),
    #[command(hide = true)]
    Client { options: String },
    #[command(hide = true, trailing_var_arg = true)]
    Under {
        parent: u32,
        #[arg(allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// The system under test
    #[arg(long, value_enum)]
    topology: Topology,
    /// Determines all random choices; random by default
    #[arg(long)]
    seed: Option<u64>,
    /// The kinds of faults, in order of preference; empty for no faults; by default all, in an order determined by the
    /// seed
    #[arg(long, value_delimiter = ',')]
    kinds: Option<Vec<String>>,
    /// How long the clients work
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Where to write the history
    #[arg(long)]
    out: Option<PathBuf>,
    /// The server program; by default the one built beside this program
    #[arg(long)]
    server_bin: Option<PathBuf>,
    /// Keep the directory with sockets, logs and journals
    #[arg(long)]
    keep: bool,
}

/// The systems under test of a suite, in turn. Their number has no divisor in common with those of its variants.
const SYSTEMS: &str = "quorum,redis,redis-replica,cluster,memory,quorum,redis";

#[derive(clap::Args)]
struct SuiteArgs {
    /// How long to run
    #[arg(long = "for", default_value = "5m", value_parser = humantime::parse_duration)]
    lasts: Duration,
    /// The number of parallel histories
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The systems under test, in turn
    #[arg(long, value_enum, value_delimiter = ',', default_value = SYSTEMS)]
    topologies: Vec<Topology>,
    /// How long the clients of each history work
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// The seed from which the seeds of histories are derived
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to keep the state and the histories with violations
    #[arg(long, default_value = "target/torture/suite")]
    state: PathBuf,
    /// A table to add the totals to
    #[arg(long)]
    results: Option<PathBuf>,
    /// The server program; by default the one built beside this program
    #[arg(long)]
    server_bin: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    match Args::parse().command {
        Command::Under { parent, command } => process::under(parent, &command).map(|()| ExitCode::SUCCESS),
        Command::Client { options } => {
            let options = serde_json::from_str(&options)?;
            runtime()?.block_on(client::run(options)).map(|()| ExitCode::SUCCESS)
        }
        Command::Check { file } => Ok(report(&read(&file)?)),
        Command::Plan(args) => {
            let config = args.config(Path::new(""))?;
            for fault in plan::faults(&config.kinds, config.seed, config.duration) {
                println!("{:?} {} for {:?}", fault.at, fault.kind.name(), fault.hold);
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

/// A suite fails if more than one in so many histories could not be run.
const FAILED_SHARE_MAX: u64 = 5;

fn run_many(args: SuiteArgs) -> Result<ExitCode> {
    let server_bin = args.server_bin.map_or_else(server_beside, Ok)?;
    let SuiteArgs { lasts, jobs, topologies, duration, seed, state: folder, results, .. } = args;
    let state = runtime()?.block_on(suite::run(suite::SuiteOptions {
        lasts,
        jobs,
        topologies,
        duration,
        seed,
        server_bin,
        folder,
    }))?;
    println!("\n{}", suite::page(&state).trim_end());
    if let Some(results) = results {
        results::add(&results, &state)?;
    }
    // A history that occasionally cannot be run (because Redis starts too late, for example) is reported, but says
    // nothing about the server.
    let made = state.totals.histories;
    let few_failed = state.failures.len() as u64 * FAILED_SHARE_MAX <= made;
    let is_good = state.totals.violation_count() == 0 && made > 0 && few_failed;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn kinds_of(names: &[String]) -> Result<Vec<FaultKind>> {
    let named = names.iter().filter(|name| !name.is_empty());
    named.map(|name| FaultKind::from_str(name, false).map_err(anyhow::Error::msg)).collect()
}

/// The directory of a history's processes: in memory, if possible. A shared disk that blocks writers for seconds would
/// affect the clients, which the checks would blame on the servers.
fn folder() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("torture-");
    Ok(builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir())?)
}

fn run_one(args: &RunArgs) -> Result<ExitCode> {
    let folder = folder()?;
    let config = args.config(folder.path())?;
    println!("{}", config.args().join(" "));
    let run = runtime()?.block_on(run::history(&config));
    if args.keep || run.is_err() {
        println!("kept: {}", folder.keep().display());
    }
    let run = run?;
    if let Some(out) = &args.out {
        write(out, &run.records)?;
    }
    println!("{} faults planned, {} without effect", run.planned, run.missed.len());
    for missed in &run.missed {
        println!("without effect: {missed}");
    }
    Ok(report(&run.records))
}

fn report(history: &[Record]) -> ExitCode {
    let verdict = checks::check(history);
    println!("{}", report::of_one(&verdict).trim_end());
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
        bail!("{}: it has no records", path.display());
    }
    Ok(records)
}
