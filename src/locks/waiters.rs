//! The calls that wait on this server: the one registry of them.
//!
//! The store's hints and claims reach a call through its [`Waiter`]; so do the end of its wait, when its client cancels
//! it, and the news that it is queued, which its session passes on.

use super::client::Client;
use crate::{
    domain::{
        ids::{Call, RequestId},
        outcome::AcquireOutcome,
    },
    store::Timed,
    sync::{AtomicUsize, Mutex, Notify, Ordering},
};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::{ops::Deref, sync::Arc};

/// Shards, each under its own lock.
const PARTS: usize = 64;

/// A call that may wait.
#[derive(Debug)]
pub struct Waiter {
    call: Call,
    session: Option<OfSession>,
    /// Notified of a hint, and when `claimed` is set.
    woken: Notify,
    /// The outcome of a claim that the store made for this call.
    claimed: Mutex<Option<Box<Timed<AcquireOutcome>>>>,
    stopped: Notify,
}

/// The session of a call.
#[derive(Debug)]
struct OfSession {
    operation: u64,
    /// The operations that were queued since the session last looked.
    queued: Arc<Mutex<Vec<u64>>>,
    client: Arc<Client>,
}

/// What woke a waiting call.
#[derive(Debug)]
pub(super) enum Woken {
    /// The call should claim.
    Hint,
    /// The store has claimed for it.
    Claimed(Box<Timed<AcquireOutcome>>),
}

impl Waiter {
    /// A call that belongs to no session.
    pub(super) fn new(call: Call) -> Self {
        Self { call, session: None, woken: Notify::new(), claimed: Mutex::default(), stopped: Notify::new() }
    }

    /// The call of an operation of a session. The operation is added to `queued` when the call is queued.
    pub(super) fn of_session(call: Call, operation: u64, queued: Arc<Mutex<Vec<u64>>>, client: Arc<Client>) -> Self {
        Self { session: Some(OfSession { operation, queued, client }), ..Self::new(call) }
    }

    pub(super) fn call(&self) -> Call {
        self.call
    }

    /// The client of its session, while that does not read.
    pub(super) fn stalled_client(&self) -> Option<&Client> {
        self.session.as_ref().map(|session| &*session.client).filter(|client| client.is_stalled())
    }

    /// Tells its session that it is queued.
    pub(super) fn notify_queued(&self) {
        if let Some(OfSession { operation, queued, .. }) = &self.session {
            queued.lock().push(*operation);
        }
    }

    /// Ends the wait, as if its time were over.
    pub(super) fn stop(&self) {
        self.stopped.notify_one();
    }

    /// Resolves when the wait was stopped.
    pub(super) async fn stopped(&self) {
        self.stopped.notified().await;
        // Keeps the permit, so that the next call of this function sees it too.
        self.stopped.notify_one();
    }

    /// Resolves when the store should be asked, or has claimed for the call. Cancel-safe: nothing is lost.
    pub(super) async fn woken(&self) -> Woken {
        self.woken.notified().await;
        self.claimed.lock().take().map_or(Woken::Hint, Woken::Claimed)
    }
}

/// The waiting calls of this server.
#[derive(Debug)]
pub(super) struct Waiters {
    parts: Box<[Mutex<HashMap<RequestId, Calls>>]>,
    count: AtomicUsize,
    left: Arc<Notify>,
}

type Calls = SmallVec<[Arc<Waiter>; 1]>;

/// The registration of a waiting call. Dropped, the call no longer waits.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    waiters: &'a Waiters,
    waiter: Arc<Waiter>,
}

impl Waiters {
    /// An empty registry; `left` is notified of each call that leaves.
    pub(super) fn new(left: Arc<Notify>) -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect(), count: AtomicUsize::new(0), left }
    }

    /// The number of waiting calls.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Registers a call, unless `max` calls wait already. Call it before asking the store: an earlier hint would be
    /// lost.
    pub(super) fn enter(&self, waiter: Arc<Waiter>, max: usize) -> Option<Waiting<'_>> {
        // A refused call is never counted, because nobody would be notified that it left.
        let room = |count: usize| (count < max).then_some(count + 1);
        // mutant: refused call is counted
        // mutant: bound checked, then counted
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        let request = waiter.call.request;
        self.part(request).lock().entry(request).or_default().push(waiter.clone());
        Some(Waiting { waiters: self, waiter })
    }

    /// Makes the calls of this attempt ask the store again.
    pub(super) fn look_again(&self, request: RequestId, attempt: u32) {
        if let Some(calls) = self.part(request).lock().get(&request) {
            for waiter in calls.iter().filter(|waiter| waiter.call.attempt == attempt) {
                // The permit is kept: a hint that arrives while the call asks the store is not lost.
                waiter.woken.notify_one();
            }
        }
    }

    /// Gives a call the outcome of a claim that the store made for it. False if it does not wait here.
    pub(super) fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool {
        let part = self.part(call.request).lock();
        let waiter = part.get(&call.request).into_iter().flatten().find(|waiter| waiter.call == call);
        if let Some(waiter) = waiter {
            *waiter.claimed.lock() = Some(Box::new(outcome));
            waiter.woken.notify_one();
        }
        waiter.is_some()
    }

    /// Whether a call of this attempt waits whose client reads.
    pub(super) fn is_alive(&self, request: RequestId, attempt: u32) -> bool {
        let part = self.part(request).lock();
        let mut calls = part.get(&request).into_iter().flatten().filter(|waiter| waiter.call.attempt == attempt);
        calls.any(|waiter| waiter.stalled_client().is_none())
    }

    fn part(&self, request: RequestId) -> &Mutex<HashMap<RequestId, Calls>> {
        // Clients choose the id. Mixed, so that ids that count up do not all fall into one shard.
        let mixed = request.0.as_u64_pair().0 ^ request.0.as_u64_pair().1;
        let place = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS.ilog2());
        &self.parts[usize::try_from(place).unwrap_or(0)]
    }
}

impl Deref for Waiting<'_> {
    type Target = Waiter;

    fn deref(&self) -> &Waiter {
        &self.waiter
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let request = self.waiter.call.request;
        let mut part = self.waiters.part(request).lock();
        if let Some(calls) = part.get_mut(&request) {
            calls.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            if calls.is_empty() {
                part.remove(&request);
            }
        }
        // mutant: drain told before the call is counted out
        self.waiters.count.fetch_sub(1, Ordering::Relaxed);
        self.waiters.left.notify_one();
        // mutant: drain told before the call is counted out: to here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::CallId;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};
    use uuid::Uuid;

    fn call(request: u128, attempt: u32, id: u64) -> Call {
        Call { request: RequestId(Uuid::from_u128(request)), attempt, id: CallId(id) }
    }

    fn waiter(call: Call) -> Arc<Waiter> {
        Arc::new(Waiter::new(call))
    }

    #[tokio::test]
    async fn hints_reach_all_calls_of_the_attempt_and_no_others() {
        let waiters = Waiters::new(Arc::default());
        let [first, same, newer] =
            [call(1, 1, 1), call(1, 1, 2), call(1, 2, 3)].map(|call| waiters.enter(waiter(call), 10).unwrap());
        waiters.look_again(first.call.request, 1);
        assert!(matches!(first.woken().await, Woken::Hint) && matches!(same.woken().await, Woken::Hint));
        assert!(timeout(Duration::from_millis(1), newer.woken()).await.is_err(), "not its attempt");
        let request = first.call.request;
        drop(first);
        waiters.look_again(request, 1);
        same.woken().await;
    }

    #[tokio::test]
    async fn a_claim_reaches_its_call_and_no_other() {
        let waiters = Waiters::new(Arc::default());
        let [its, same_attempt] = [call(1, 1, 1), call(1, 1, 2)].map(|call| waiters.enter(waiter(call), 10).unwrap());
        let claimed = Timed { sent: Instant::now(), outcome: AcquireOutcome::Ended };
        assert!(waiters.claimed(its.call, claimed.clone()));
        assert!(matches!(its.woken().await, Woken::Claimed(outcome) if *outcome == claimed));
        assert!(timeout(Duration::from_millis(1), same_attempt.woken()).await.is_err(), "it is not its claim");
        let gone = its.call;
        drop(its);
        assert!(!waiters.claimed(gone, claimed), "the call does not wait any more");
    }

    #[test]
    fn a_call_is_alive_while_its_client_takes_data() {
        let (waiters, client) = (Waiters::new(Arc::default()), Arc::<Client>::default());
        let call = call(1, 1, 1);
        let of_session =
            waiters.enter(Arc::new(Waiter::of_session(call, 7, Arc::default(), client.clone())), 10).unwrap();
        let request = call.request;
        assert!(waiters.is_alive(request, 1) && !waiters.is_alive(request, 2));
        client.stalls();
        assert!(!waiters.is_alive(request, 1));
        let alone = waiters.enter(waiter(Call { id: CallId(2), ..call }), 10);
        assert!(waiters.is_alive(request, 1), "one is enough");
        drop(alone);
        client.reads();
        assert!(waiters.is_alive(request, 1));
        drop(of_session);
        assert!(!waiters.is_alive(request, 1));
    }

    #[test]
    fn the_bound_counts_calls_and_leaving_makes_room() {
        let waiters = Waiters::new(Arc::default());
        let enter = |number| waiters.enter(waiter(call(number, 1, 1)), 2);
        let one = enter(1);
        let two = enter(2);
        assert!(one.is_some() && two.is_some() && enter(3).is_none());
        assert_eq!(waiters.len(), 2);
        drop(one);
        assert!(enter(3).is_some());
        drop(two);
        assert_eq!(waiters.len(), 0);
        assert!(waiters.parts.iter().all(|part| part.lock().is_empty()), "nothing is left behind");
    }
}
