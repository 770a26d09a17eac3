//! Starts servers and commands, and waits for conditions with a bound. For tests that run the binary as its users do.
#![allow(dead_code, reason = "no test uses all of it")]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// The server's program. Tests of the benchmark find it beside theirs: `cargo build` and `cargo test --workspace` build
/// it.
fn server_program() -> PathBuf {
    let beside = || option_env!("CARGO_BIN_EXE_fencepost-bench").map(|it| Path::new(it).with_file_name("fencepost"));
    let program = option_env!("CARGO_BIN_EXE_fencepost").map(PathBuf::from).or_else(beside).unwrap();
    assert!(program.exists(), "{} is missing: cargo build", program.display());
    program
}

/// The longest wait for a condition, for a very busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls until there is a value. `what` describes it in the panic after [`WAIT_MAX`].
#[track_caller]
pub(crate) fn await_some<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    poll_until(poll).unwrap_or_else(|| panic!("timed out waiting for: {what}"))
}

/// Polls until there is a value, for [`WAIT_MAX`].
fn poll_until<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    #[expect(clippy::disallowed_methods, reason = "bounds a wait for another process")]
    let begin = Instant::now();
    loop {
        if let Some(found) = poll() {
            return Some(found);
        }
        if begin.elapsed() >= WAIT_MAX {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    await_some(what, || holds().then_some(()));
}

/// A process that a test started. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

/// The exit code and the output of a process. The code is negative after a signal.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The rest of the line of stdout that starts with `name`.
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.out.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name:?} in {self:?}")).trim()
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Checks that stderr contains `text`.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text), "{text:?} is not in {self:?}");
        self
    }
}

impl Process {
    /// Starts the command with an empty stdin.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with_stdin(command.stdin(Stdio::null()))
    }

    /// Starts the command with its configured stdin.
    pub(crate) fn start_with_stdin(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut err = child.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            err.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, lines, errors: Some(errors) }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Stops the whole process, like a long pause of its runtime or machine.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        await_that("the process is stopped", || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
            status.contains("State:\tT")
        });
    }

    /// Writes a line to the stdin of the process.
    pub(crate) fn write_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line of stdout.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(WAIT_MAX).expect("a line of output")
    }

    /// The lines of stdout that nobody has read yet.
    pub(crate) fn lines_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits until the process has exited. Kills one that has not after [`WAIT_MAX`], and panics with its output.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        let in_time = poll_until(|| self.child.try_wait().unwrap());
        if in_time.is_none() {
            self.child.kill().unwrap();
        }
        let status = in_time.unwrap_or_else(|| self.child.wait().unwrap());
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().or(status.signal().map(|signal| -signal)).unwrap();
        let err = self.errors.take().unwrap().join().unwrap();
        let out: String = self.lines.iter().map(|line| line + "\n").collect();
        let ended = Ended { code, out, err };
        assert!(in_time.is_some(), "a process did not end within {WAIT_MAX:?}: {ended:?}");
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A command of the binary, isolated from the environment of the tests.
pub(crate) fn fencepost(arguments: &[&str]) -> Command {
    isolated(&server_program(), arguments)
}

/// A program of ours without the `FENCEPOST_` variables of the tests and without the ignored signals that children
/// inherit (from nohup, or in the background of a script).
pub(crate) fn isolated(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(if cfg!(target_os = "linux") { Path::new("env") } else { program });
    if cfg!(target_os = "linux") {
        command.arg("--default-signal").arg(program);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    // Servers of tests run side by side. A test of the admin port sets the flags.
    command.env("FENCEPOST_ADMIN_LISTEN", "none").env("FENCEPOST_ADMIN_SERVICE", "everywhere");
    command.args(arguments);
    command
}

/// A server process for a test.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
    log: Log,
}

/// The log of a server. A test that fails shows the end of it.
struct Log(tempfile::NamedTempFile);

/// Lines that a failed test shows.
const LINES_SHOWN: usize = 40;

impl Log {
    fn text(&self) -> String {
        fs::read_to_string(self.0.path()).unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if thread::panicking() {
            let text = fs::read_to_string(self.0.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
            eprintln!("The last {} of {} lines of a server's log:\n{}", shown.len(), lines.len(), shown.join("\n"));
        }
    }
}

impl Server {
    /// A server on a free port that allows short TTLs.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", flags, &[])
    }

    /// The same, with these variables set.
    pub(crate) fn start_in(flags: &[&str], env: &[(&str, &Path)]) -> Self {
        Self::start_at("127.0.0.1:0", flags, env)
    }

    /// Kills the server, and starts a new one at the same address.
    pub(crate) fn replace(self) -> Self {
        self.process.signal(Signal::SIGKILL);
        self.process.ended().expect(-(Signal::SIGKILL as i32));
        Self::start_at(self.url.trim_start_matches("http://"), &[], &[])
    }

    /// The same, on this address.
    pub(crate) fn start_at(address: &str, flags: &[&str], env: &[(&str, &Path)]) -> Self {
        Self::start_bare(&[&["--listen", address, "--ttl-min", "100ms"], flags].concat(), env)
    }

    /// A server with these flags that may open as many files.
    pub(crate) fn start_limited(files: &str, flags: &[&str]) -> Self {
        let serve = fencepost(&["serve", "--listen", "127.0.0.1:0"]);
        let mut limited = Command::new("env");
        limited
            .args(["bash", "-c", "ulimit -n \"$0\" && exec \"$@\"", files])
            .arg(serve.get_program())
            .args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        Self::spawned(limited.args(flags))
    }

    /// A server with these flags and variables only.
    pub(crate) fn start_bare(flags: &[&str], env: &[(&str, &Path)]) -> Self {
        Self::spawned(fencepost(&["serve"]).envs(env.iter().copied()).args(flags))
    }

    /// A server of another program, with these flags.
    pub(crate) fn start_program(program: &Path, flags: &[&str]) -> Self {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--ttl-min", "100ms"];
        Self::spawned(&mut isolated(program, &[&listen, flags].concat()))
    }

    fn spawned(command: &mut Command) -> Self {
        let log = Log(tempfile::NamedTempFile::new().unwrap());
        command
            .env("FENCEPOST_LOG_FORMAT", "json")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.0.reopen().unwrap());
        let mut child = command.spawn().unwrap();
        let url = await_some("the server's address in its log", || {
            assert!(child.try_wait().unwrap().is_none(), "{}", log.text());
            address_in(log.0.path())
        });
        Self { process: Process { child, lines: channel().1, errors: Some(thread::spawn(String::new)) }, url, log }
    }

    /// Waits until the server has drained. Returns its log.
    pub(crate) fn drained(self) -> String {
        self.process.ended().expect(0);
        self.log.text()
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// The address of the admin port, from the log.
    pub(crate) fn admin_address(&self) -> String {
        await_some("the address of the admin port", || {
            let log = self.log();
            let line =
                log.split_inclusive('\n').find(|line| line.contains("admin port open") && line.ends_with('\n'))?;
            Some(serde_json::from_str::<Value>(line).unwrap()["addr"].as_str().unwrap().to_owned())
        })
    }

    /// A command that calls this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = fencepost(arguments);
        command.env("FENCEPOST_SERVER", &self.url);
        command
    }

    /// Starts a command that calls this server.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }

    /// Runs a command that calls this server to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.spawn(arguments).ended()
    }

    /// The number of waiters of a lock.
    pub(crate) fn waiters(&self, lock: &str) -> u64 {
        self.run(&["get", lock, "--json"]).json()["lock"]["waiters"].as_u64().unwrap_or(0)
    }

    pub(crate) fn is_free(&self, lock: &str) -> bool {
        self.run(&["get", lock, "--json"]).json()["lock"]["holders"].is_null()
    }
}

/// The address in the log, once its line is complete.
fn address_in(log: &Path) -> Option<String> {
    let text = fs::read_to_string(log).unwrap();
    let line = text.split_inclusive('\n').find(|line| line.contains("listening") && line.ends_with('\n'))?;
    let address = match serde_json::from_str::<Value>(line) {
        Ok(line) => line["addr"].as_str().unwrap().to_owned(),
        Err(_) => line.split("addr=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned(),
    };
    Some(format!("http://{address}"))
}
