//! The locks of a leader that classic clients share: their turns wait for steps at classic keys
//! ([`classic`](crate::store::quorum::classic)).

#[cfg(test)]
mod tests;

use super::{Job, Lead, Pending};
use crate::{
    domain::{
        command::Command,
        name::LockName,
        outcome::{ClassicHold, LockView},
        time::StoreTime,
        token::FencingToken,
    },
    store::{
        partition::{HashedName, Slot},
        quorum::{
            classic::{self, Stepped, wishes},
            paxos::{
                ballot::ServerId,
                classic::{KeyState, Wish},
                leader::{Heard, Purpose},
                message::{Answer, Request},
            },
            proposer::delivery::Exit,
            rpc::messages::{PresentedWaiter, Refusal},
        },
    },
};
use std::{collections::VecDeque, sync::Arc};

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

pub(super) type Bridge = classic::Bridge<Work>;

/// A lock before its turn, if it is shared with classic clients.
pub(super) struct Shared<'a> {
    bridge: &'a Bridge,
    /// The classic client that has it.
    pub(super) hold: Option<ClassicHold>,
    lease: Option<FencingToken>,
    offered_until: Option<StoreTime>,
}

impl<'a> Shared<'a> {
    pub(super) fn before<N>(bridge: &'a Bridge, slot: &Slot<N>) -> Self {
        let lease = slot.lock.lease().map(|lease| lease.token);
        Self { bridge, hold: bridge.hold(&slot.name), lease, offered_until: slot.lock.offered_until() }
    }

    /// The reason of what the turn ends, if a classic client ends it.
    pub(super) fn reason(&self, name: &LockName) -> Option<String> {
        self.hold.map(|_| self.bridge.reason(name))
    }

    /// What a majority is to have before the key is settled, if the turn left no lease and changed something.
    pub(super) fn after<N>(&self, slot: &Slot<N>) -> Option<Pending> {
        let is_left =
            slot.lock.lease().is_none() && (self.lease.is_some() || self.offered_until != slot.lock.offered_until());
        is_left.then(|| Pending::Key(slot.hashed_name()))
    }
}

impl Lead {
    /// Shares its locks with classic clients, whose keys begin with this prefix.
    pub(crate) fn beside_classic(mut self, prefix: Option<&Arc<str>>) -> Self {
        self.bridge = prefix
            .map(|prefix| Box::new(Bridge::new(Arc::clone(prefix), self.locks.without_lease().map(Slot::hashed_name))));
        self
    }

    /// With a bridge: does what there is to do with a lock, after a step if it needs one.
    pub(super) fn enter(&mut self, lock: &HashedName, work: Work, now: StoreTime, exit: &Exit<'_>) {
        let Some(work) = self.bridge.as_mut().and_then(|bridge| bridge.queue(&lock.name, work)) else { return };
        match self.wish(lock, &work, now) {
            None => self.perform(lock, work, now, exit),
            Some(wish) => self.begin_step(lock.clone(), wish, (work, VecDeque::new()), now),
        }
    }

    fn begin_step(&mut self, lock: HashedName, wish: Wish, (work, behind): (Work, VecDeque<Work>), now: StoreTime) {
        let may_grant = matches!(&work, Work::Run(job) if job.command.is_acquire());
        if let Some(bridge) = &mut self.bridge {
            bridge.begin(lock, wish, (work, may_grant, behind), (self.ballot, now));
        }
    }

    /// The step that this work needs, if it needs one.
    fn wish(&self, lock: &HashedName, work: &Work, now: StoreTime) -> Option<Wish> {
        let now = self.time.at(now);
        let lock = self.locks.find(&lock.name, lock.hash).map(|slot| &slot.lock);
        match work {
            // It comes too late, and is told so.
            Work::Run(job) if job.not_after < now => None,
            Work::Run(job) => wishes::of_command(&job.command, lock, now),
            // It is granted nothing.
            Work::Queue(_, waiter) if waiter.is_dropped => None,
            Work::Queue(_, waiter) => wishes::of_acquire(&waiter.acquire, lock, now),
            // It is for the offer that this makes.
            Work::Poll => wishes::polled(lock, now),
            Work::Settle => Some(wishes::settled(lock, now)).filter(|wish| *wish != Wish::Look),
        }
    }

    /// The next step to be sent.
    pub(super) fn next_step(&mut self, now: StoreTime) -> Option<(Purpose, Request)> {
        // Before its first batch is there, the node may not know the leader.
        if !self.bridge.as_ref().is_some_and(|bridge| bridge.has_steps()) || self.leader.committed() == 0 {
            return None;
        }
        while let Some(due) = self.bridge.as_mut().and_then(|bridge| bridge.take_due()) {
            self.step_alone(due, Work::Settle, now);
        }
        let (number, step) = self.bridge.as_mut()?.next()?;
        Some((Purpose::Classic { number }, Request::Classic(step)))
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
        let Purpose::Classic { number } = purpose else { return self.answered(node, purpose, answer, now, exit) };
        let state = if let Answer::Classic(state) = &answer { Ok(*state) } else { Err(()) };
        self.stepped(number, state, now, exit);
        if state.is_ok() { Heard::Leads } else { self.leader.answered(node, purpose, answer) }
    }

    /// Goes on after a step: with what it was for, and with what came behind.
    fn stepped(&mut self, number: u64, state: Result<KeyState, ()>, now: StoreTime, exit: &Exit<'_>) {
        let stepped = self.bridge.as_mut().and_then(|bridge| bridge.stepped(number, state));
        let Some(Stepped { lock, step, work, mut behind }) = stepped else { return };
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

    /// After a step and its turn: whether the key says what the lock says, and whether the lock is to be polled.
    fn after_step(&mut self, hashed: &HashedName, wish: &Wish, state: Result<KeyState, ()>, now: StoreTime) {
        let time = self.time.at(now);
        let lock = self.locks.find(&hashed.name, hashed.hash).map(|slot| &slot.lock);
        let is_wanted = wishes::is_wanted(lock, time);
        let is_wrong = match wish {
            Wish::Hold { value, .. } if matches!(state, Ok(KeyState::Ours)) => !wishes::is_right(value, lock, time),
            _ => false,
        };
        if let Some(bridge) = self.bridge.as_mut().filter(|_| !is_wanted) {
            bridge.forget_theirs(&hashed.name);
        }
        if is_wrong {
            self.settle_after_batch(hashed, now);
        }
    }

    /// Has the key say what the lock says, once a majority has the next batch.
    fn settle_after_batch(&mut self, lock: &HashedName, now: StoreTime) {
        self.open_at(now);
        self.open.push(Pending::Key(lock.clone()));
    }

    /// Begins the step that this work needs, if it needs one. If another one is under way, the key is settled after it.
    fn step_alone(&mut self, lock: HashedName, work: Work, now: StoreTime) {
        let Some(bridge) = &mut self.bridge else { return };
        if !bridge.settles_behind(&lock.name)
            && let Some(wish) = self.wish(&lock, &work, now)
        {
            self.begin_step(lock, wish, (work, VecDeque::new()), now);
        }
    }

    /// Looks whether classic clients still have what somebody waits for.
    pub(super) fn poll_classic(&mut self, now: StoreTime) {
        let polled = self.bridge.as_mut().map(|bridge| bridge.take_polled(now));
        for lock in polled.into_iter().flatten() {
            if self.wish(&lock, &Work::Poll, now).is_some() {
                self.step_alone(lock, Work::Poll, now);
            } else if let Some(bridge) = &mut self.bridge {
                bridge.forget_theirs(&lock.name);
            }
        }
    }

    /// Takes the lock's classic client into account, if there is one, or offers the lock.
    fn apply_time_to(&mut self, lock: &HashedName, now: StoreTime, exit: &Exit<'_>) {
        // A lock without state is not made for this.
        if self.locks.find(&lock.name, lock.hash).is_some() {
            self.begin_turn(now);
            self.apply_time(lock, now, exit);
        }
    }

    /// A view with the classic client that has the lock, as far as it is known.
    pub(super) fn view_beside_classic(&self, lock: &HashedName, view: LockView) -> LockView {
        let classic = self.bridge.as_ref().and_then(|bridge| bridge.hold(&lock.name));
        LockView { current: view.current.filter(|_| classic.is_none()), classic, ..view }
    }

    /// This server leads no more: refuses what waited for steps.
    pub(super) fn refuse_stepped(&mut self, time: StoreTime, exit: &Exit<'_>) {
        let ended = self.bridge.as_mut().map(|bridge| bridge.end());
        for work in ended.into_iter().flatten() {
            if let Work::Run(job) = work {
                exit.refuse(job.reply_to, time, Refusal::NotLeader);
            }
        }
    }
}
