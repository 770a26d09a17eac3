//! What a script has set off beyond its answer: told in it, to the replica that asked, and by messages to the others.

use super::{
    answer::{Decoded, Details, array, corrupt, end, number, text, token},
    packed::unpack,
};
use crate::{
    domain::{
        ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::LeaseEnd,
        name::LockName,
    },
    node::Value,
    store::{Event, EventKind, StoreError},
};

/// What a script has set off beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisEffect {
    /// The calls of this attempt, on this replica, should claim.
    LookAgain(ReplicaId, RequestId, u32),
    /// The lock was granted.
    Granted(LeaseId),
    /// A lease ended; if a stream kept it, that is to be told.
    Ended {
        /// How.
        end: LeaseEnd,
        /// Which.
        lease_id: LeaseId,
        /// Its stream, and the replica of that.
        attachment: Option<(AttachmentId, ReplicaId)>,
    },
    /// An attachment was replaced.
    Detached(ReplicaId, LeaseId, AttachmentId),
    /// Something happened, for those who watch on this replica.
    Event(Box<Event>),
    /// The replica that asked had been silent for so long that waiters of it may have been deleted.
    ReplicaReturned,
}

/// One that stands in an answer.
pub(super) fn effect(value: Value) -> Decoded<RedisEffect> {
    effect_of(Details::of(array(value)?))
}

/// A message on a replica's channel: what a command of another replica set off here, and on which lock.
pub fn message(bytes: &[u8]) -> Decoded<(LockName, RedisEffect)> {
    let strange = || StoreError::Corrupt("a message that makes no sense".to_owned());
    let mut values = unpack(bytes).ok_or_else(strange)?.into_iter();
    let (Some(Value::Array(mut effect)), Some(name), None) = (values.next(), values.next(), values.next()) else {
        return Err(strange());
    };
    let name_text = text(name.clone())?;
    // An event names its lock, wherever it is told.
    if matches!(effect.first(), Some(Value::BulkString(kind)) if kind == b"event") {
        effect.push(name);
    }
    let name = LockName::new(name_text).map_err(|_| StoreError::Corrupt("a message without a lock".into()))?;
    Ok((name, effect_of(Details::of(effect))?))
}

fn effect_of(mut it: Details) -> Decoded<RedisEffect> {
    Ok(match it.text()?.as_str() {
        "look" => {
            let (replica, request) = (ReplicaId(it.id()?), RequestId(it.id()?));
            let attempt = u32::try_from(number(&it.text()?)?).map_err(|_| corrupt("no attempt"))?;
            RedisEffect::LookAgain(replica, request, attempt)
        }
        "granted" => RedisEffect::Granted(LeaseId(it.id()?)),
        "ended" => {
            let (end, lease_id) = (end(&it.text()?)?, LeaseId(it.id()?));
            let attachment = match it.maybe_id()? {
                Some(attachment) => Some((AttachmentId(attachment), ReplicaId(it.id()?))),
                None => None,
            };
            RedisEffect::Ended { end, lease_id, attachment }
        }
        "detached" => RedisEffect::Detached(ReplicaId(it.id()?), LeaseId(it.id()?), AttachmentId(it.id()?)),
        "event" => {
            let (kind, token, grant_id) = (it.text()?, token(&it.text()?)?, GrantId(it.id()?));
            let (holder, reason, name) = (it.text()?, it.text()?, it.text()?);
            let kind = match kind.as_str() {
                "G" => EventKind::Granted,
                "R" => EventKind::Released,
                "E" => EventKind::Expired,
                "V" => EventKind::Revoked(reason),
                _ => return Err(corrupt("an unknown event")),
            };
            let name = LockName::new(name).map_err(|_| corrupt("no name"))?;
            RedisEffect::Event(Box::new(Event { kind, name, holder, grant_id, token }))
        }
        "returned" => RedisEffect::ReplicaReturned,
        _ => return Err(corrupt("an unknown effect")),
    })
}
