//! Ghosts: leases beside others that have ended and still occupy their places.

use super::{shared::W, *};
use crate::domain::{
    command::{Command, Outcome},
    features::Features,
    limits::{HOLDERS_MAX, SHARED_ENDS_PER_TURN},
    mode::{ConvertTo, PermitLimit, Permits},
    outcome::{ConvertOutcome, DelayView},
    rules::Ghost,
};
use std::num::NonZeroU32;

impl Bench {
    fn with_delays(min_hold: Duration, lock_delay: Duration) -> Self {
        Self { delays: Delays::new(min_hold, lock_delay), ..Self::new() }
    }

    /// A request for so many of `limit` permits.
    fn take_part(&mut self, request: u128, count: u32, limit: u32) -> AcquireOutcome {
        let limit = PermitLimit { permits: limit, version: 0 };
        self.mode = Mode::Semaphore(Box::new(Permits::new(count, limit).unwrap()));
        self.acquire(request, 1)
    }

    fn without_delays(&mut self) -> &mut Self {
        self.delays = None;
        self
    }

    /// Whose place is shown as not free, and for how long.
    fn shown(&self) -> Option<(FencingToken, Duration)> {
        self.view().delay.map(|DelayView { token, left, .. }| (token, left))
    }

    fn permits_used(&self) -> Option<u64> {
        self.view().shared?.semaphore.map(|semaphore| semaphore.used)
    }
}

fn slot(grant: &Grant) -> u32 {
    grant.slot.map_or(0, NonZeroU32::get)
}

#[test]
fn a_writer_waits_for_the_ghost_of_a_reader_and_other_readers_do_not() {
    let mut bench = Bench::with_delays(Duration::ZERO, secs(15));
    let gone = bench.read(A).granted();
    bench.pass(TTL).apply_time();
    assert_eq!((bench.ends(), bench.shown()), (vec![LeaseEnd::Expired], Some((gone.token, secs(15)))));
    assert_eq!(bench.changed_shares, [(gone.token, gone.grant_id)]);
    let reader = bench.without_delays().read(B).granted();
    assert_eq!(reader.previous_end, Some(LeaseEnd::Expired));
    let AcquireOutcome::Contended(contention) = ({
        bench.mode = Mode::Exclusive;
        bench.try_acquire(C, 1)
    }) else {
        panic!("granted beside a reader")
    };
    assert_eq!(contention.delay.map(|delay| (delay.token, delay.left)), Some((gone.token, secs(15))));
    assert_eq!(contention.shared.unwrap().count, 1, "a ghost is no holder");
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.release(&reader);
    assert_eq!((bench.woken(), bench.view().shared), (vec![], None));
    bench.pass(secs(15) - MICRO).apply_time();
    assert_eq!(bench.woken(), []);
    bench.pass(MICRO).apply_time();
    assert_eq!((bench.woken(), bench.shown()), (vec![(W, 1)], None));
    assert_eq!(bench.changed_shares, [(gone.token, gone.grant_id)]);
    let writer = bench.claim(W, 1).granted();
    assert_eq!(writer.previous_end, Some(LeaseEnd::Expired), "dated to the end of the delay");
}

#[test]
fn the_permits_and_the_slot_of_a_ghost_stay_used() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let [first, second] = [A, B].map(|request| bench.take_part(request, 1, 3).granted());
    bench.release(&first);
    assert_eq!((bench.permits_used(), bench.view().shared.unwrap().count), (Some(2), 1));
    let third = bench.without_delays().take_part(C, 1, 3).granted();
    assert_eq!([slot(&first), slot(&second), slot(&third)], [1, 2, 3]);
    assert_eq!(bench.take_part(D, 1, 3), AcquireOutcome::Queued);
    bench.pass(secs(1)).release(&second);
    bench.release(&third);
    assert_eq!(bench.woken(), [(D, 1)]);
    assert_eq!(slot(&bench.claim(D, 1).granted()), 3);
    let view = bench.view();
    assert_eq!((view.shared.unwrap().count, bench.shown()), (1, Some((first.token, secs(59)))));
    bench.pass(secs(30)).apply_time();
    assert_eq!(bench.permits_used(), Some(2), "though nobody holds it");
    assert_eq!(bench.read(5), AcquireOutcome::ModeMismatch, "it is in use as a semaphore");
    assert_eq!(bench.pass(secs(29)).permits_used(), None, "both are gone, unnoticed");
    assert!(bench.read(6).granted().slot.is_none());
}

#[test]
fn a_late_release_lifts_a_lock_delay_and_no_min_hold() {
    let mut bench = Bench::with_delays(secs(40), secs(60));
    let grant = bench.read(A).granted();
    assert_eq!(bench.without_delays().write(W), AcquireOutcome::Queued);
    bench.pass(TTL).apply_time();
    assert_eq!(bench.shown(), Some((grant.token, secs(60))), "the longer of the two");
    assert_eq!(bench.renew(&grant, None), RenewOutcome::Lost(ended(LeaseEnd::Expired, None)));
    assert_eq!(bench.pass(secs(5)).release(&grant), ReleaseOutcome::Gone(ended(LeaseEnd::Expired, None)));
    assert_eq!((bench.woken(), bench.shown()), (vec![], Some((grant.token, secs(5)))), "40 s after the grant");
    assert_eq!(bench.changed_shares, [(grant.token, grant.grant_id)]);
    assert_eq!(bench.acquire(A, 2), AcquireOutcome::OtherTerms);
    let mut bench = Bench::with_delays(Duration::ZERO, secs(60));
    let grant = bench.read(A).granted();
    assert_eq!(bench.without_delays().write(W), AcquireOutcome::Queued);
    bench.pass(TTL).apply_time();
    bench.pass(secs(30)).release(&grant);
    assert_eq!(bench.woken(), [(W, 1)]);
    assert_eq!(bench.claim(W, 1).granted().previous_end, Some(LeaseEnd::Expired));
}

#[test]
fn an_operator_lifts_a_ghost_by_its_token_and_leaves_none() {
    let mut bench = Bench::with_delays(secs(60), secs(15));
    let [gone, held] = [A, B].map(|request| bench.read(request).granted());
    bench.release(&gone);
    let lower = FencingToken::new(gone.token.get() - 1).unwrap();
    assert_eq!(bench.force_release(lower), RevokeOutcome::TokenMismatch(held.token));
    let holder = |request: u128| RevokeOutcome::Revoked(Holder::new(request.to_string()).unwrap());
    assert_eq!(bench.force_release(gone.token), holder(A));
    assert_eq!((bench.ends(), bench.shown()), (vec![], None));
    assert_eq!(bench.force_release(held.token), holder(B));
    assert_eq!((bench.ends(), bench.lock.ghosts().count()), (vec![LeaseEnd::Revoked], 0));
    assert_eq!(bench.force_release(held.token), RevokeOutcome::NotHeld);
    let gone = bench.take_part(C, 2, 2).granted();
    bench.release(&gone);
    assert_eq!(bench.force_release(lower), RevokeOutcome::TokenMismatch(gone.token), "nobody holds it");
    assert_eq!(bench.force_release(gone.token), holder(C));
    assert_eq!(bench.permits_used(), None);
}

/// As of any lease that has ended.
#[test]
fn the_token_of_a_ghost_has_ended_and_is_stale_once_a_newer_one_was_granted() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let gone = bench.read(A).granted();
    bench.release(&gone);
    bench.pass(secs(30));
    assert_eq!(bench.status(gone.token), TokenStatus::Ended, "longer than ends are remembered");
    assert_eq!(bench.view().previous_end, None, "but how it ended is not");
    let reader = bench.read(B).granted();
    assert_eq!((bench.status(gone.token), bench.status(reader.token)), (TokenStatus::Stale, TokenStatus::Current));
    assert_eq!((reader.previous_end, bench.acquire(A, 2)), (None, AcquireOutcome::Ended));
}

#[test]
fn no_lease_becomes_exclusive_beside_a_ghost() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let gone = bench.read(A).granted();
    bench.release(&gone);
    let reader = bench.without_delays().read(B).granted();
    let convert = Command::Convert { lease_id: reader.lease_id, token: reader.token, to: ConvertTo::Exclusive };
    let refused = bench.turn(|turn| turn.run(convert.clone()));
    let Outcome::Convert(ConvertOutcome::Contended(contention)) = refused else { panic!("{refused:?}") };
    assert_eq!(contention.delay.map(|delay| delay.token), Some(gone.token), "who is in its way");
    bench.pass(secs(60)).force_release(reader.token);
    let reader = bench.read(C).granted();
    let convert = Command::Convert { lease_id: reader.lease_id, token: reader.token, to: ConvertTo::Exclusive };
    let done = bench.turn(|turn| turn.run(convert));
    assert!(matches!(done, Outcome::Convert(ConvertOutcome::Converted(_))), "{done:?}");
}

#[test]
fn a_downgraded_lease_keeps_its_delays_and_leaves_a_ghost() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let writer = bench.write(A).granted();
    let convert = Command::Convert { lease_id: writer.lease_id, token: writer.token, to: ConvertTo::Shared };
    bench.turn(|turn| turn.run(convert));
    bench.pass(secs(1)).release(&writer);
    assert_eq!((bench.lock.delay(), bench.shown()), (None, Some((writer.token, secs(59)))));
    bench.without_delays().read(B).granted();
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
}

#[test]
fn ghosts_count_as_holders_do_towards_the_bound_and_more_than_a_batch_go_in_steps() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let count = u128::try_from(HOLDERS_MAX).unwrap();
    let grants: Vec<_> = (0..count).map(|request| bench.read(1_000 + request).granted()).collect();
    for grant in &grants[..SHARED_ENDS_PER_TURN + 8] {
        bench.release(grant);
    }
    assert_eq!(bench.read(A), AcquireOutcome::Queued, "all places are occupied");
    bench.pass(TTL - MICRO);
    for grant in &grants[SHARED_ENDS_PER_TURN + 8..] {
        bench.renew(grant, secs(3_600));
    }
    bench.pass(secs(30) + MICRO).apply_time();
    assert_eq!(bench.lock.ghosts().count(), 8);
    assert!(bench.lock.next_due().is_some_and(|due| due <= bench.now), "the rest is due at once");
    assert_eq!(bench.woken(), [(A, 1)]);
    bench.apply_time();
    assert_eq!((bench.lock.ghosts().count(), bench.shown()), (0, None));
}

/// A turn ends so many leases. One more is overdue, and its holder says that it has stopped.
#[test]
fn a_late_release_of_a_lease_that_no_turn_had_room_to_end_lifts_its_ghost() {
    for is_operator in [false, true] {
        let mut bench = Bench::with_delays(Duration::ZERO, secs(60));
        let count = u128::try_from(2 * SHARED_ENDS_PER_TURN).unwrap() + 1;
        let grants: Vec<_> = (0..count).map(|request| bench.read(1_000 + request).granted()).collect();
        bench.pass(TTL).apply_time();
        let last = grants.last().unwrap();
        if is_operator {
            assert!(matches!(bench.force_release(last.token), RevokeOutcome::Revoked(_)));
        } else {
            assert_eq!(bench.release(last), ReleaseOutcome::Gone(ended(LeaseEnd::Expired, None)));
        }
        assert_eq!(bench.ends().len(), SHARED_ENDS_PER_TURN + 1);
        assert_eq!((bench.lock.shared().count(), bench.lock.ghosts().count()), (0, grants.len() - 1));
    }
}

#[test]
fn leases_that_expire_unnoticed_are_seen_as_ghosts() {
    let mut bench = Bench::with_delays(Duration::ZERO, secs(15));
    let [one, both] = [(A, 1), (B, 2)].map(|(request, count)| bench.take_part(request, count, 4).granted());
    bench.without_delays().take_part(C, 1, 4).granted();
    bench.pass(TTL + secs(14));
    let view = bench.view();
    let known = (view.newest_token, view.shared.unwrap().count);
    assert_eq!(known, (Some(both.token), 0), "the one without a delay is forgotten");
    assert_eq!((bench.permits_used(), bench.shown()), (Some(3), Some((one.token, secs(1)))));
    assert!(bench.lock.is_in_use(bench.now));
    bench.pass(secs(1));
    assert_eq!((bench.permits_used(), bench.shown(), bench.lock.is_in_use(bench.now)), (None, None, false));
    assert_eq!(bench.view().previous_end, Some(LeaseEnd::Expired));
    bench.apply_time();
    assert_eq!(bench.status(both.token), TokenStatus::Ended);
}

#[test]
fn a_ghost_stays_no_longer_than_it_was_asked_for_after_the_clock_stepped_back() {
    let mut bench = Bench::with_delays(Duration::ZERO, secs(15));
    let grant = bench.read(A).granted();
    bench.pass(TTL).apply_time();
    bench.step_back(secs(3_600));
    assert_eq!(bench.shown(), Some((grant.token, secs(15))), "before any turn");
    bench.apply_time();
    assert_eq!(bench.changed_shares, [(grant.token, grant.grant_id)]);
    assert_eq!(bench.lock.next_due(), Some(bench.now.after(secs(10))), "its end, then its place");
    bench.pass(secs(15)).apply_time();
    assert_eq!((bench.shown(), bench.lock.ghosts().count()), (None, 0));
}

#[test]
fn a_classic_client_that_takes_the_lock_ends_shared_leases_without_ghosts() {
    let mut bench = Bench::with_delays(secs(60), secs(15));
    bench.read(A).granted();
    bench.classic = Some(ClassicHold { left: None });
    bench.apply_time();
    assert_eq!((bench.ends(), bench.lock.ghosts().count()), (vec![LeaseEnd::Revoked], 0));
}

#[test]
fn ghosts_need_servers_that_know_them() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let grant = bench.read(A).granted();
    let needs = Features::DELAYS.with(Features::SHARED).with(Features::GHOSTS);
    assert_eq!(bench.lock.needs(), needs);
    bench.release(&grant);
    assert_eq!((bench.lock.needs(), bench.lock.is_in_use(bench.now)), (Features::GHOSTS, true));
    bench.pass(secs(60)).apply_time();
    assert_eq!((bench.lock.needs(), bench.lock.is_in_use(bench.now)), (Features::NONE, false));
    let convert = |to| Command::Convert { lease_id: grant.lease_id, token: grant.token, to };
    assert!(Features::GHOSTS.are_among(Features::of(&convert(ConvertTo::Shared))), "the lease may have delays");
    assert!(!Features::GHOSTS.are_among(Features::of(&convert(ConvertTo::Exclusive))));
}

#[test]
fn a_ghost_is_taken_over_with_its_place() {
    let mut bench = Bench::with_delays(secs(60), Duration::ZERO);
    let [one, two] = [A, B].map(|request| bench.take_part(request, 1, 3).granted());
    bench.release(&one);
    let ghost: Ghost = bench.lock.ghost_of(one.token).unwrap().clone();
    let lease = bench.lock.lease_of(two.token).unwrap().clone();
    let mut taken_over = Lock::default();
    assert!(taken_over.keep_ghost(ghost.clone()) && taken_over.keep_shared(lease));
    assert!(!taken_over.clone().keep_ghost(ghost.clone()), "its slot is taken");
    let reader = Ghost { mode: Mode::Shared, ..ghost };
    assert!(!taken_over.clone().keep_ghost(reader), "a semaphore has no readers");
    bench.lock = taken_over;
    assert_eq!(bench.permits_used(), Some(2));
    assert_eq!(slot(&bench.take_part(C, 1, 3).granted()), 3);
}
