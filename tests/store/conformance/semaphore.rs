//! Semaphores: holders that use permits together, in the order of their requests.

use crate::bench::{Bench, Harness, TTL, acquire, call, granted, try_acquire};
use fencepost::testing::domain::{
    command::{Acquire, Command},
    lease::{LeaseEnd, Terms},
    mode::{Mode, PermitLimit, Permits},
    outcome::{
        AcquireOutcome, Fate, Gone, Grant, HeldPermits, LockView, RenewOutcome, SemaphoreView, SharedView, TokenStatus,
    },
};
use std::num::NonZeroU32;

const THREE: PermitLimit = limit(3, 0);

const fn limit(permits: u32, version: u64) -> PermitLimit {
    PermitLimit { permits, version }
}

/// The request for so many permits of a semaphore with this limit.
fn permits(acquire: Acquire, count: u32, limit: PermitLimit) -> Acquire {
    let mode = Mode::Semaphore(Box::new(Permits::new(count, limit).unwrap()));
    Acquire { terms: Terms { mode, ..acquire.terms }, ..acquire }
}

fn shared(acquire: Acquire) -> Acquire {
    Acquire { terms: Terms { mode: Mode::Shared, ..acquire.terms }, ..acquire }
}

/// Whether classic clients share the locks. Requests for permits are refused there.
async fn refuses_permits<H: Harness>(bench: &Bench<H>) -> bool {
    if H::IS_SHARED {
        let refused = bench.request(permits(try_acquire(1), 1, THREE)).await;
        assert_eq!(refused, AcquireOutcome::BesideClassic);
    }
    H::IS_SHARED
}

impl<H: Harness> Bench<H> {
    async fn take(&self, number: u128, count: u32, limit: PermitLimit) -> Grant {
        granted(self.try_take(number, count, limit).await)
    }

    async fn try_take(&self, number: u128, count: u32, limit: PermitLimit) -> AcquireOutcome {
        self.request(permits(try_acquire(number), count, limit)).await
    }

    async fn wait_for(&self, number: u128, count: u32, limit: PermitLimit) {
        assert_eq!(self.request(permits(acquire(number), count, limit)).await, AcquireOutcome::Queued);
    }

    /// The permits in use, and the limit.
    async fn used(&self) -> Option<(u64, PermitLimit)> {
        let SemaphoreView { used, limit } = self.view().await.shared?.semaphore?;
        Some((used, limit))
    }
}

fn slot(grant: Grant) -> Option<u32> {
    grant.slot.map(NonZeroU32::get)
}

pub(crate) async fn permits_are_granted_up_to_the_limit(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let grants = [bench.take(1, 1, THREE).await, bench.take(2, 2, THREE).await];
    assert!(grants[0].token < grants[1].token);
    assert_eq!(grants.map(slot), [Some(1), None], "only a lease of one permit has a slot");
    let AcquireOutcome::Contended(refused) = bench.try_take(3, 1, THREE).await else { panic!("all are used") };
    assert_eq!(refused.shared.unwrap().semaphore, Some(SemaphoreView { used: 3, limit: THREE }));
    bench.wait_for(4, 1, THREE).await;
    let view = *bench.run::<Box<LockView>>(Command::View { token: Some(grants[0].token) }).await;
    assert_eq!(view.token_status(grants[0].token), TokenStatus::Current, "though a later token was granted");
    let Some(SharedView { holders, count: 2, .. }) = view.shared.as_deref() else { panic!("{view:?}") };
    let held = holders.iter().map(|holder| holder.permits.unwrap()).collect::<Vec<_>>();
    assert_eq!(held, [HeldPermits { count: 1, slot: NonZeroU32::new(1) }, HeldPermits { count: 2, slot: None }]);
    assert_eq!(bench.claim(4).await, AcquireOutcome::Queued);
    bench.release(grants[1]).await;
    let next = granted(bench.claim(4).await);
    assert_eq!((slot(next), next.previous_end), (Some(2), Some(LeaseEnd::Released)));
    assert_eq!(bench.used().await, Some((2, THREE)));
}

pub(crate) async fn a_request_for_all_permits_is_not_overtaken(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let grants = [bench.take(1, 1, THREE).await, bench.take(2, 1, THREE).await];
    bench.wait_for(3, 3, THREE).await;
    bench.wait_for(4, 1, THREE).await;
    assert!(matches!(bench.try_take(5, 1, THREE).await, AcquireOutcome::Contended(it) if it.waiters == 2));
    for grant in grants {
        for waiter in [3, 4] {
            assert_eq!(bench.claim(waiter).await, AcquireOutcome::Queued, "a permit is free, and kept for request 3");
        }
        bench.release(grant).await;
    }
    let all = granted(bench.claim(3).await);
    assert_eq!(bench.claim(4).await, AcquireOutcome::Queued);
    bench.release(all).await;
    assert_eq!(slot(granted(bench.claim(4).await)), Some(1));
}

pub(crate) async fn the_lowest_free_slot_is_given_and_a_repeat_tells_it(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let of = limit(5, 0);
    let mut grants = Vec::new();
    for number in 1..5 {
        grants.push(bench.take(number, 1, of).await);
    }
    assert!(grants.iter().map(|grant| slot(*grant)).eq((1..5).map(Some)));
    for released in [2, 0] {
        bench.release(grants[released]).await;
    }
    let mut next = Vec::new();
    for number in 5..8 {
        next.push(slot(bench.take(number, 1, of).await));
    }
    assert_eq!(next, [Some(1), Some(3), Some(5)]);
    let again = permits(Acquire { call: call(6, 2), ..try_acquire(6) }, 1, of);
    assert_eq!(slot(granted(bench.request(again).await)), Some(3));
    // Given at the claim, so a hand-over tells the slot that is free then.
    bench.wait_for(8, 1, of).await;
    bench.release(grants[1]).await;
    assert_eq!(slot(granted(bench.claim(8).await)), Some(2));
    assert_eq!(slot(granted(bench.claim(8).await)), Some(2), "a repeat of the claim");
}

pub(crate) async fn a_raised_limit_serves_those_that_wait(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let one = limit(1, 0);
    bench.take(1, 1, one).await;
    for number in 2..4 {
        bench.wait_for(number, 1, one).await;
    }
    bench.wait_for(4, 1, limit(2, 1)).await;
    assert_eq!(slot(granted(bench.claim(2).await)), Some(2), "it came before the one that raised the limit");
    assert_eq!(bench.claim(3).await, AcquireOutcome::Queued);
    let refused = bench.try_take(5, 1, limit(3, 2)).await;
    assert!(matches!(refused, AcquireOutcome::Contended(it) if it.waiters == 2), "the limit is raised all the same");
    assert_eq!(slot(granted(bench.claim(3).await)), Some(3));
    assert_eq!(bench.used().await, Some((3, limit(3, 2))));
}

pub(crate) async fn a_lowered_limit_ends_no_lease_and_refuses_what_exceeds_it(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let grants = [bench.take(1, 1, THREE).await, bench.take(2, 2, THREE).await];
    bench.wait_for(3, 2, THREE).await;
    let one = limit(1, 1);
    bench.wait_for(4, 1, one).await;
    assert_eq!(bench.used().await, Some((3, one)), "more than the limit");
    for grant in grants {
        let renewed = bench.run::<RenewOutcome>(Command::Renew { lease_id: grant.lease_id, ttl: None }).await;
        assert!(matches!(renewed, RenewOutcome::Renewed(it) if it.left == TTL));
    }
    assert_eq!(bench.try_take(5, 3, THREE).await, AcquireOutcome::LimitMismatch(one));
    assert_eq!(bench.claim(3).await, AcquireOutcome::LimitMismatch(one), "it has waited for more than there is now");
    assert_eq!(bench.claim(3).await, AcquireOutcome::Unknown, "it has left the queue");
    bench.release(grants[1]).await;
    assert_eq!(bench.claim(4).await, AcquireOutcome::Queued, "as many as the limit are used");
    bench.release(grants[0]).await;
    assert_eq!(slot(granted(bench.claim(4).await)), Some(1));
}

pub(crate) async fn programs_that_disagree_on_the_limit_are_told(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let of = limit(2, 5);
    let held = bench.take(1, 1, of).await;
    assert_eq!(bench.try_take(2, 1, limit(3, 5)).await, AcquireOutcome::LimitMismatch(of), "of one version");
    assert_eq!(bench.try_take(3, 3, limit(9, 4)).await, AcquireOutcome::LimitMismatch(of));
    let old = bench.take(4, 1, limit(9, 4)).await;
    assert_eq!(bench.used().await, Some((2, of)), "a lower version is served under the limit in force");
    // A refused attempt is remembered, as that of a contended try is.
    let attempt = |attempt| permits(Acquire { call: call(5, attempt), ..try_acquire(5) }, 1, limit(3, 5));
    assert_eq!(bench.request(attempt(2)).await, AcquireOutcome::LimitMismatch(of));
    for grant in [held, old] {
        bench.release(grant).await;
    }
    assert_eq!(bench.request(attempt(1)).await, AcquireOutcome::Overtaken);
    granted(bench.request(attempt(3)).await);
    assert_eq!(bench.used().await, Some((1, limit(3, 5))), "nobody was left to agree with");
}

pub(crate) async fn an_expired_lease_gives_its_permits_back(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let dead = bench.take(1, 1, THREE).await;
    bench.pass(TTL / 2).await;
    let alive = bench.take(2, 2, THREE).await;
    bench.wait_for(3, 1, THREE).await;
    bench.pass(TTL / 2).await;
    let next = granted(bench.claim(3).await);
    assert_eq!((slot(next), next.previous_end), (Some(1), Some(LeaseEnd::Expired)));
    let lost = Gone { fate: Fate::Ended(LeaseEnd::Expired), successor: Some(next.token) };
    let renewed = bench.run::<RenewOutcome>(Command::Renew { lease_id: dead.lease_id, ttl: None }).await;
    assert_eq!(renewed, RenewOutcome::Lost(lost));
    // Each hands on its own end.
    bench.release(next).await;
    bench.release(alive).await;
    assert_eq!(bench.take(4, 3, THREE).await.previous_end, Some(LeaseEnd::Released));
}

pub(crate) async fn an_exclusive_request_waits_for_all_permits(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let grants = [bench.take(1, 1, THREE).await, bench.take(2, 1, THREE).await];
    bench.queue([3]).await;
    bench.wait_for(4, 1, THREE).await;
    for grant in grants {
        assert_eq!(bench.claim(3).await, AcquireOutcome::Queued);
        assert_eq!(bench.claim(4).await, AcquireOutcome::Queued, "a permit is free, but request 3 came before");
        bench.release(grant).await;
    }
    let alone = granted(bench.claim(3).await);
    assert_eq!((alone.slot, bench.used().await), (None, None));
    assert!(matches!(bench.try_take(5, 1, THREE).await, AcquireOutcome::Contended(it) if it.shared.is_none()));
    bench.release(alone).await;
    assert_eq!(slot(granted(bench.claim(4).await)), Some(1));
}

pub(crate) async fn a_lock_is_shared_or_a_semaphore(bench: &Bench<impl Harness>) {
    if refuses_permits(bench).await {
        return;
    }
    let reader = granted(bench.request(shared(try_acquire(1))).await);
    for refused in [permits(acquire(2), 1, THREE), permits(try_acquire(3), 1, THREE)] {
        assert_eq!(bench.request(refused).await, AcquireOutcome::ModeMismatch);
    }
    assert_eq!(bench.view().await.waiters, 0);
    bench.release(reader).await;
    let writer = bench.acquire(4).await;
    bench.wait_for(5, 1, THREE).await;
    assert_eq!(bench.request(shared(acquire(6))).await, AcquireOutcome::ModeMismatch, "one waits for a permit");
    bench.release(writer).await;
    let held = granted(bench.claim(5).await);
    assert_eq!(bench.request(shared(try_acquire(7))).await, AcquireOutcome::ModeMismatch);
    bench.release(held).await;
    granted(bench.request(shared(try_acquire(8))).await);
}
