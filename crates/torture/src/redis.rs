//! A Redis process of a run. It listens on a socket in its folder and on no port: nobody else can take it away.

use crate::{
    process::{Process, Recipe},
    resp::{self, Answer},
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};

const START_MAX: Duration = Duration::from_secs(15);
/// Where Redis keeps its append-only file.
const AOF: &str = "appendonlydir";

pub(crate) struct Redis {
    /// What it is called in histories.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) socket: PathBuf,
    folder: PathBuf,
    recipe: Recipe,
    process: Mutex<Option<Process>>,
}

impl Redis {
    /// Started, and known to answer. `env` sets its clock.
    pub(crate) async fn start(name: &str, folder: &Path, env: &[(&'static str, PathBuf)]) -> Result<Self> {
        let (own, socket) = (folder.join(name), folder.join(format!("{name}.sock")));
        fs::create_dir(&own)?;
        let words = "--port 0 --save --appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0 --daemonize no \
                     --maxmemory-policy noeviction --repl-diskless-sync-delay 0 --repl-timeout 5";
        // The empty word turns off what `--save` would otherwise do by default.
        let words = words.split_whitespace().flat_map(|word| {
            if word == "--save" { vec!["--save".to_owned(), String::new()] } else { vec![word.to_owned()] }
        });
        let recipe = Recipe::new("redis-server").args(words).args(["--unixsocket"]).args([&socket]);
        let recipe = recipe.args(["--dir"]).args([&own]).env(env);
        let redis = Self { name: name.to_owned(), socket, folder: own, recipe, process: Mutex::new(None) };
        redis.begin().await?;
        Ok(redis)
    }

    /// Starts it with the files it has, if it does not run.
    pub(crate) async fn begin(&self) -> Result<()> {
        let mut slot = self.process.lock().await;
        if slot.is_some() {
            return Ok(());
        }
        let log = self.folder.join("log");
        let mut process = self.recipe.start(&log).context("is redis-server installed?")?;
        let answering = async {
            loop {
                match resp::ask(&self.socket, &["PING"]).await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.to_string().contains("MASTERDOWN") => return Ok(()),
                    Err(_) => {}
                }
                if let Some(status) = process.ended() {
                    bail!("redis-server ended: {status}: {}", fs::read_to_string(&log).unwrap_or_default());
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(START_MAX, answering).await.context("redis-server does not answer")??;
        *slot = Some(process);
        Ok(())
    }

    /// SIGKILL. What it has written stays.
    pub(crate) async fn kill(&self) -> Result<()> {
        let process = self.process.lock().await.take();
        process.with_context(|| format!("{} is down", self.name))?.kill().await
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("it is down")?.pause().await
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("it is down")?.resume()
    }

    pub(crate) async fn ask(&self, words: &[&str]) -> Result<Answer> {
        resp::ask(&self.socket, words).await.with_context(|| format!("{}: {}", self.name, words.join(" ")))
    }

    /// A field of INFO.
    pub(crate) async fn info(&self, section: &str, field: &str) -> Result<String> {
        let text = self.ask(&["INFO", section]).await?.text();
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.with_context(|| format!("no {field} in INFO {section}"))?.trim().to_owned())
    }

    /// Puts its data, as it is on disk now, aside: what another process may find after an outage.
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

    /// Of one that is down: what [`Self::copy_data`] put aside becomes its data.
    pub(crate) fn put_copy_back(&self) -> Result<()> {
        self.forget()?;
        Ok(fs::rename(self.folder.join("aside"), self.folder.join(AOF))?)
    }

    /// Of one that is down: it has no data.
    pub(crate) fn forget(&self) -> Result<()> {
        Ok(fs::remove_dir_all(self.folder.join(AOF))?)
    }
}
