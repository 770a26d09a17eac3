//! What the rules set off, as the scripts tell it.

use fencepost::{
    domain::{command::Effect, ids::LeaseId},
    store::redis::effects::RedisEffect,
};

/// An effect of the rules, as the scripts tell it.
pub(crate) fn told(effect: &Effect, granted: Option<LeaseId>) -> RedisEffect {
    match effect {
        Effect::LookAgain { replica, request, attempt } => RedisEffect::LookAgain(*replica, *request, *attempt),
        Effect::Granted => RedisEffect::Granted(granted.unwrap()),
        Effect::Ended { lease, end } => RedisEffect::Ended {
            end: *end,
            lease_id: lease.lease_id,
            attachment: lease.attachment.map(|attachment| (attachment, lease.attachment_replica)),
        },
        Effect::Detached { replica, lease_id, attachment } => RedisEffect::Detached(*replica, *lease_id, *attachment),
        Effect::ReplicaReturned => RedisEffect::ReplicaReturned,
    }
}
