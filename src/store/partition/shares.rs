//! Which shared leases of a lock changed, and what the nodes have of them: a record for each lease, or for its ghost.

use super::{
    outbox::{Changing, LOCK_BYTES, texts_of},
    record,
};
use crate::{
    domain::{
        ids::GrantId,
        lease::Lease,
        name::LockName,
        rules::{Delay, Ghost, Lock},
        time::StoreTime,
        token::FencingToken,
    },
    store::content::Bytes,
};
use std::collections::BTreeMap;

/// A shared lease, or its ghost.
#[derive(Clone, Copy, Debug)]
pub(super) enum ShareRef<'a> {
    Lease(&'a Lease),
    Ghost(&'a Ghost),
}

impl<'a> ShareRef<'a> {
    /// The one of this grant, if it lasts, or its ghost.
    pub(super) fn find(lock: &'a Lock, token: FencingToken, grant_id: GrantId) -> Option<Self> {
        let lease = lock.lease_of(token).filter(|lease| lease.grant_id == grant_id).map(Self::Lease);
        lease.or_else(|| lock.ghost_of(token).filter(|ghost| ghost.grant_id == grant_id).map(Self::Ghost))
    }

    /// Its record.
    pub(super) fn encode(self) -> Bytes {
        match self {
            Self::Lease(lease) => record::share::encode(lease, lease.expires_at),
            Self::Ghost(ghost) => record::share::encode_ghost(ghost),
        }
    }

    fn grant_id(self) -> GrantId {
        match self {
            Self::Lease(lease) => lease.grant_id,
            Self::Ghost(ghost) => ghost.grant_id,
        }
    }

    /// When a lease ends; the beginning of time for a ghost, whose record has all of it.
    fn expires_at(self) -> StoreTime {
        match self {
            Self::Lease(lease) => lease.expires_at,
            Self::Ghost(_) => StoreTime::default(),
        }
    }
}

/// What is noted of the shared leases of one lock. Those that neither last, nor left a ghost, nor have a record are not
/// in it.
#[derive(Debug, Default)]
pub(super) struct ShareNotes(BTreeMap<GrantId, ShareNote>);

#[derive(Debug, Default)]
struct ShareNote {
    /// Whether it is among the changed ones.
    is_changed: bool,
    /// What its record has, or will have with the next batch.
    changing: Option<ChangingShare>,
    /// If the nodes have a record of it: when it ends there.
    written: Option<StoreTime>,
}

/// What of a shared lease, or of a ghost, goes into its record and can change.
#[derive(Debug, PartialEq)]
enum ChangingShare {
    Lease(Changing),
    Ghost(Box<Delay>),
}

impl ChangingShare {
    fn of(share: ShareRef<'_>) -> Self {
        match share {
            ShareRef::Lease(lease) => Self::Lease(Changing::of(lease)),
            ShareRef::Ghost(ghost) => Self::Ghost(Box::new(ghost.delay.clone())),
        }
    }

    fn token(&self) -> FencingToken {
        match self {
            Self::Lease(lease) => lease.token(),
            Self::Ghost(delay) => delay.token,
        }
    }
}

impl ShareNotes {
    /// Notes a lease, or a ghost, whose record the nodes have.
    pub(super) fn keep(&mut self, share: ShareRef<'_>) {
        let (changing, written) = (Some(ChangingShare::of(share)), Some(share.expires_at()));
        self.0.insert(share.grant_id(), ShareNote { is_changed: false, changing, written });
    }

    /// Notes that a turn changed the lease or its ghost, or ended it. True if its record has to be written or removed,
    /// and that was not known before.
    pub(super) fn change(&mut self, grant_id: GrantId, share: Option<ShareRef<'_>>) -> bool {
        let note = self.0.entry(grant_id).or_default();
        let changing = share.map(ChangingShare::of);
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

    /// The next batch is drawn. Returns what it is to do with the record of this lease or ghost: write it, as it is
    /// now, or remove it.
    pub(super) fn draw(&mut self, grant_id: GrantId, share: Option<ShareRef<'_>>) -> Option<Drawn> {
        let note = self.0.get_mut(&grant_id)?;
        note.is_changed = false;
        match share {
            Some(share) => {
                note.written = Some(share.expires_at());
                Some(Drawn::Put)
            }
            None => self.0.remove(&grant_id)?.written.map(|_| Drawn::Gone),
        }
    }

    /// This lease, if it lasts, or its ghost. It is found by the token that it has now, which is another one after an
    /// upgrade.
    pub(super) fn find<'a>(&self, lock: &'a Lock, grant_id: GrantId) -> Option<ShareRef<'a>> {
        ShareRef::find(lock, self.0.get(&grant_id)?.changing.as_ref()?.token(), grant_id)
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
pub(super) fn bytes_of(name: &LockName, share: Option<ShareRef<'_>>) -> usize {
    let texts = match share {
        Some(ShareRef::Lease(lease)) => texts_of(lease),
        Some(ShareRef::Ghost(ghost)) => ghost.delay.holder.as_str().len(),
        None => 0,
    };
    LOCK_BYTES + name.as_str().len() + texts
}
