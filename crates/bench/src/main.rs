//! The benchmark: load on real servers and on the baselines, in one run.
//!
//! Measures that make the figures credible: servers, echo and Redis are separate processes, so their resource usage is
//! known apart from the load's; each measurement starts new ones; baselines are measured in turn with Fencepost, on the
//! same machine in the same minutes, and the median of several rounds counts; at a fixed rate, latencies include the
//! time that operations wait for a slow server; errors are counted.

mod baselines;
mod caller;
mod child;
mod contenders;
mod echo;
mod figures;
mod keeper;
mod load;
mod meter;
mod options;
mod pace;
mod plan;
mod redis;
mod report;
mod rounds;
mod session;
mod testbed;
mod usage;
mod workloads;

use clap::{CommandFactory, Parser, error::ErrorKind};
use options::{BenchArgs, Cli, Process};
use std::{io::Write, process::ExitCode, thread::available_parallelism};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// No operation succeeded, or the program cannot start.
const NO: u8 = 1;
/// Terminated by a signal: this plus the number of the signal.
const SIGNAL: u8 = 128;

fn main() -> ExitCode {
    // Without a crypto provider TLS panics. An error means that one is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let done = match (cli.process, cli.bench) {
        (Some(Process::Child { parent, program }), _) => {
            let error = child::become_program(parent, &program);
            Err(anyhow::anyhow!("cannot start {program:?}: {error}"))
        }
        (Some(Process::Echo { redis }), _) => block_on(workers(), async { echo::serve(redis).await.map(|()| 0) }),
        (None, Some(args)) => block_on(args.threads, bench(args)),
        // clap demands a target.
        (None, None) => Ok(NO),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(NO)
        }
    }
}

/// As many threads as a server has.
fn workers() -> usize {
    let wanted = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || available_parallelism().map_or(1, std::num::NonZero::get);
    wanted.unwrap_or_else(|| cores().div_ceil(2)).max(1)
}

/// Runs this on so many threads.
fn block_on(threads: usize, work: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let mut builder = Builder::new_multi_thread();
    if threads == 1 {
        builder = Builder::new_current_thread();
    } else {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Runs the benchmark to its end, or until a signal. Returns the exit code.
async fn bench(args: BenchArgs) -> anyhow::Result<u8> {
    let json = args.json;
    let plan = args.plan().unwrap_or_else(|error| Cli::command().error(ErrorKind::ArgumentConflict, error).exit());
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Dropping the benchmark ends the processes that it started.
    let report = tokio::select! {
        report = Box::pin(rounds::run(plan)) => report,
        _ = interrupt.recv() => {
            say("interrupted");
            return Ok(SIGNAL + 2);
        }
        _ = terminate.recv() => {
            say("terminated");
            return Ok(SIGNAL + 15);
        }
    };
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", report.json())?,
        false => writeln!(out, "{}", report.text())?,
    }
    match report.totals() {
        (0.0, _) => anyhow::bail!("no operation succeeded"),
        (_, 0.0) => {}
        (_, errors) => say(&format!("{errors} errors: find their cause before you trust the figures")),
    }
    Ok(0)
}

/// Writes to stderr.
fn say(text: &str) {
    eprintln!("fencepost-bench: {text}");
}
