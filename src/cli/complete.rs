//! Lock names for the completion scripts of shells: those that are held or waited for. A server knows no others.
//!
//! A person waits for it after each press of the tab key: it asks once, for a bounded time, and says nothing if nobody
//! answers.

use super::{
    Cli,
    args::ServerArgs,
    calls::print,
    connect::{RETRY_FOR, client},
    exit::Failure,
    text,
};
use clap::{Args, CommandFactory, FromArgMatches};
use fencepost_proto::v1::ListRequest;
use std::time::Duration;
use tokio::time::timeout;

/// How long the servers may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// More names than a person reads.
const NAMES_MAX: u32 = 500;

/// The command line so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompleteArgs {
    /// The words after the name of the program; the last one is completed, and may be empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Prints one name a line, if the last word is to be the name of a lock.
pub(super) async fn names(args: CompleteArgs) -> Result<(), Failure> {
    let Some((servers, prefix)) = wanted(&args.words) else { return Ok(()) };
    // Without a server that answers there is nothing to complete.
    let Ok(client) = client(&servers, RETRY_FOR) else { return Ok(()) };
    let request = ListRequest { prefix, page_size: NAMES_MAX, page_token: String::new() };
    let Ok(Ok(page)) = timeout(ANSWER_TIMEOUT, client.calls().list(request)).await else { return Ok(()) };
    // Nobody could type the others.
    let names = page.locks.into_iter().map(|lock| lock.lock_name).filter(|name| text::visible(name) == *name);
    let mut names: Vec<_> = names.collect();
    names.sort();
    print(&names.join("\n"))
}

/// The servers that the words name, and the beginning of the lock name; `None` if another word is to be completed.
fn wanted(words: &[String]) -> Option<(ServerArgs, String)> {
    /// Stands for the last word, to see for which argument clap takes it.
    const MARK: &str = "\u{1}";
    let (last, before) = words.split_last().filter(|(last, _)| !last.starts_with('-'))?;
    let line = ["fencepost"].into_iter().chain(before.iter().map(String::as_str)).chain([MARK]);
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).ok()?;
    let (_, command) = matches.subcommand()?;
    let is_marked = |id| command.try_get_one::<String>(id).ok().flatten().is_some_and(|value| value == MARK);
    if !["name", "prefix"].into_iter().any(is_marked) {
        return None;
    }
    Some((ServerArgs::from_arg_matches(command).ok()?, last.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &[&str]) -> Option<(Vec<String>, String)> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        wanted(&words).map(|(servers, prefix)| (servers.addresses(), prefix))
    }

    #[test]
    fn the_name_of_a_lock_is_completed_and_nothing_else() {
        let holding = ["run", "hold", "acquire", "renew", "convert", "describe", "release"];
        let showing = ["get", "ls", "watch", "observe", "waiters", "deadlocks", "check-token", "force-release"];
        for command in holding.into_iter().chain(showing) {
            let (_, prefix) = completed(&[command, "or"]).unwrap_or_else(|| panic!("{command}"));
            assert_eq!(prefix, "or");
        }
        assert!(completed(&["release", "--lease-id", "x", ""]).is_some());
        assert!(completed(&["watch", "--name", ""]).is_some());
        for other in [
            &[][..],
            &["get"],
            &["get", "-"],
            &["get", "a", ""],
            &["get", "--server", ""],
            &["acquire", "--ttl", ""],
            &["describe", "a", ""],
            &["check-token", "a", ""],
            &["run", "a", "ech"],
            &["status", ""],
            &["drain", ""],
        ] {
            assert_eq!(completed(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_servers_are_those_of_the_command_line() {
        let (servers, _) = completed(&["get", "--server", "a:1", ""]).unwrap();
        assert_eq!(servers, ["a:1"]);
        assert_eq!(completed(&["get", "--server=a:1,b:2", "x"]).unwrap().0, ["a:1", "b:2"]);
    }
}
