//! Parses text into a [`Config`]. Overridden values are checked as well, and all problems are collected.

use super::{
    AdminPlace, Config, ConfigError, Listen, ListenAddress, ListenHost, LogFormat, PARAMETERS_SHOWN, PASSWORD_SHOWN,
    SCHEMES, StoreLogin, StoreTls, StoreUrl, TlsFiles,
    duration::as_written,
    names_cluster,
    raw::{Problem, RawConfig, location},
    urls_in, why_no_list,
};
use crate::domain::limits::{Limits, STORE_PREFIX_BYTES_MAX, TTL_CEILING, TTL_FLOOR};
use std::{ops::RangeInclusive, path::PathBuf, time::Duration};
use tracing_subscriber::EnvFilter;

const CLASSIC_PREFIX_MAX: usize = 512;
/// What the keys of versions before the first release begin with.
const EARLIER_KEYS: &str = "fp:";
/// How many Redis servers a store has. With an even number one more would have to be there, and no more could fail;
/// more than five only make it slower.
const NODE_COUNTS: [usize; 3] = [1, 3, 5];
const DRAIN_TIMEOUT_CEILING: Duration = Duration::from_secs(5 * 60);

/// Checks all options, in the order of the table. `redis_url` checks the URL of a Redis.
pub(super) fn check(raw: &RawConfig, redis_url: impl Fn(&str) -> Result<(), String>) -> Result<Config, ConfigError> {
    let mut reader = Reader { raw, problems: raw.problems.clone() };
    let default = Config::default();
    let limits = default.limits;
    // The API documents this as the maximum.
    let wait_ceiling = Limits::default().wait_max;
    let config = Config {
        listen: reader.read("listen", default.listen, str::parse),
        port_file: reader.read("port_file", None, file),
        plaintext: reader.read("plaintext", default.plaintext, switch),
        tls: reader.tls(),
        access: reader.read("access", None, file),
        audit_log: reader.read("audit_log", None, file),
        audit_grants: reader.read("audit_grants", default.audit_grants, switch),
        connections_max: reader.read("connections_max", default.connections_max, count(1_000_000)),
        connections_per_peer: reader.read("connections_per_peer", default.connections_per_peer, count(1_000_000)),
        store: reader.read("store", default.store, |text| store(text, &redis_url)),
        store_tls: StoreTls {
            ca: reader.read("store_ca", None, file),
            cert: reader.read("store_cert", None, file),
            key: reader.read("store_key", None, file),
        },
        store_login: StoreLogin {
            user: reader.read("store_user", default.store_login.user, store_user),
            password_file: reader.read("store_password_file", None, file),
        },
        store_prefix: reader.read("store_prefix", default.store_prefix, store_prefix),
        allow_eviction: reader.read("allow_eviction", default.allow_eviction, switch),
        classic_prefix: reader.read("classic_prefix", default.classic_prefix, classic_prefix),
        limits: Limits {
            ttl_min: reader.read("ttl_min", limits.ttl_min, duration(TTL_FLOOR..=TTL_CEILING)),
            ttl_max: reader.read("ttl_max", limits.ttl_max, duration(TTL_FLOOR..=TTL_CEILING)),
            wait_max: reader.read("wait_max", limits.wait_max, duration(Duration::ZERO..=wait_ceiling)),
            waiters_per_lock: reader.read("waiters_per_lock", limits.waiters_per_lock, count(1_000_000)),
            waiters_per_server: reader.read("waiters_per_server", limits.waiters_per_server, count(10_000_000)),
            leases_per_stream: reader.read("leases_per_stream", limits.leases_per_stream, count(1_000_000)),
        },
        drain_timeout: reader.read(
            "drain_timeout",
            default.drain_timeout,
            duration(Duration::ZERO..=DRAIN_TIMEOUT_CEILING),
        ),
        admin_listen: reader.read("admin_listen", default.admin_listen, str::parse),
        admin_tls: reader.read("admin_tls", default.admin_tls, switch),
        admin_service: reader.read("admin_service", default.admin_service, admin_place),
        test_faults: reader.read("test_faults", None, test_faults),
        otlp_endpoint: reader.read("otlp_endpoint", default.otlp_endpoint, otlp_endpoint),
        log: super::LogConfig {
            format: reader.read("log_format", default.log.format, log_format),
            filter: reader.read("log_level", default.log.filter, log_filter),
        },
    };
    reader.compare(&config);
    if reader.problems.is_empty() { Ok(config) } else { Err(ConfigError { problems: reader.problems }) }
}

struct Reader<'a> {
    raw: &'a RawConfig,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Reports options that do not go together. Values are compared only if all are valid.
    fn compare(&mut self, config: &Config) {
        if self.problems.is_empty() && config.limits.ttl_min > config.limits.ttl_max {
            let ttl_max = as_written(config.limits.ttl_max);
            let at = self.effective_location("ttl_min");
            let value = as_written(config.limits.ttl_min);
            self.problems.push(Problem { at, value, rule: format!("must not be above ttl_max, which is {ttl_max}") });
        }
        if self.problems.is_empty() && config.tls.is_some() && matches!(config.listen, Listen::Unix(_)) {
            self.report("tls_cert", "cannot be used on a Unix socket, which needs no TLS: listen on host:port instead");
        }
        if config.store.urls().iter().any(|url| is_printed(url)) {
            let rule = "contains *** in place of a password: replace it, or give the URL in FENCEPOST_STORE".to_owned();
            self.problems.push(Problem { at: self.effective_location("store"), value: String::new(), rule });
        }
        if self.problems.is_empty()
            && let Some((key, rule)) =
                config.store_tls.problem(&config.store).or_else(|| config.store_login.problem(&config.store))
        {
            self.report(key, rule);
        }
        if self.problems.is_empty() && config.admin_tls && config.tls.is_none() {
            self.report("admin_tls", "needs the certificate of the API: --tls-cert FILE and --tls-key FILE");
        }
        if self.problems.is_empty() && config.audit_grants && config.audit_log.is_none() {
            self.report("audit_grants", "needs the audit log: --audit-log FILE");
        }
        self.compare_classic(config);
        if self.problems.is_empty() && config.test_faults.is_some() && config.store != StoreUrl::Memory {
            self.report("test_faults", "loses leases and replies on demand, so it needs --store memory:");
        }
    }

    /// What classic clients can share locks with.
    fn compare_classic(&mut self, config: &Config) {
        if self.problems.is_empty() && !config.classic_prefix.is_empty() {
            match config.store.urls() {
                [url] if names_cluster(url) => self.report(
                    "classic_prefix",
                    "cannot be used with a Redis Cluster: classic keys have no hash tag, so they are in other slots \
                     than Fencepost's, and no script reaches both",
                ),
                [_] => {}
                _ => {
                    let rule = "needs the one Redis that the classic clients use: --store redis://…";
                    self.report("classic_prefix", rule);
                }
            }
        }
        if self.problems.is_empty()
            && let Some(own) = shared_with_own_keys(&config.classic_prefix, &config.store_prefix)
        {
            let (at, value) = (self.effective_location("classic_prefix"), config.classic_prefix.clone());
            let rule = format!("must not start with {own}, as Fencepost's own keys do, nor be a beginning of it");
            self.problems.push(Problem { at, value, rule });
        }
    }

    /// The effective value. After a problem it is only a placeholder.
    fn read<T>(&mut self, key: &'static str, default: T, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let mut effective = default;
        for raw in self.raw.values.get(key).into_iter().flatten() {
            match parse(raw.text.trim()) {
                Ok(value) => effective = value,
                Err(rule) => {
                    self.problems.push(Problem { at: location(key, &raw.source), value: raw.text.clone(), rule });
                }
            }
        }
        effective
    }

    fn tls(&mut self) -> Option<TlsFiles> {
        let [cert, key, client_ca] = ["tls_cert", "tls_key", "tls_client_ca"].map(|key| self.read(key, None, file));
        TlsFiles::new(cert, key, client_ca).unwrap_or_else(|(key, rule)| {
            self.report(key, rule);
            None
        })
    }

    /// Reports the effective value of an option.
    fn report(&mut self, key: &'static str, rule: &str) {
        let value = self.raw.values.get(key).and_then(|values| values.last()).map(|raw| raw.text.clone());
        let at = self.effective_location(key);
        self.problems.push(Problem { at, value: value.unwrap_or_default(), rule: rule.to_owned() });
    }

    fn effective_location(&self, key: &'static str) -> String {
        match self.raw.values.get(key).and_then(|values| values.last()) {
            Some(raw) => location(key, &raw.source),
            None => format!("{key} (by default)"),
        }
    }
}

/// Nothing for none.
fn test_faults(text: &str) -> Result<Option<ListenAddress>, String> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(str::to_owned) }
}

fn store(text: &str, redis_url: impl Fn(&str) -> Result<(), String>) -> Result<StoreUrl, String> {
    if text == "memory:" {
        return Ok(StoreUrl::Memory);
    }
    let urls = urls_in(text);
    for url in &urls {
        // Output of --print-config. Valid here, because another source may override it.
        if is_printed(url) {
            continue;
        }
        if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            return Err("no such store; there are memory: (locks in this process), redis://[user:password@]host:port\
                        [/db], or rediss:// for TLS (locks in that Redis, shared by all servers that use it), \
                        redis+sentinel://host,host,host/name (in the Redis that these Sentinels name), \
                        redis+cluster://host,host,host (in one slot of that Redis Cluster), and three or five \
                        redis:// URLs, separated by commas (locks in a majority of them)"
                .to_owned());
        }
        redis_url(url)?;
    }
    if let Some(why) = why_no_list(&urls) {
        return Err(why.to_owned());
    }
    if !NODE_COUNTS.contains(&urls.len()) {
        return Err(format!(
            "names {} Redis servers: give one, or three, or five, of which a majority has to be there",
            urls.len()
        ));
    }
    Ok(StoreUrl::Redis(urls.into_iter().map(str::to_owned).collect()))
}

/// Whether a password in this URL was replaced to print it.
fn is_printed(url: &str) -> bool {
    url.contains(PASSWORD_SHOWN) || url.contains(PARAMETERS_SHOWN)
}

fn classic_prefix(text: &str) -> Result<String, String> {
    if text.len() > CLASSIC_PREFIX_MAX || text.contains(char::is_control) {
        return Err(format!("must be at most {CLASSIC_PREFIX_MAX} bytes with no control characters"));
    }
    Ok(text.to_owned())
}

/// What the own keys of a store begin with, if classic keys with this prefix could be among them. A beginning of that
/// counts too, because a lock name may supply the rest.
fn shared_with_own_keys(classic_prefix: &str, store_prefix: &str) -> Option<String> {
    let own = [format!("{{{store_prefix}}}:"), EARLIER_KEYS.to_owned()];
    let is_shared = |own: &String| classic_prefix.starts_with(&**own) || own.starts_with(classic_prefix);
    own.into_iter().find(is_shared).filter(|_| !classic_prefix.is_empty())
}

/// The name of a store. Braces would end the hash tag of its keys, and `*`, `?` and `[` mean something else in the
/// patterns of an ACL.
///
/// # Errors
///
/// It is empty, too long, or has other characters.
pub fn store_prefix(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=STORE_PREFIX_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(format!("must have 1 to {STORE_PREFIX_BYTES_MAX} letters, digits, hyphens, underscores or points"))
}

/// A user of Redis' ACL; empty for none. Redis allows no blanks in it.
///
/// # Errors
///
/// It has blanks, or characters that are not shown.
pub fn store_user(text: &str) -> Result<String, String> {
    let is_plain = !text.contains(|it: char| it.is_control() || it.is_whitespace());
    if is_plain { Ok(text.to_owned()) } else { Err("must be a user of Redis, without blanks".to_owned()) }
}

/// A file; empty for none.
fn file(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        _ if text.contains(char::is_control) => Err("must be a path with no control characters".to_owned()),
        "" => Ok(None),
        path => Ok(Some(path.into())),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn otlp_endpoint(text: &str) -> Result<String, String> {
    let is_host_and_port = |rest: &str| {
        rest.trim_end_matches('/').parse::<ListenAddress>().is_ok_and(|address| address.host != ListenHost::All)
    };
    if text.is_empty() || text.strip_prefix("http://").is_some_and(is_host_and_port) {
        return Ok(text.to_owned());
    }
    Err("must be http://host:port, such as http://localhost:4317 (OTLP over gRPC, without TLS), or empty".to_owned())
}

fn admin_place(text: &str) -> Result<AdminPlace, String> {
    match text {
        "everywhere" => Ok(AdminPlace::Everywhere),
        "admin" => Ok(AdminPlace::Admin),
        _ => Err("must be admin or everywhere".to_owned()),
    }
}

fn duration(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| {
        let (low, high) = (as_written(*range.start()), as_written(*range.end()));
        match humantime::parse_duration(text) {
            Ok(value) if range.contains(&value) => Ok(value),
            Ok(_) => Err(format!("must be {low} to {high}")),
            Err(_) => {
                Err(format!("must be a duration with a unit, such as 250ms, 30s or 1h 30m, from {low} to {high}"))
            }
        }
    }
}

fn count(max: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |text| match text.parse() {
        Ok(value) if (1..=max).contains(&value) => Ok(value),
        _ => Err(format!("must be a whole number from 1 to {max}")),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be text or json".to_owned()),
    }
}

fn log_filter(text: &str) -> Result<String, String> {
    const RULE: &str = "must be error, warn, info, debug, trace or off, or a list such as info,fencepost::locks=debug";
    // The parser takes a bare word for a module to log in full. Here it is a misspelt level.
    let bare = |part: &str| !part.contains(['=', '[']);
    let level = |part: &str| !part.is_empty() && part.parse::<tracing::level_filters::LevelFilter>().is_ok();
    // Fields of a span, in braces, may contain commas.
    let known = text.contains('{') || text.split(',').all(|part| !bare(part) || level(part.trim()));
    if text.is_empty() || !known {
        return Err(RULE.to_owned());
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| RULE.to_owned())
}
