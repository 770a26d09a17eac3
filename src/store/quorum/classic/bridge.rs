//! What a leader knows of classic keys: the steps that are under way, and what waits for each of them.

use crate::{
    domain::{name::LockName, outcome::ClassicHold, time::StoreTime},
    store::{
        partition::HashedName,
        quorum::paxos::{
            ballot::{Ballot, Position},
            classic::{KeyState, Step, Wish},
        },
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// How often it is looked whether a classic client still has a lock that somebody waits for.
const POLL_PERIOD: Duration = Duration::from_secs(1);
/// With so many steps under way no key is settled: commands come first.
const SETTLED_AT_A_TIME: usize = 64;

/// A lock with a step under way.
struct Lane<W> {
    hash: u64,
    step: Arc<Step>,
    /// When it was made, on the server's clock.
    begun: StoreTime,
    /// What it is for.
    work: W,
    /// Whether that may be a grant.
    may_grant: bool,
    /// What comes after that.
    behind: VecDeque<W>,
    /// Whether the key is to be settled once that is done.
    is_due: bool,
}

/// A lock that a classic client has, and that somebody waits for.
struct Theirs {
    hash: u64,
    hold: ClassicHold,
}

/// A step that was answered.
pub(crate) struct Stepped<W> {
    pub(crate) lock: HashedName,
    pub(crate) step: Arc<Step>,
    /// What it was for.
    pub(crate) work: W,
    /// What came for the lock meanwhile.
    pub(crate) behind: VecDeque<W>,
}

/// The classic keys of a partition, as its leader knows them. `W` is the work that waits for steps.
pub(crate) struct Bridge<W> {
    prefix: Arc<str>,
    /// The number of the last step.
    steps: u64,
    lanes: HashMap<LockName, Lane<W>>,
    /// How many of them have a step for what may be a grant.
    granting: usize,
    /// The locks whose steps are not answered, by the numbers of these.
    under_way: BTreeMap<u64, LockName>,
    /// Those that are to be sent.
    unsent: BTreeSet<u64>,
    /// Locks whose keys are to be settled.
    due: VecDeque<HashedName>,
    theirs: HashMap<LockName, Theirs>,
    /// When they were polled last, on the server's clock.
    polled_at: StoreTime,
}

impl<W> Bridge<W> {
    /// A leader that shares locks as keys with this prefix, and has the keys of these locks settled first: the leader
    /// before may not have deleted them.
    pub(crate) fn new(prefix: Arc<str>, due: impl IntoIterator<Item = HashedName>) -> Self {
        Self {
            prefix,
            steps: 0,
            lanes: HashMap::new(),
            granting: 0,
            under_way: BTreeMap::new(),
            unsent: BTreeSet::new(),
            due: due.into_iter().collect(),
            theirs: HashMap::new(),
            polled_at: StoreTime::default(),
        }
    }

    /// With the same prefix, for another lead.
    pub(crate) fn anew(&self) -> Self {
        Self::new(Arc::clone(&self.prefix), [])
    }

    fn key(&self, name: &LockName) -> String {
        format!("{}{}", self.prefix, name.as_str())
    }

    /// The classic client that has the lock, as far as it is known.
    pub(crate) fn hold(&self, name: &LockName) -> Option<ClassicHold> {
        self.theirs.get(name).map(|theirs| theirs.hold)
    }

    /// The reason of what a classic client ends.
    pub(crate) fn reason(&self, name: &LockName) -> String {
        format!("a classic client has {}", self.key(name))
    }

    /// Whether steps are answered, as far as there are any.
    pub(crate) fn is_heard(&self, now: StoreTime, silence_max: Duration) -> bool {
        let oldest = self.under_way.first_key_value().and_then(|(_, name)| self.lanes.get(name));
        oldest.is_none_or(|lane| now.since(lane.begun) < silence_max)
    }

    /// How many steps for what may be grants were begun and are not answered.
    pub(crate) fn grants_under_way(&self) -> usize {
        self.granting
    }

    /// Whether there is something to do.
    pub(crate) fn is_busy(&self) -> bool {
        !self.lanes.is_empty() || !self.due.is_empty()
    }

    /// Whether there may be a step to be sent.
    pub(crate) fn has_steps(&self) -> bool {
        !self.unsent.is_empty() || !self.due.is_empty()
    }

    /// What was sent may not have arrived.
    pub(crate) fn reconnected(&mut self) {
        self.unsent.extend(self.under_way.keys());
    }

    /// Puts work behind the step that is under way for this lock. Returns the work if there is none.
    pub(crate) fn queue(&mut self, name: &LockName, work: W) -> Option<W> {
        let Some(lane) = self.lanes.get_mut(name) else { return Some(work) };
        lane.behind.push_back(work);
        None
    }

    /// Begins a step for this work, at a lock that has none under way.
    pub(crate) fn begin(
        &mut self,
        HashedName { name, hash }: HashedName,
        wish: Wish,
        (work, may_grant, behind): (W, bool, VecDeque<W>),
        (ballot, now): (Ballot, StoreTime),
    ) {
        self.steps += 1;
        self.granting += usize::from(may_grant);
        let (number, key) = (self.steps, self.key(&name).into_bytes().into());
        let step = Arc::new(Step { position: Position { ballot, seq: number }, key, wish });
        self.under_way.insert(number, name.clone());
        self.unsent.insert(number);
        self.lanes.insert(name, Lane { hash, step, begun: now, work, may_grant, behind, is_due: false });
    }

    /// The next step to be sent, and its number.
    pub(crate) fn next(&mut self) -> Option<(u64, Arc<Step>)> {
        let number = self.unsent.pop_first()?;
        let step = &self.lanes.get(self.under_way.get(&number)?)?.step;
        Some((number, Arc::clone(step)))
    }

    /// Takes what a step has found. `None` if it was answered before, because it was sent again.
    pub(crate) fn stepped(&mut self, number: u64, state: Result<KeyState, ()>) -> Option<Stepped<W>> {
        let name = self.under_way.remove(&number)?;
        self.unsent.remove(&number);
        let Lane { hash, step, work, may_grant, behind, is_due, .. } = self.lanes.remove(&name)?;
        self.granting -= usize::from(may_grant);
        let lock = HashedName { name, hash };
        if is_due {
            self.due.push_back(lock.clone());
        }
        match state {
            Ok(KeyState::Theirs(ms)) => {
                let hold = ClassicHold { left: ms.map(Duration::from_millis) };
                self.theirs.insert(lock.name.clone(), Theirs { hash, hold });
            }
            Ok(KeyState::Free | KeyState::Ours) => drop(self.theirs.remove(&lock.name)),
            Err(()) => {}
        }
        Some(Stepped { lock, step, work, behind })
    }

    /// Has a key settled later.
    pub(crate) fn settle_later(&mut self, lock: HashedName) {
        self.due.push_back(lock);
    }

    /// A lock whose key is to be settled, unless there is too much under way.
    pub(crate) fn take_due(&mut self) -> Option<HashedName> {
        if self.under_way.len() < SETTLED_AT_A_TIME { self.due.pop_front() } else { None }
    }

    /// Whether a step is under way for this lock. If so, its key is settled after it.
    pub(crate) fn settles_behind(&mut self, name: &LockName) -> bool {
        self.lanes.get_mut(name).map(|lane| lane.is_due = true).is_some()
    }

    /// Nobody waits for this lock, or it has a lease: it is not polled.
    pub(crate) fn forget_theirs(&mut self, name: &LockName) {
        self.theirs.remove(name);
    }

    /// The locks of classic clients, if it is time to look whether they are free.
    pub(crate) fn take_polled(&mut self, now: StoreTime) -> Vec<HashedName> {
        if now.since(self.polled_at) < POLL_PERIOD {
            return Vec::new();
        }
        self.polled_at = now;
        self.theirs.iter().map(|(name, it)| HashedName { name: name.clone(), hash: it.hash }).collect()
    }

    /// The lead ends. Returns what waited, and was not begun.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = W> + use<W> {
        self.under_way.clear();
        self.unsent.clear();
        self.due.clear();
        self.theirs.clear();
        self.granting = 0;
        let lanes = std::mem::take(&mut self.lanes).into_values();
        lanes.flat_map(|lane| std::iter::once(lane.work).chain(lane.behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that settle or poll keys are no grants: they would keep acquires out for as long as there are any.
    #[test]
    fn only_steps_for_what_may_be_a_grant_count_as_one() {
        let mut bridge = Bridge::new("classic:".into(), []);
        let begin = |bridge: &mut Bridge<&'static str>, name: &str, may_grant| {
            let lock = HashedName { name: LockName::new(name).unwrap(), hash: 0 };
            bridge.begin(lock, Wish::Look, ("work", may_grant, VecDeque::new()), Default::default());
        };
        begin(&mut bridge, "a", true);
        begin(&mut bridge, "b", false);
        begin(&mut bridge, "c", true);
        assert_eq!(bridge.grants_under_way(), 2);
        assert!(bridge.stepped(1, Ok(KeyState::Ours)).is_some() && bridge.stepped(1, Err(())).is_none());
        assert!(bridge.stepped(2, Err(())).is_some());
        assert_eq!(bridge.grants_under_way(), 1);
        assert_eq!((bridge.end().count(), bridge.grants_under_way()), (1, 0));
    }
}
