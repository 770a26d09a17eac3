//! The outbox of a partition: batches of changed records for its nodes, and snapshots of all records.

use super::{
    Journal, Partition, Slot,
    record::{self, Key},
    shares::{self, ChangedShare, Drawn, ShareNotes, ShareRef},
};
use crate::{
    domain::{
        binding::Binding,
        ids::{AttachmentId, ReplicaId},
        lease::{Lease, Terms},
        mode::PermitLimit,
        rules::{Delay, Ghost, Lock, Tombstone},
        time::StoreTime,
        token::FencingToken,
    },
    store::content::{Bytes, Changes},
};
use std::{collections::VecDeque, time::Duration};

/// Leases of up to this TTL are not written when they are renewed. A takeover begins their TTL anew, unless the leader
/// before has told their ends: so it may keep the lock of a dead holder for up to this long.
pub const RENEWAL_UNWRITTEN_TTL_MAX: Duration = Duration::from_secs(30);
/// Records that one batch puts or removes, at most: what a node does in about a millisecond.
pub const BATCH_RECORDS_MAX: usize = 512;
/// The bytes of one batch, at most.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Records of ended requests that one batch removes, at most. More are left to the next batches: after a pause the
/// records of ten seconds are due at once.
const FORGOTTEN_PER_BATCH: usize = 64;
/// With so many changes no further turn may run before the batch is drawn. Leaves room for [`FORGOTTEN_PER_BATCH`] and
/// for the new records of ended requests.
const FULL_FROM_RECORDS: usize = 384;
/// With so many bytes no further turn may run before the batch is drawn. Leaves room for the largest change of a turn.
const FULL_FROM_BYTES: usize = 192 * 1024;
/// The room that a record of ended requests begins with, so that it seldom grows: 30 entries.
const ENDS_BYTES: usize = 4 * 1024;
/// More than a record of a lock has without its name, texts and tombstones.
pub(super) const LOCK_BYTES: usize = 400;
/// More than a tombstone has in a record.
const TOMBSTONE_BYTES: usize = 48;

/// Collects what the nodes do not have yet, and knows what they have.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The slots whose locks changed since the last batch, each once.
    changed: Vec<usize>,
    /// The shared leases that changed since the last batch, each once.
    changed_shares: Vec<ChangedShare>,
    /// Not less than the records of those locks and leases will have.
    changed_bytes: usize,
    /// Requests that ended since the last batch.
    ends: Vec<Ends>,
    /// The records of ended requests that the nodes have, in the order of their numbers.
    pub(super) kept: VecDeque<Kept>,
    /// The number of the next one.
    pub(super) next_number: u64,
}

/// A record of ended requests that grows.
#[derive(Debug)]
struct Ends {
    record: Vec<u8>,
    until: StoreTime,
}

/// A record of ended requests that the nodes have.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) record: Bytes,
    /// Until when any of its requests is remembered (exclusive).
    pub(super) until: StoreTime,
}

/// What is noted beside a lock.
#[derive(Debug, Default)]
pub struct Note {
    /// Whether it is among the changed ones.
    is_changed: bool,
    /// Its share of [`Outbox::changed_bytes`].
    counted_bytes: usize,
    /// If the nodes have a record of it: when its lease ends there. A lease that was renewed without being written ends
    /// later here.
    written: Option<StoreTime>,
    /// The same of its shared leases, if it has any.
    shares: Option<Box<ShareNotes>>,
}

/// What of a lock goes into records, before a turn.
#[derive(Debug)]
pub struct Before {
    ends: u64,
    lease: Option<Changing>,
    tombstones: Vec<Tombstone>,
    delay: Option<Box<Delay>>,
    permit_limit: Option<PermitLimit>,
}

/// What of a lease goes into its record and can change while the lease lasts.
#[derive(Debug, PartialEq)]
pub(super) struct Changing {
    /// Tells leases apart.
    token: FencingToken,
    binding: Binding,
    ttl: Duration,
    /// If it is written whenever it changes.
    expires_at: Option<StoreTime>,
    attachment: Option<AttachmentId>,
    attachment_replica: ReplicaId,
    attachment_attempt: u32,
    unheard: bool,
    heard: bool,
    /// Stands for what Describe changes.
    description: u64,
}

impl Note {
    /// Of a lock whose record the nodes have.
    pub(super) fn written(end: StoreTime) -> Self {
        Self { written: Some(end), ..Self::default() }
    }

    /// The nodes have a record of this shared lease, or of its ghost, as it is.
    pub(super) fn keep_share(&mut self, share: ShareRef<'_>) {
        self.shares.get_or_insert_default().keep(share);
    }
}

impl Changing {
    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    pub(super) fn of(lease: &Lease) -> Self {
        // Names each field, so that a new one is not forgotten.
        let Lease {
            request: _,
            binding,
            terms: Terms { fingerprint: _, ttl, holder: _, metadata: _, min_token: _, max_hold: _, extra, mode: _ },
            lease_id: _,
            grant_id: _,
            token,
            granted_at: _,
            expires_at,
            previous_end: _,
            attachment,
            attachment_replica,
            attachment_attempt,
            unheard,
            heard,
            // Not kept.
            told_wanted: _,
        } = lease;
        Self {
            token: *token,
            binding: binding.clone(),
            ttl: *ttl,
            expires_at: (RENEWAL_UNWRITTEN_TTL_MAX < *ttl).then_some(*expires_at),
            attachment: *attachment,
            attachment_replica: *attachment_replica,
            attachment_attempt: *attachment_attempt,
            unheard: *unheard,
            heard: *heard,
            description: extra.as_ref().map_or(0, |extra| extra.description),
        }
    }
}

impl Journal for Outbox {
    type Before = Before;
    type Note = Note;

    fn before(&self, lock: &Lock) -> Before {
        Before {
            ends: lock.ends(),
            lease: lock.lease().map(Changing::of),
            tombstones: lock.tombstones().to_vec(),
            delay: lock.delay().cloned().map(Box::new),
            permit_limit: lock.permit_limit_to_keep(),
        }
    }

    fn after(&mut self, number: usize, slot: &mut Slot<Note>, before: Before) {
        for ended in slot.lock.ends_after(before.ends) {
            if self.ends.last().is_none_or(|ends| ends.record.len() >= record::ended::FULL_FROM_BYTES) {
                let record = Vec::with_capacity(ENDS_BYTES);
                self.ends.push(Ends { record, until: StoreTime::default() });
            }
            if let Some(ends) = self.ends.last_mut() {
                record::ended::append(&mut ends.record, &slot.name, ended);
                ends.until = ends.until.max(ended.until());
            }
        }
        self.note_shares(number, slot);
        let is_same = before.lease == slot.lock.lease().map(Changing::of)
            && before.tombstones == slot.lock.tombstones()
            && before.delay.as_deref() == slot.lock.delay()
            && before.permit_limit == slot.lock.permit_limit_to_keep();
        if is_same {
            return;
        }
        if !slot.note.is_changed {
            slot.note.is_changed = true;
            self.changed.push(number);
        }
        // A lock may change again and have more: it was free, and is held with metadata.
        let bytes = bytes_of(slot).max(slot.note.counted_bytes);
        self.changed_bytes += bytes - slot.note.counted_bytes;
        slot.note.counted_bytes = bytes;
    }

    fn holds(note: &Note) -> bool {
        note.is_changed || note.shares.is_some()
    }
}

/// Not less than the texts of a lease have in its record.
pub(super) fn texts_of(lease: &Lease) -> usize {
    // A field, or a pair of texts, has this much around it at most.
    const AROUND: usize = 8;
    let pairs = lease.terms.metadata.pairs().map(|(key, value)| key.len() + value.len() + AROUND);
    let extra = lease.terms.extra.as_deref();
    let owner = extra.map_or(0, |extra| extra.owner.as_str().len());
    let identity = extra.and_then(|extra| extra.identity.as_ref()).map_or(0, |identity| identity.as_str().len());
    lease.terms.holder.as_str().len() + pairs.sum::<usize>() + owner + identity
}

/// Not less than the key and the record of the lock have.
fn bytes_of(slot: &Slot<Note>) -> usize {
    let texts = slot.lock.lease().map_or(0, texts_of);
    let delay = slot.lock.delay().map_or(0, |delay| delay.holder.as_str().len());
    let tombstones = slot.lock.tombstones().len().min(record::lock::TOMBSTONES_MAX) * TOMBSTONE_BYTES;
    LOCK_BYTES + slot.name.as_str().len() + texts + delay + tombstones
}

impl Partition<Outbox> {
    /// Whether the batch has to be drawn before another turn runs.
    pub fn is_batch_full(&self) -> bool {
        let Outbox { changed, changed_shares, changed_bytes, ends, .. } = &self.journal;
        let ended_bytes: usize = ends.iter().map(|ends| ends.record.len()).sum();
        changed.len() + changed_shares.len() >= FULL_FROM_RECORDS || changed_bytes + ended_bytes >= FULL_FROM_BYTES
    }

    /// Whether a batch with a change could be drawn, apart from one that forgets ended requests.
    pub fn has_changes(&self) -> bool {
        let Outbox { changed, changed_shares, ends, .. } = &self.journal;
        !changed.is_empty() || !changed_shares.is_empty() || !ends.is_empty()
    }

    /// Draws a batch: what changed since the one before it, up to `time`. It is to be written, or nothing after it is.
    ///
    /// No key is both put and gone.
    pub fn take_changes(&mut self, time: StoreTime) -> Changes {
        let changed = self.journal.changed.len() + self.journal.changed_shares.len();
        // One more for the ended requests.
        let (put, gone) = (Vec::with_capacity(changed + 1), Vec::with_capacity(changed));
        let mut changes = Changes { time: time.as_micros(), token: self.sequencer.counter(), put, gone };
        self.take_changed(&mut changes);
        self.take_changed_shares(&mut changes);
        self.journal.forget(time, &mut changes);
        self.journal.take_ends(&mut changes);
        changes
    }

    fn take_changed(&mut self, changes: &mut Changes) {
        self.journal.changed_bytes = 0;
        let mut changed = std::mem::take(&mut self.journal.changed);
        for number in changed.drain(..) {
            let Slot { name, lock, note, .. } = &mut self.slots[number];
            (note.is_changed, note.counted_bytes) = (false, 0);
            let end = end_of(lock);
            match record::lock::encode(lock, end) {
                Some(record) => {
                    note.written = Some(end);
                    changes.put.push((Key::of_lock(name), record));
                }
                None if note.written.take().is_some() => changes.gone.push(Key::of_lock(name)),
                None => {}
            }
            self.put_back(number);
        }
        self.journal.changed = changed;
    }

    fn take_changed_shares(&mut self, changes: &mut Changes) {
        let mut changed = std::mem::take(&mut self.journal.changed_shares);
        for share in changed.drain(..) {
            let Slot { name, lock, note, .. } = &mut self.slots[share.slot];
            let found = note.shares.as_ref().and_then(|notes| notes.find(lock, share.grant_id));
            let drawn = note.shares.as_mut().and_then(|notes| notes.draw(share.grant_id, found));
            note.shares.take_if(|notes| notes.is_empty());
            match (drawn, found) {
                (Some(Drawn::Put), Some(found)) => {
                    changes.put.push((Key::of_share(name, share.grant_id), found.encode()));
                }
                (Some(_), _) => changes.gone.push(Key::of_share(name, share.grant_id)),
                (None, _) => {}
            }
            if note.shares.is_none() {
                self.put_back(share.slot);
            }
        }
        self.journal.changed_shares = changed;
    }

    /// All records, exactly as the batches drawn so far made them. None while there are changes that are in no batch.
    pub fn snapshot(&self) -> Option<Vec<(Bytes, Bytes)>> {
        if self.has_changes() { None } else { Some(self.records(Note::end_in_record, Note::share_end_in_record)) }
    }

    /// All records as of the last batch, but each lease ends in them as it does here, renewals included.
    pub fn exact_records(&self) -> Vec<(Bytes, Bytes)> {
        self.records(|_, lock| Some(end_of(lock)), |_, lease| Some(lease.expires_at))
    }

    /// The ends of leases that no record has, by their tokens.
    pub fn unwritten_ends(&self) -> impl Iterator<Item = (FencingToken, StoreTime)> {
        let exclusive = self.slots.iter().filter_map(|(_, slot)| Some((slot.note.written, slot.lock.lease()?)));
        let shared = self
            .slots
            .iter()
            .flat_map(|(_, slot)| slot.lock.shared().map(|lease| (slot.note.share_end_in_record(lease), lease)));
        exclusive.chain(shared).filter_map(|(written, lease)| {
            (written != Some(lease.expires_at)).then_some((lease.token, lease.expires_at))
        })
    }

    fn records(
        &self,
        end: impl Fn(&Note, &Lock) -> Option<StoreTime>,
        share_end: impl Fn(&Note, &Lease) -> Option<StoreTime>,
    ) -> Vec<(Bytes, Bytes)> {
        let mut records = Vec::new();
        for (_, Slot { name, lock, note, .. }) in &self.slots {
            if let Some(record) = end(note, lock).and_then(|end| record::lock::encode(lock, end)) {
                records.push((Key::of_lock(name), record));
            }
            for lease in lock.shared() {
                let record = share_end(note, lease).map(|end| record::share::encode(lease, end));
                records.extend(record.map(|record| (Key::of_share(name, lease.grant_id), record)));
            }
            let of_ghost = |ghost: &Ghost| (Key::of_share(name, ghost.grant_id), record::share::encode_ghost(ghost));
            records.extend(lock.ghosts().map(of_ghost));
        }
        let kept = self.journal.kept.iter().map(|kept| (Key::of_ended(kept.number), kept.record.clone()));
        records.extend(kept);
        records
    }
}

impl Note {
    fn end_in_record(&self, _: &Lock) -> Option<StoreTime> {
        self.written
    }

    fn share_end_in_record(&self, lease: &Lease) -> Option<StoreTime> {
        self.shares.as_ref()?.written(lease.grant_id)
    }
}

/// When the lease of a lock ends; the beginning of time if there is none.
pub(super) fn end_of(lock: &Lock) -> StoreTime {
    lock.lease().map_or_else(StoreTime::default, |lease| lease.expires_at)
}

impl Outbox {
    /// Notes the shared leases, and the ghosts, that a turn changed.
    fn note_shares(&mut self, number: usize, slot: &mut Slot<Note>) {
        for (token, grant_id) in slot.lock.take_changed_shares() {
            let share = ShareRef::find(&slot.lock, token, grant_id);
            let notes = slot.note.shares.get_or_insert_default();
            if notes.change(grant_id, share) {
                self.changed_shares.push(ChangedShare { slot: number, grant_id });
                self.changed_bytes += shares::bytes_of(&slot.name, share);
            }
            slot.note.shares.take_if(|notes| notes.is_empty());
        }
    }

    /// Removes records of ended requests of which none is remembered any more.
    fn forget(&mut self, time: StoreTime, changes: &mut Changes) {
        for _ in 0..FORGOTTEN_PER_BATCH {
            let Some(oldest) = self.kept.front().filter(|oldest| oldest.until <= time) else { break };
            changes.gone.push(Key::of_ended(oldest.number));
            self.kept.pop_front();
        }
    }

    fn take_ends(&mut self, changes: &mut Changes) {
        for Ends { record, until } in self.ends.drain(..) {
            let (number, record) = (self.next_number, Bytes::from(record));
            self.next_number += 1;
            changes.put.push((Key::of_ended(number), record.clone()));
            self.kept.push_back(Kept { number, record, until });
        }
    }
}
