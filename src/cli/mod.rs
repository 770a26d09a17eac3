//! The command line: one binary that is the server, and a client of servers.
//!
//! Each command builds a request from its arguments, and a pure function turns the response into text and an exit code.
//! stdout has only the result; all other messages go to stderr.

mod access;
mod acquiring;
mod any_certificate;
mod args;
mod ask;
mod calls;
mod complete;
mod connect;
mod deadlocks;
mod docs;
mod doctor;
mod doctor_access;
pub mod exit;
mod health;
mod hold;
mod json;
mod look;
mod port_file;
mod question;
mod quorum;
mod run;
mod serve;
mod status;
mod store;
mod text;
mod waiting;

use clap::{Parser, Subcommand};
use exit::Failure;
use look::{ERROR, HEADING, Look};
use std::{io, process::ExitCode};

/// Locks with fencing tokens: server and command line.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, about, term_width = look::help_width())]
#[command(after_long_help = exit::table(look::help_width()))]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server
    Serve(serve::ServeArgs),
    /// Run a command under a lock
    Run(run::RunArgs),
    /// Hold a lock until Ctrl-C
    Hold(hold::HoldArgs),
    /// Acquire a lock; the caller renews and releases the lease
    Acquire(calls::acquire::AcquireArgs),
    /// Renew a lease
    Renew(calls::lease::RenewArgs),
    /// Share a lock that is held alone, or hold a shared one alone if nobody else shares it
    Convert(calls::lease::ConvertArgs),
    /// Replace what others see of a lease
    Describe(calls::describe::DescribeArgs),
    /// Release a lease
    Release(calls::lease::ReleaseArgs),
    /// Show the holder of a lock, the time left, and the number of waiters
    Get(calls::show::GetArgs),
    /// List the locks that are held or waited for
    Ls(calls::show::ListArgs),
    /// Print events of locks as they happen
    Watch(calls::watch::WatchArgs),
    /// Print the states of one lock as they come: who holds it, and what the holder says of itself
    Observe(calls::observe::ObserveArgs),
    /// Show who waits for a lock, the next first
    Waiters(calls::waiters::WaitersArgs),
    /// Find owners that wait for each other
    Deadlocks(deadlocks::DeadlocksArgs),
    /// Check whether a token belongs to the current lease of a lock
    CheckToken(calls::show::CheckTokenArgs),
    /// Show whether the servers are ready, and how many leases and waiters there are
    Status(status::StatusArgs),
    /// Revoke the lease of a lock's holder
    ForceRelease(calls::admin::ForceReleaseArgs),
    /// Drain and end a server: the first one that --server names
    Drain(calls::admin::DrainArgs),
    /// Ask a server on this machine, at its admin port, whether it is ready
    Health(health::HealthArgs),
    /// Check each Redis of a store for what endangers locks, or an access file for what is odd in it
    Doctor(doctor::DoctorArgs),
    /// Make a store of three or five Redis servers, show how it is, replace one of them, go on after a loss
    #[command(subcommand)]
    Quorum(quorum::QuorumCommand),
    /// Make tokens for the access file of a server
    #[command(subcommand)]
    Token(access::TokenCommand),
    /// Check the access file of a server
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Print the completion script of a shell
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the lock names that may follow the words of a command line
    #[command(hide = true)]
    CompleteNames(complete::CompleteArgs),
    /// Print the manual page as roff: fencepost man | man -l -
    Man {
        /// Command, for the manual page of that command
        command: Option<String>,
    },
}

impl Cli {
    /// Whether the command is a server, which may need several threads.
    pub fn serves(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }

    /// Runs the command. Writes a failure to stderr.
    pub async fn run(self) -> ExitCode {
        match Box::pin(self.dispatch()).await {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                if !failure.message.is_empty() {
                    write(&Look::of_stderr().message(ERROR, &failure.message));
                }
                ExitCode::from(failure.code)
            }
        }
    }

    async fn dispatch(self) -> Result<u8, Failure> {
        match self.command {
            Command::Serve(args) => Box::pin(serve::serve(args)).await?,
            Command::Run(args) => return run::run(args).await,
            Command::Hold(args) => hold::hold(args).await?,
            Command::Acquire(args) => calls::acquire::acquire(args).await?,
            Command::Renew(args) => calls::lease::renew(args).await?,
            Command::Convert(args) => calls::lease::convert(args).await?,
            Command::Describe(args) => calls::describe::describe(args).await?,
            Command::Release(args) => calls::lease::release(args).await?,
            Command::Get(args) => calls::show::get(args).await?,
            Command::Ls(args) => calls::show::list(args).await?,
            Command::Watch(args) => calls::watch::watch(args).await?,
            Command::Observe(args) => calls::observe::observe(args).await?,
            Command::Waiters(args) => calls::waiters::waiters(args).await?,
            Command::Deadlocks(args) => deadlocks::deadlocks(args).await?,
            Command::CheckToken(args) => calls::show::check_token(args).await?,
            Command::Status(args) => status::status(args).await?,
            Command::ForceRelease(args) => calls::admin::force_release(args).await?,
            Command::Drain(args) => calls::admin::drain(args).await?,
            Command::Health(args) => health::health(args).await?,
            Command::Doctor(args) => doctor::doctor(args).await?,
            Command::Quorum(command) => Box::pin(quorum::quorum(command)).await?,
            Command::Token(command) => access::token(command)?,
            Command::Access(command) => access::check(command)?,
            Command::Completions { shell } => docs::completions(shell, &mut io::stdout().lock())?,
            Command::CompleteNames(args) => complete::names(args).await?,
            Command::Man { command } => docs::man(command.as_deref(), &mut io::stdout().lock())?,
        }
        Ok(exit::OK)
    }
}

/// Writes a note to stderr.
fn write_note(note: &str) {
    write(&Look::of_stderr().message(HEADING, note));
}

/// Writes to stderr. Errors are ignored: the command does not depend on its messages.
fn write(text: &str) {
    use io::Write;
    let _ = io::stderr().lock().write_all(text.as_bytes());
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
        assert!(Cli::try_parse_from(given).unwrap().serves(), "values are checked later, all together");
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
    fn the_command_of_run_follows_its_options() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["fencepost", "run", "a"], words].concat());
        for (words, command) in [
            (&["--ttl", "10s", "--", "ls", "--ttl"][..], &["ls", "--ttl"][..]),
            (&["--ttl", "10s", "ls", "--ttl", "--", "-x"], &["ls", "--ttl", "--", "-x"]),
            (&["ls", "-la", "--wait"], &["ls", "-la", "--wait"]),
            (&["--", "--odd"], &["--odd"]),
        ] {
            let Command::Run(args) = parse(words).unwrap().command else { panic!() };
            assert_eq!(args.command, command, "{words:?}");
        }
        assert!(parse(&["--wait", "10", "ls"]).is_err(), "a duration needs a unit");
        assert!(parse(&["--wiat", "10s", "ls"]).is_err(), "an unknown option is no command");
        assert!(parse(&["--ttl", "10s"]).is_err(), "a command is required");
    }

    #[test]
    fn the_help_names_the_lease_id_variable_without_its_value() {
        let help = Cli::command().find_subcommand("release").unwrap().clone().render_long_help().to_string();
        assert!(help.contains("FENCEPOST_LEASE_ID") && !help.contains("FENCEPOST_LEASE_ID="), "{help}");
    }
}
