//! The calls that wait here, by bucket and lock: what the polls are for, who is told when hints may have been lost, and
//! who is next.

use crate::domain::{
    command::Candidate,
    ids::{Call, CallId, RequestId},
    name::LockName,
    rules::Next,
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
struct Requests {
    attempts: HashMap<(RequestId, u32), Entry>,
    /// Those that stand in line, by place. Two may have one place: a line that was empty begins anew, while the answer
    /// that the last one in it has the lock is lost.
    line: BTreeSet<(u64, u32, RequestId)>,
    /// The first place in line, when Redis last said it.
    first_place: u64,
    /// The last poll found fewer of them in Redis.
    missing: bool,
}

/// The calls of one attempt.
#[derive(Debug)]
struct Entry {
    /// Each with what it claims with.
    calls: SmallVec<[(CallId, Candidate); 1]>,
    /// Its place in line: arrival order. Until Redis has told it, its command is on its way or in line for it, and will
    /// say what there is to know.
    place: Option<u64>,
}

/// The calls that wait here.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<u16, HashMap<LockName, Requests>>>);

impl Requests {
    fn of(&mut self, call: Call) -> Option<&mut Entry> {
        self.attempts.get_mut(&(call.request, call.attempt))
    }

    fn stands_no_more(&mut self, call: Call) {
        if let Some(place) = self.of(call).and_then(|entry| entry.place) {
            self.line.remove(&(place, call.attempt, call.request));
        }
    }
}

impl Waits {
    /// Enters a call, before its command is sent: a hint may be faster than the answer.
    pub(super) fn enter(&self, bucket: u16, name: &LockName, call: Call, candidate: Candidate) {
        let mut all = self.0.lock();
        let locks = all.entry(bucket).or_default();
        if !locks.contains_key(name) {
            locks.insert(name.clone(), Requests::default());
        }
        if let Some(requests) = locks.get_mut(name) {
            let none = || Entry { calls: SmallVec::new(), place: None };
            let entry = requests.attempts.entry((call.request, call.attempt)).or_insert_with(none);
            entry.calls.push((call.id, candidate));
        }
    }

    /// Notes that Redis knows it, and where it stands.
    pub(super) fn queued(&self, bucket: u16, name: &LockName, call: Call, place: u64, first: u64) {
        let mut all = self.0.lock();
        let Some(requests) = all.get_mut(&bucket).and_then(|locks| locks.get_mut(name)) else { return };
        requests.first_place = first;
        // A Redis that forgot its place gives it another.
        requests.stands_no_more(call);
        if let Some(entry) = requests.of(call) {
            entry.place = Some(place);
            requests.line.insert((place, call.attempt, call.request));
        }
    }

    /// The call that is next in line for a lock, of those that wait here. None where two share it: only Redis can say
    /// it to both.
    pub(super) fn next(&self, bucket: u16, name: &LockName) -> Option<Next> {
        let all = self.0.lock();
        let requests = all.get(&bucket)?.get(name)?;
        let &(_, attempt, request) = requests.line.first()?;
        let [(id, candidate)] = requests.attempts.get(&(request, attempt))?.calls.as_slice() else { return None };
        Some(Next { call: Call { request, attempt, id: *id }, candidate: *candidate })
    }

    /// Has the calls for a lock look again as soon as a poll finds fewer of them in Redis.
    pub(super) fn doubt(&self, bucket: u16, name: &LockName) {
        if let Some(requests) = self.0.lock().get_mut(&bucket).and_then(|locks| locks.get_mut(name)) {
            requests.missing = true;
        }
    }

    /// Notes who stands first in line.
    pub(super) fn first_place(&self, bucket: u16, name: &LockName, first: u64) {
        if let Some(requests) = self.0.lock().get_mut(&bucket).and_then(|locks| locks.get_mut(name)) {
            requests.first_place = first;
        }
    }

    /// How many stand before a call that waits here, at most.
    pub(super) fn ahead(&self, bucket: u16, name: &LockName, call: Call) -> Option<u64> {
        let all = self.0.lock();
        let requests = all.get(&bucket)?.get(name)?;
        Some(requests.attempts.get(&(call.request, call.attempt))?.place?.saturating_sub(requests.first_place))
    }

    /// Takes a call out, if it is entered.
    pub(super) fn leave(&self, bucket: u16, name: &LockName, call: Call) {
        let mut all = self.0.lock();
        let Some(locks) = all.get_mut(&bucket) else { return };
        let Some(requests) = locks.get_mut(name) else { return };
        if let Some(entry) = requests.of(call) {
            entry.calls.retain(|(id, _)| *id != call.id);
            if entry.calls.is_empty() {
                requests.stands_no_more(call);
                requests.attempts.remove(&(call.request, call.attempt));
            }
        }
        if requests.attempts.is_empty() {
            locks.remove(name);
        }
        if locks.is_empty() {
            all.remove(&bucket);
        }
    }

    /// Whether a call of this attempt waits here.
    pub(super) fn knows(&self, bucket: u16, name: &LockName, request: RequestId, attempt: u32) -> bool {
        let all = self.0.lock();
        all.get(&bucket)
            .and_then(|locks| locks.get(name))
            .is_some_and(|it| it.attempts.contains_key(&(request, attempt)))
    }

    /// The locks in whose lines calls stand, by bucket. Of others there is nothing to ask: their commands say what
    /// there is to know.
    pub(super) fn in_line(&self) -> Vec<(u16, Vec<LockName>)> {
        let in_line = |(bucket, locks): (&u16, &HashMap<LockName, Requests>)| {
            let names = locks.iter().filter(|(_, requests)| !requests.line.is_empty()).map(|(name, _)| name.clone());
            (*bucket, names.collect::<Vec<_>>())
        };
        self.0.lock().iter().map(in_line).filter(|(_, names)| !names.is_empty()).collect()
    }

    /// How many requests stand in line for a lock, as far as Redis has said so.
    pub(super) fn requests(&self, bucket: u16, name: &LockName) -> usize {
        self.0.lock().get(&bucket).and_then(|locks| locks.get(name)).map_or(0, |it| it.line.len())
    }

    /// Notes whether a poll found fewer waiters of a lock than there are here. True if the one before it did too.
    pub(super) fn is_missing_again(&self, bucket: u16, name: &LockName, missing: bool) -> bool {
        let mut all = self.0.lock();
        let Some(requests) = all.get_mut(&bucket).and_then(|locks| locks.get_mut(name)) else { return false };
        std::mem::replace(&mut requests.missing, missing) && missing
    }

    /// The calls that stand in line for a lock, or for any of a bucket.
    pub(super) fn calls(&self, bucket: u16, name: Option<&LockName>) -> Vec<(RequestId, u32)> {
        let all = self.0.lock();
        let Some(locks) = all.get(&bucket) else { return Vec::new() };
        let wanted = locks.iter().filter(|(lock, _)| name.is_none_or(|name| name == *lock));
        let calls = wanted.flat_map(|(_, requests)| &requests.attempts);
        calls.filter(|(_, entry)| entry.place.is_some()).map(|(call, _)| *call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{GrantId, LeaseId};
    use uuid::Uuid;

    fn call(number: u64) -> Call {
        Call { request: RequestId(Uuid::from_u128(number.into())), attempt: 1, id: CallId(number) }
    }

    /// The line was empty and began anew, and nobody has heard yet that the first has the lock: it is missed by the
    /// next poll, which finds one.
    #[test]
    fn two_calls_of_one_place_are_two() {
        let (waits, name) = (Waits::default(), LockName::new("a".into()).unwrap());
        let candidate = Candidate { lease_id: LeaseId(Uuid::nil()), grant_id: GrantId(Uuid::nil()), attachment: None };
        let calls = [1, 2].map(call);
        for call in calls {
            waits.enter(7, &name, call, candidate);
            waits.queued(7, &name, call, 0, 0);
        }
        assert_eq!(waits.requests(7, &name), 2);
        waits.leave(7, &name, calls[1]);
        assert_eq!((waits.requests(7, &name), waits.in_line()), (1, vec![(7, vec![name.clone()])]));
        waits.leave(7, &name, calls[0]);
        assert!(waits.in_line().is_empty());
    }

    #[test]
    fn a_lock_is_polled_for_when_a_call_stands_in_its_line() {
        let (waits, name) = (Waits::default(), LockName::new("a".into()).unwrap());
        let candidate = Candidate { lease_id: LeaseId(Uuid::nil()), grant_id: GrantId(Uuid::nil()), attachment: None };
        let call = call(1);
        waits.enter(7, &name, call, candidate);
        assert!(waits.in_line().is_empty() && waits.knows(7, &name, call.request, 1));
        waits.queued(7, &name, call, 3, 0);
        assert_eq!(waits.in_line(), vec![(7, vec![name])]);
    }
}
