//! Real `redis-server` processes for tests, each on a free port and in its own folder. Dropping a [`Redis`] kills its
//! process.
//!
//! `FENCEPOST_REDIS_SERVER` names another program than the `redis-server` of the path: another version, or Valkey.

#![allow(dead_code, reason = "no test uses all of it")]

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::File,
    io::{BufRead, BufReader, ErrorKind, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// How long a Redis may take to start.
const START_MAX: Duration = Duration::from_secs(20);
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The lowest port of all; how many programs may have ports of their own, and how many ports. A member of a Redis
/// Cluster takes the port that is 10,000 higher, too.
const PORTS_FROM: u16 = 11_000;
const SHARES: u16 = 8;
const SHARE: u16 = 1_000;

/// A Redis process.
#[derive(Debug)]
pub(crate) struct Redis {
    /// The port on 127.0.0.1. A restart keeps it.
    pub(crate) port: u16,
    /// The process id. A restart changes it.
    pub(crate) pid: u32,
    child: Child,
    args: Vec<String>,
    env: Env,
    disk: Disk,
    folder: tempfile::TempDir,
    /// From `--requirepass`, for [`Self::command`].
    password: Option<String>,
}

/// The disk of a Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    /// That of the machine.
    Large,
    /// One that can be filled.
    Small,
}

/// How much can still be written to a disk that is nearly full.
const ROOM_BYTES: u64 = 4_096;

/// Variables of a process.
pub(crate) type Env = Vec<(&'static str, std::path::PathBuf)>;

/// A reply of Redis, with the types that tests need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A status or a string.
    Text(String),
    /// An integer.
    Int(i64),
    /// A nil.
    Nil,
    /// An array.
    List(Vec<Answer>),
    /// An error.
    Error(String),
}

impl Answer {
    /// The reply as text. Fails on an error.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Nil => String::new(),
            Self::List(parts) => parts.iter().map(Self::text).collect::<Vec<_>>().join(" "),
            Self::Error(error) => panic!("redis replied with an error: {error}"),
        }
    }
}

impl Redis {
    /// Starts a Redis and waits until it answers. `args` are added to its command line (`["--appendonly", "yes"]`).
    /// Without any, it writes nothing to disk.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with_files(args, &[])
    }

    /// Starts a cluster of one node, which has all slots.
    pub(crate) fn start_cluster(args: &[&str]) -> Self {
        let redis = Self::start(&[&["--cluster-enabled", "yes"], args].concat());
        redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).text();
        let started = Instant::now();
        while !redis.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
            assert!(started.elapsed() < START_MAX, "the cluster does not serve: {}", redis.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        redis
    }

    /// Starts a Redis with these files in its folder, such as an earlier `dump.rdb`.
    pub(crate) fn start_with_files(args: &[&str], files: &[(&str, &[u8])]) -> Self {
        Self::start_in(args, files, &Env::new())
    }

    /// Starts a Redis with these variables.
    pub(crate) fn start_in(args: &[&str], files: &[(&str, &[u8])], env: &Env) -> Self {
        Self::start_with_disk(args, files, env, Disk::Large)
    }

    /// Starts a Redis whose disk [`Self::fill_disk`] fills.
    pub(crate) fn start_with_small_disk(args: &[&str]) -> Self {
        Self::start_with_disk(args, &[], &Env::new(), Disk::Small)
    }

    fn start_with_disk(args: &[&str], files: &[(&str, &[u8])], env: &Env, disk: Disk) -> Self {
        // Another process may take the free port before Redis does. Then another port is tried.
        let mut started = (0..10).filter_map(|_| Self::try_start(free_port(), args, files, env, disk).ok());
        started.next().unwrap_or_else(|| panic!("redis-server does not start with {args:?}"))
    }

    fn try_start(port: u16, args: &[&str], files: &[(&str, &[u8])], env: &Env, disk: Disk) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let password = args.iter().position(|arg| arg == "--requirepass").map(|at| args[at + 1].clone());
        match spawn(port, folder.path(), &args, password.as_deref(), (env, disk)) {
            Some(child) => Ok(Self { port, pid: child.id(), child, args, env: env.clone(), disk, folder, password }),
            None => Err(log(folder.path())),
        }
    }

    /// A port on which nothing listens, for a later [`Self::start_at`].
    pub(crate) fn free_port() -> u16 {
        free_port()
    }

    /// Starts a Redis on this port.
    pub(crate) fn start_at(port: u16, args: &[&str]) -> Self {
        Self::try_start(port, args, &[], &Env::new(), Disk::Large)
            .unwrap_or_else(|log| panic!("redis-server does not start on {port}: {log}"))
    }

    /// The URL, with the password if there is one.
    pub(crate) fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Pauses the process (SIGSTOP): connections stay open, but it does not answer.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Resumes the process.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the process (SIGKILL). Data that is not on disk is lost.
    pub(crate) fn kill(&mut self) {
        // Errors are ignored, because the process may have exited. The wait frees the port and reaps the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the process if it runs, and starts it again on the same port, with its files or without any.
    pub(crate) fn restart(&mut self, keep_data: bool) {
        self.kill();
        if !keep_data {
            for entry in std::fs::read_dir(self.folder.path()).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
            }
        }
        let environment = (&self.env, self.disk);
        let child = spawn(self.port, self.folder.path(), &self.args, self.password.as_deref(), environment);
        self.child = child.unwrap_or_else(|| panic!("redis-server does not start again: {}", log(self.folder.path())));
        self.pid = self.child.id();
    }

    /// Runs one command on a new connection.
    pub(crate) fn command(&self, words: &[&str]) -> Answer {
        let answer = ask(self.port, self.password.as_deref(), words);
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}; {}", log(self.folder.path())))
    }

    /// A field of INFO.
    pub(crate) fn info(&self, section: &str, field: &str) -> String {
        let text = self.command(&["INFO", section]).text();
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {field} in INFO {section}")).trim().to_owned()
    }

    /// Whether these fields of `INFO replication` have these values. False at a moment when Redis closes its
    /// connections, as it does when its role changes.
    pub(crate) fn replicates(&self, fields: &[(&str, &str)]) -> bool {
        let Ok(answer) = ask(self.port, self.password.as_deref(), &["INFO", "replication"]) else { return false };
        let text = answer.text();
        fields.iter().all(|(field, value)| text.lines().any(|line| line.trim() == format!("{field}:{value}")))
    }

    /// How often a command has run since the start or CONFIG RESETSTAT.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let text = self.command(&["INFO", "commandstats"]).text();
        let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
        let found = text.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok());
        found.unwrap_or(0)
    }

    /// Leaves it room for a few more writes, which then fail in part, as on a full disk. A restart has a new disk.
    pub(crate) fn fill_disk(&self) {
        assert_eq!(self.disk, Disk::Small);
        let largest = sizes(self.folder.path()).into_iter().max().unwrap_or(0);
        self.limit_files(&(largest + ROOM_BYTES).to_string());
    }

    /// There is room again.
    pub(crate) fn empty_disk(&self) {
        self.limit_files("unlimited");
    }

    /// Only the soft limit, which the process might raise, and Redis does not.
    fn limit_files(&self, bytes: &str) {
        let mut limit = Command::new("env");
        limit.args(["prlimit", "--pid", &self.pid.to_string(), &format!("--fsize={bytes}:")]);
        let done = limit.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    /// The exit code, if it has exited.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        log(self.folder.path())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid).unwrap()), signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Nothing listens on it, and nobody gets it by chance: it is not in the range that the system gives to connections,
/// and a test program that runs beside this one takes its ports elsewhere.
fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let pid = std::process::id();
    let (share, first) = (pid % u32::from(SHARES), pid / u32::from(SHARES) * 37 % u32::from(SHARE));
    let (share, first) = (u16::try_from(share).unwrap(), u16::try_from(first).unwrap());
    loop {
        let next = (first + TAKEN.fetch_add(1, Ordering::Relaxed) % SHARE) % SHARE;
        let port = PORTS_FROM + share * SHARE + next;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn log(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let last: Vec<&str> = text.lines().rev().take(10).collect();
    last.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The sizes of all files in a folder.
fn sizes(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        data if data.is_dir() => sizes(&entry.path()),
        data => vec![data.len()],
    };
    entries.flat_map(of).collect()
}

/// Starts a process and waits until it answers; `None` if it exits before that.
fn spawn(
    port: u16,
    folder: &Path,
    args: &[String],
    password: Option<&str>,
    (env, disk): (&Env, Disk),
) -> Option<Child> {
    let output = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let program = std::env::var_os("FENCEPOST_REDIS_SERVER").unwrap_or("redis-server".into());
    let mut command = match disk {
        Disk::Large => Command::new(program),
        // A write beyond the limit fails, as on a full disk, and raises no signal.
        Disk::Small => {
            let mut command = Command::new("env");
            command.arg("--ignore-signal=XFSZ").arg(program);
            command
        }
    };
    command.envs(env.iter().map(|(name, value)| (name, value)));
    // There is no configuration file.
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(folder);
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--enable-debug-command", "yes"]).args(args);
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = command.spawn().unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => {
            panic!("redis-server is missing: run .ci/setup, or install the package redis-server (7.0 or later)")
        }
        _ => panic!("redis-server does not start: {error}"),
    });
    let started = Instant::now();
    while started.elapsed() < START_MAX {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        // A replica without a reachable primary has started as well.
        match ask(port, password, &["PING"]) {
            Ok(Answer::Text(text)) if text == "PONG" => return Some(child),
            Ok(Answer::Error(error)) if error.starts_with("MASTERDOWN") => return Some(child),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("redis-server does not answer within {START_MAX:?}: {}", log(folder));
}

/// Runs one command at this port, on a new connection.
pub(crate) fn ask(port: u16, password: Option<&str>, words: &[&str]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    if let Some(password) = password {
        stream.write_all(&packed(&["AUTH", password]))?;
        read(&mut reader)?;
    }
    stream.write_all(&packed(words))?;
    read(&mut reader)
}

fn packed(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Answer> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at(1);
    let number = rest.parse::<i64>().unwrap_or(-1);
    Ok(match (kind, usize::try_from(number)) {
        ("+", _) => Answer::Text(rest.to_owned()),
        ("-", _) => Answer::Error(rest.to_owned()),
        (":", _) => Answer::Int(number),
        ("$", Ok(length)) => {
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Answer::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        ("*", Ok(length)) => Answer::List((0..length).map(|_| read(reader)).collect::<Result<_, _>>()?),
        _ => Answer::Nil,
    })
}
