//! What a script has set off beyond its answer: told in it, to the replica that asked, and by messages to the others.

use super::{
    answer::{Decoded, array, corrupt, end, number, text, token, uuid},
    links::Value,
};
use crate::{
    domain::{
        ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::LeaseEnd,
        name::LockName,
    },
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

pub(super) fn effect(value: Value) -> Decoded<RedisEffect> {
    let texts: Vec<String> = array(value)?.into_iter().map(text).collect::<Decoded<_>>()?;
    effect_of(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A message on a replica's channel: what a command of another replica set off here, and on which lock. Its last line is the name.
pub fn message(bytes: &[u8]) -> Decoded<(LockName, RedisEffect)> {
    let text = std::str::from_utf8(bytes).map_err(|_| StoreError::Corrupt("a message that is no text".into()))?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    let name = lines.last().copied().unwrap_or_default().to_owned();
    if lines.first() != Some(&"event") {
        lines.pop();
    }
    let name = LockName::new(name).map_err(|_| StoreError::Corrupt("a message without a lock".into()))?;
    Ok((name, effect_of(&lines)?))
}

fn effect_of(texts: &[&str]) -> Decoded<RedisEffect> {
    Ok(match texts {
        ["look", replica, request, attempt] => {
            let attempt = u32::try_from(number(attempt)?).map_err(|_| corrupt("no attempt"))?;
            RedisEffect::LookAgain(ReplicaId(uuid(replica)?), RequestId(uuid(request)?), attempt)
        }
        ["granted", lease] => RedisEffect::Granted(LeaseId(uuid(lease)?)),
        ["ended", how, lease, _token, _grant, _holder, attachment, replica] => RedisEffect::Ended {
            end: end(how)?,
            lease_id: LeaseId(uuid(lease)?),
            attachment: if attachment.is_empty() {
                None
            } else {
                Some((AttachmentId(uuid(attachment)?), ReplicaId(uuid(replica)?)))
            },
        },
        ["detached", replica, lease, attachment] => {
            RedisEffect::Detached(ReplicaId(uuid(replica)?), LeaseId(uuid(lease)?), AttachmentId(uuid(attachment)?))
        }
        ["event", kind, token_text, grant, holder, reason, lock] => {
            let kind = match *kind {
                "G" => EventKind::Granted,
                "R" => EventKind::Released,
                "E" => EventKind::Expired,
                "V" => EventKind::Revoked((*reason).to_owned()),
                _ => return Err(corrupt("an unknown event")),
            };
            RedisEffect::Event(Box::new(Event {
                kind,
                name: LockName::new((*lock).to_owned()).map_err(|_| corrupt("no name"))?,
                holder: (*holder).to_owned(),
                grant_id: GrantId(uuid(grant)?),
                token: token(token_text)?,
            }))
        }
        ["returned"] => RedisEffect::ReplicaReturned,
        _ => return Err(corrupt("an unknown effect")),
    })
}
