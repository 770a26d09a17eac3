//! The binary: names the crypto of TLS, parses the command line, builds the runtime that the command needs, and ends as
//! the command says.

use clap::Parser;
use fencepost::cli::{Cli, exit};
use std::process::ExitCode;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // TLS panics where it finds no crypto provider. An error says that there is one already: just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    // A single call, or one lock kept alive, needs no threads beside the first.
    let threads = cli.threads().or_else(|| cli.serves().then(workers));
    let mut builder = match threads {
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
            // What is left does not matter to anybody: the command has said that it is done.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("fencepost: cannot start: {error}");
            ExitCode::from(exit::NO)
        }
    }
}

/// The threads that answer: one for every two cores, or as many as `TOKIO_WORKER_THREADS` says. A command is a few
/// microseconds of work, less than it takes to wake another thread for it, and the network, Redis and clients want
/// cores as well: on two cores one thread answers 1.7 times as many unary calls as two do (benches/README.md).
fn workers() -> usize {
    let wanted = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wanted.unwrap_or_else(|| cores().div_ceil(2)).max(1)
}
