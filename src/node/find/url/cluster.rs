//! The URL of a Redis Cluster, and how its members are entered.

use super::{ANYWHERE, all_with_tls, shown_user};
use crate::node::{Login, NodeFileProblem, RedisUrl, TlsFiles, find::cluster::slot_of};
use std::fmt;

/// The most members that a URL names.
const SEEDS_MAX: usize = 15;
/// The hash tag of all keys and channels, unless an operator chose another one.
const TAG: &str = "fp";
const FORM: &str = "write redis+cluster://[user:password@]host[:port],host[:port],host[:port], or rediss+cluster:// \
                    for TLS";

/// A checked `redis+cluster://` or `rediss+cluster://` URL, and the slot that is used.
#[derive(Clone)]
pub struct ClusterUrl {
    pub(in crate::node::find) seeds: Vec<RedisUrl>,
    pub(in crate::node) slot: u16,
    /// The hash tag that has this slot.
    tag: String,
    /// User, password and TLS of the members, wherever they are.
    pub(super) node: RedisUrl,
    pub(super) shown: String,
}

impl ClusterUrl {
    /// Parses what follows the scheme. Each member has the scheme `each`.
    pub(super) fn parse(each: &str, text: &str) -> Result<Self, String> {
        if text.contains(['?', '#']) {
            return Err(format!(
                "the URL of a Redis Cluster has no parameters (write ? and # in a password as %3F and %23): {FORM}"
            ));
        }
        let (who, hosts) = text.rsplit_once('@').map_or((None, text), |(who, hosts)| (Some(who), hosts));
        let (hosts, database) = hosts.split_once('/').unwrap_or((hosts, ""));
        if !["", "0"].contains(&database) {
            return Err(format!("a Redis Cluster has database 0 only, so its URL names none: {FORM}"));
        }
        let who = who.map_or_else(String::new, |who| format!("{who}@"));
        let node = RedisUrl::parse(&format!("{each}://{who}{ANYWHERE}"))?.in_cluster();
        let mut seeds: Vec<RedisUrl> = Vec::new();
        for (number, host) in hosts.split(',').enumerate() {
            let seed = node.at(host);
            let seed = seed.map_err(|_| format!("member {} of the URL is invalid: {FORM}", number + 1))?;
            if seeds.iter().any(|other| other.address().eq_ignore_ascii_case(seed.address())) {
                return Err(format!("the URL names a member of the Redis Cluster twice: {}", seed.address()));
            }
            seeds.push(seed);
        }
        if seeds.len() > SEEDS_MAX {
            return Err(format!(
                "the URL names {} members: give at most {SEEDS_MAX}, which tell of the others",
                seeds.len()
            ));
        }
        let addresses: Vec<&str> = seeds.iter().map(RedisUrl::address).collect();
        let shown = format!("{each}+cluster://{}{}", shown_user(&node), addresses.join(","));
        Ok(Self { seeds, slot: slot_of(TAG), tag: TAG.to_owned(), node, shown })
    }

    /// The same, where all keys and channels have this hash tag.
    pub(super) fn tagged(self, tag: &str) -> Self {
        Self { slot: slot_of(tag), tag: tag.to_owned(), ..self }
    }

    pub(super) fn with_tls(self, files: &TlsFiles) -> Result<Self, NodeFileProblem> {
        let (seeds, node) = (all_with_tls(self.seeds, files)?, self.node.with_tls(files.clone())?);
        Ok(Self { seeds, node, ..self })
    }

    pub(super) fn with_login(self, login: Login) -> Result<Self, NodeFileProblem> {
        let seeds = self.seeds.into_iter().map(|seed| seed.with_login(login.clone())).collect::<Result<_, _>>()?;
        let node = self.node.with_login(login)?;
        Ok(Self { seeds, shown: self.shown.replacen("://", &format!("://{}", shown_user(&node)), 1), node, ..self })
    }

    /// The slot that is used, in words.
    pub(in crate::node) fn what(&self) -> String {
        format!("slot {} ({{{}}})", self.slot, self.tag)
    }

    /// The URL of a member at this address, `host:port`.
    pub(in crate::node::find) fn node_at(&self, address: &str) -> Result<RedisUrl, String> {
        self.node.at(address)
    }
}

impl fmt::Debug for ClusterUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterUrl({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::NodeUrl, *};

    fn cluster(text: &str) -> ClusterUrl {
        match NodeUrl::parse(text).unwrap() {
            NodeUrl::Cluster(url) => url,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_url_names_members_and_how_to_enter_them() {
        for (text, shown, address, there) in [
            (
                "redis+cluster://a,b:7000,[::1]",
                "redis+cluster://a:6379,b:7000,[::1]:6379",
                "a:6379,b:7000,[::1]:6379",
                "redis://p:1",
            ),
            ("redis+cluster://:s3cret@a/", "redis+cluster://:***@a:6379", "a:6379", "redis://:***@p:1"),
            (
                "rediss+cluster://me:s3%2Ccret@a,b/0",
                "rediss+cluster://me:***@a:6379,b:6379",
                "a:6379,b:6379",
                "rediss://me:***@p:1",
            ),
        ] {
            let url = cluster(text);
            assert_eq!(url.node_at("p:1").unwrap().to_string(), there);
            let debug = format!("{url:?}");
            let url = NodeUrl::Cluster(url);
            assert_eq!((url.to_string().as_str(), url.address().as_str()), (shown, address));
            assert_eq!(url.tls(), text.starts_with("rediss"));
            assert!(!debug.contains("cret"), "{debug}");
        }
        let seed = cluster("redis+cluster://me:s3%2Ccret@a,b").seeds[1].clone();
        assert_eq!(seed.info().redis_settings().password(), Some("s3,cret"));
        assert_eq!(cluster("redis+cluster://a").what(), "slot 7963 ({fp})");
        assert_eq!(cluster("redis+cluster://a").tagged("user1000").what(), "slot 3443 ({user1000})");
    }

    #[test]
    fn errors_say_what_to_write_and_hold_no_password() {
        for (text, says) in [
            ("redis+cluster://", "member 1 of the URL"),
            ("redis+cluster://a,,c", "member 2 of the URL"),
            ("redis+cluster://a,b:s3cret", "member 2 of the URL"),
            ("redis+cluster://a,b,A:6379", "twice"),
            ("redis+cluster://a,b/1", "database 0 only"),
            ("redis+cluster://:s3/cret@a", "%2F"),
            ("redis+cluster://s3cret@a", "no password"),
            ("redis+cluster://:s3#cret@a", "%23"),
            ("redis+cluster://a?s3cret=1", "no parameters"),
            ("redis+cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "16 members"),
        ] {
            let said = NodeUrl::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
            assert!(!said.contains("cret"), "{said}");
        }
    }
}
