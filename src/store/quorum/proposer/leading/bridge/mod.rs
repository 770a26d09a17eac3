//! Sharing locks with classic clients: a lock `NAME` is theirs as the key `PREFIXNAME` of the only node.
//!
//! A turn that may grant or extend a lease comes after a step at the lock's classic key (`wishes.rs` says which): the
//! node has set the key for us, or a classic client has it, and then the rules refuse. So no lease begins, and none is
//! told to last, that the key does not keep classic clients out of. What a turn leaves behind (no lease, or an offer)
//! is written to the key when a majority has the turn's batch: of a batch that is lost the lease goes on.
//!
//! Steps may arrive in any order, so there is one at a time for each lock, and what else comes for the lock waits
//! behind it. Nothing is done on doubt: a step that is not answered is sent again, and its command expires meanwhile.

mod settle;
#[cfg(test)]
mod tests;
mod wishes;

use super::{Job, Lead, Pending};
use crate::{
    domain::{command::Command, name::LockName, outcome::ClassicHold, time::StoreTime},
    store::{
        partition::Slot,
        quorum::{
            paxos::{
                ballot::{Position, ServerId},
                classic::{KeyState, Step, Wish},
                leader::{Heard, Purpose},
                message::{Answer, Request},
            },
            proposer::{delivery::Exit, route::HashedName},
            rpc::messages::{PresentedWaiter, Refusal},
        },
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// What there is to do with a lock.
pub(super) enum Work {
    /// A command.
    Run(Job),
    /// A waiter that a server presents.
    Queue(ServerId, PresentedWaiter),
    /// A classic client has the lock and somebody waits: whether it is free now.
    Poll,
    /// The key is to say what the lock says.
    Settle,
}

/// A lock with a step under way.
struct Lane {
    hash: u64,
    step: Arc<Step>,
    /// When it was made, on the server's clock.
    begun: StoreTime,
    /// What it is for.
    work: Work,
    /// What comes after that.
    behind: VecDeque<Work>,
    /// Whether the key is to be settled once that is done.
    is_due: bool,
}

/// A lock that a classic client has, and that somebody waits for.
struct Theirs {
    hash: u64,
    hold: ClassicHold,
}

/// What a leader knows of classic keys.
pub(super) struct Bridge {
    prefix: Arc<str>,
    /// The number of the last step.
    steps: u64,
    lanes: HashMap<LockName, Lane>,
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

impl Bridge {
    fn new(prefix: Arc<str>) -> Self {
        Self {
            prefix,
            steps: 0,
            lanes: HashMap::new(),
            under_way: BTreeMap::new(),
            unsent: BTreeSet::new(),
            due: VecDeque::new(),
            theirs: HashMap::new(),
            polled_at: StoreTime::default(),
        }
    }

    /// With the same prefix, for another lead.
    pub(super) fn anew(&self) -> Box<Self> {
        Box::new(Self::new(Arc::clone(&self.prefix)))
    }

    fn key(&self, name: &LockName) -> String {
        format!("{}{}", self.prefix, name.as_str())
    }

    /// The classic client that has the lock, as far as it is known.
    pub(super) fn hold(&self, name: &LockName) -> Option<ClassicHold> {
        self.theirs.get(name).map(|theirs| theirs.hold)
    }

    /// The reason of what a classic client ends.
    pub(super) fn reason(&self, name: &LockName) -> String {
        format!("a classic client has {}", self.key(name))
    }

    /// Whether steps are answered, as far as there are any.
    pub(super) fn is_heard(&self, now: StoreTime, silence_max: Duration) -> bool {
        let oldest = self.under_way.first_key_value().and_then(|(_, name)| self.lanes.get(name));
        oldest.is_none_or(|lane| now.since(lane.begun) < silence_max)
    }

    /// Whether there is something to do.
    pub(super) fn is_busy(&self) -> bool {
        !self.lanes.is_empty() || !self.due.is_empty()
    }

    /// Whether there may be a step to be sent.
    pub(super) fn has_steps(&self) -> bool {
        !self.unsent.is_empty() || !self.due.is_empty()
    }

    /// What was sent may not have arrived.
    pub(super) fn reconnected(&mut self) {
        self.unsent.extend(self.under_way.keys());
    }

    /// Ends. What waited was not begun.
    pub(super) fn refuse(&mut self, time: StoreTime, exit: &Exit<'_>) {
        self.under_way.clear();
        self.unsent.clear();
        self.due.clear();
        self.theirs.clear();
        for lane in std::mem::take(&mut self.lanes).into_values() {
            for work in std::iter::once(lane.work).chain(lane.behind) {
                if let Work::Run(job) = work {
                    exit.refuse(job.reply_to, time, Refusal::NotLeader);
                }
            }
        }
    }
}

impl Lead {
    /// Shares its locks with classic clients, whose keys begin with this prefix.
    pub(crate) fn beside_classic(mut self, prefix: Option<&Arc<str>>) -> Self {
        self.bridge = prefix.map(|prefix| {
            let mut bridge = Box::new(Bridge::new(Arc::clone(prefix)));
            // The leader before may not have deleted their keys.
            let hashed = |slot: &Slot<_>| HashedName { name: slot.name.clone(), hash: slot.hash() };
            bridge.due.extend(self.locks.without_lease().map(hashed));
            bridge
        });
        self
    }

    /// With a bridge: does what there is to do with a lock, after a step if it needs one.
    pub(super) fn enter(&mut self, lock: &HashedName, work: Work, now: StoreTime, exit: &Exit<'_>) {
        let Some(bridge) = &mut self.bridge else { return };
        if let Some(lane) = bridge.lanes.get_mut(&lock.name) {
            lane.behind.push_back(work);
            return;
        }
        match self.wish(lock, &work, now) {
            None => self.perform(lock, work, now, exit),
            Some(wish) => self.begin_step(lock.clone(), wish, (work, VecDeque::new()), now),
        }
    }

    fn begin_step(
        &mut self,
        HashedName { name, hash }: HashedName,
        wish: Wish,
        (work, behind): (Work, VecDeque<Work>),
        now: StoreTime,
    ) {
        let ballot = self.ballot;
        let Some(bridge) = &mut self.bridge else { return };
        bridge.steps += 1;
        let (number, key) = (bridge.steps, bridge.key(&name).into_bytes().into());
        let step = Arc::new(Step { position: Position { ballot, seq: number }, key, wish });
        bridge.under_way.insert(number, name.clone());
        bridge.unsent.insert(number);
        bridge.lanes.insert(name, Lane { hash, step, begun: now, work, behind, is_due: false });
    }

    /// The next step to be sent.
    pub(super) fn next_step(&mut self, now: StoreTime) -> Option<(Purpose, Request)> {
        // Before its first batch is there, the node may not know the leader.
        if !self.bridge.as_ref().is_some_and(|bridge| bridge.has_steps()) || self.leader.committed() == 0 {
            return None;
        }
        self.settle_due(now);
        let bridge = self.bridge.as_mut()?;
        let number = bridge.unsent.pop_first()?;
        let step = &bridge.lanes.get(bridge.under_way.get(&number)?)?.step;
        Some((Purpose::Classic { number }, Request::Classic(Arc::clone(step))))
    }

    /// Takes a node's answer, of a step too, and lets out what a majority has.
    pub(crate) fn heard(
        &mut self,
        node: usize,
        purpose: Purpose,
        answer: Answer,
        now: StoreTime,
        exit: &Exit<'_>,
    ) -> Heard {
        let Purpose::Classic { number } = purpose else { return self.answered(node, purpose, answer, exit) };
        let state = if let Answer::Classic(state) = &answer { Ok(*state) } else { Err(()) };
        self.stepped(number, state, now, exit);
        if state.is_ok() { Heard::Leads } else { self.leader.answered(node, purpose, answer) }
    }

    /// Goes on after a step: with what it was for, and with what came behind.
    fn stepped(&mut self, number: u64, state: Result<KeyState, ()>, now: StoreTime, exit: &Exit<'_>) {
        let Some(bridge) = &mut self.bridge else { return };
        // The second answer to a step that was sent again.
        let Some(name) = bridge.under_way.remove(&number) else { return };
        bridge.unsent.remove(&number);
        let Some(Lane { hash, step, work, mut behind, is_due, .. }) = bridge.lanes.remove(&name) else { return };
        let lock = HashedName { name, hash };
        if is_due {
            bridge.due.push_back(lock.clone());
        }
        match state {
            Ok(KeyState::Theirs(ms)) => {
                let hold = ClassicHold { left: ms.map(Duration::from_millis) };
                bridge.theirs.insert(lock.name.clone(), Theirs { hash, hold });
            }
            Ok(KeyState::Free | KeyState::Ours) => drop(bridge.theirs.remove(&lock.name)),
            Err(()) => {}
        }
        match (state, work) {
            (Ok(_), work) => self.perform(&lock, work, now, exit),
            // The node did nothing, and neither did the rules.
            (Err(()), Work::Run(job)) => exit.refuse(job.reply_to, self.time.at(now), Refusal::Unheard),
            (Err(()), Work::Queue(..) | Work::Poll | Work::Settle) => {}
        }
        self.after_step(&lock, &step.wish, state, now);
        while let Some(work) = behind.pop_front() {
            match self.wish(&lock, &work, now) {
                None => self.perform(&lock, work, now, exit),
                Some(wish) => return self.begin_step(lock, wish, (work, behind), now),
            }
        }
    }

    /// What the rules say to work whose step is done, or that needs none.
    fn perform(&mut self, lock: &HashedName, work: Work, now: StoreTime, exit: &Exit<'_>) {
        match work {
            Work::Run(job) => {
                let is_cleanup = matches!(job.command, Command::DropCall(_));
                self.run_now(job, now, exit);
                if is_cleanup {
                    // The step of its command may have been the last that came of it.
                    self.settle_after_batch(lock, now);
                }
            }
            Work::Queue(server, waiter) => self.queue_now(server, waiter, lock.hash, now, exit),
            Work::Poll => self.apply_time_to(lock, now, exit),
            Work::Settle => {
                // The offer that the key was for stands beside a classic client.
                if self.bridge.as_ref().is_some_and(|bridge| bridge.hold(&lock.name).is_some()) {
                    self.apply_time_to(lock, now, exit);
                }
            }
        }
    }

    /// Has the key say what the lock says, once a majority has the next batch.
    fn settle_after_batch(&mut self, lock: &HashedName, now: StoreTime) {
        self.open_at(now);
        self.open.push(Pending::Key(lock.clone()));
    }
}
