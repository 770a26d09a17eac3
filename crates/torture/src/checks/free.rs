//! When a lock was certainly free, and who certainly waited for it then.
//!
//! A lock is certainly free when no lease can have covered it: no known one, from the earliest time at which it can
//! have been made to the last at which the server can have considered it valid; and none of an Acquire with an unknown
//! outcome. All of this holds only where no fault reaches.

use super::{
    fault_windows::{hits_client, is_kill_of_client},
    index::{DROPPED, History, Lock},
    lease::Lease,
};
use crate::history::{Acquire, AcquireEnd, Nanos};

/// A period in which a live waiter waited too long for a free lock.
pub(crate) struct Stall<'a> {
    pub(crate) waiter: &'a Acquire,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    /// The last lease before, if its holder had been killed.
    pub(crate) orphan: Option<&'a Lease<'a>>,
}

struct Gap<'a> {
    from: Nanos,
    until: Nanos,
    orphan: Option<&'a Lease<'a>>,
}

/// The stalls of more than beats + claim window + slack, the longest for each time that the lock was free.
pub(crate) fn stalls<'a>(history: &History<'_>, lock: &'a Lock<'a>) -> Vec<Stall<'a>> {
    let slack = history.bounds.slack;
    let bound = history.bounds.beats + history.bounds.claim_window + slack;
    let gaps: Vec<_> = gaps(history, lock).into_iter().filter(|gap| gap.until - gap.from > bound).collect();
    let mut longest: Vec<Option<Stall<'a>>> = gaps.iter().map(|_| None).collect();
    for waiter in lock.acquires.iter().filter(|one| one.wait > 0 && is_answered(one)) {
        let queued = waiter.invoke + slack;
        let first = gaps.partition_point(|gap| gap.until <= queued);
        for (gap, longest) in gaps.iter().zip(&mut longest).skip(first).take_while(|(gap, _)| gap.from < waiter.ret) {
            let (from, until) = (gap.from.max(queued), gap.until.min(waiter.ret));
            let length = until.saturating_sub(from);
            if length > bound && longest.as_ref().is_none_or(|stall| stall.until - stall.from < length) {
                *longest = Some(Stall { waiter, from, until, orphan: gap.orphan });
            }
        }
    }
    longest.into_iter().flatten().collect()
}

/// Whether it waited to its end. A dropped call, or one replaced by a newer attempt, may have left the queue before.
fn is_answered(acquire: &Acquire) -> bool {
    matches!(acquire.end, AcquireEnd::Acquired(_) | AcquireEnd::TimedOut)
}

fn gaps<'a>(history: &History<'_>, lock: &'a Lock<'a>) -> Vec<Gap<'a>> {
    let mut held: Vec<(Nanos, Nanos, Option<&'a Lease<'a>>)> = Vec::new();
    for lease in &lock.leases {
        let killed = killed_at(history, lease);
        let until = lease.held_until(history.bounds.slack);
        let until = match lease.min_hold() {
            0 => until,
            min_hold => until.max(lease.made_by() + min_hold + history.bounds.slack),
        };
        let until = until + lease.lock_delay();
        // The last answer may have died with its holder, but the last renewal was sent before the kill.
        let until = killed.map_or(until, |at| until.max(at + lease.ttl() + lease.lock_delay() + history.bounds.slack));
        held.push((lease.made_from(), until, killed.map(|_| lease)));
    }
    for one in lock.acquires.iter().filter(|one| matches!(one.end, AcquireEnd::Unknown(_) | AcquireEnd::Dropped)) {
        let until = one.ret + one.ttl.max(DROPPED) + one.lock_delay;
        let until = until + history.bounds.claim_window + history.bounds.slack;
        held.push((one.invoke, until, None));
    }
    held.sort_by_key(|(from, until, _)| (*from, *until));
    let mut gaps = Vec::new();
    let (mut free_from, mut orphan) = (0, None);
    for (from, until, holder) in held {
        if from > free_from {
            gaps.push(Gap { from: free_from, until: from, orphan });
        }
        if until > free_from {
            (free_from, orphan) = (until, holder);
        }
    }
    gaps.push(Gap { from: free_from, until: Nanos::MAX, orphan });
    gaps
}

/// When the holder was killed while it held the lease.
fn killed_at(history: &History<'_>, lease: &Lease<'_>) -> Option<Nanos> {
    if lease.ended_by_server().is_some() {
        return None;
    }
    let kills = history.faults.iter().filter(|fault| is_kill_of_client(fault) && hits_client(fault, lease.client));
    kills.map(|kill| kill.begin).find(|at| (lease.asked_from()..=lease.last_known()).contains(at))
}
