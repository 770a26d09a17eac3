//! The keys of a store at a node. All have one hash tag, `{fp}` by default, so that a Redis Cluster keeps them in one
//! slot and two stores with other names share one Redis.

use crate::{domain::limits::STORE_PREFIX_DEFAULT, node::Arg, store::quorum::paxos::ballot::ServerId};
use std::sync::Arc;

/// The keys of the store with one name.
#[derive(Clone, Debug)]
pub struct Keys {
    /// `{fp}:`.
    base: Arc<str>,
}

/// The keys of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionKeys<'a> {
    base: &'a str,
    partition: u16,
}

impl Default for Keys {
    fn default() -> Self {
        Self::of(STORE_PREFIX_DEFAULT)
    }
}

impl Keys {
    /// The keys of the store with this name.
    pub fn of(store_prefix: &str) -> Self {
        Self { base: format!("{{{store_prefix}}}:").into() }
    }

    /// What all keys and channels begin with: `{fp}:`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The name of the store.
    pub fn store_prefix(&self) -> &str {
        self.base.trim_start_matches('{').trim_end_matches("}:")
    }

    /// What the node knows of its cluster.
    pub fn node(&self) -> String {
        self.named("node")
    }

    /// What the servers tell each other, by their ids.
    pub fn servers(&self) -> String {
        self.named("servers")
    }

    /// The prefix of classic keys.
    pub fn classic(&self) -> String {
        self.named("classic")
    }

    /// The header of a partition, for an operator.
    pub fn header(&self, partition: impl std::fmt::Display) -> String {
        format!("{}q{partition}:h", self.base)
    }

    /// The channel of parcels to a server.
    pub(super) fn channel(&self, server: ServerId) -> String {
        server.0.iter().fold(self.named("to:"), |channel, byte| format!("{channel}{byte:02x}"))
    }

    /// What the channels of parcels begin with.
    pub(super) fn channels(&self) -> String {
        self.named("to:")
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    pub(super) fn partition(&self, partition: u16) -> PartitionKeys<'_> {
        PartitionKeys { base: &self.base, partition }
    }
}

impl PartitionKeys<'_> {
    /// One of the keys: `h`, `s`, `v`, `c`, `t:…` or `k:…` (`lua/head.lua`).
    pub(super) fn key(self, name: impl AsRef<[u8]>) -> Arg {
        let mut key = smallvec::SmallVec::from_slice(self.base.as_bytes());
        key.push(b'q');
        let mut digits = [0; 5];
        let mut rest = self.partition;
        let mut first = digits.len();
        while first == digits.len() || rest > 0 {
            first -= 1;
            digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        key.extend_from_slice(&digits[first..]);
        key.push(b':');
        key.extend_from_slice(name.as_ref());
        Arg::Bytes(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::limits::STORE_PREFIX_BYTES_MAX;

    #[test]
    fn keys_have_the_tag_of_their_store() {
        let keys = Keys::of("team-a");
        assert_eq!(
            [keys.node(), keys.servers(), keys.classic(), keys.header(3)],
            ["{team-a}:node", "{team-a}:servers", "{team-a}:classic", "{team-a}:q3:h"]
        );
        assert_eq!(keys.channel(ServerId([0xab; 12])), format!("{{team-a}}:to:{}", "ab".repeat(12)));
        for partition in [0, 9, 10, 31, 65_535] {
            let key = keys.partition(partition).key("h");
            assert_eq!(key, Arg::from(keys.header(partition)));
        }
    }

    #[test]
    fn a_key_of_a_partition_needs_no_allocation() {
        let keys = Keys::of(&"p".repeat(STORE_PREFIX_BYTES_MAX));
        let Arg::Bytes(key) = keys.partition(u16::MAX).key("h") else { panic!("bytes") };
        assert!(!key.spilled(), "{} bytes", key.len());
    }
}
