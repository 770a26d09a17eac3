//! The calls that wait on this server, by request, so that the store's hints reach them.

use super::client::Client;
use crate::{
    domain::ids::RequestId,
    sync::{AtomicUsize, Mutex, Notify, Ordering},
};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Shards, each under its own lock.
const PARTS: usize = 64;

type Calls = SmallVec<[Entry; 1]>;

#[derive(Debug)]
struct Entry {
    attempt: u32,
    hint: Arc<Notify>,
    /// The client of its session; `None` for a unary call.
    client: Option<Arc<Client>>,
}

/// The waiting calls of this server.
#[derive(Debug)]
pub(super) struct Waiters {
    parts: Box<[Mutex<HashMap<RequestId, Calls>>]>,
    count: AtomicUsize,
    left: Arc<Notify>,
}

/// The entry of one waiting call. Dropped, the call no longer waits.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    waiters: &'a Waiters,
    request: RequestId,
    hint: Arc<Notify>,
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

    /// Adds a call, unless `max` calls wait already. Call it before asking the store: an earlier hint would be lost.
    pub(super) fn enter(
        &self,
        request: RequestId,
        attempt: u32,
        client: Option<Arc<Client>>,
        max: usize,
    ) -> Option<Waiting<'_>> {
        // A refused call is never counted, because nobody would be notified that it left.
        let room = |count: usize| (count < max).then_some(count + 1);
        // mutant: refused call is counted
        // mutant: bound checked, then counted
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        let hint = Arc::new(Notify::new());
        self.part(request).lock().entry(request).or_default().push(Entry { attempt, hint: hint.clone(), client });
        Some(Waiting { waiters: self, request, hint })
    }

    /// Makes the calls of this attempt ask the store again.
    pub(super) fn look_again(&self, request: RequestId, attempt: u32) {
        if let Some(calls) = self.part(request).lock().get(&request) {
            for call in calls.iter().filter(|call| call.attempt == attempt) {
                // The permit is kept: a hint that arrives while the call asks the store is not lost.
                call.hint.notify_one();
            }
        }
    }

    /// Whether a call of this attempt waits whose client reads.
    pub(super) fn is_alive(&self, request: RequestId, attempt: u32) -> bool {
        let part = self.part(request).lock();
        let mut calls = part.get(&request).into_iter().flatten().filter(|call| call.attempt == attempt);
        calls.any(|call| call.client.as_ref().is_none_or(|client| !client.is_stalled()))
    }

    fn part(&self, request: RequestId) -> &Mutex<HashMap<RequestId, Calls>> {
        // Clients choose the id. Mixed, so that ids that count up do not all fall into one shard.
        let mixed = request.0.as_u64_pair().0 ^ request.0.as_u64_pair().1;
        let place = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS.ilog2());
        &self.parts[usize::try_from(place).unwrap_or(0)]
    }
}

impl Waiting<'_> {
    /// Resolves when the store should be asked again. Cancel-safe: no hint is lost.
    pub(super) async fn hint(&self) {
        self.hint.notified().await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut part = self.waiters.part(self.request).lock();
        if let Some(calls) = part.get_mut(&self.request) {
            calls.retain(|call| !Arc::ptr_eq(&call.hint, &self.hint));
            if calls.is_empty() {
                part.remove(&self.request);
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
    use uuid::Uuid;

    #[tokio::test]
    async fn hints_reach_all_calls_of_the_attempt_and_no_others() {
        let waiters = Waiters::new(Arc::default());
        let request = RequestId(Uuid::from_u128(1));
        let first = waiters.enter(request, 1, None, 10).unwrap();
        let same = waiters.enter(request, 1, None, 10).unwrap();
        let newer = waiters.enter(request, 2, None, 10).unwrap();
        waiters.look_again(request, 1);
        first.hint().await;
        same.hint().await;
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(1), newer.hint()).await.is_err(),
            "not its attempt"
        );
        drop(first);
        waiters.look_again(request, 1);
        same.hint().await;
    }

    #[test]
    fn a_call_is_alive_while_its_client_takes_data() {
        let (waiters, client) = (Waiters::new(Arc::default()), Arc::<Client>::default());
        let request = RequestId(Uuid::from_u128(1));
        let of_session = waiters.enter(request, 1, Some(client.clone()), 10);
        assert!(waiters.is_alive(request, 1) && !waiters.is_alive(request, 2));
        client.stalls();
        assert!(!waiters.is_alive(request, 1));
        let alone = waiters.enter(request, 1, None, 10);
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
        let enter = |number| waiters.enter(RequestId(Uuid::from_u128(number)), 1, None, 2);
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
