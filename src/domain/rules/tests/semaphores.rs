//! Semaphores: holders that use permits together, the limit that they agree on, and their slots.

use super::{shared::W, *};
use crate::domain::{
    limits::{DROP_GRACE, OFFERS_MAX},
    mode::{PermitLimit, Permits},
    outcome::{HeldPermits, SemaphoreView},
};
use std::num::NonZeroU32;

const fn limit(permits: u32, version: u64) -> PermitLimit {
    PermitLimit { permits, version }
}

impl Bench {
    /// A request for so many permits.
    fn take_of(&mut self, limit: PermitLimit, request: u128, count: u32) -> AcquireOutcome {
        self.mode = Mode::Semaphore(Box::new(Permits::new(count, limit).unwrap()));
        self.acquire(request, 1)
    }

    /// A request for so many of 3 permits.
    fn take(&mut self, request: u128, count: u32) -> AcquireOutcome {
        self.take_of(limit(3, 0), request, count)
    }

    fn try_take_of(&mut self, limit: PermitLimit, request: u128, attempt: u32) -> AcquireOutcome {
        self.mode = Mode::Semaphore(Box::new(Permits::new(1, limit).unwrap()));
        self.try_acquire(request, attempt)
    }

    /// The permits in use, and the limit.
    fn permits(&self) -> Option<(u64, PermitLimit)> {
        self.view().shared?.semaphore.map(|SemaphoreView { used, limit }| (used, limit))
    }
}

fn slots<const N: usize>(grants: [&Grant; N]) -> [u32; N] {
    grants.map(|grant| grant.slot.map_or(0, NonZeroU32::get))
}

#[test]
fn holders_use_no_more_permits_together_than_the_limit() {
    let mut bench = Bench::new();
    let one = bench.take(A, 1).granted();
    let two = bench.take(B, 2).granted();
    assert!(one.token < two.token);
    assert_eq!(bench.permits(), Some((3, limit(3, 0))));
    assert_eq!(bench.take(C, 1), AcquireOutcome::Queued);
    let shown = bench.view().shared.unwrap().holders.iter().map(|it| it.permits.unwrap()).collect::<Vec<_>>();
    assert_eq!(shown, [HeldPermits { count: 1, slot: NonZeroU32::new(1) }, HeldPermits { count: 2, slot: None }]);
    bench.release(&two);
    assert_eq!(bench.woken(), [(C, 1)]);
    assert_eq!(bench.permits(), Some((1, limit(3, 0))), "an offer is no use");
    let three = bench.claim(C, 1).granted();
    assert_eq!(slots([&one, &two, &three]), [1, 0, 2]);
    assert_eq!([one, three].map(|grant| bench.status(grant.token)), [TokenStatus::Current; 2]);
    assert_eq!(bench.status(two.token), TokenStatus::Stale);
}

#[test]
fn what_is_offered_is_not_granted_to_another() {
    let mut bench = Bench::new();
    let held = bench.take(A, 3).granted();
    assert_eq!([B, C].map(|request| bench.take(request, 1)), [const { AcquireOutcome::Queued }; 2]);
    assert_eq!(bench.take(D, 2), AcquireOutcome::Queued);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1), (C, 1)], "one is left, and two are asked for");
    assert!(matches!(bench.try_take_of(limit(3, 0), 9, 1), AcquireOutcome::Contended(_)));
    let first = bench.claim(B, 1).granted();
    assert_eq!(bench.claim(D, 1), AcquireOutcome::Queued);
    bench.claim(C, 1).granted();
    bench.release(&first);
    assert_eq!(bench.woken(), [(D, 1)]);
}

#[test]
fn a_large_request_is_not_overtaken_by_small_ones() {
    let mut bench = Bench::new();
    let [one, two] = [A, B].map(|request| bench.take(request, 1).granted());
    assert_eq!(bench.take(C, 3), AcquireOutcome::Queued);
    assert_eq!(bench.take(D, 1), AcquireOutcome::Queued, "a permit is free, and kept for the one that came before");
    assert!(matches!(bench.try_take_of(limit(3, 0), 9, 1), AcquireOutcome::Contended(_)));
    bench.release(&one);
    assert_eq!(bench.woken(), []);
    bench.release(&two);
    assert_eq!(bench.woken(), [(C, 1)]);
    let all = bench.claim(C, 1).granted();
    bench.release(&all);
    assert_eq!(bench.woken(), [(D, 1)]);
}

#[test]
fn an_exclusive_request_waits_for_all_permits_and_no_permit_is_granted_beside_it() {
    let mut bench = Bench::new();
    let [one, two] = [A, B].map(|request| bench.take(request, 1).granted());
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    assert_eq!(bench.take(C, 1), AcquireOutcome::Queued);
    bench.release(&one);
    assert_eq!(bench.woken(), []);
    bench.release(&two);
    let alone = bench.claim(W, 1).granted();
    assert_eq!((bench.permits(), alone.slot), (None, None));
    assert_eq!(
        bench.take_of(limit(4, 0), D, 1),
        AcquireOutcome::LimitMismatch(limit(3, 0)),
        "the one who waits named 3"
    );
    bench.release(&alone);
    assert_eq!(slots([&bench.claim(C, 1).granted()]), [1]);
}

#[test]
fn readers_and_holders_of_permits_exclude_each_other() {
    let mut bench = Bench::new();
    let reader = bench.read(A).granted();
    assert_eq!(bench.take(B, 1), AcquireOutcome::ModeMismatch);
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.release(&reader);
    let writer = bench.claim(W, 1).granted();
    assert_eq!(bench.read(C), AcquireOutcome::Queued);
    assert_eq!(bench.take(B, 1), AcquireOutcome::ModeMismatch, "a reader waits");
    bench.give_up(C, 1);
    assert_eq!(bench.take(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.read(D), AcquireOutcome::ModeMismatch, "a request for a permit waits");
    bench.release(&writer);
    assert_eq!(bench.read(D), AcquireOutcome::ModeMismatch, "a permit is on offer");
    let held = bench.claim(B, 1).granted();
    assert_eq!(bench.read(D), AcquireOutcome::ModeMismatch);
    bench.release(&held);
    bench.read(D).granted();
}

#[test]
fn the_newest_limit_is_in_force_for_as_long_as_the_semaphore_is_in_use() {
    let mut bench = Bench::new();
    let held = bench.take_of(limit(2, 5), A, 1).granted();
    assert_eq!(bench.take_of(limit(3, 5), B, 1), AcquireOutcome::LimitMismatch(limit(2, 5)));
    assert_eq!(bench.take_of(limit(9, 4), B, 3), AcquireOutcome::LimitMismatch(limit(2, 5)));
    let other = bench.take_of(limit(9, 4), B, 1).granted();
    assert_eq!(bench.permits(), Some((2, limit(2, 5))));
    assert_eq!(bench.take_of(limit(9, 4), C, 1), AcquireOutcome::Queued, "a lower version has no say");
    bench.release(&held);
    bench.release(&other);
    let last = bench.claim(C, 1).granted();
    assert_eq!(bench.permits(), Some((1, limit(2, 5))), "the last one in the queue takes it along");
    bench.release(&last);
    bench.take_of(limit(9, 4), D, 9).granted();
    assert_eq!(bench.permits(), Some((9, limit(9, 4))));
}

#[test]
fn a_raised_limit_wakes_those_that_wait_before_the_one_that_raised_it() {
    let mut bench = Bench::new();
    bench.take_of(limit(1, 0), A, 1).granted();
    assert_eq!([B, C].map(|request| bench.take_of(limit(1, 0), request, 1)), [const { AcquireOutcome::Queued }; 2]);
    assert_eq!(bench.take_of(limit(2, 1), D, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [(B, 1)]);
    assert!(matches!(bench.try_take_of(limit(3, 2), 9, 1), AcquireOutcome::Contended(_)));
    assert_eq!(bench.woken(), [(C, 1)], "also by one that is refused itself");
    let slot = |grant: Grant| slots([&grant])[0];
    assert_eq!([B, C].map(|request| slot(bench.claim(request, 1).granted())), [2, 3]);
    assert_eq!(bench.permits(), Some((3, limit(3, 2))));
}

#[test]
fn a_lowered_limit_ends_no_lease_and_nothing_is_granted_until_there_is_room() {
    let mut bench = Bench::new();
    let grants = [A, B, C].map(|request| bench.take(request, 1).granted());
    assert_eq!(bench.take_of(limit(1, 1), D, 1), AcquireOutcome::Queued);
    assert_eq!(bench.permits(), Some((3, limit(1, 1))));
    bench.release(&grants[0]);
    bench.release(&grants[2]);
    assert_eq!((bench.woken(), bench.permits()), (vec![], Some((1, limit(1, 1)))));
    assert!(matches!(bench.renew(&grants[1], None), RenewOutcome::Renewed(_)));
    bench.release(&grants[1]);
    assert_eq!(slots([&bench.claim(D, 1).granted()]), [1]);
}

#[test]
fn a_lowered_limit_withdraws_offers() {
    let mut bench = Bench::new();
    let held = bench.take(A, 3).granted();
    assert_eq!([B, C].map(|request| bench.take(request, 1)), [const { AcquireOutcome::Queued }; 2]);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1), (C, 1)]);
    assert_eq!(bench.take_of(limit(1, 1), D, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [(B, 1)], "the first of them is offered the one that is left");
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
    bench.claim(B, 1).granted();
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
}

#[test]
fn who_waits_for_more_than_a_lowered_limit_is_told_and_does_not_hold_up_others() {
    let mut bench = Bench::new();
    let held = bench.take(A, 3).granted();
    assert_eq!([bench.take(B, 2), bench.take(C, 1)], [AcquireOutcome::Queued, AcquireOutcome::Queued]);
    assert_eq!(bench.take_of(limit(1, 1), D, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.release(&held);
    assert_eq!(bench.woken(), [(C, 1)]);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::LimitMismatch(limit(1, 1)));
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Unknown, "it has left the queue");
    bench.claim(C, 1).granted();
    // In time a higher limit saves it.
    let mut bench = Bench::new();
    let held = bench.take(A, 3).granted();
    assert_eq!(bench.take(B, 2), AcquireOutcome::Queued);
    assert_eq!(bench.take_of(limit(1, 1), C, 1), AcquireOutcome::Queued);
    bench.release(&held);
    assert_eq!(bench.woken(), [(C, 1)]);
    bench.take_of(limit(4, 2), D, 1).granted();
    assert_eq!(bench.permits(), Some((1, limit(4, 2))));
    bench.claim(B, 1).granted();
}

#[test]
fn a_refused_request_is_not_granted_by_an_older_attempt_that_comes_later() {
    let mut bench = Bench::new();
    let held = bench.take(A, 1).granted();
    assert_eq!(bench.try_take_of(limit(4, 0), B, 2), AcquireOutcome::LimitMismatch(limit(3, 0)));
    bench.release(&held);
    assert_eq!(bench.try_take_of(limit(4, 0), B, 1), AcquireOutcome::Overtaken);
    bench.try_take_of(limit(4, 0), B, 3).granted();
}

#[test]
fn a_repeat_answers_the_same_permits_whatever_the_limit_is_by_then() {
    let mut bench = Bench::new();
    let first = bench.take(A, 1).granted();
    bench.take_of(limit(2, 1), B, 1).granted();
    assert_eq!(bench.take(A, 1), AcquireOutcome::Granted(first));
    assert_eq!(bench.take(A, 2), AcquireOutcome::OtherTerms);
    assert_eq!(bench.take_of(limit(2, 1), C, 1), AcquireOutcome::Queued);
    assert_eq!(bench.take_of(limit(2, 1), C, 1), AcquireOutcome::Queued, "a repeat of one that waits as well");
}

#[test]
fn the_lowest_free_slot_is_given_and_a_slot_is_of_one_lease_at_a_time() {
    let mut bench = Bench::new();
    let of = limit(5, 0);
    let grants = [1, 2, 3, 4].map(|request| bench.take_of(of, request, 1).granted());
    assert_eq!(slots([&grants[0], &grants[1], &grants[2], &grants[3]]), [1, 2, 3, 4]);
    bench.release(&grants[2]);
    bench.release(&grants[0]);
    let next = [5, 6, 7].map(|request| bench.take_of(of, request, 1).granted());
    assert_eq!(slots([&next[0], &next[1], &next[2]]), [1, 3, 5]);
    bench.pass(TTL);
    assert_eq!(slots([&bench.take_of(of, 8, 1).granted()]), [1], "expired leases have none");
}

#[test]
fn a_lease_of_a_semaphore_hands_on_its_own_end_and_its_permits_come_back() {
    let mut bench = Bench::new();
    let dead = bench.take(A, 2).granted();
    let (moment, other) = (secs(1), bench.take(B, 1).granted());
    assert_eq!(bench.take(C, 1), AcquireOutcome::Queued);
    bench.pass(moment).renew(&other, None);
    bench.pass(TTL - moment).apply_time();
    assert_eq!((bench.ends(), bench.woken()), (vec![LeaseEnd::Expired], vec![(C, 1)]));
    assert!(matches!(bench.renew(&dead, None), RenewOutcome::Lost(_)));
    let told = bench.claim(C, 1).granted();
    assert_eq!(told.previous_end, Some(LeaseEnd::Expired));
    bench.release(&told);
    assert_eq!(bench.take(D, 1).granted().previous_end, Some(LeaseEnd::Released));
}

#[test]
fn overdue_leases_are_not_shown_as_use() {
    let mut bench = Bench::new();
    bench.take(A, 2).granted();
    let other = bench.pass(secs(10)).take(B, 1).granted();
    bench.pass(secs(20));
    assert_eq!(bench.permits(), Some((1, limit(3, 0))));
    bench.release(&other);
    assert!(bench.view().shared.is_none() && bench.lock.permit_limit().is_none());
}

#[test]
fn a_kept_queue_position_agrees_on_the_limit_too() {
    let mut bench = Bench::new();
    bench.mode = Mode::Semaphore(Box::new(Permits::new(1, limit(2, 0)).unwrap()));
    assert_eq!(bench.keep_queue_position(A, 1), AcquireOutcome::Queued);
    assert_eq!(bench.take(B, 1), AcquireOutcome::LimitMismatch(limit(2, 0)));
    bench.pass(DROP_GRACE);
    bench.take(B, 1).granted();
    bench.mode = Mode::Semaphore(Box::new(Permits::new(1, limit(2, 0)).unwrap()));
    assert_eq!(bench.keep_queue_position(C, 1), AcquireOutcome::LimitMismatch(limit(3, 0)));
    bench.mode = Mode::Semaphore(Box::new(Permits::new(1, limit(2, 1)).unwrap()));
    bench.waiters_max = 0;
    assert_eq!(bench.keep_queue_position(C, 1), AcquireOutcome::QueueFull);
    assert_eq!(bench.permits(), Some((1, limit(2, 1))), "the newer limit is in force, as after a refused request");
}

#[test]
fn the_limit_is_kept_if_no_lease_tells_it() {
    let mut bench = Bench::new();
    let first = bench.take(A, 1).granted();
    assert_eq!(bench.lock.permit_limit_to_keep(), None, "the lease tells it");
    assert_eq!(bench.take_of(limit(1, 1), B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.lock.permit_limit_to_keep(), Some(limit(1, 1)));
    bench.release(&first);
    assert_eq!(bench.lock.permit_limit_to_keep(), None, "an offer is not kept");
    let second = bench.claim(B, 1).granted();
    assert_eq!(bench.lock.permit_limit_to_keep(), None);
    let lease = bench.lock.lease_of(second.token).unwrap().clone();
    assert_eq!(lease.terms.mode.permits().unwrap().limit, limit(1, 1));

    let mut taken_over = Lock::default();
    taken_over.keep_permit_limit(limit(7, 3));
    assert!(taken_over.keep_shared(lease.clone()));
    assert_eq!((taken_over.permit_limit(), taken_over.permit_limit_to_keep()), (Some(limit(7, 3)), Some(limit(7, 3))));
    taken_over.forget_unused_limit();
    taken_over.check();
    assert!(!taken_over.keep_shared(lease), "its slot is taken");
}

#[test]
fn offers_are_bounded_and_the_next_ones_follow() {
    let mut bench = Bench::new();
    bench.waiters_max = 200;
    let of = limit(100, 0);
    let held = bench.take_of(of, A, 100).granted();
    for request in 100..200 {
        assert_eq!(bench.take_of(of, request, 1), AcquireOutcome::Queued);
    }
    bench.release(&held);
    assert_eq!(bench.woken().len(), OFFERS_MAX);
    let slots = (100..200).map(|request| bench.claim(request, 1).granted().slot.unwrap().get());
    assert!(slots.eq(1..=100));
    assert_eq!(bench.permits(), Some((100, of)));
}
