//! The configuration of the server. [`Config`] is checked once at the start and never changes.
//!
//! There are three sources: flags, `FENCEPOST_…` variables and a TOML file. [`RawConfig`] collects their values as
//! text, one table ([`options::OPTIONS`]) lists all options, and one module (`check`) parses them. All problems are
//! reported together, each with its source, the value and the rule.

mod check;
pub(crate) mod duration;
mod listen;
pub mod options;
mod raw;
mod render;
mod store_login;
mod store_tls;
#[cfg(test)]
mod tests;
mod tls;
mod variables;

pub use check::{store_prefix, store_user};
pub use listen::{AdminListen, Listen, ListenAddress, ListenHost};
pub use raw::{Problem, RawConfig, Source};
pub use store_login::StoreLogin;
pub use store_tls::StoreTls;
pub use tls::TlsFiles;
pub use variables::{Environment, misspelt};

use crate::domain::limits::{Limits, STORE_PREFIX_DEFAULT};
use std::{fmt, net::Ipv4Addr, path::PathBuf, time::Duration};

/// The most open connections, unless the operator says otherwise, or the limit of open files is lower.
pub const CONNECTIONS_MAX_DEFAULT: usize = 20_000;

/// The checked configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to listen.
    pub listen: Listen,
    /// The file to write with the addresses that the server listens on.
    pub port_file: Option<PathBuf>,
    /// Whether to serve without TLS on an address that other machines can reach.
    pub plaintext: bool,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<TlsFiles>,
    /// The file that says who may do what; `None` if everybody may do everything.
    pub access: Option<PathBuf>,
    /// The file of the audit log, or `-` for stdout; `None` if there is none.
    pub audit_log: Option<PathBuf>,
    /// Whether the audit log has grants and ends of leases.
    pub audit_grants: bool,
    /// The most open connections.
    pub connections_max: usize,
    /// The most open connections from one IP address.
    pub connections_per_peer: usize,
    /// Where locks are kept.
    pub store: StoreUrl,
    /// The files for a store over TLS.
    pub store_tls: StoreTls,
    /// The user of the store and the file with its password.
    pub store_login: StoreLogin,
    /// The name of the store in Redis, with which its keys begin.
    pub store_prefix: String,
    /// Whether to serve on a Redis that may evict leases.
    pub allow_eviction: bool,
    /// The prefix of the keys of classic locks, which clients acquire in Redis directly; empty if there are none.
    pub classic_prefix: String,
    /// The bounds on what clients may ask for.
    pub limits: Limits,
    /// How long a drain waits for calls and streams to end by themselves.
    pub drain_timeout: Duration,
    /// Where the admin port listens.
    pub admin_listen: AdminListen,
    /// Whether the admin port speaks TLS, with the certificate of the API.
    pub admin_tls: bool,
    /// Where AdminService is offered.
    pub admin_service: AdminPlace,
    /// Where tests order faults; `None` if nowhere.
    pub test_faults: Option<ListenAddress>,
    /// The OTLP endpoint of the collector that gets traces; empty if there is none.
    pub otlp_endpoint: String,
    /// The log.
    pub log: LogConfig,
}

/// Where AdminService is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminPlace {
    /// On the admin port and on the port of the other services.
    Everywhere,
    /// On the admin port only: nowhere, if there is none.
    Admin,
}

impl fmt::Display for AdminPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Everywhere => "everywhere",
            Self::Admin => "admin",
        })
    }
}

/// Replaces user and password when a URL is printed.
const PASSWORD_SHOWN: &str = "://***@";
/// Replaces user and password of Sentinels.
const PARAMETERS_SHOWN: &str = "?***";

/// Where locks are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process. They are lost when it ends, and other servers do not see them.
    Memory,
    /// In a majority of the Redis servers at these URLs, or in the only one, which Sentinels or a Redis Cluster may
    /// name, shared by all servers that use them. The URLs may contain passwords, which are never printed.
    Redis(Vec<String>),
}

impl StoreUrl {
    /// The URLs of the Redis servers that it names.
    pub fn urls(&self) -> &[String] {
        match self {
            Self::Memory => &[],
            Self::Redis(urls) => urls,
        }
    }
}

/// How the URL of a node may begin: that of a Redis, or of those who know which Redis it is.
pub(crate) const SCHEMES: [&str; 6] =
    ["redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://"];
/// Why a list of Redis servers names no Sentinels.
const NO_SENTINEL_IN_A_LIST: &str = "names Sentinels in a list of Redis servers: a majority is made of \
    certain servers, and none of them may be another one after a failover; give their own URLs, without Sentinel, or \
    one redis+sentinel:// URL alone (its Sentinels are separated by commas: redis+sentinel://s1,s2,s3/name)";

/// Why a list of Redis servers names no Redis Cluster.
const NO_CLUSTER_IN_A_LIST: &str = "names a Redis Cluster in a list of Redis servers: a majority is made of certain \
    servers, and none of them may be another one after a failover; give one redis+cluster:// URL alone (its members are \
    separated by commas: redis+cluster://m1,m2,m3)";

/// Whether this URL names members of a Redis Cluster.
fn names_cluster(url: &str) -> bool {
    SCHEMES[4..].iter().any(|scheme| url.starts_with(scheme))
}

/// Why these URLs are no list of nodes, if they are not.
pub(crate) fn why_no_list(urls: &[&str]) -> Option<&'static str> {
    let names_sentinels = |url: &&str| SCHEMES[2..4].iter().any(|scheme| url.starts_with(scheme));
    match urls {
        [_] => None,
        urls if urls.iter().any(names_sentinels) => Some(NO_SENTINEL_IN_A_LIST),
        urls if urls.iter().any(|url| names_cluster(url)) => Some(NO_CLUSTER_IN_A_LIST),
        _ => None,
    }
}

/// The URLs in a text that may name several Redis servers. A comma separates two of them only before the next URL's
/// scheme: there may be others in a password.
pub fn urls_in(text: &str) -> Vec<&str> {
    let begins = |at: usize| SCHEMES.iter().any(|scheme| text[at + 1..].starts_with(scheme));
    let (mut urls, mut first) = (Vec::new(), 0);
    for (at, _) in text.match_indices(',').filter(|(at, _)| begins(*at)) {
        urls.push(&text[first..at]);
        first = at + 1;
    }
    urls.push(&text[first..]);
    urls
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Memory {
            return out.write_str("memory:");
        }
        for (number, url) in self.urls().iter().enumerate() {
            if number > 0 {
                out.write_str(",")?;
            }
            let (url, parameters) = url.split_once('?').map_or((url.as_str(), ""), |(url, _)| (url, PARAMETERS_SHOWN));
            match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => write!(out, "{scheme}{PASSWORD_SHOWN}{host}{parameters}")?,
                _ => write!(out, "{url}{parameters}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The configuration of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The format of a line.
    pub format: LogFormat,
    /// Valid directives of `tracing`, such as `info` or `info,fencepost::locks=debug`.
    pub filter: String,
}

/// The format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// The configuration is invalid. Has all problems.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
pub struct ConfigError {
    /// Never empty.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    fn describe(&self) -> String {
        let mut text = match self.problems.len() {
            1 => "the configuration has a problem:".to_owned(),
            count => format!("the configuration has {count} problems:"),
        };
        for problem in &self.problems {
            text.push_str(&format!("\n  {problem}"));
        }
        text
    }
}

impl Config {
    /// Reads the file (if `--config` or `FENCEPOST_CONFIG` names one), and checks the configuration. Variables override
    /// the file, and flags override both.
    ///
    /// `flags` has pairs of an option's key and its text; a variable of `environment` that is meant for Fencepost and
    /// that nothing reads is a problem; `redis_url` checks the URL of a Redis, and its errors must not contain a
    /// password.
    pub fn load(
        flags: impl IntoIterator<Item = (&'static str, String)>,
        environment: &Environment,
        redis_url: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, ConfigError> {
        check::check(&RawConfig::read(flags, environment), redis_url)
    }

    /// This configuration as a TOML file with a comment for each key. Reading it back gives the same configuration,
    /// except for a password in the store's URL, which is replaced.
    pub fn to_toml(&self) -> String {
        render::to_toml(self)
    }

    /// The value of an option as text; `None` for an unknown key.
    pub fn text_of(&self, key: &str) -> Option<String> {
        render::value(self, key).map(|text| text.trim_matches(['"', '\'']).to_owned())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(ListenAddress { host: ListenHost::Ip(Ipv4Addr::LOCALHOST.into()), port: 7420 }),
            port_file: None,
            plaintext: false,
            tls: None,
            access: None,
            audit_log: None,
            audit_grants: false,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            connections_per_peer: 10_000,
            store: StoreUrl::Memory,
            store_tls: StoreTls::default(),
            store_login: StoreLogin::default(),
            allow_eviction: false,
            store_prefix: STORE_PREFIX_DEFAULT.to_owned(),
            classic_prefix: String::new(),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(10),
            admin_listen: AdminListen::At(ListenAddress {
                host: ListenHost::Ip(Ipv4Addr::LOCALHOST.into()),
                port: 7429,
            }),
            admin_tls: false,
            admin_service: AdminPlace::Admin,
            test_faults: None,
            otlp_endpoint: String::new(),
            log: LogConfig { format: LogFormat::Text, filter: "info".to_owned() },
        }
    }
}
