//! Processes of its own: each ends with its [`Child`], or with this process, whatever happens to it.

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Read},
    process::{self, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

/// How long a process may take to be ready.
pub(super) const START_MAX: Duration = Duration::from_secs(20);
/// What is kept of what it says, to be shown if it fails.
const LINES_KEPT: usize = 10;

/// A process that was started here.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Child {
    /// Starts a program under the hidden command `bench-child`, by which it ends with this process.
    ///
    /// To be called on a thread that lives as long as the process should: on Linux it is the end of the thread that
    /// ends the child.
    pub(super) fn start(program: impl Into<OsString>, arguments: &[String]) -> Result<Self> {
        Self::watched(&program.into(), arguments, |_| {})
    }

    /// Starts this program with another command, and waits until it has said where it listens.
    pub(super) async fn listening(arguments: &[String]) -> Result<(Self, String)> {
        let (sender, found) = oneshot::channel();
        let mut sender = Some(sender);
        let own = std::env::current_exe().context("cannot find this program")?;
        let child = Self::watched(own.as_os_str(), arguments, move |line| {
            if let Some(address) = address_in(line)
                && let Some(sender) = sender.take()
            {
                // Nobody waits for it any more: then it does not matter.
                let _ = sender.send(address);
            }
        })?;
        match tokio::time::timeout(START_MAX, found).await {
            Ok(Ok(address)) => Ok((child, format!("http://{address}"))),
            _ => bail!("{} did not start: {}", arguments.join(" "), child.said()),
        }
    }

    fn watched(
        program: &OsStr,
        arguments: &[String],
        mut line_said: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(own);
        command.args(["bench-child", &process::id().to_string(), "--"]).arg(program).args(arguments);
        // It is to run as its arguments say, whatever the environment says of servers.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FENCEPOST_")) {
            command.env_remove(name);
        }
        command.env("FENCEPOST_LOG_FORMAT", "json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, kept_too) = (said.clone(), said.clone());
        if let Some(err) = process.stderr.take() {
            thread::spawn(move || read(err, &kept, &mut line_said));
        }
        if let Some(out) = process.stdout.take() {
            thread::spawn(move || read(out, &kept_too, &mut |_| {}));
        }
        Ok(Self { process, said })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// It ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The last lines that it said.
    pub(super) fn said(&self) -> String {
        let said = self.said.lock();
        if said.is_empty() { "it said nothing".to_owned() } else { said.iter().cloned().collect::<Vec<_>>().join("; ") }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only where it has ended already. There is nothing in it that anybody wants to keep.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads to the end, or a full pipe would stop the process.
fn read(from: impl Read, kept: &Mutex<VecDeque<String>>, line_said: &mut dyn FnMut(&str)) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        line_said(&line);
        let mut kept = kept.lock();
        if kept.len() == LINES_KEPT {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

fn address_in(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let says = line["message"].as_str().or(line["fields"]["message"].as_str());
    let address = line["addr"].as_str().or(line["fields"]["addr"].as_str());
    address.filter(|_| says == Some("listening")).map(str::to_owned)
}

/// `bench-child`: becomes the program, having asked to be killed when `parent` ends.
pub fn become_program(parent: u32, program: &[OsString]) -> std::io::Error {
    use std::os::unix::process::{CommandExt, parent_id};
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return error.into();
    }
    // It may have ended before it could be watched.
    if parent_id() != parent {
        return std::io::Error::other("who started this has ended");
    }
    let Some((program, arguments)) = program.split_first() else { return std::io::Error::other("no program") };
    Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_line_that_says_it() {
        let line = r#"{"level":"INFO","message":"listening","addr":"127.0.0.1:7420"}"#;
        assert_eq!(address_in(line).as_deref(), Some("127.0.0.1:7420"));
        assert_eq!(address_in(r#"{"message":"something else","addr":"127.0.0.1:1"}"#), None);
        assert_eq!(address_in("listening"), None);
    }
}
