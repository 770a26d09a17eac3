//! A lease as `lua/lib/layout.lua` lays it out. The server makes it, and the script that grants it only has to put it
//! in its place.

use super::answer::metadata_text;
use crate::{
    domain::{
        command::Candidate,
        ids::{Call, ReplicaId},
        lease::Terms,
    },
    node::Arg,
};

/// A call as scripts take it: its request, its attempt, and its id.
pub fn call_args(call: Call) -> [Arg; 3] {
    [Arg::from(call.request.0), Arg::from(call.attempt), Arg::from(call.id.0.to_le_bytes().to_vec())]
}

/// The lease that a call, bound on replica `me`, is granted if it is.
pub fn packed(me: ReplicaId, call: Call, terms: &Terms, candidate: Candidate) -> Arg {
    let (holder, metadata) = (terms.holder.as_str(), metadata_text(&terms.metadata));
    // Zeros where there is none.
    let (attachment, keeper) = candidate.attachment.map_or_else(Default::default, |attachment| (attachment.0, me.0));
    let mut lease = Vec::with_capacity(136 + holder.len() + metadata.len());
    lease.extend_from_slice(call.request.0.as_bytes());
    lease.extend_from_slice(&terms.fingerprint.to_le_bytes());
    for id in [candidate.lease_id.0, candidate.grant_id.0, me.0, attachment, keeper] {
        lease.extend_from_slice(id.as_bytes());
    }
    for number in [call.attempt, u32::from(candidate.attachment.is_some())] {
        lease.extend_from_slice(&number.to_le_bytes());
    }
    lease.extend_from_slice(&u16::try_from(holder.len()).unwrap_or(u16::MAX).to_le_bytes());
    lease.extend_from_slice(holder.as_bytes());
    lease.extend_from_slice(&u32::try_from(metadata.len()).unwrap_or(u32::MAX).to_le_bytes());
    lease.extend_from_slice(metadata.as_bytes());
    // One call is bound to it.
    lease.push(8);
    lease.extend_from_slice(&call.id.0.to_le_bytes());
    Arg::from(lease)
}
