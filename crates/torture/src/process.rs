//! Processes of a run: signalled only by their own pid, and ended with the run, however it ends.
//!
//! The kernel ends each process with the thread that started it (`PR_SET_PDEATHSIG`), so all are started from threads
//! that outlive the run. A process must request this itself, so each is started through `torture under`.

use anyhow::{Context, Result, ensure};
use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};
use std::{
    ffi::OsString,
    fs::File,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{ChildStdin, ChildStdout},
    time::timeout,
};

/// The running program, even after a rebuild.
const OWN: &str = "/proc/self/exe";
/// The timeout for the effect of a signal.
const BOUND: Duration = Duration::from_secs(10);

/// The command line and environment of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSpec {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(&'static str, PathBuf)>,
}

impl ProcessSpec {
    pub(crate) fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    /// This program with other arguments.
    pub(crate) fn own() -> Self {
        Self::new(OWN)
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, env: &[(&'static str, PathBuf)]) -> Self {
        self.env.extend_from_slice(env);
        self
    }

    /// Starts it, with its output appended to `log`. Its stdin stays open until the process is dropped or told to stop.
    pub(crate) fn start(&self, log: &Path) -> Result<Process> {
        self.spawn(log_to(log)?, log)
    }

    /// Starts it with stdin and stdout piped to the caller; only stderr goes to `log`.
    pub(crate) fn start_piped(&self, log: &Path) -> Result<(Process, ChildStdin, ChildStdout)> {
        let mut process = self.spawn(Stdio::piped(), log)?;
        let input = process.input.take().context("no stdin")?;
        let output = process.child.stdout.take().context("no stdout")?;
        Ok((process, input, output))
    }

    fn spawn(&self, output: impl Into<Stdio>, log: &Path) -> Result<Process> {
        let mut command = tokio::process::Command::new(OWN);
        command.arg("under").arg(std::process::id().to_string()).arg(&self.program).args(&self.args);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FENCEPOST_") {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(output).stderr(log_to(log)?).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("{} does not start", self.program.display()))?;
        let pid = Pid::from_raw(i32::try_from(child.id().context("it ended at once")?)?);
        let input = child.stdin.take();
        Ok(Process { child, pid, input })
    }
}

fn log_to(log: &Path) -> Result<File> {
    Ok(File::options().create(true).append(true).open(log)?)
}

/// `torture under PARENT PROGRAM ARGS…`: becomes the program, after asking the kernel to kill it with its parent.
pub(crate) fn under(parent: u32, command: &[OsString]) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    ensure!(u32::try_from(getppid().as_raw()) == Ok(parent), "the run is over");
    let (program, args) = command.split_first().context("no program")?;
    Err(std::process::Command::new(program).args(args).exec()).with_context(|| format!("{}", program.display()))
}

/// A child process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: tokio::process::Child,
    pid: Pid,
    input: Option<ChildStdin>,
}

impl Process {
    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        ensure!(self.ended().is_none(), "process {} had ended by itself", self.pid);
        kill(self.pid, signal).with_context(|| format!("{signal} to {}", self.pid))
    }

    /// Kills it, and verifies that the signal ended it.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        let status = timeout(BOUND, self.child.wait()).await??;
        ensure!(status.signal() == Some(9), "{} ended otherwise: {status}", self.pid);
        ensure!(!Path::new(&format!("/proc/{}", self.pid)).exists(), "{} is still there", self.pid);
        Ok(())
    }

    /// Sends SIGTERM, and waits until it has ended.
    pub(crate) async fn terminate(&mut self, bound: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        timeout(bound, self.child.wait()).await.context("no exit after SIGTERM")?.map_err(Into::into)
    }

    /// Closes its stdin, which tells it to stop.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes its stdin, and waits until it has ended.
    pub(crate) async fn finish(&mut self, bound: Duration) -> Result<ExitStatus> {
        self.input = None;
        timeout(bound, self.child.wait()).await.context("no exit after the end of stdin")?.map_err(Into::into)
    }

    /// Stops it with SIGSTOP, and verifies that it is stopped.
    pub(crate) async fn pause(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        for _ in 0..1_000 {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
            if status.contains("State:\tT") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        anyhow::bail!("{} is not stopped", self.pid)
    }

    pub(crate) fn resume(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }
}
