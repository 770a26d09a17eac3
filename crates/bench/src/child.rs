//! Child processes. Each ends with its [`Child`], or with this process, whatever happens to it.

use anyhow::{Context, Result, bail};
use fencepost_client::ServerAddress;
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

/// How long a process may take to start.
pub(super) const START_MAX: Duration = Duration::from_secs(20);
/// The number of output lines that are kept for error messages.
const LINES_KEPT: usize = 10;

/// A child process.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    output: Arc<Mutex<VecDeque<String>>>,
}

impl Child {
    /// Starts a program through the hidden command `child`, which makes it end with this process.
    ///
    /// Call it on a thread that outlives the child: on Linux the child ends with the thread that started it.
    pub(super) fn start(program: impl Into<OsString>, arguments: &[String]) -> Result<Self> {
        Self::spawn(&program.into(), arguments, |_| {})
    }

    /// Starts a server, and waits until it logs its address.
    pub(super) async fn listening(program: &OsStr, arguments: &[String]) -> Result<(Self, ServerAddress)> {
        let (sender, found) = oneshot::channel();
        let mut sender = Some(sender);
        let child = Self::spawn(program, arguments, move |line| {
            if let Some(address) = address_in(line)
                && let Some(sender) = sender.take()
            {
                // Fails only if the start has timed out.
                let _ = sender.send(address);
            }
        })?;
        match tokio::time::timeout(START_MAX, found).await {
            Ok(Ok(address)) => Ok((child, address)),
            _ => bail!("{} did not start: {}", arguments.join(" "), child.output()),
        }
    }

    fn spawn(program: &OsStr, arguments: &[String], mut on_line: impl FnMut(&str) + Send + 'static) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(own);
        command.args(["child", &process::id().to_string(), "--"]).arg(program).args(arguments);
        // The arguments alone configure the child, not the environment.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FENCEPOST_")) {
            command.env_remove(name);
        }
        command.env("FENCEPOST_LOG_FORMAT", "json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let output = Arc::new(Mutex::new(VecDeque::new()));
        let (from_stderr, from_stdout) = (output.clone(), output.clone());
        if let Some(err) = process.stderr.take() {
            thread::spawn(move || read(err, &from_stderr, &mut on_line));
        }
        if let Some(out) = process.stdout.take() {
            thread::spawn(move || read(out, &from_stdout, &mut |_| {}));
        }
        Ok(Self { process, output })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Its last lines of output.
    pub(super) fn output(&self) -> String {
        let output = self.output.lock();
        if output.is_empty() { "no output".to_owned() } else { output.iter().cloned().collect::<Vec<_>>().join("; ") }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Fails only if it has ended. It has no state to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads to the end: a full pipe would block the process.
fn read(from: impl Read, kept: &Mutex<VecDeque<String>>, on_line: &mut dyn FnMut(&str)) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        on_line(&line);
        let mut lines = kept.lock();
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

fn address_in(line: &str) -> Option<ServerAddress> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let says = line["message"].as_str().or(line["fields"]["message"].as_str());
    let address = line["addr"].as_str().or(line["fields"]["addr"].as_str());
    address.filter(|_| says == Some("listening"))?.parse().ok()
}

/// `child`: becomes the program, after asking the kernel to kill it when `parent` ends.
pub(crate) fn become_program(parent: u32, program: &[OsString]) -> std::io::Error {
    use std::os::unix::process::{CommandExt, parent_id};
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return error.into();
    }
    // The parent may have ended before.
    if parent_id() != parent {
        return std::io::Error::other("the parent process has ended");
    }
    let Some((program, arguments)) = program.split_first() else { return std::io::Error::other("no program") };
    Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_log_line() {
        let line = r#"{"level":"INFO","message":"listening","addr":"127.0.0.1:7420"}"#;
        assert_eq!(address_in(line), "127.0.0.1:7420".parse().ok());
        assert_eq!(address_in(r#"{"message":"something else","addr":"127.0.0.1:1"}"#), None);
        assert_eq!(address_in("listening"), None);
    }
}
