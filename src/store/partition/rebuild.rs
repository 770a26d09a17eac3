//! Takeover: rebuilds a partition in memory from the records of a node.

use super::{
    Outbox, Partition, Slot,
    outbox::{Kept, Note, RENEWAL_UNWRITTEN_TTL_MAX, end_of},
    record::{self, Key, RecordError, ended::Entry, share::Share},
    shares::ShareRef,
};
use crate::{
    domain::{
        lease::Lease,
        name::LockName,
        rules::Lock,
        time::StoreTime,
        token::{FencingToken, Sequencer},
    },
    store::{
        content::{Bytes, Content},
        fields::FieldError,
    },
};
use std::collections::BTreeMap;

/// A partition that cannot be taken over, because this server would forget what it cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record with the key \"{key}\" cannot be read: {error}")]
pub struct Unreadable {
    /// Its key, as far as it is text.
    pub key: String,
    /// Why.
    #[source]
    pub error: RecordError,
}

/// What is known of renewals of leases that their records do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewals {
    /// A lease of up to [`RENEWAL_UNWRITTEN_TTL_MAX`] may have been renewed since it was written. Its TTL begins anew,
    /// within its `max_hold`.
    MayBeMissing,
    /// All: the leases with these tokens end at these times, and each other one when its record says.
    Known(BTreeMap<FencingToken, StoreTime>),
}

impl Renewals {
    /// Each lease ends when its record says.
    pub const WRITTEN: Self = Self::Known(BTreeMap::new());

    /// When the lease with this record ends. `time` is that of its partition.
    fn end(&self, lease: &Lease, time: StoreTime) -> StoreTime {
        match self {
            Self::MayBeMissing if may_have_been_renewed(lease) => {
                // mutant: takeover forgets max_hold
                let anew = lease.terms.end(lease.granted_at, time, lease.terms.ttl);
                lease.expires_at.max(anew)
            }
            Self::MayBeMissing => lease.expires_at,
            Self::Known(ends) => ends.get(&lease.token).copied().unwrap_or(lease.expires_at),
        }
    }

    /// The lock with this record.
    fn apply(&self, lock: Lock, time: StoreTime) -> Lock {
        let Some(lease) = lock.lease() else { return lock };
        let end = self.end(lease, time);
        if end == lease.expires_at {
            return lock;
        }
        Lock::kept(Some(Lease { expires_at: end, ..lease.clone() }), lock.tombstones().to_vec())
    }
}

impl Partition<Outbox> {
    /// The partition that a node kept, at `time`, with the highest token drawn. Nobody waits in it: waiters are
    /// presented again by their servers. The TTL of a lease whose renewals may be missing begins anew. `hash` is that
    /// of a name.
    pub fn from_content(
        content: Content,
        renewals: &Renewals,
        time: StoreTime,
        token: u64,
        hash: impl Fn(&LockName) -> u64,
    ) -> Result<Self, Unreadable> {
        let mut partition = Self::with_journal(Sequencer::after(token), Outbox::default());
        let (mut ended, mut shared) = (Vec::new(), Vec::new());
        for (key, record) in content.0 {
            let unreadable = |error| Unreadable { key: key.escape_ascii().to_string(), error };
            match Key::decode(&key).map_err(unreadable)? {
                Key::Lock(name) => {
                    let lock = record::lock::decode(&record).map_err(unreadable)?;
                    let (hash, written) = (hash(&name), end_of(&lock));
                    let (lock, note) = (renewals.apply(lock, time), Note::written(written));
                    partition.insert(Slot { name, lock, hash, timer: None, note });
                }
                Key::Share(name, grant_id) => {
                    let share = record::share::decode(&record, grant_id).map_err(unreadable)?;
                    shared.push((key, name, share));
                }
                Key::Ended(number) => {
                    let entries = record::ended::decode(&record).map_err(unreadable)?;
                    ended.push((number, record, entries));
                }
            }
        }
        for (key, name, share) in shared {
            let key = key.escape_ascii().to_string();
            partition.keep_share(name, share, renewals, time, &hash).map_err(|error| Unreadable { key, error })?;
        }
        ended.sort_unstable_by_key(|(number, ..)| *number);
        for (number, record, entries) in ended {
            partition.recall(number, record, entries, time, &hash);
        }
        for number in 0..partition.slots.capacity() {
            if let Some(slot) = partition.slots.get_mut(number) {
                slot.lock.forget_unused_limit();
                partition.put_back(number);
            }
        }
        Ok(partition)
    }

    /// Adds a lease beside others, or a ghost. The records of locks have been read.
    fn keep_share(
        &mut self,
        name: LockName,
        share: Share,
        renewals: &Renewals,
        time: StoreTime,
        hash: impl Fn(&LockName) -> u64,
    ) -> Result<(), RecordError> {
        let number = self.number_or_new(name, hash);
        let Slot { lock, note, .. } = &mut self.slots[number];
        let is_alone = lock.lease().is_some() || lock.delay().is_some();
        let has_place = match share {
            Share::Lease(lease) => {
                note.keep_share(ShareRef::Lease(&lease));
                let is_new = !is_alone && lock.lease_of(lease.token).is_none() && lock.ghost_of(lease.token).is_none();
                is_new && lock.keep_shared(Lease { expires_at: renewals.end(&lease, time), ..lease })
            }
            Share::Ghost(ghost) => {
                note.keep_share(ShareRef::Ghost(&ghost));
                !is_alone && lock.lease_of(ghost.delay.token).is_none() && lock.keep_ghost(ghost)
            }
        };
        if !has_place {
            return Err(FieldError::Broken("lease", "stands beside another one that excludes it".to_owned()).into());
        }
        Ok(())
    }

    fn number_or_new(&mut self, name: LockName, hash: impl Fn(&LockName) -> u64) -> usize {
        let hash = hash(&name);
        self.number(&name, hash).unwrap_or_else(|| {
            let (lock, note) = (Lock::default(), Note::default());
            self.insert(Slot { name, lock, hash, timer: None, note })
        })
    }

    fn recall(
        &mut self,
        number: u64,
        record: Bytes,
        entries: Vec<Entry>,
        time: StoreTime,
        hash: impl Fn(&LockName) -> u64,
    ) {
        let until = entries.iter().map(|entry| entry.ended.until()).max().unwrap_or_default();
        self.journal.next_number = number.saturating_add(1);
        self.journal.kept.push_back(Kept { number, record, until });
        for Entry { name, ended } in entries.into_iter().filter(|entry| time < entry.ended.until()) {
            let slot = self.number_or_new(name, &hash);
            self.slots[slot].lock.recall(ended);
        }
    }
}

/// Whether its holder may count on more time than its record says. One that was cut short is written when it is armed
/// again.
fn may_have_been_renewed(lease: &Lease) -> bool {
    lease.terms.ttl <= RENEWAL_UNWRITTEN_TTL_MAX && !lease.unheard
}
