//! The URL of a Redis. Its password is never shown: not in a log, not in an error.

use super::{Login, NodeFileProblem, TlsFiles, login::LoggedIn};
use deadpool_redis::redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, io::tcp::TcpSettings,
};
use std::{fmt, time::Duration};

/// How long a connection may be silent before TCP sends a keepalive probe, and the pause between probes.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before TCP gives the connection up.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(5);

const FORM: &str = "write redis://[user:password@]host:port[/db], or rediss:// for TLS";

/// A checked `redis://` or `rediss://` URL.
#[derive(Clone)]
pub struct RedisUrl {
    info: ConnectionInfo,
    files: TlsFiles,
    /// In place of a password in the URL.
    login: Option<Login>,
    /// Whether it is a member of a Redis Cluster.
    in_cluster: bool,
    shown: String,
}

impl RedisUrl {
    /// Parses `redis://[user:password@]host:port[/db]`, or `rediss://` for TLS with the machine's root certificates or
    /// those in `SSL_CERT_FILE`. The default port is 6379. The error text holds no part of the URL that could be a
    /// password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tls = if text.starts_with("rediss://") {
            true
        } else if text.starts_with("redis://") {
            false
        } else {
            return Err(format!("invalid Redis URL: {FORM}"));
        };
        if text.contains(['?', '#']) {
            return Err(format!("a Redis URL has no parameters (write ? and # in a password as %3F and %23): {FORM}"));
        }
        let info = text.into_connection_info().map_err(|error| {
            // The detail of the error could quote the URL, its description is a constant.
            let why = error.to_string();
            let why = why.split(" - ").next().unwrap_or_default().to_lowercase();
            format!("invalid Redis URL: {why} (characters like @ : / in a password are written as %40 %3A %2F): {FORM}")
        })?;
        let (host, port) = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } if !host.is_empty() => {
                (host.clone(), *port)
            }
            _ => return Err(format!("the Redis URL names no host: {FORM}")),
        };
        let settings = info.redis_settings();
        if settings.db() < 0 {
            return Err(format!("the database of a Redis URL is a number from 0 up: {FORM}"));
        }
        if settings.username().is_some() && settings.password().is_none() {
            return Err(format!(
                "the Redis URL has a user and no password (a password alone is written :password@, and the user of \
                 --store-password-file is in --store-user): {FORM}"
            ));
        }
        let who = match (settings.username(), settings.password()) {
            (_, None) => String::new(),
            (user, Some(_)) => format!("{}:***@", user.unwrap_or_default()),
        };
        let scheme = if tls { "rediss" } else { "redis" };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let shown = match settings.db() {
            0 => format!("{scheme}://{who}{host}:{port}"),
            db => format!("{scheme}://{who}{host}:{port}/{db}"),
        };
        // With RESP3 a broken connection is reported as a push, instead of being found by the next command.
        let settings =
            settings.clone().set_protocol(ProtocolVersion::RESP3).set_lib_name("fencepost", env!("CARGO_PKG_VERSION"));
        let info = info.set_tcp_settings(tcp_settings()).set_redis_settings(settings);
        Ok(Self { info, files: TlsFiles::default(), login: None, in_cluster: false, shown })
    }

    /// Where it is, without how to get in: `host:port`, or `host:port/database`.
    pub fn address(&self) -> &str {
        let address = self.shown.rsplit_once('@').or_else(|| self.shown.split_once("://"));
        address.map_or(&self.shown, |(_, address)| address)
    }

    /// The URL of another Redis, with the user, the password and the TLS of this one. `address` is as [`Self::address`]
    /// has it; a port of 6379 may be left out.
    pub fn at(&self, address: &str) -> Result<Self, String> {
        // A password does not belong into an address, and an address may be shown.
        if address.contains(['@', '?', '#']) || address.contains("://") {
            return Err("invalid address of a Redis: write host:port, or host:port/db".to_owned());
        }
        let scheme = if self.tls() { "rediss" } else { "redis" };
        let there = Self::parse(&format!("{scheme}://{address}"))
            .map_err(|why| format!("{address} is an invalid address of a Redis: {why}"))?;
        let (mine, info) = (self.info.redis_settings(), there.info);
        let mut settings = info.redis_settings().clone();
        if let Some(user) = mine.username() {
            settings = settings.set_username(user);
        }
        if let Some(password) = mine.password() {
            settings = settings.set_password(password);
        }
        let who = self.shown.rsplit_once('@').and_then(|(who, _)| who.split_once("://"));
        let shown = match (who, there.shown.split_once("://")) {
            (Some((_, who)), Some((scheme, address))) => format!("{scheme}://{who}@{address}"),
            _ => there.shown,
        };
        Ok(Self {
            info: info.set_redis_settings(settings),
            files: self.files.clone(),
            login: self.login.clone(),
            in_cluster: self.in_cluster,
            shown,
        })
    }

    /// Whether the two have the same user, password and TLS.
    pub fn is_entered_like(&self, other: &Self) -> bool {
        let access = |url: &Self| {
            let settings = url.info.redis_settings();
            (settings.username().map(str::to_owned), settings.password().map(str::to_owned), url.tls())
        };
        access(self) == access(other) && self.files == other.files && self.login == other.login
    }

    /// Whether the connection is encrypted.
    pub fn tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// The same, for a member of a Redis Cluster.
    pub(super) fn in_cluster(self) -> Self {
        Self { in_cluster: true, ..self }
    }

    /// Whether it has to be a member of a Redis Cluster. If not, it must not be one.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// The host.
    pub(super) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            // It was checked that it has one.
            _ => "",
        }
    }

    /// The URL of the same Redis with this scheme after `redis` or `rediss`, as it is shown.
    pub(super) fn shown_with(&self, scheme: &str) -> String {
        self.shown.replacen("://", scheme, 1)
    }

    /// With these files for TLS, which are read to check them. Only a `rediss://` URL can have any.
    pub fn with_tls(self, files: TlsFiles) -> Result<Self, NodeFileProblem> {
        if !files.is_empty() {
            files.add_to(&self.info)?;
        }
        Ok(Self { files, ..self })
    }

    pub(super) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// With this user and a password from a file, which is read to check it. A URL that has a password is refused.
    pub fn with_login(self, login: Login) -> Result<Self, NodeFileProblem> {
        if self.info.redis_settings().password().is_some() {
            return Err(login.problem("is given beside a password in the URL: remove one of the two"));
        }
        login.password()?;
        let (scheme, address) = self.shown.split_once("://").unwrap_or_default();
        let shown = format!("{scheme}://{}:***@{address}", login.user.as_deref().unwrap_or_default());
        Ok(Self { login: Some(login), shown, ..self })
    }

    /// The settings of one connection, and what it is authenticated with if that is in a file. Reads the files.
    pub(super) fn settings(&self) -> Result<(ConnectionInfo, Option<LoggedIn>), NodeFileProblem> {
        let mut info = if self.files.is_empty() { self.info.clone() } else { self.files.add_to(&self.info)? };
        let Some(login) = self.login.clone() else { return Ok((info, None)) };
        let password = login.password()?;
        let mut settings = info.redis_settings().clone().set_password(password.clone());
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        info = info.set_redis_settings(settings);
        Ok((info, Some(LoggedIn::new(login, password))))
    }
}

/// The defaults of the crate leave Nagle's algorithm on, which costs a pipelined connection half of its throughput on a
/// network, and never notice a peer that vanished.
fn tcp_settings() -> TcpSettings {
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(USER_TIMEOUT);
    settings
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RedisUrl({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_url_holds_no_password() {
        for (text, shown) in [
            ("redis://localhost:7000", "redis://localhost:7000"),
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://localhost:7000/3", "redis://localhost:7000/3"),
            ("redis://:s3cret@localhost:7000", "redis://:***@localhost:7000"),
            ("rediss://me:s3cret@redis.example/2", "rediss://me:***@redis.example:6379/2"),
            ("redis://me:s3%40cret@[::1]:7000", "redis://me:***@[::1]:7000"),
        ] {
            let url = RedisUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            let debug = format!("{url:?} {url:#?}");
            assert!(!debug.contains("cret"), "{debug}");
            assert_eq!(url.tls(), text.starts_with("rediss"));
        }
        let url = RedisUrl::parse("redis://me:s3%40cret@[::1]:7000").unwrap();
        assert_eq!(url.info().redis_settings().password(), Some("s3@cret"));
        assert!(url.info().tcp_settings().nodelay());
    }

    #[test]
    fn another_place_is_entered_in_the_same_way() {
        for (text, address, shown) in [
            ("redis://a:7000", "b", "redis://b:6379"),
            ("redis://:s3cret@a:7000/3", "b:7001/2", "redis://:***@b:7001/2"),
            ("rediss://me:s3%40cret@a", "[::1]:7001", "rediss://me:***@[::1]:7001"),
        ] {
            let url = RedisUrl::parse(text).unwrap();
            let other = url.at(address).unwrap();
            assert_eq!(other.to_string(), shown);
            assert!(other.is_entered_like(&url) && url.is_entered_like(&other));
            assert_eq!(other.info().redis_settings().password(), url.info().redis_settings().password());
            assert_eq!(other.info().redis_settings().username(), url.info().redis_settings().username());
            assert_eq!(other.tls(), text.starts_with("rediss"));
            assert_eq!(url.at(url.address()).unwrap().to_string(), url.to_string());
        }
        let url = RedisUrl::parse("redis://me:s3cret@a").unwrap();
        for other in ["redis://a", "redis://you:s3cret@a", "redis://me:other@a", "rediss://me:s3cret@a"] {
            assert!(!url.is_entered_like(&RedisUrl::parse(other).unwrap()), "{other}");
        }
        for strange in ["redis://b", "me:t0p@b", "b:port", "", "b?x"] {
            let said = url.at(strange).unwrap_err();
            assert!(!said.contains("t0p") && !said.contains("cret"), "{said}");
        }
    }

    #[test]
    fn errors_hold_no_password() {
        for (text, says) in [
            ("localhost:6379", "invalid Redis URL"),
            ("http://localhost", "invalid Redis URL"),
            ("redis://", "missing hostname"),
            ("redis://me:s3cret@localhost:port", "invalid Redis URL"),
            ("redis://me:s3/cret@localhost", "%2F"),
            ("redis://me:s3cret@localhost/first", "database"),
            ("redis://me:s3cret@localhost/-1", "from 0 up"),
            ("redis://s3cret@localhost", "no password"),
            ("redis://localhost?protocol=resp2", "no parameters"),
            ("rediss://me:s3cret@localhost#insecure", "no parameters"),
            ("redis://0.0.0.0", "wildcard"),
        ] {
            let said = RedisUrl::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
            assert!(!said.contains("cret"), "{said}");
        }
    }
}
