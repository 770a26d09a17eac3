//! The command line: one binary that serves, and that is a client of a server.
//!
//! Each command is a request and a judgement: the request is made of the arguments, and a pure function judges the
//! reply - what to say to people, and the exit code. Standard output holds the answer and nothing else; everything said
//! besides goes to standard error.

mod args;
mod bench;
mod calls;
mod connect;
mod docs;
mod doctor;
pub mod exit;
mod json;
mod run;
mod serve;
mod text;

use clap::{Parser, Subcommand};
use exit::Failure;
use std::{io, process::ExitCode};

/// Locks with fencing tokens: the server, and its command line.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, about, after_long_help = exit::TABLE)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server
    Serve(serve::ServeArgs),
    /// Run a command while holding a lock
    Run(run::RunArgs),
    /// Take a lock, and leave it to the caller to renew and release
    Acquire(calls::acquire::AcquireArgs),
    /// Renew a lease
    Renew(calls::lease::RenewArgs),
    /// Give a lease back
    Release(calls::lease::ReleaseArgs),
    /// Show who holds a lock, for how long, and how many wait
    Get(calls::show::GetArgs),
    /// List the locks that are held or waited for
    Ls(calls::show::ListArgs),
    /// Print what happens to locks, as it happens
    Watch(calls::watch::WatchArgs),
    /// Ask whether a token is that of a lock's current lease
    CheckToken(calls::show::CheckTokenArgs),
    /// Take a lock from its holder
    ForceRelease(calls::admin::ForceReleaseArgs),
    /// Have a server go away in order: the first that --server names
    Drain(calls::admin::DrainArgs),
    /// Check a Redis for what endangers locks
    Doctor(doctor::DoctorArgs),
    /// Measure a server, and the baselines beside it
    #[command(long_about = bench::LONG_ABOUT)]
    Bench(Box<bench::BenchArgs>),
    /// The baseline of the transport, for bench
    #[command(hide = true)]
    BenchEcho,
    /// Become a program that ends with bench
    #[command(hide = true)]
    BenchChild(bench::ChildArgs),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual as roff: fencepost man | man -l -
    Man {
        /// Only that of one command
        command: Option<String>,
    },
}

impl Cli {
    /// Does a server's work want more than one thread?
    pub fn serves(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::BenchEcho)
    }

    /// How many threads besides the first its work was asked to use.
    pub fn threads(&self) -> Option<usize> {
        match &self.command {
            Command::Bench(args) if args.threads > 1 => Some(args.threads),
            _ => None,
        }
    }

    /// Does what was asked, and says on standard error why if it could not.
    pub async fn run(self) -> ExitCode {
        match Box::pin(self.dispatch()).await {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                if !failure.message.is_empty() {
                    say(&failure.message);
                }
                ExitCode::from(failure.code)
            }
        }
    }

    async fn dispatch(self) -> Result<u8, Failure> {
        match self.command {
            Command::Serve(args) => serve::serve(args).await?,
            Command::Run(args) => return run::run(args).await,
            Command::Acquire(args) => calls::acquire::acquire(args).await?,
            Command::Renew(args) => calls::lease::renew(args).await?,
            Command::Release(args) => calls::lease::release(args).await?,
            Command::Get(args) => calls::show::get(args).await?,
            Command::Ls(args) => calls::show::list(args).await?,
            Command::Watch(args) => calls::watch::watch(args).await?,
            Command::CheckToken(args) => calls::show::check_token(args).await?,
            Command::ForceRelease(args) => calls::admin::force_release(args).await?,
            Command::Drain(args) => calls::admin::drain(args).await?,
            Command::Doctor(args) => doctor::doctor(args).await?,
            Command::Bench(args) => return bench::bench(*args).await,
            Command::BenchEcho => {
                fencepost_bench::echo::serve().await.map_err(|error| Failure::new(exit::NO, error.to_string()))?;
            }
            Command::BenchChild(args) => return Err(bench::child(&args)),
            Command::Completions { shell } => docs::completions(shell, &mut io::stdout().lock())?,
            Command::Man { command } => docs::man(command.as_deref(), &mut io::stdout().lock())?,
        }
        Ok(exit::OK)
    }
}

/// A word besides the answer. That nobody may be reading it is no reason to stop.
fn say(message: &str) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "fencepost: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_of_the_server_is_a_flag() {
        let given = ["fencepost", "serve", "--ttl-min", "100ms", "--listen", "nonsense", "--print-config"];
        assert!(Cli::try_parse_from(given).unwrap().serves(), "what flags say is checked later, all at once");
        let mut serve = Cli::command().find_subcommand("serve").unwrap().clone();
        let help = serve.render_long_help().to_string();
        for option in &crate::config::options::OPTIONS {
            assert!(
                help.contains(&format!("--{}", option.flag())) && help.contains(&option.variable()),
                "{}",
                option.key
            );
        }
    }

    #[test]
    fn a_command_to_run_stands_behind_two_dashes() {
        let cli = |words: &[&str]| Cli::try_parse_from([&["fencepost", "run", "a"], words].concat());
        assert!(cli(&["--ttl", "10s", "--", "ls", "--ttl"]).is_ok());
        assert!(cli(&["--wait", "10"]).is_err(), "a duration needs its unit");
        assert!(cli(&["--ttl", "10s"]).is_err(), "there must be a command");
    }

    #[test]
    fn a_lease_id_is_asked_for_and_never_shown() {
        let help = Cli::command().find_subcommand("release").unwrap().clone().render_long_help().to_string();
        assert!(help.contains("FENCEPOST_LEASE_ID") && !help.contains("FENCEPOST_LEASE_ID="), "{help}");
    }
}
