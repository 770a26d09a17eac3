//! The store: commands in, outcomes out.

use super::{
    ballot::ServerId,
    node::Mark,
    nodes::Carrier,
    share::{Place, Share},
};
use crate::{
    clock::Clock,
    domain::{
        command::{Acquire, Command},
        ids::Call,
        limits::{Limits, MIN_TOKEN_AHEAD_MAX},
        name::LockName,
        outcome::AcquireOutcome,
    },
    store::{
        Answer, Notices, Page, Store, StoreError, Timed,
        chores::{Chore, Chores, DoChore},
        partition::SLOTS_PER_PAGE,
    },
    sync::{Mutex, Notify},
};
use futures_util::future::{join, join_all, try_join_all};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use uuid::Uuid;

/// How often a server looks after its partitions: whether one is not led, or has nothing to write.
const TEND_PERIOD: Duration = Duration::from_millis(100);

/// How long a caller waits for a majority. After that the outcome is unknown. Long enough for a node's connection to be
/// replaced meanwhile.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Locks in partitions. Each partition is led by a server and kept by the nodes.
pub struct QuorumStore<C> {
    pub(super) carrier: C,
    pub(super) mark: Mark,
    pub(super) shares: Box<[Mutex<Share>]>,
    /// Wakes the task of each node: there may be requests for it.
    pub(super) wake: Box<[Notify]>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) notices: Arc<dyn Notices>,
    chores: Chores,
}

/// An acquire in flight. Dropped so, or with an unknown outcome, it is cleaned up.
struct Asking<'a> {
    chores: &'a Chores,
    name: &'a LockName,
    call: Call,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.chores.add(Chore(self.name.clone(), Command::DropCall(self.call)));
        }
    }
}

impl<C: Carrier> QuorumStore<C> {
    /// A store of the cluster that `mark` describes, which leads nothing yet: [`Self::run`] asks for the lead.
    pub fn new(carrier: C, mark: Mark, clock: Arc<dyn Clock>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        let me = ServerId(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 12]));
        let nodes = mark.members.len();
        let share = |_| Mutex::new(Share::new(me, nodes, limits.waiters_per_lock));
        Self {
            shares: (0..mark.partitions).map(share).collect(),
            wake: (0..nodes).map(|_| Notify::new()).collect(),
            carrier,
            mark,
            clock,
            notices,
            chores: Chores::default(),
        }
    }

    /// Leads the partitions. Never ends; one task is to poll it for as long as the store is used.
    pub async fn run(&self) {
        let nodes = join_all((0..self.mark.members.len()).map(|node| self.serve_node(node)));
        join(join(nodes, self.tend()), self.chores.run(self)).await;
    }

    /// Whether each partition is led, and its leader hears a majority of the nodes, as far as this server knows.
    pub fn is_ready(&self) -> bool {
        let now = self.clock.now();
        self.shares.iter().all(|share| share.lock().lead().is_some_and(|lead| lead.is_heard(now)))
    }

    /// Resolves when nothing that was posted is left to do.
    pub async fn chores_done(&self) {
        self.chores.done().await;
    }

    /// Asks for the lead of partitions, applies the time to locks, and writes empty batches.
    async fn tend(&self) {
        loop {
            while self.tend_once() {
                tokio::task::yield_now().await;
            }
            let now = self.clock.now();
            let due = self.shares.iter().filter_map(|share| share.lock().lead()?.next_due()).min();
            let left = due.map_or(TEND_PERIOD, |due| due.since(now).min(TEND_PERIOD));
            tokio::time::sleep(left).await;
        }
    }

    /// One round of that. Returns whether more may be due.
    pub fn tend_once(&self) -> bool {
        let mut more = false;
        for share in &self.shares {
            let mut share = share.lock();
            let now = self.clock.now();
            match share.lead() {
                Some(lead) => more |= lead.apply_due_timers(now, &*self.notices),
                None => share.ask(now),
            }
        }
        self.wake_all();
        more
    }

    fn place(&self, name: &LockName) -> (&Mutex<Share>, u64) {
        let Place { partition, hash } = Place::of(name, self.mark.partitions);
        (&self.shares[partition], hash)
    }

    /// Carries a command out, and waits until a majority has its batch.
    async fn carry_out(&self, name: &LockName, command: Command) -> Answer {
        let (reply, outcome) = oneshot::channel();
        {
            let (share, hash) = self.place(name);
            let mut share = share.lock();
            let sent = Instant::now();
            // Read under the mutex: within a partition, time never goes back.
            let now = self.clock.now();
            let lead = share.lead().ok_or_else(no_leader)?;
            if !lead.is_heard(now) {
                return Err(unheard());
            }
            lead.run((name, hash), command, (sent, now), &*self.notices, reply);
        }
        self.wake_all();
        match timeout(ANSWER_TIME_MAX, outcome).await {
            Ok(outcome) => outcome.map_err(|_| deposed()),
            Err(_) => {
                Err(StoreError::OutcomeUnknown(format!("no majority of the nodes answered within {ANSWER_TIME_MAX:?}")))
            }
        }
    }

    async fn acquire(&self, name: &LockName, acquire: Acquire) -> Answer {
        // A partition's time is no date, so this server's clock bounds what a client may demand.
        let min_token_max = self.clock.now().after(MIN_TOKEN_AHEAD_MAX).as_micros();
        if acquire.terms.min_token > min_token_max {
            return Ok(Timed::act(|| AcquireOutcome::MinTokenTooHigh(min_token_max).into()));
        }
        let mut asking = Asking { chores: &self.chores, name, call: acquire.call, is_over: false };
        let answer = self.carry_out(name, Command::Acquire(acquire)).await;
        asking.is_over = answer.as_ref().map_or_else(StoreError::is_nothing_done, |_| true);
        answer
    }
}

fn no_leader() -> StoreError {
    StoreError::Unavailable("no server leads the partition of this lock".to_owned())
}

fn unheard() -> StoreError {
    StoreError::Unavailable("no majority of the nodes answers".to_owned())
}

fn deposed() -> StoreError {
    StoreError::OutcomeUnknown("this server lost the lead of the lock's partition".to_owned())
}

impl<C: Carrier> DoChore for QuorumStore<C> {
    async fn do_chore(&self, Chore(name, command): &Chore) -> Result<(), StoreError> {
        self.carry_out(name, command.clone()).await.map(drop)
    }
}

impl<C: Carrier> Store for QuorumStore<C> {
    async fn run_unless(&self, name: &LockName, command: Command, _: impl Future<Output = ()> + Send) -> Answer {
        // The turn is done when this is first polled, so `stop` cannot come before it.
        match command {
            Command::Acquire(acquire) => self.acquire(name, acquire).await,
            command => self.carry_out(name, command).await,
        }
    }

    fn post(&self, name: &LockName, command: Command) {
        self.chores.add(Chore(name.clone(), command));
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        let (share, hash) = self.place(name);
        share.lock().lead()?.ahead(name, hash, call)
    }

    async fn watch(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let (mut at, mut slot, mut round) = match from {
            None => (0, 0, None),
            Some(from) => cursor(from, self.shares.len()).ok_or(StoreError::BadPageToken)?,
        };
        let (mut page, mut budget, mut reads) = (Page::default(), SLOTS_PER_PAGE, Vec::new());
        while at < self.shares.len() && page.locks.len() < limit && budget > 0 {
            let (reply, read) = oneshot::channel();
            reads.push(read);
            let mut share = self.shares[at].lock();
            let now = self.clock.now();
            let lead = share.lead().ok_or_else(no_leader)?;
            if !lead.is_heard(now) {
                return Err(unheard());
            }
            let present = lead.ballot().round;
            // Another leader has the locks in other slots.
            if round.is_some_and(|round| round != present) {
                return Err(StoreError::BadPageToken);
            }
            let (locks, now) = lead.read(now, reply);
            match locks.scan(slot, &mut budget, limit, prefix, now, &mut page.locks) {
                Some(next) => (slot, round) = (next, Some(present)),
                None => (at, slot, round) = (at + 1, 0, None),
            }
        }
        self.wake_all();
        timeout(ANSWER_TIME_MAX, try_join_all(reads)).await.map_err(|_| unheard())?.map_err(|_| no_leader())?;
        let round = round.map(|round| format!(".{round:x}")).unwrap_or_default();
        page.next = (at < self.shares.len()).then(|| format!("{at:x}.{slot:x}{round}"));
        Ok(page)
    }
}

/// A partition, a slot in it, and the round of the leader that numbered the slots, unless it is the first slot.
fn cursor(text: &str, partitions: usize) -> Option<(usize, usize, Option<u64>)> {
    let mut numbers = text.split('.').map(|number| u64::from_str_radix(number, 16).ok());
    let at = usize::try_from(numbers.next()??).ok().filter(|at| *at < partitions)?;
    let slot = usize::try_from(numbers.next()??).ok()?;
    match numbers.next() {
        None => (slot == 0).then_some((at, slot, None)),
        Some(round) => Some((at, slot, Some(round?))).filter(|_| numbers.next().is_none()),
    }
}
