//! What an operator decides: [`Config`] is checked once, at the start, and never changes.
//!
//! Three sources say what it shall be: flags, `FENCEPOST_…` variables and a TOML file. They meet as text in
//! [`RawConfig`], so that one table ([`options::OPTIONS`]) names every option for all of them and one place (`check`)
//! reads them. An operator who made five mistakes hears of five, not of the first: every problem names its source, the
//! value and the rule.

mod check;
mod listen;
pub mod options;
mod raw;
mod render;
#[cfg(test)]
mod tests;

pub use listen::{ListenAddress, ListenHost};
pub use raw::{Problem, RawConfig, Source};

use crate::domain::limits::Limits;
use std::{ffi::OsString, fmt, net::Ipv4Addr, time::Duration};

/// The configuration of a server, whole and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to listen.
    pub listen: ListenAddress,
    /// Where locks are kept.
    pub store: StoreUrl,
    /// Whether to serve on a Redis that may evict leases.
    pub allow_eviction: bool,
    /// What the keys of classic locks begin with, where clients take those past the server; empty if there are none.
    pub classic_prefix: String,
    /// The bounds on what clients may ask for.
    pub limits: Limits,
    /// How long a drain waits for calls and streams to end by themselves.
    pub drain_timeout: Duration,
    /// What is logged, and how.
    pub log: LogConfig,
}

/// What is shown of a URL in place of who logs in there.
const PASSWORD_SHOWN: &str = "://***@";

/// Where locks are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process: gone when it ends, seen by nobody else.
    Memory,
    /// In the Redis of this URL, shared by all servers that use it. May hold a password, which is never shown.
    Redis(String),
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("memory:"),
            Self::Redis(url) => match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => write!(out, "{scheme}{PASSWORD_SHOWN}{host}"),
                _ => out.write_str(url),
            },
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// For people or for machines.
    pub format: LogFormat,
    /// Directives of `tracing`, such as `info` or `info,fencepost::locks=debug`: known to parse.
    pub filter: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
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

/// The configuration cannot be used, and this is everything that is wrong with it.
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
    /// Reads the file (if `--config` or `FENCEPOST_CONFIG` names one), puts `environment` over it and `flags` over
    /// both, and checks all.
    ///
    /// `flags` holds pairs of an option's key and its text; `environment` answers the value of a variable; `redis_url`
    /// says what is wrong with the URL of a Redis, without a part of it that may be a password.
    pub fn load(
        flags: impl IntoIterator<Item = (&'static str, String)>,
        environment: impl Fn(&str) -> Option<OsString>,
        redis_url: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, ConfigError> {
        check::check(&RawConfig::read(flags, environment), redis_url)
    }

    /// This configuration as a TOML file that says the same when it is read back, with a comment for each key. Only a
    /// password in the store's URL is not shown.
    pub fn to_toml(&self) -> String {
        render::to_toml(self)
    }

    /// The value of an option as text that reads back the same; `None` for a key that is none.
    pub fn text_of(&self, key: &str) -> Option<String> {
        render::value(self, key).map(|text| text.trim_matches(['"', '\'']).to_owned())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: ListenAddress { host: ListenHost::Ip(Ipv4Addr::LOCALHOST.into()), port: 7420 },
            store: StoreUrl::Memory,
            allow_eviction: false,
            classic_prefix: String::new(),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(10),
            log: LogConfig { format: LogFormat::Text, filter: "info".to_owned() },
        }
    }
}
