//! The measured Redis: a running one, or one that is started here and removed afterwards.

use super::{
    child::{Child, START_MAX},
    plan::Plan,
    usage::RedisReading,
};
use anyhow::{Context, Result, bail};
use deadpool_redis::redis::{self, AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use std::{fs, net::TcpListener, path::PathBuf, time::Duration};
use tokio::time::{Instant, sleep};

/// The interval of connection attempts to a starting Redis.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// Long: a slow answer under load is a measurement, not an error.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(super) struct Redis {
    /// Its address.
    pub url: String,
    /// The connection for counters.
    monitor: MultiplexedConnection,
    _own: Option<Own>,
}

/// Dropped in this order: the process ends before its directory is removed.
struct Own {
    _process: Child,
    _directory: TempDir,
}

struct TempDir(PathBuf);

impl Drop for TempDir {
    fn drop(&mut self) {
        // A directory left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Redis {
    pub(super) async fn running(url: &str) -> Result<Self> {
        let monitor = connect(url).await.context("cannot connect to Redis")?;
        Ok(Self { url: url.to_owned(), monitor, _own: None })
    }

    /// Starts a Redis on a free port, without persistence unless `redis_options` enable it.
    pub(super) async fn own(plan: &Plan) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory =
            TempDir(std::env::temp_dir().join(format!("fencepost-bench-{}", uuid::Uuid::new_v4().simple())));
        fs::create_dir(&directory.0).context("cannot create a directory for Redis")?;
        let port_text = port.to_string();
        let fixed = ["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--dir"];
        let mut arguments: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
        arguments.push(directory.0.display().to_string());
        arguments.extend(options(&plan.redis_options));
        let mut process = Child::start(&plan.redis_server, &arguments)?;
        let url = format!("redis://127.0.0.1:{port}");
        let started = Instant::now();
        let monitor = loop {
            match connect(&url).await {
                Ok(connection) => break connection,
                Err(error) if started.elapsed() > START_MAX || process.has_ended() => {
                    bail!("{} did not start: {error}; {}", plan.redis_server.display(), process.output())
                }
                Err(_) => sleep(CONNECT_INTERVAL).await,
            }
        };
        Ok(Self { url, monitor, _own: Some(Own { _process: process, _directory: directory }) })
    }

    /// A connection shared by many clients.
    pub(super) async fn connection(&self) -> Result<MultiplexedConnection> {
        connect(&self.url).await.context("cannot connect to Redis")
    }

    pub(super) async fn read(&self) -> Result<RedisReading> {
        Ok(RedisReading::from_info(&self.info().await?))
    }

    /// Its version and its persistence settings.
    pub(super) async fn description(&self) -> Result<String> {
        let info = self.info().await?;
        let field = |name: &str| info.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        // Valkey gives the version of Redis that it is compatible with as well.
        let version = match field("valkey_version:") {
            Some(valkey) => format!("Valkey {valkey}"),
            None => format!("Redis {}", field("redis_version:").unwrap_or("?")),
        };
        let mut monitor = self.monitor.clone();
        let mut setting = async |name: &str| {
            let answer: Result<(String, String), _> =
                redis::cmd("CONFIG").arg("GET").arg(name).query_async(&mut monitor).await;
            answer.map_or_else(|_| "?".to_owned(), |(_, value)| value)
        };
        let (appendonly, appendfsync) = (setting("appendonly").await, setting("appendfsync").await);
        Ok(match appendonly.as_str() {
            "yes" => format!("{version}, appendfsync {appendfsync}"),
            appendonly => format!("{version}, appendonly {appendonly}"),
        })
    }

    async fn info(&self) -> Result<String> {
        let mut monitor = self.monitor.clone();
        redis::cmd("INFO").arg("everything").query_async(&mut monitor).await.context("Redis does not answer INFO")
    }
}

/// Additional arguments of Redis. `appendfsync` implies `appendonly`.
fn options(given: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    let has = |name: &str| given.iter().any(|option| option.trim_start_matches('-').starts_with(name));
    if has("appendfsync") && !has("appendonly") {
        words.extend(["--appendonly".to_owned(), "yes".to_owned()]);
    }
    for option in given {
        let (name, value) = option.trim().trim_start_matches('-').split_once(' ').unwrap_or((option, ""));
        words.extend([format!("--{name}"), value.trim().to_owned()]);
    }
    words
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
    let client = Client::open(url)?;
    // As the server does: small commands are sent at once.
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let info = client.get_connection_info().clone().set_tcp_settings(tcp);
    Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_arguments_and_appendfsync_implies_appendonly() {
        let options =
            |given: &[&str]| options(&given.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).join("|");
        assert_eq!(options(&["maxmemory 1gb"]), "--maxmemory|1gb");
        assert_eq!(options(&["appendfsync always"]), "--appendonly|yes|--appendfsync|always");
        assert_eq!(options(&["--appendfsync everysec", "appendonly yes"]), "--appendfsync|everysec|--appendonly|yes");
    }
}
