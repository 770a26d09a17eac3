//! The URL of a node: that of a Redis, or of those that know which Redis it is. No password is ever shown.

mod cluster;
mod sentinel;

pub use cluster::ClusterUrl;
pub use sentinel::SentinelUrl;

use crate::node::{Login, NodeFileProblem, RedisUrl, TlsFiles};
use std::fmt;

/// A host for the URL of a node whose address is not known yet.
const ANYWHERE: &str = "primary";

/// Where a node is, or who knows it.
#[derive(Clone, Debug)]
pub enum NodeUrl {
    /// The Redis at this URL.
    Redis(RedisUrl),
    /// The primary that these Sentinels name.
    Sentinel(SentinelUrl),
    /// The primary of one slot of this Redis Cluster.
    Cluster(ClusterUrl),
}

impl NodeUrl {
    /// Parses the URL of a Redis (see [`RedisUrl::parse`]), or one of these:
    ///
    /// - `redis+sentinel://[user:password@]host[:port],…/name[/db]`. User and password are those of the primary;
    ///   `?sentinel_user=…&sentinel_password=…` are those of the Sentinels.
    /// - `redis+cluster://[user:password@]host[:port],…`: members of a Redis Cluster.
    ///
    /// With `rediss+…` all of them are entered over TLS. The error text holds no part of the URL that could be a
    /// password.
    pub fn parse(text: &str) -> Result<Self, String> {
        for each in ["redis", "rediss"] {
            let rest = text.strip_prefix(each).and_then(|rest| rest.strip_prefix('+'));
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix("sentinel://")) {
                return SentinelUrl::parse(each, rest).map(Self::Sentinel);
            }
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix("cluster://")) {
                return ClusterUrl::parse(each, rest).map(Self::Cluster);
            }
        }
        RedisUrl::parse(text).map(Self::Redis)
    }

    /// The same, where all keys and channels have this hash tag.
    #[must_use]
    pub fn tagged(self, tag: &str) -> Self {
        match self {
            Self::Cluster(url) => Self::Cluster(url.tagged(tag)),
            Self::Redis(_) | Self::Sentinel(_) => self,
        }
    }

    /// Where it is, without how to get in: `host:port`, `host:port/database`, the Sentinels and what they call it, or
    /// members of a Redis Cluster.
    pub fn address(&self) -> String {
        let all = |urls: &[RedisUrl]| urls.iter().map(RedisUrl::address).collect::<Vec<_>>().join(",");
        match self {
            Self::Redis(url) => url.address().to_owned(),
            Self::Sentinel(url) => format!("{}/{}", all(&url.sentinels), url.name),
            Self::Cluster(url) => all(&url.seeds),
        }
    }

    /// Whether its connections are encrypted.
    pub fn tls(&self) -> bool {
        self.settings().tls()
    }

    /// With these files for TLS, which are read to check them. Only a URL with TLS can have any.
    pub fn with_tls(self, files: TlsFiles) -> Result<Self, NodeFileProblem> {
        Ok(match self {
            Self::Redis(url) => Self::Redis(url.with_tls(files)?),
            Self::Sentinel(url) => Self::Sentinel(url.with_tls(&files)?),
            Self::Cluster(url) => Self::Cluster(url.with_tls(&files)?),
        })
    }

    /// With this user and a password from a file, which is read to check it: those of the Redis, not of Sentinels. A
    /// URL that has a password is refused.
    pub fn with_login(self, login: Login) -> Result<Self, NodeFileProblem> {
        Ok(match self {
            Self::Redis(url) => Self::Redis(url.with_login(login)?),
            Self::Sentinel(url) => Self::Sentinel(url.with_login(login)?),
            Self::Cluster(url) => Self::Cluster(url.with_login(login)?),
        })
    }

    /// A URL with the settings of its connections, which may lead nowhere.
    pub(in crate::node) fn settings(&self) -> &RedisUrl {
        match self {
            Self::Redis(url) => url,
            Self::Sentinel(url) => &url.node,
            Self::Cluster(url) => &url.node,
        }
    }
}

/// User and password of a URL as they are shown, with the `@`; empty if it has none.
fn shown_user(url: &RedisUrl) -> String {
    let shown = url.to_string();
    let user = shown.rsplit_once('@').and_then(|(user, _)| user.split_once("://"));
    user.map_or_else(String::new, |(_, user)| format!("{user}@"))
}

/// All with these files for TLS.
fn all_with_tls(urls: Vec<RedisUrl>, files: &TlsFiles) -> Result<Vec<RedisUrl>, NodeFileProblem> {
    urls.into_iter().map(|url| url.with_tls(files.clone())).collect()
}

impl From<&RedisUrl> for NodeUrl {
    fn from(url: &RedisUrl) -> Self {
        Self::Redis(url.clone())
    }
}

impl From<RedisUrl> for NodeUrl {
    fn from(url: RedisUrl) -> Self {
        Self::Redis(url)
    }
}

impl From<&NodeUrl> for NodeUrl {
    fn from(url: &NodeUrl) -> Self {
        url.clone()
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(url) => url.fmt(out),
            Self::Sentinel(url) => out.write_str(&url.shown),
            Self::Cluster(url) => out.write_str(&url.shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str, login: &Login) -> NodeUrl {
        NodeUrl::parse(text).unwrap().with_login(login.clone()).unwrap()
    }

    #[test]
    fn a_login_is_that_of_the_redis_and_of_all_members_of_a_cluster() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "s3cret").unwrap();
        let login = Login::new("me", file.path());
        let password = |url: &RedisUrl| url.settings().unwrap().0.redis_settings().password().map(str::to_owned);
        let secret = Some("s3cret".to_owned());

        let NodeUrl::Sentinel(url) = with_file("redis+sentinel://s,t/main?sentinel_password=t0p", &login) else {
            panic!("those are Sentinels")
        };
        assert_eq!(url.shown, "redis+sentinel://me:***@s:26379,t:26379/main?sentinel_password=***");
        let primary = url.node_at("p:1").unwrap();
        assert_eq!((primary.to_string().as_str(), password(&primary)), ("redis://me:***@p:1", secret.clone()));
        assert!(url.sentinels.iter().all(|sentinel| password(sentinel) == Some("t0p".to_owned())));

        let NodeUrl::Cluster(url) = with_file("rediss+cluster://a,b:7000", &login) else { panic!("that is a cluster") };
        assert_eq!(url.shown, "rediss+cluster://me:***@a:6379,b:7000");
        assert!(url.seeds.iter().all(|seed| password(seed) == secret));
        assert_eq!(password(&url.node_at("c:1").unwrap()), secret);

        let of = |text| match with_file(text, &login) {
            NodeUrl::Redis(url) => url,
            other => panic!("{other}"),
        };
        assert!(of("redis://a").is_entered_like(&of("redis://b")));
        assert!(!of("redis://a").is_entered_like(&RedisUrl::parse("redis://me:s3cret@b").unwrap()));
        assert_eq!(password(&of("redis://a").at("c:1/2").unwrap()), secret);
        assert!(!format!("{:?} {login:?}", of("redis://a")).contains("s3cret"));
    }
}
