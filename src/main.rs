//! The binary: names the crypto of TLS, parses the command line, builds the runtime that the command needs, and ends as the command says.

use clap::Parser;
use fencepost::cli::{Cli, exit};
use std::process::ExitCode;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // TLS panics where it finds no crypto provider. An error says that there is one already: just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    // A single call, or one lock kept alive, needs no threads beside the first.
    let mut builder = match cli.threads() {
        Some(threads) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
        None if cli.serves() => Builder::new_multi_thread(),
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
