//! A Redis process of a run. It listens on a Unix socket in its directory and on no port, so nobody else can use it.

use crate::{
    process::{Process, ProcessSpec},
    resp::{self, Answer},
    wires::Wires,
};
use anyhow::{Context, Result, bail};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};

const START_MAX: Duration = Duration::from_secs(15);
/// The directory of Redis' append-only file.
const AOF: &str = "appendonlydir";

/// The variable that names another program than the `redis-server` of the path: another version, or Valkey.
pub(crate) const PROGRAM: &str = "FENCEPOST_REDIS_SERVER";

fn program() -> OsString {
    std::env::var_os(PROGRAM).unwrap_or("redis-server".into())
}

fn said(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

pub(crate) struct Redis {
    /// Its name in histories.
    pub(crate) name: String,
    /// The socket it listens on.
    pub(crate) socket: PathBuf,
    folder: PathBuf,
    spec: ProcessSpec,
    process: Mutex<Option<Process>>,
    /// The links to it, if it is a member of a Redis Cluster.
    pub(crate) wires: Option<Wires>,
}

impl Redis {
    /// Starts a Redis and waits for its first answer. `env` controls its clock.
    pub(crate) async fn start(name: &str, folder: &Path, env: &[(&'static str, PathBuf)]) -> Result<Self> {
        Self::start_with(name, folder, env, "", None).await
    }

    /// Starts a member of a Redis Cluster with these options.
    pub(crate) async fn start_member(
        name: &str,
        folder: &Path,
        env: &[(&'static str, PathBuf)],
        args: &str,
        wires: Wires,
    ) -> Result<Self> {
        Self::start_with(name, folder, env, args, Some(wires)).await
    }

    async fn start_with(
        name: &str,
        folder: &Path,
        env: &[(&'static str, PathBuf)],
        args: &str,
        wires: Option<Wires>,
    ) -> Result<Self> {
        let (own, socket) = (folder.join(name), folder.join(format!("{name}.sock")));
        fs::create_dir(&own)?;
        let words = "--port 0 --save --appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0 \
                     --daemonize no --maxmemory-policy noeviction --repl-diskless-sync-delay 0 --repl-timeout 5";
        // The empty value disables the default of `--save`.
        let words = words.split_whitespace().flat_map(|word| {
            if word == "--save" { vec!["--save".to_owned(), String::new()] } else { vec![word.to_owned()] }
        });
        let spec = ProcessSpec::new(program()).args(words).args(["--unixsocket"]).args([&socket]);
        let spec = spec.args(["--dir"]).args([&own]).args(args.split_whitespace()).env(env);
        let redis = Self { name: name.to_owned(), socket, folder: own, spec, process: Mutex::new(None), wires };
        redis.ensure_running().await?;
        Ok(redis)
    }

    /// Starts it with its existing files, unless it runs.
    pub(crate) async fn ensure_running(&self) -> Result<()> {
        let mut slot = self.process.lock().await;
        if slot.is_some() {
            return Ok(());
        }
        let log = self.folder.join("log");
        let mut known = said(&log).len();
        let mut process = self.start_process(&log)?;
        let answering = async {
            loop {
                match resp::ask(&self.socket, &["PING"]).await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.to_string().contains("MASTERDOWN") => return Ok(()),
                    Err(_) => {}
                }
                if let Some(status) = process.ended() {
                    let said = said(&log);
                    if self.wires.is_none() || !said[known.min(said.len())..].contains("Address already in use") {
                        bail!("redis-server ended: {status}: {said}");
                    }
                    // Another process took the port of the bus first.
                    known = said.len();
                    process = self.start_process(&log)?;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(START_MAX, answering).await.context("redis-server does not answer")??;
        *slot = Some(process);
        Ok(())
    }

    fn start_process(&self, log: &Path) -> Result<Process> {
        let spec = self.spec.clone();
        let spec = match &self.wires {
            Some(wires) => spec.args(["--cluster-port".to_owned(), wires.next_bus()?.to_string()]),
            None => spec,
        };
        spec.start(log).context("is redis-server installed?")
    }

    /// Sends SIGKILL. Its files stay.
    pub(crate) async fn kill(&self) -> Result<()> {
        let process = self.process.lock().await.take();
        process.with_context(|| format!("{} is down", self.name))?.kill().await
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("Redis is down")?.pause().await
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("Redis is down")?.resume()
    }

    pub(crate) async fn ask(&self, words: &[&str]) -> Result<Answer> {
        resp::ask(&self.socket, words).await.with_context(|| format!("{}: {}", self.name, words.join(" ")))
    }

    /// One after the other on one connection.
    pub(crate) async fn ask_all(&self, commands: &[&[&str]]) -> Result<Vec<Answer>> {
        let commands: Vec<Vec<String>> =
            commands.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        resp::ask_all(&self.socket, &commands).await.with_context(|| self.name.clone())
    }

    /// Reads a field of INFO.
    pub(crate) async fn info(&self, section: &str, field: &str) -> Result<String> {
        let text = self.ask(&["INFO", section]).await?.text();
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.with_context(|| format!("no {field} in INFO {section}"))?.trim().to_owned())
    }

    /// Copies its current files, to be restored after an outage.
    pub(crate) fn copy_data(&self) -> Result<()> {
        let aside = self.folder.join("aside");
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::create_dir(&aside)?;
        for entry in fs::read_dir(self.folder.join(AOF))? {
            let path = entry?.path();
            fs::copy(&path, aside.join(path.file_name().context("a name")?))?;
        }
        Ok(())
    }

    /// Restores the files of [`Self::copy_data`] while it is down.
    pub(crate) fn restore_copy(&self) -> Result<()> {
        self.delete_data()?;
        Ok(fs::rename(self.folder.join("aside"), self.folder.join(AOF))?)
    }

    /// Deletes its data while it is down.
    pub(crate) fn delete_data(&self) -> Result<()> {
        Ok(fs::remove_dir_all(self.folder.join(AOF))?)
    }
}
