//! The URL of Sentinels, and how they and the primary that they name are entered.

use super::{ANYWHERE, all_with_tls, shown_user};
use crate::node::{Login, NodeFileProblem, RedisUrl, TlsFiles};
use std::fmt;

/// The most Sentinels of a URL.
const SENTINELS_MAX: usize = 15;
const PORT: u16 = 26379;
const FORM: &str = "write redis+sentinel://[user:password@]host[:port],host[:port],host[:port]/name[/db], or \
                    rediss+sentinel:// for TLS, and ?sentinel_password=… if the Sentinels have a password";

/// A checked `redis+sentinel://` or `rediss+sentinel://` URL.
#[derive(Clone)]
pub struct SentinelUrl {
    pub(in crate::node::find) sentinels: Vec<RedisUrl>,
    pub(in crate::node::find) name: String,
    /// User, password, database and TLS of the primary, wherever it is.
    pub(super) node: RedisUrl,
    pub(super) shown: String,
}

impl SentinelUrl {
    /// Parses what follows the scheme. Each of its Redis has the scheme `each`.
    pub(super) fn parse(each: &str, text: &str) -> Result<Self, String> {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        if text.contains('#') || query.contains('#') {
            return Err(format!("a URL of Sentinels has no # (in a password it is written %23): {FORM}"));
        }
        let (who, text) = text.rsplit_once('@').map_or((None, text), |(who, text)| (Some(who), text));
        let (hosts, path) = text.split_once('/').unwrap_or((text, ""));
        let (name, db) = path.split_once('/').map_or((path, None), |(name, db)| (name, Some(db)));
        if name.is_empty() {
            return Err(format!("the URL of Sentinels does not say which primary: {FORM}"));
        }
        if !name.chars().all(|it| it.is_ascii_alphanumeric() || ".-_".contains(it)) {
            return Err(format!("the name that Sentinels give a primary has only letters, digits and . - _: {FORM}"));
        }
        let who = who.map_or_else(String::new, |who| format!("{who}@"));
        let node = RedisUrl::parse(&format!("{each}://{who}{ANYWHERE}/{}", db.unwrap_or_default()))?;
        let (entry, entry_shown) = sentinel_entry(query)?;
        let mut sentinels: Vec<RedisUrl> = Vec::new();
        for (number, host) in hosts.split(',').enumerate() {
            let after_host = host.rsplit_once(']').map_or(host, |(_, port)| port);
            let port = if after_host.contains(':') { String::new() } else { format!(":{PORT}") };
            let url = RedisUrl::parse(&format!("{each}://{entry}{host}{port}"));
            let url = url.map_err(|why| format!("Sentinel {} of the URL is invalid: {why}; {FORM}", number + 1))?;
            if sentinels.iter().any(|other| other.address().eq_ignore_ascii_case(url.address())) {
                return Err(format!(
                    "the URL names a Sentinel twice, so its vote would count twice: {}",
                    url.address()
                ));
            }
            sentinels.push(url);
        }
        if sentinels.len() > SENTINELS_MAX {
            return Err(format!("the URL names {} Sentinels: give at most {SENTINELS_MAX}", sentinels.len()));
        }
        let addresses: Vec<&str> = sentinels.iter().map(RedisUrl::address).collect();
        let who = shown_user(&node);
        let db = node.address().split_once('/').map_or_else(String::new, |(_, db)| format!("/{db}"));
        let shown = format!("{each}+sentinel://{who}{}/{name}{db}{entry_shown}", addresses.join(","));
        Ok(Self { sentinels, name: name.to_owned(), node, shown })
    }

    pub(super) fn with_tls(self, files: &TlsFiles) -> Result<Self, NodeFileProblem> {
        let (sentinels, node) = (all_with_tls(self.sentinels, files)?, self.node.with_tls(files.clone())?);
        Ok(Self { sentinels, node, ..self })
    }

    pub(super) fn with_login(self, login: Login) -> Result<Self, NodeFileProblem> {
        let node = self.node.with_login(login)?;
        Ok(Self { shown: self.shown.replacen("://", &format!("://{}", shown_user(&node)), 1), node, ..self })
    }

    /// The URL of a primary at this address, `host:port`.
    pub(in crate::node::find) fn node_at(&self, address: &str) -> Result<RedisUrl, String> {
        match self.node.address().split_once('/') {
            Some((_, db)) => self.node.at(&format!("{address}/{db}")),
            None => self.node.at(address),
        }
    }
}

/// User and password of the Sentinels, as they stand in the URL of one and as they are shown.
fn sentinel_entry(query: &str) -> Result<(String, String), String> {
    let (mut user, mut password) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (slot, value) = match pair.split_once('=') {
            Some(("sentinel_user", value)) => (&mut user, value),
            Some(("sentinel_password", value)) => (&mut password, value),
            _ => return Err(format!("a URL of Sentinels has no other parameters than these: {FORM}")),
        };
        if value.contains(['@', ':', '/', '?']) {
            return Err(
                "characters like @ : / in sentinel_user and sentinel_password are written as %40 %3A %2F".into()
            );
        }
        *slot = Some(value);
    }
    match (user, password) {
        (None, None) => Ok((String::new(), String::new())),
        (None, Some(password)) => Ok((format!(":{password}@"), "?sentinel_password=***".to_owned())),
        (Some(user), Some(password)) => {
            Ok((format!("{user}:{password}@"), format!("?sentinel_user={user}&sentinel_password=***")))
        }
        (Some(_), None) => Err(format!("the URL has a sentinel_user and no sentinel_password: {FORM}")),
    }
}

impl fmt::Debug for SentinelUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SentinelUrl({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::NodeUrl, *};

    fn sentinel(text: &str) -> SentinelUrl {
        match NodeUrl::parse(text).unwrap() {
            NodeUrl::Sentinel(url) => url,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_url_names_sentinels_and_how_to_enter_them_and_the_primary() {
        for (text, shown, there) in [
            ("redis+sentinel://a,b:7000,[::1]/main", "redis+sentinel://a:26379,b:7000,[::1]:26379/main", "redis://p:1"),
            ("redis+sentinel://:s3cret@a/m.a-i_n/3", "redis+sentinel://:***@a:26379/m.a-i_n/3", "redis://:***@p:1/3"),
            (
                "rediss+sentinel://me:s3%2Ccret@a,b/main?sentinel_password=t0p%40cret",
                "rediss+sentinel://me:***@a:26379,b:26379/main?sentinel_password=***",
                "rediss://me:***@p:1",
            ),
        ] {
            let url = sentinel(text);
            assert_eq!(NodeUrl::Sentinel(url.clone()).to_string(), shown);
            assert_eq!(url.node_at("p:1").unwrap().to_string(), there);
            assert_eq!(NodeUrl::Sentinel(url).tls(), text.starts_with("rediss"));
        }
        let url = sentinel("redis+sentinel://me:s3cret@a,b/main?sentinel_user=you&sentinel_password=t0p%40cret");
        assert_eq!(url.sentinels[1].to_string(), "redis://you:***@b:26379");
        assert_eq!(url.sentinels[1].info().redis_settings().password(), Some("t0p@cret"));
        assert_eq!(url.node_at("p:1").unwrap().info().redis_settings().password(), Some("s3cret"));
        let alone = sentinel("redis+sentinel://me:s3cret@a/main");
        assert_eq!(alone.sentinels[0].info().redis_settings().password(), None, "the password is the primary's");
        assert!(matches!(NodeUrl::parse("redis://a").unwrap(), NodeUrl::Redis(_)));
    }

    #[test]
    fn errors_say_what_to_write_and_hold_no_password() {
        for (text, says) in [
            ("redis+sentinel://:s3cret@a,b,c", "which primary"),
            ("redis+sentinel://:s3cret@a,b,c/", "which primary"),
            ("redis+sentinel:///main", "Sentinel 1 of the URL"),
            ("redis+sentinel://a,,c/main", "Sentinel 2 of the URL"),
            ("redis+sentinel://a,b:s3cret/main", "Sentinel 2 of the URL"),
            ("redis+sentinel://a,b,a:26379/main", "twice"),
            ("redis+sentinel://:s3/cret@a/main", "%2F"),
            ("redis+sentinel://s3cret@a/main", "no password"),
            ("redis+sentinel://a/main/first", "database"),
            ("redis+sentinel://a/ma%20in", "letters, digits"),
            ("redis+sentinel://a/main?s3cret=1", "no other parameters"),
            ("redis+sentinel://a/main?sentinel_user=me", "no sentinel_password"),
            ("redis+sentinel://a/main?sentinel_password=s3/cret", "%2F"),
            ("redis+sentinel://a/main?sentinel_password=s3#cret", "%23"),
            ("redis+sentinel://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p/main", "16 Sentinels"),
        ] {
            let said = NodeUrl::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
            assert!(!said.contains("cret"), "{said}");
        }
    }
}
