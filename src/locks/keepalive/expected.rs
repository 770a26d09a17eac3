//! Leases that a stream is about to keep: they are being acquired.

use super::{AttachLease, StreamError, StreamNotice, ToClient, keeping::Keeping};
use crate::{
    domain::{ids::AttachmentId, name::LockName},
    locks::Acquired,
    store::Store,
};

/// A lease that is being acquired for a handle.
pub(super) struct Expected {
    pub(super) attachment: AttachmentId,
    pub(super) release_on_disconnect: bool,
    /// Notices about it that came before its grant was known here.
    pub(super) early: Vec<StreamNotice>,
}

impl<S: Store, M: From<ToClient>> Keeping<S, M> {
    /// Whether it may carry another lease.
    pub(in crate::locks) fn has_room(&self) -> bool {
        self.leases.len() + self.expected.len() < self.leases_max
    }

    /// Prepares for a lease that is about to be acquired. Answers the attachment that it should have from its grant on.
    pub(in crate::locks) fn expect(
        &mut self,
        handle: u32,
        release_on_disconnect: bool,
    ) -> Result<AttachmentId, StreamError> {
        if self.is_in_use(handle) {
            return Err(StreamError::HandleInUse(handle));
        }
        let attachment = self.next_attachment(handle);
        self.expected.insert(handle, Expected { attachment, release_on_disconnect, early: Vec::new() });
        Ok(attachment)
    }

    /// It was not acquired.
    pub(in crate::locks) fn expect_no_more(&mut self, handle: u32) {
        self.expected.remove(&handle);
    }

    /// It was acquired. If it is not attached yet (a repeat picked up what an earlier call was granted), that is done
    /// now.
    pub(in crate::locks) async fn adopt(&mut self, handle: u32, name: LockName, acquired: Acquired) {
        let Some(Expected { attachment, release_on_disconnect, early }) = self.expected.remove(&handle) else { return };
        let (ttl, lease_id, attached) = (acquired.grant.left, acquired.grant.lease_id, acquired.attached);
        let lease = AttachLease { handle, name, lease_id, attempt: 1, release_on_disconnect };
        self.insert(lease, attachment, ttl, attached, acquired.sent);
        for notice in early {
            self.notice(handle, notice);
        }
        if !attached && self.leases.contains_key(&handle) {
            let groups = self.renew(&[handle]).await;
            self.say_groups(groups, ToClient::Attached);
        }
    }
}
