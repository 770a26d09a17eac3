//! The names of keys. Nothing else makes one.
//!
//! A lock belongs to a bucket by the hash of its name, and all keys of a bucket carry its number as their hash tag, so
//! that one script could touch a lock, its queue and its bucket's sequencer in a cluster too (which is not supported
//! yet).

use crate::{
    domain::{ids::ReplicaId, name::LockName},
    node::CONNECTIONS_PER_NODE,
};
use xxhash_rust::xxh3::xxh3_64;

/// How many buckets there are. Fixed in the meta key: with another number a lock would meet another sequencer.
pub const BUCKETS: u16 = 1_024;
/// What all keys begin with.
pub const PREFIX: &str = "fp:";
/// Says how the rest is laid out.
pub const META: &str = "fp:meta";

/// The bucket of a lock. The same in every version: it is where the lock is.
pub fn bucket(name: &LockName) -> u16 {
    u16::try_from(xxh3_64(name.as_str().as_bytes()) % u64::from(BUCKETS)).unwrap_or(0)
}

/// The connection for the commands of a bucket. Neighbours share one: what is asked of them together is sent together.
pub fn connection(bucket: u16) -> usize {
    usize::from(bucket) * CONNECTIONS_PER_NODE / usize::from(BUCKETS)
}

/// What the keys of a bucket begin with.
pub fn base(bucket: u16) -> String {
    format!("{PREFIX}{{{bucket:x}}}:")
}

/// The key of the bucket itself: the incarnation of its last grant, and who watches. Its sequencer has a key beside it.
pub fn of_bucket(bucket: u16) -> String {
    base(bucket) + "b"
}

/// The channel on which a replica is told of its own.
pub fn channel(replica: ReplicaId) -> String {
    format!("{}{}", super::scripts::CHANNEL, replica.0.simple())
}

/// Matches the keys of locks whose names begin with `prefix`, and few others, for `SCAN`.
pub fn pattern(prefix: &str) -> String {
    let mut pattern = format!("{PREFIX}{{*}}:l:");
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

/// The lock that a key is the key of, if it is one.
pub fn lock_in(key: &str) -> Option<LockName> {
    let (_, name) = key.strip_prefix(PREFIX)?.split_once("}:l:")?;
    let name = LockName::new(name.to_owned()).ok()?;
    // In another bucket it would be somebody else's key.
    key.starts_with(&base(bucket(&name))).then_some(name)
}
