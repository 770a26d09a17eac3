//! What a store tells on its own account. Notices are hints: whoever gets one asks the store again, and whoever misses
//! one is served all the same, only later.

use crate::domain::{
    ids::{AttachmentId, GrantId, RequestId},
    lease::LeaseEnd,
    name::LockName,
    token::FencingToken,
};

/// Something that happened to a lock, for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To which lock.
    pub name: LockName,
    /// The label of the lease's holder.
    pub holder: String,
    /// The lease's public name.
    pub grant_id: GrantId,
    /// Its token.
    pub token: FencingToken,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The lease was granted.
    Granted,
    /// Its holder gave it back.
    Released,
    /// Its time ran out.
    Expired,
    /// It was taken back, for this reason.
    Revoked(String),
}

/// Who is told. Called while the store holds a lock of its own: implementations are quick, do not block, and do not
/// call the store.
pub trait Notices: Send + Sync + 'static {
    /// The calls of this attempt should claim: they were offered the lock, or are no longer bound.
    fn look_again(&self, request: RequestId, attempt: u32);

    /// Whether a call of this attempt waits here that can take the lock now: its client takes data.
    fn is_alive(&self, request: RequestId, attempt: u32) -> bool;

    /// A lease in this attachment's keeping has ended.
    fn lease_ended(&self, attachment: AttachmentId, end: LeaseEnd);

    /// The attachment was replaced by a newer one.
    fn detached(&self, attachment: AttachmentId);

    /// Whether anybody watches: if not, events need not be made.
    fn is_watched(&self) -> bool;

    /// Something happened. Events of one lock come in order.
    fn event(&self, event: Event);

    /// What befell leases and calls may have gone unheard here. The store itself looks after the calls; a stream asks
    /// for its leases with its next beats.
    fn hints_lost(&self);

    /// Events may have been lost on their way: who watches is to look for itself.
    fn events_lost(&self);
}
