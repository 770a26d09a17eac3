//! The binding of a request to its calls: the attempt that gets the answer.

use super::{
    ids::{Call, CallId, ReplicaId},
    limits::CALLS_PER_ATTEMPT_MAX,
};
use smallvec::{SmallVec, smallvec};

/// Which transmission of a request counts, and how many calls carry it.
///
/// A server cannot tell a cancelled call from a lost one, so the newest attempt is bound and older ones are not heard
/// any more. Calls of equal attempts share the binding, because a proxy may repeat a call that its client sent once.
/// Each is known by its id, so that a cleanup takes away the call that was dropped and no other, however often and
/// however late it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    attempt: u32,
    calls: Calls,
    replica: ReplicaId,
}

/// The calls of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calls(SmallVec<[CallId; 2]>);

impl Calls {
    /// Stands for calls that are not remembered one by one. No call has this id, so no cleanup takes it away.
    const MANY: CallId = CallId(0);

    /// Adds a call. Beyond [`CALLS_PER_ATTEMPT_MAX`] those before it are forgotten but for the fact that there were
    /// any: the binding then outlasts every cleanup, and a lease lasts for its TTL, which is safe.
    fn add(&mut self, call: CallId) {
        if self.0.contains(&call) {
            return;
        }
        if self.0.len() >= CALLS_PER_ATTEMPT_MAX {
            self.0.clear();
            // mutant: calls beyond the bound forgotten
            self.0.push(Self::MANY);
        }
        self.0.push(call);
    }

    /// Takes a call away. True if it was there.
    fn remove(&mut self, call: CallId) -> bool {
        let index = self.0.iter().position(|other| *other == call && call != Self::MANY);
        index.map(|index| self.0.remove(index)).is_some()
    }
}

/// The result of unbinding a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbound {
    /// It was the last one of the attempt that is bound.
    Last,
    /// Others are still bound.
    NotLast,
    /// It is not bound: it never was, it no longer is, or it belongs to another attempt. Nothing was changed.
    NotBound,
}

/// The result of binding a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is bound, alone or beside calls of the same number.
    Yes,
    /// It is bound, and the attempt of this number, which waited on this replica, no longer is.
    TookOver(u32, ReplicaId),
    /// A newer attempt is bound. Nothing was changed.
    Overtaken,
}

impl Binding {
    /// The binding of a request's first call.
    pub fn first(call: Call, replica: ReplicaId) -> Self {
        Self { attempt: call.attempt, calls: Calls(smallvec![call.id]), replica }
    }

    /// A binding of these calls, as [`Binding::calls`] gave them. None if there are too many.
    pub fn kept(attempt: u32, calls: impl IntoIterator<Item = CallId>, replica: ReplicaId) -> Option<Self> {
        let calls = Calls(calls.into_iter().take(CALLS_PER_ATTEMPT_MAX + 1).collect());
        (calls.0.len() <= CALLS_PER_ATTEMPT_MAX).then_some(Self { attempt, calls, replica })
    }

    /// The calls that are bound.
    pub fn calls(&self) -> &[CallId] {
        &self.calls.0
    }

    /// The number of the attempt that is bound.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The server replica that its calls wait on; of several, the one that came last.
    pub const fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Its calls wait on this replica from now on.
    pub fn move_to(&mut self, replica: ReplicaId) {
        self.replica = replica;
    }

    /// Binds a further call.
    pub fn bind(&mut self, call: Call, replica: ReplicaId) -> Bound {
        match call.attempt.cmp(&self.attempt) {
            // mutant: overtaken attempt re-binds
            std::cmp::Ordering::Less => Bound::Overtaken,
            std::cmp::Ordering::Equal => {
                self.calls.add(call.id);
                self.replica = replica;
                Bound::Yes
            }
            std::cmp::Ordering::Greater => {
                let before = Bound::TookOver(self.attempt, self.replica);
                *self = Self::first(call, replica);
                before
            }
        }
    }

    /// Takes a call away. Only when the last one goes may its cleanup act.
    pub fn unbind(&mut self, call: Call) -> Unbound {
        // mutant: older attempt unbinds
        if call.attempt != self.attempt
            // mutant: cleanup of a call that was never bound
            || !self.calls.remove(call.id)
        {
            Unbound::NotBound
        } else if self.is_bound() {
            Unbound::NotLast
        } else {
            Unbound::Last
        }
    }

    /// Whether any call is bound.
    pub fn is_bound(&self) -> bool {
        !self.calls.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RequestId;
    use uuid::Uuid;

    const ONE: ReplicaId = ReplicaId(Uuid::from_u128(1));
    const TWO: ReplicaId = ReplicaId(Uuid::from_u128(2));

    fn call(attempt: u32, id: u64) -> Call {
        Call { request: RequestId(Uuid::nil()), attempt, id: CallId(id) }
    }

    #[test]
    fn the_newest_attempt_is_bound_and_equal_ones_share_it() {
        let mut binding = Binding::first(call(1, 1), ONE);
        assert_eq!(binding.bind(call(1, 2), TWO), Bound::Yes);
        assert_eq!(binding.unbind(call(1, 1)), Unbound::NotLast, "another call of attempt 1 is left");
        assert_eq!(binding.bind(call(3, 3), ONE), Bound::TookOver(1, TWO));
        assert_eq!(binding.bind(call(2, 4), TWO), Bound::Overtaken);
        assert_eq!(binding.unbind(call(1, 2)), Unbound::NotBound, "an overtaken attempt cleans nothing up");
        assert_eq!(binding.unbind(call(3, 3)), Unbound::Last);
        assert_eq!(binding.unbind(call(3, 3)), Unbound::NotBound, "a cleanup acts once");
        assert!(!binding.is_bound());
        assert_eq!(binding.bind(call(3, 5), TWO), Bound::Yes, "a retry that does not count binds again");
        assert!(binding.is_bound());
    }

    #[test]
    fn a_cleanup_takes_away_its_own_call_and_no_other() {
        let mut binding = Binding::first(call(1, 1), ONE);
        assert_eq!(binding.unbind(call(1, 2)), Unbound::NotBound, "of the same attempt, through the same server");
        assert!(binding.is_bound());
        assert_eq!(binding.bind(call(1, 1), ONE), Bound::Yes);
        assert_eq!(binding.unbind(call(1, 1)), Unbound::Last, "bound twice, a call is one call");
    }

    #[test]
    fn calls_that_are_not_remembered_stay_bound() {
        let mut binding = Binding::first(call(1, 1), ONE);
        let many = u64::try_from(CALLS_PER_ATTEMPT_MAX).unwrap() + 1;
        for id in 2..=many {
            binding.bind(call(1, id), ONE);
        }
        for id in 0..=many {
            assert_ne!(binding.unbind(call(1, id)), Unbound::Last);
        }
        assert!(binding.is_bound());
        binding.bind(call(2, 1), ONE);
        assert_eq!(binding.unbind(call(2, 1)), Unbound::Last);
    }
}
