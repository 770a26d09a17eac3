//! Options that several commands share, and their parsers.

use super::exit::{COMMAND_LINE, Failure};
use clap::Args;
use fencepost_client::Tls;
use std::{ffi::OsString, time::Duration};

/// The default address of a server.
const DEFAULT_SERVER: &str = "127.0.0.1:7420";

/// The servers to call.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerArgs {
    /// Address of the server: host:port, https://host:port (TLS) or unix:/path; several (repeated, or separated by
    /// commas) are replicas of one service [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS", env = "FENCEPOST_SERVER", value_delimiter = ',')]
    server: Vec<String>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// The files for TLS with the servers. An empty value counts as none.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// PEM file with the authorities that may issue the server's certificate, in place of the machine's roots
    #[arg(long, value_name = "FILE", env = "FENCEPOST_CA", value_parser = clap::value_parser!(OsString))]
    ca: Option<OsString>,

    /// PEM file with the client's certificate, for servers that ask for one
    #[arg(long, value_name = "FILE", env = "FENCEPOST_CERT", value_parser = clap::value_parser!(OsString))]
    cert: Option<OsString>,

    /// PEM file with the private key of the client's certificate
    #[arg(long, value_name = "FILE", env = "FENCEPOST_KEY", value_parser = clap::value_parser!(OsString))]
    key: Option<OsString>,
}

impl TlsArgs {
    /// The settings for the client.
    pub(crate) fn settings(&self) -> Result<Tls, Failure> {
        let [ca, cert, key] = [&self.ca, &self.cert, &self.key].map(|file| file.as_ref().filter(|it| !it.is_empty()));
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
    /// Whether the command line or the variable names a server. If not, the default address is used.
    pub(crate) fn is_given(&self) -> bool {
        !self.server.is_empty()
    }

    /// The settings for `https://` servers.
    pub(crate) fn tls(&self) -> Result<Tls, Failure> {
        self.tls.settings()
    }

    /// The addresses as written.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        if !self.is_given() {
            return vec![DEFAULT_SERVER];
        }
        self.server.iter().map(|address| address.trim()).filter(|address| !address.is_empty()).collect()
    }
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
#[derive(Args, Clone, Debug)]
pub(crate) struct LockArgs {
    /// TTL of the lease: how long it lasts without a renewal, such as 30s (default: that of the server, 30s)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,

    /// How long to wait in the queue if the lock is held, such as 10s; 0s tries once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub wait: Duration,

    /// Label of the holder, visible to others (default: user@host:pid)
    #[arg(long, value_name = "LABEL")]
    pub holder: Option<String>,

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
}

/// The proof of holding a lease.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseArgs {
    /// Lease id that acquire printed; a secret, so prefer the variable
    #[arg(long, value_name = "ID", env = "FENCEPOST_LEASE_ID", hide_env_values = true)]
    pub lease_id: String,
}

impl LockArgs {
    /// The label of the holder: the given one, or user, host and process id.
    pub(crate) fn holder(&self) -> String {
        self.holder.clone().unwrap_or_else(default_holder)
    }
}

fn default_holder() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| "user".to_owned());
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    label(&user, &host.unwrap_or_else(|| "host".to_owned()), std::process::id())
}

/// A label that satisfies the rule for labels (no control characters, 256 bytes) for any user and host name.
fn label(user: &str, host: &str, process: u32) -> String {
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(32).collect::<String>();
    format!("{}@{}:{process}", clean(user), clean(host))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "must be a duration with a unit, such as 500ms, 30s or 1h 30m".to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("30").unwrap_err().contains("30s"));
    }

    #[test]
    fn metadata_has_a_key_and_a_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
    }

    #[test]
    fn the_default_holder_satisfies_the_rule_for_labels() {
        assert_eq!(label("ann", "web-1", 7), "ann@web-1:7");
        assert!(label(&"ü".repeat(500), &"\u{7}x".repeat(500), u32::MAX).len() <= 256);
        assert!(!default_holder().is_empty());
    }
}
