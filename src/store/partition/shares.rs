//! Which shared leases of a lock changed, and what the nodes have of them: a record for each lease.

use super::outbox::{Changing, LOCK_BYTES, texts_of};
use crate::domain::{ids::GrantId, lease::Lease, name::LockName, rules::Lock, time::StoreTime};
use std::collections::BTreeMap;

/// What is noted of the shared leases of one lock. Those that neither last nor have a record are not in it.
#[derive(Debug, Default)]
pub(super) struct ShareNotes(BTreeMap<GrantId, ShareNote>);

#[derive(Debug, Default)]
struct ShareNote {
    /// Whether it is among the changed ones.
    is_changed: bool,
    /// What its record has, or will have with the next batch.
    changing: Option<Changing>,
    /// If the nodes have a record of it: when it ends there.
    written: Option<StoreTime>,
}

impl ShareNotes {
    /// Notes a lease whose record the nodes have.
    pub(super) fn keep(&mut self, lease: &Lease, written: StoreTime) {
        let note = ShareNote { is_changed: false, changing: Some(Changing::of(lease)), written: Some(written) };
        self.0.insert(lease.grant_id, note);
    }

    /// Notes that a turn changed the lease, or ended it. True if its record has to be written or removed, and that was
    /// not known before.
    pub(super) fn change(&mut self, grant_id: GrantId, lease: Option<&Lease>) -> bool {
        let note = self.0.entry(grant_id).or_default();
        let changing = lease.map(Changing::of);
        if note.changing == changing {
            // A lease that was granted and ended since the last batch leaves nothing.
            if changing.is_none() && !note.is_changed {
                self.0.remove(&grant_id);
            }
            return false;
        }
        note.changing = changing;
        !std::mem::replace(&mut note.is_changed, true)
    }

    /// The next batch is drawn. Returns what it is to do with the record of this lease: write it, with this end, or
    /// remove it.
    pub(super) fn draw(&mut self, grant_id: GrantId, lease: Option<&Lease>) -> Option<Drawn> {
        let note = self.0.get_mut(&grant_id)?;
        note.is_changed = false;
        match lease {
            Some(lease) => {
                note.written = Some(lease.expires_at);
                Some(Drawn::Put)
            }
            None => self.0.remove(&grant_id)?.written.map(|_| Drawn::Gone),
        }
    }

    /// This lease, if it lasts. It is found by the token that it has now, which is another one after an upgrade.
    pub(super) fn find<'a>(&self, lock: &'a Lock, grant_id: GrantId) -> Option<&'a Lease> {
        let token = self.0.get(&grant_id)?.changing.as_ref()?.token();
        lock.lease_of(token).filter(|lease| lease.grant_id == grant_id)
    }

    /// When this lease ends by its record, if the nodes have one.
    pub(super) fn written(&self, grant_id: GrantId) -> Option<StoreTime> {
        self.0.get(&grant_id)?.written
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a batch does with the record of a shared lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn {
    Put,
    Gone,
}

/// A shared lease that changed since the last batch. It may have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangedShare {
    /// The slot of its lock.
    pub(super) slot: usize,
    pub(super) grant_id: GrantId,
}

/// Not less than the key and the record of a shared lease have.
pub(super) fn bytes_of(name: &LockName, lease: Option<&Lease>) -> usize {
    LOCK_BYTES + name.as_str().len() + lease.map_or(0, texts_of)
}
