//! The calls that wait on this server in one partition: it presents them to each new leader.
//!
//! A queue lives in the memory of the partition's leader, and is lost with it. The server that a call waits on knows
//! what the call asked for and where it stood, so that the next leader can queue it again in the old order. A
//! call that was dropped is presented too, for as long as the leader before kept its queue position: a server that
//! hands over because it drains has just ended the calls that waited on it, and their clients are about to repeat them
//! elsewhere.

use crate::domain::{
    command::{Acquire, Command, Outcome},
    features::Features,
    ids::Call,
    limits::DROP_GRACE,
    name::LockName,
    outcome::AcquireOutcome,
};
use crate::store::quorum::{paxos::ballot::Ballot, rpc::messages::PresentedWaiter};
use hashbrown::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Where a request is queued.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueuePosition {
    /// The leader that queued it.
    pub(crate) ballot: Ballot,
    /// Its place in the queue of its lock at this leader, from 1 on; 0 if it is not queued.
    pub(crate) number: u64,
    /// An upper bound on how many requests are queued before it.
    pub(crate) ahead: u64,
}

/// A call is presented again to a leader that has not said for so long what became of it.
const PRESENTED_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The waiting calls of a partition, and those that were dropped a moment ago.
#[derive(Debug, Default)]
pub(crate) struct LocalWaiters(HashMap<Call, Waiting>);

#[derive(Debug)]
struct Waiting {
    waiter: PresentedWaiter,
    presented: Option<Presented>,
    /// An upper bound on how many requests are queued before it.
    ahead: u64,
    /// Its last claim failed, so it is to claim again.
    is_to_claim: bool,
    /// When it was dropped, if it was.
    dropped: Option<Instant>,
}

/// To whom a call was presented last.
#[derive(Clone, Copy, Debug)]
struct Presented {
    to: Ballot,
    /// A moment before it was first presented to this leader. What the leader says may be of that presentation, so what
    /// a lease has left counts from here, however often the call was presented since.
    first: Instant,
    last: Instant,
}

impl LocalWaiters {
    /// Takes the outcome of an acquire that a leader confirmed, and its queue position if it is queued.
    pub(crate) fn acquired(&mut self, name: &LockName, acquire: &Acquire, at: QueuePosition, outcome: &Outcome) {
        if *outcome == Outcome::Acquire(AcquireOutcome::Queued) {
            let mut acquire = acquire.clone();
            // mutant: waiter is refused by the next leader
            acquire.terms.waits();
            let call = acquire.call;
            let queue_position = (at.ballot, at.number);
            let waiter = PresentedWaiter { queue_position, name: name.clone(), acquire, is_dropped: false };
            let waiting = Waiting { waiter, presented: None, ahead: at.ahead, is_to_claim: false, dropped: None };
            self.0.insert(call, waiting);
        } else {
            self.0.remove(&acquire.call);
        }
    }

    /// Takes the outcome of another command: some end a wait.
    pub(crate) fn answered(&mut self, command: &Command, at: QueuePosition, outcome: &Outcome) {
        let (Command::Claim(call, _) | Command::GiveUp(call), Outcome::Acquire(outcome)) = (command, outcome) else {
            return;
        };
        match outcome {
            AcquireOutcome::Queued => {
                if let Some(waiting) = self.waiting_mut(*call) {
                    waiting.ahead = waiting.ahead.min(at.ahead);
                }
            }
            // It is not queued at this leader yet. (Who gave up waits no more: see `QuorumStore::give_up`.)
            AcquireOutcome::Unknown => {}
            _ => drop(self.0.remove(call)),
        }
    }

    /// An upper bound on how many requests are queued before that of this call, if it waits.
    pub(crate) fn ahead(&self, call: Call) -> Option<u64> {
        self.waiting(call).map(|waiting| waiting.ahead)
    }

    /// What the call asked for, if it waits.
    pub(crate) fn get(&self, call: Call) -> Option<&Acquire> {
        self.waiting(call).map(|waiting| &waiting.waiter.acquire)
    }

    fn waiting(&self, call: Call) -> Option<&Waiting> {
        self.0.get(&call).filter(|waiting| waiting.dropped.is_none())
    }

    fn waiting_mut(&mut self, call: Call) -> Option<&mut Waiting> {
        self.0.get_mut(&call).filter(|waiting| waiting.dropped.is_none())
    }

    /// The call does not wait any more.
    pub(crate) fn remove(&mut self, call: Call) {
        self.0.remove(&call);
    }

    /// The call was dropped: it does not wait any more, and its queue position is kept for a repeat.
    pub(crate) fn drop_call(&mut self, call: Call, now: Instant) {
        if let Some(waiting) = self.waiting_mut(call) {
            waiting.dropped = Some(now);
        }
    }

    /// Takes dropped calls whose queue positions a leader on this server kept, also of other servers: it leads no more.
    pub(crate) fn keep(&mut self, waiters: Vec<PresentedWaiter>, now: Instant) {
        for waiter in waiters {
            let waiting = Waiting { waiter, presented: None, ahead: 0, is_to_claim: false, dropped: Some(now) };
            self.0.entry(waiting.waiter.acquire.call).or_insert(waiting);
        }
    }

    /// Forgets the dropped calls whose queue positions are not kept any more.
    pub(crate) fn forget_dropped(&mut self, now: Instant) {
        self.0.retain(|_, waiting| waiting.dropped.is_none_or(|at| now.duration_since(at) < DROP_GRACE));
    }

    /// The waiting calls, in no particular order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = Call> {
        self.0.iter().filter(|(_, waiting)| waiting.dropped.is_none()).map(|(call, _)| *call)
    }

    /// The waiters that this leader has not queued, in their old order, and those that were dropped, as far as it has
    /// told that it understands them. To be presented to it now.
    pub(crate) fn present_to(&mut self, (ballot, told): (Ballot, Features), now: Instant) -> Vec<PresentedWaiter> {
        let is_to_be = |waiting: &Waiting| {
            waiting.waiter.queue_position.0 < ballot
                && Features::of_terms(&waiting.waiter.acquire.terms).are_among(told)
                && waiting
                    .presented
                    .is_none_or(|it| it.to < ballot || now.duration_since(it.last) >= PRESENTED_AGAIN_AFTER)
        };
        let presented = self.0.values_mut().filter(|waiting| is_to_be(waiting)).map(|waiting| {
            let before = waiting.presented.filter(|it| it.to == ballot);
            waiting.presented = Some(Presented { to: ballot, first: before.map_or(now, |it| it.first), last: now });
            PresentedWaiter { is_dropped: waiting.dropped.is_some(), ..waiting.waiter.clone() }
        });
        let mut waiters: Vec<_> = presented.collect();
        waiters.sort_unstable_by_key(|waiter| waiter.queue_position);
        waiters
    }

    /// A moment before the call was first presented to this leader. None if it was not, or waits no more.
    pub(super) fn presented_at(&self, call: Call, ballot: Ballot) -> Option<Instant> {
        self.0.get(&call)?.presented.filter(|it| it.to == ballot).map(|it| it.first)
    }

    /// A claim of this call failed. True if the call waits: then it claims again.
    pub(crate) fn claim_failed(&mut self, call: Call) -> bool {
        self.waiting_mut(call).map(|waiting| waiting.is_to_claim = true).is_some()
    }

    /// The calls whose last claim failed.
    pub(crate) fn take_to_claim(&mut self) -> Vec<Call> {
        let failed = |(call, waiting): (&Call, &mut Waiting)| {
            (std::mem::take(&mut waiting.is_to_claim) && waiting.dropped.is_none()).then_some(*call)
        };
        self.0.iter_mut().filter_map(failed).collect()
    }

    /// The calls that the leader with this ballot has queued.
    pub(crate) fn queued_at(&self, ballot: Ballot) -> Vec<Call> {
        let is_queued = |waiting: &Waiting| waiting.dropped.is_none() && waiting.waiter.queue_position.0 == ballot;
        self.0.iter().filter(|(_, waiting)| is_queued(waiting)).map(|(call, _)| *call).collect()
    }

    /// A call that was presented is queued at this position.
    pub(super) fn queued_again(&mut self, call: Call, queue_position: (Ballot, u64)) {
        if let Some(waiting) = self.0.get_mut(&call) {
            waiting.waiter.queue_position = queue_position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            command::Candidate,
            ids::{CallId, GrantId, LeaseId, RequestId},
            lease::{Extra, Terms},
            name::{Holder, Metadata},
        },
        store::quorum::paxos::ballot::ServerId,
    };
    use uuid::Uuid;

    fn ballot(round: u64) -> Ballot {
        Ballot { round, server: ServerId([1; 12]) }
    }

    /// A call that the leader of the first round has queued.
    fn one_waiter() -> (LocalWaiters, Call) {
        let request = RequestId(Uuid::from_u128(7));
        let call = Call { request, attempt: 1, id: CallId(1) };
        let candidate = Candidate { lease_id: LeaseId(request.0), grant_id: GrantId(request.0), attachment: None };
        let terms = Terms {
            fingerprint: 0,
            ttl: Duration::from_secs(1),
            holder: Holder::default(),
            metadata: Metadata::default(),
            min_token: 0,
            max_hold: None,
            extra: Extra { waiters_max: 1, ..Extra::default() }.boxed(),
            mode: Default::default(),
        };
        let mut it = LocalWaiters::default();
        let at = QueuePosition { ballot: ballot(1), number: 1, ahead: 0 };
        let name = LockName::new("lock").unwrap();
        let queued = Outcome::Acquire(AcquireOutcome::Queued);
        it.acquired(&name, &Acquire { call, terms, wait: true, candidate }, at, &queued);
        (it, call)
    }

    #[test]
    fn a_lease_counts_from_the_first_time_that_its_call_was_presented_to_the_leader() {
        let (mut it, call) = one_waiter();
        let first = Instant::now();
        assert_eq!(it.present_to((ballot(2), Features::OWN), first).len(), 1);
        assert_eq!(it.present_to((ballot(2), Features::OWN), first + PRESENTED_AGAIN_AFTER / 2).len(), 0);
        assert_eq!(it.present_to((ballot(2), Features::OWN), first + PRESENTED_AGAIN_AFTER).len(), 1);
        // The answer to the first one may come only now.
        assert_eq!(it.presented_at(call, ballot(2)), Some(first));
        let later = first + 2 * PRESENTED_AGAIN_AFTER;
        assert_eq!(it.present_to((ballot(3), Features::OWN), later).len(), 1);
        assert_eq!((it.presented_at(call, ballot(3)), it.presented_at(call, ballot(2))), (Some(later), None));
    }

    /// Others may have come to that leader before it.
    #[test]
    fn a_call_that_waits_is_not_bounded_by_its_max_waiters_at_the_next_leader() {
        let (mut it, call) = one_waiter();
        let bound = |acquire: &Acquire| acquire.terms.extra.as_ref().map(|extra| extra.waiters_max);
        assert_eq!(it.get(call).and_then(bound), Some(0));
        let presented = it.present_to((ballot(2), Features::OWN), Instant::now());
        assert_eq!(presented.iter().map(|waiter| bound(&waiter.acquire)).collect::<Vec<_>>(), [Some(0)]);
    }

    #[test]
    fn a_call_that_was_dropped_is_presented_for_as_long_as_its_place_is_kept() {
        let (mut it, call) = one_waiter();
        let dropped = Instant::now();
        it.drop_call(call, dropped);
        assert_eq!((it.get(call), it.ahead(call), it.calls().count()), (None, None, 0), "it does not wait any more");
        assert!(!it.claim_failed(call));
        assert_eq!(it.queued_at(ballot(1)), []);
        it.drop_call(call, dropped + DROP_GRACE / 2);
        let presented = it.present_to((ballot(2), Features::OWN), dropped);
        assert_eq!(
            presented.iter().map(|waiter| (waiter.queue_position.1, waiter.is_dropped)).collect::<Vec<_>>(),
            [(1, true)]
        );
        // The next leader presents it in the order of this one.
        it.queued_again(call, (ballot(2), 7));
        assert_eq!(it.present_to((ballot(2), Features::OWN), dropped + PRESENTED_AGAIN_AFTER).len(), 0);
        it.forget_dropped(dropped + DROP_GRACE - Duration::from_millis(1));
        assert_eq!(it.present_to((ballot(3), Features::OWN), dropped)[0].queue_position, (ballot(2), 7));
        it.forget_dropped(dropped + DROP_GRACE);
        assert_eq!(it.present_to((ballot(4), Features::OWN), dropped).len(), 0);
    }

    #[test]
    fn a_claim_that_failed_is_repeated_once_while_the_call_waits() {
        let (mut it, call) = one_waiter();
        assert!(it.claim_failed(call));
        assert_eq!((it.take_to_claim(), it.take_to_claim()), (vec![call], vec![]));
        it.remove(call);
        assert!(!it.claim_failed(call));
        assert_eq!(it.take_to_claim(), []);
    }
}
