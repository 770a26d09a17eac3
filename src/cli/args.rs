//! Options that several commands share, and their parsers.

use super::{
    exit::{COMMAND_LINE, Failure, USAGE},
    text,
};
use clap::Args;
use fencepost_client::{Tls, facts};
use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

/// The servers to call.
///
/// The variables are read here and not by clap, whose messages would show the options that they replace as required.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerArgs {
    /// Address of the server: host:port, https://host:port (TLS) or unix:/path; several (repeated, or separated by
    /// commas) are replicas of one service [env: FENCEPOST_SERVER] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = address)]
    server: Vec<String>,
    #[command(flatten)]
    tls: TlsArgs,
    /// File with a bearer token alone, for servers that ask for credentials; read for each call
    /// [env: FENCEPOST_CREDENTIALS]
    #[arg(long, value_name = "FILE", value_parser = clap::value_parser!(OsString))]
    credentials: Option<OsString>,
}

/// The files for TLS with the servers. An empty value counts as none.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// PEM file with the authorities that may issue the server's certificate, in place of the machine's roots
    /// [env: FENCEPOST_CA]
    #[arg(long, value_name = "FILE", value_parser = clap::value_parser!(OsString))]
    ca: Option<OsString>,

    /// PEM file with the client's certificate, for servers that ask for one [env: FENCEPOST_CERT]
    #[arg(long, value_name = "FILE", value_parser = clap::value_parser!(OsString))]
    cert: Option<OsString>,

    /// PEM file with the private key of the client's certificate [env: FENCEPOST_KEY]
    #[arg(long, value_name = "FILE", value_parser = clap::value_parser!(OsString))]
    key: Option<OsString>,
}

impl TlsArgs {
    /// The settings for the client.
    pub(crate) fn settings(&self) -> Result<Tls, Failure> {
        let file = |option: &Option<OsString>, variable| {
            option.clone().or_else(|| env::var_os(variable)).filter(|file| !file.is_empty())
        };
        let ca = file(&self.ca, facts::ENVIRONMENT_CA);
        let (cert, key) = (file(&self.cert, facts::ENVIRONMENT_CERT), file(&self.key, facts::ENVIRONMENT_KEY));
        let mut tls = Tls::new();
        if let Some(ca) = ca {
            tls = tls.ca_file(ca);
        }
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(tls.identity_files(cert, key)),
            (None, None) => Ok(tls),
            (Some(_), None) => Err(Failure::new(COMMAND_LINE, "--cert needs the key of the certificate: --key FILE")),
            (None, Some(_)) => Err(Failure::new(COMMAND_LINE, "--key needs the certificate of the key: --cert FILE")),
        }
    }
}

impl ServerArgs {
    /// Whether the command line names a server. If not, the variable or the default address is used.
    pub(crate) fn is_on_command_line(&self) -> bool {
        !self.server.is_empty()
    }

    /// The first of the servers only.
    pub(crate) fn first(&self) -> Self {
        let server = self.addresses().into_iter().take(1).collect();
        Self { server, tls: self.tls.clone(), credentials: self.credentials.clone() }
    }

    /// The settings for `https://` servers.
    pub(crate) fn tls(&self) -> Result<Tls, Failure> {
        self.tls.settings()
    }

    /// The file with the token, if there is one, and what names it.
    pub(crate) fn credentials(&self) -> Option<(&'static str, PathBuf)> {
        let variable = || Some((facts::ENVIRONMENT_CREDENTIALS, env::var_os(facts::ENVIRONMENT_CREDENTIALS)?));
        let named = self.credentials.clone().map(|file| ("--credentials", file)).or_else(variable);
        named.filter(|(_, file)| !file.is_empty()).map(|(by, file)| (by, PathBuf::from(file)))
    }

    /// The addresses as written.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let variable = if self.server.is_empty() { in_environment() } else { None };
        let given = match &variable {
            Some(text) => text.split(',').collect(),
            None if self.server.is_empty() => vec![facts::DEFAULT_SERVER],
            None => self.server.iter().map(String::as_str).collect(),
        };
        given.into_iter().map(|address| address.trim().to_owned()).filter(|address| !address.is_empty()).collect()
    }
}

/// The value of the variable, unless it is empty.
pub(super) fn in_environment() -> Option<String> {
    let value = env::var_os(facts::ENVIRONMENT_SERVER).filter(|value| !value.is_empty());
    value.as_deref().map(OsStr::to_string_lossy).map(Into::into)
}

/// The options of commands that make one call.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallArgs {
    /// The servers to call.
    #[command(flatten)]
    pub servers: ServerArgs,

    /// Print the response as JSON, in the mapping of protobuf (streams: one object per line)
    #[arg(long)]
    pub json: bool,
}

/// The parameters of an acquire besides the lock name.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LockArgs {
    /// TTL of the lease: how long it lasts without a renewal, such as 30s (default: that of the server, 30s)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,

    /// Longest time to hold the lock, with all renewals, such as 1h: at least the TTL, at most 7 days (default: no
    /// bound)
    #[arg(long, value_name = "DURATION", value_parser = above_zero)]
    pub max_hold: Option<Duration>,

    /// Share the lock with all others that ask for it so (readers): none of them holds it beside one that does not
    #[arg(long)]
    pub shared: bool,

    /// Take a permit of a semaphore, of which all holders together use no more than N: 1 to 1,000,000
    #[arg(long, value_name = "N", conflicts_with = "shared")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,

    /// Permits to take with --limit, at most N; given back together
    // clap does not ask for `limit` where `shared` excludes it, so this excludes `shared` itself. So does the version.
    #[arg(long, value_name = "N", requires = "limit", conflicts_with = "shared", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub permits: u32,

    /// Version of --limit, to be raised whenever that is changed: the highest one is in force for all, as long as the
    /// semaphore is in use
    #[arg(long, value_name = "VERSION", requires = "limit", conflicts_with = "shared", default_value_t = 0)]
    pub limit_version: u64,

    /// How long the lock, or what the lease has of it, stays unavailable after the grant, however the lease ends, such
    /// as 5m: at most 24h. So jobs that several machines start at one time run once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s", hide_default_value = true)]
    pub min_hold: Duration,

    /// How long the lock, or what the lease has of it, stays unavailable after the lease if its holder did not release
    /// it, such as 15s: at most 60s. For a store that cannot compare tokens
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s", hide_default_value = true)]
    pub lock_delay: Duration,

    /// How long to wait in the queue if the lock is held, such as 10s; 0s tries once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub wait: Duration,

    /// Label of the holder, visible to others (default: user@host:pid)
    #[arg(long, value_name = "LABEL")]
    pub holder: Option<String>,

    /// What acquires locks one after another (a worker, a job), visible to others: deadlocks finds owners that wait for
    /// each other. At most 128 bytes
    #[arg(long, value_name = "LABEL")]
    pub owner: Option<String>,

    /// Do not wait if N requests wait already, for work that need not be done twice
    #[arg(long, value_name = "N", requires = "wait", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_waiters: Option<u32>,

    /// Metadata of the holder, visible to others; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub metadata: Vec<(String, String)>,

    /// Lowest token to grant: if the protected store refuses your token, one more than the highest it has seen. This
    /// also raises the tokens of other locks, and all of them can fall if the server's store then loses its data
    #[arg(long, value_name = "TOKEN", default_value_t = 0)]
    pub min_token: u64,

    /// UUID of this request; a repeat for the same lock with the same UUID has no further effect; the nil UUID is
    /// refused
    #[arg(long, value_name = "UUID")]
    pub request_id: Option<String>,

    /// Do not show on a terminal, while waiting, who holds the lock
    #[arg(short, long)]
    pub quiet: bool,
}

/// The proof of holding a lease.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseArgs {
    /// Lease id that acquire printed; a secret, so prefer the variable
    #[arg(long, value_name = "ID", env = "FENCEPOST_LEASE_ID", hide_env_values = true)]
    pub lease_id: String,
}

/// An address, which must not be empty: the value of an unset variable names no server, and the default one may be
/// another than the one that was meant. `drain` would end it.
fn address(text: &str) -> Result<String, String> {
    let address = text.trim();
    if address.is_empty() { Err("must not be empty".to_owned()) } else { Ok(address.to_owned()) }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "must be a duration with a unit, such as 500ms, 30s or 1h 30m".to_owned())
}

/// Where 0 would stand for no bound.
fn above_zero(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|span| if span.is_zero() { Err("must be above 0, such as 1h".to_owned()) } else { Ok(span) })
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be KEY=VALUE".to_owned()),
    }
}

/// Refuses a key that is given twice: only one of its values could be shown.
pub(super) fn each_key_once(metadata: &[(String, String)]) -> Result<(), Failure> {
    for (index, (key, _)) in metadata.iter().enumerate() {
        if metadata[..index].iter().any(|(before, _)| before == key) {
            let key = text::visible(key);
            return Err(Failure::new(USAGE, format!("the metadata has {key} twice: give each key one value")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("30").unwrap_err().contains("30s"));
        assert!(above_zero("0s").is_err() && above_zero("30").is_err() && above_zero("1ns").is_ok());
    }

    #[test]
    fn metadata_has_a_key_and_a_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
        let pairs = ["a=1", "b=1", "a=1"].map(|text| key_value(text).unwrap());
        assert!(each_key_once(&pairs[..2]).is_ok() && each_key_once(&pairs).unwrap_err().message.contains("a twice"));
    }
}
