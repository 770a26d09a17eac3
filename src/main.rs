//! The binary: installs the crypto provider, parses the command line, builds the runtime that the command needs, and
//! exits with the command's exit code.

use clap::Parser;
use fencepost::cli::{Cli, exit};
use std::process::ExitCode;
use tokio::runtime::Builder;

/// A pair on Redis costs the server a sixth less than with the allocator of glibc (docs/benchmarks/experiments.md).
#[cfg(target_env = "gnu")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Without a crypto provider TLS panics. An error means that one is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    // Commands that call a server need only one thread.
    let mut builder = match cli.serves().then(workers) {
        Some(threads) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
        None => Builder::new_current_thread(),
    };
    match builder.enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(cli.run());
            // The command is done, so remaining tasks can be dropped.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("fencepost: cannot start: {error}");
            ExitCode::from(exit::NO)
        }
    }
}

/// The number of worker threads: one for every two cores, or the value of `TOKIO_WORKER_THREADS`. A command is a few
/// microseconds of work, less than it takes to wake another thread, and the network, Redis and clients need cores as
/// well: on two cores, one thread serves 1.7 times as many unary calls as two (docs/benchmarks).
fn workers() -> usize {
    let wanted = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wanted.unwrap_or_else(|| cores().div_ceil(2)).max(1)
}
