//! The options that several commands share, and how their text is read.

use clap::Args;
use std::time::Duration;

/// Where a server listens unless it is told otherwise.
const DEFAULT_SERVER: &str = "127.0.0.1:7420";

/// Which servers to talk to.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerArgs {
    /// The address of the server, host:port; several (repeated, or with commas between them) are replicas of one
    /// service [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS", env = "FENCEPOST_SERVER", value_delimiter = ',')]
    server: Vec<String>,
}

impl ServerArgs {
    /// Did the command line or the variable name a server? If not, the default address is meant.
    pub(crate) fn is_given(&self) -> bool {
        !self.server.is_empty()
    }

    /// The addresses as they were written.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        if !self.is_given() {
            return vec![DEFAULT_SERVER];
        }
        self.server.iter().map(|address| address.trim()).filter(|address| !address.is_empty()).collect()
    }
}

/// What every command that calls the server once has.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallArgs {
    /// Which servers to talk to.
    #[command(flatten)]
    pub servers: ServerArgs,

    /// Print the reply as JSON, in protobuf's own mapping (streams: one object a line)
    #[arg(long)]
    pub json: bool,
}

/// What a request for a lock says besides its name.
#[derive(Args, Clone, Debug)]
pub(crate) struct LockArgs {
    /// How long the lease lasts without a renewal, such as 30s (default: the server's, 30s)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<Duration>,

    /// How long to wait in line if the lock is held, such as 10s; 0s tries once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub wait: Duration,

    /// The label that others see as the holder (default: user@host:pid)
    #[arg(long, value_name = "LABEL")]
    pub holder: Option<String>,

    /// More for others to see beside the holder; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub metadata: Vec<(String, String)>,

    /// The least token to be granted: one more than the highest that a store has seen, if it refuses yours; raises the
    /// tokens of other locks too, and if the server's store then loses its data, all of these can fall
    #[arg(long, value_name = "TOKEN", default_value_t = 0)]
    pub min_token: u64,

    /// A UUID that names this request for this lock: repeated with the same one, it has the effect of one; not the nil
    /// UUID
    #[arg(long, value_name = "UUID")]
    pub request_id: Option<String>,
}

/// Proof of ownership.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseArgs {
    /// The lease id that acquire printed; a secret, so better given in the variable
    #[arg(long, value_name = "ID", env = "FENCEPOST_LEASE_ID", hide_env_values = true)]
    pub lease_id: String,
}

impl LockArgs {
    /// The label to show: what was given, or who and where this process is.
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

/// Keeps to the rule for labels (no control characters, 256 bytes) whatever the machine is called.
fn label(user: &str, host: &str, process: u32) -> String {
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(32).collect::<String>();
    format!("{}@{}:{process}", clean(user), clean(host))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "must be a duration with its unit, such as 500ms, 30s or 1h 30m".to_owned())
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
    fn metadata_is_a_key_and_a_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
    }

    #[test]
    fn the_default_holder_keeps_the_rule_for_labels() {
        assert_eq!(label("ann", "web-1", 7), "ann@web-1:7");
        assert!(label(&"ü".repeat(500), &"\u{7}x".repeat(500), u32::MAX).len() <= 256);
        assert!(!default_holder().is_empty());
    }
}
