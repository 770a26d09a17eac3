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
mod rng;
mod run;
mod seam;
mod server;
mod stores;
mod topology;
mod wall;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use config::Config;
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
    /// Where in the rounds of kinds of faults to begin; the seed decides if it is not given
    #[arg(long)]
    offset: Option<u64>,
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
            for event in plan::events(config.topology, config.seed, config.offset, config.duration) {
                println!("{:?} {} for {:?}", event.at, event.kind.name(), event.hold);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => run_one(&args),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

impl RunArgs {
    fn config(&self, folder: &Path) -> Result<Config> {
        let seed = self.seed.unwrap_or_else(|| clock::now() % 1_000_000_007);
        let beside = || -> Result<PathBuf> { Ok(config::server_beside(&std::env::current_exe()?)) };
        let server_bin = self.server_bin.clone().map_or_else(beside, Ok)?;
        let offset = self.offset.unwrap_or(seed % 1_000);
        let (topology, duration, folder) = (self.topology, self.duration, folder.to_owned());
        Ok(Config { topology, seed, duration, offset, server_bin, folder })
    }
}

fn run_one(args: &RunArgs) -> Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("torture-").tempdir()?;
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
    println!("{}", verdict.page.trim_end());
    if verdict.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
