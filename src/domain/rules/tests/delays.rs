//! Delays: `min_hold` and `lock_delay` keep a lock unavailable after a lease.

use super::*;
use crate::domain::{features::Features, lease::Delays};

/// A bench where A holds the lock, with these delays, and B waits.
fn held(min_hold: Duration, lock_delay: Duration) -> (Bench, Grant) {
    let mut bench = Bench::new();
    bench.delays = Delays::new(min_hold, lock_delay);
    let grant = bench.acquire(A, 1).granted();
    bench.delays = None;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    (bench, grant)
}

/// How long the lock stays unavailable.
fn left(bench: &Bench) -> Option<Duration> {
    bench.view().delay.map(|delay| delay.left)
}

#[test]
fn a_lock_that_is_released_early_is_free_when_its_min_hold_is_over() {
    let (mut bench, grant) = held(secs(60), Duration::ZERO);
    assert_eq!(left(&bench), None, "it is held");
    assert_eq!(bench.pass(secs(1)).release(&grant), ReleaseOutcome::Released);
    assert_eq!((bench.woken(), left(&bench)), (vec![], Some(secs(59))));
    let AcquireOutcome::Contended(contention) = bench.try_acquire(C, 1) else { panic!("granted") };
    let delay = contention.delay.unwrap();
    assert_eq!((delay.holder.as_str(), delay.token, delay.left), ("1", grant.token, secs(59)));
    assert_eq!((contention.current, contention.waiters), (None, 1));
    bench.pass(secs(59) - MICRO).apply_time();
    assert_eq!(bench.woken(), []);
    bench.pass(MICRO).apply_time();
    assert_eq!((bench.woken(), left(&bench)), (vec![(B, 1)], None));
    assert_eq!(bench.claim(B, 1).granted().previous_end, Some(LeaseEnd::Released), "59 s after the release");
}

#[test]
fn a_min_hold_that_is_over_leaves_no_delay() {
    let (mut bench, grant) = held(secs(20), Duration::ZERO);
    assert_eq!(bench.pass(secs(20)).release(&grant), ReleaseOutcome::Released);
    assert_eq!(bench.woken(), [(B, 1)]);
}

#[test]
fn a_lock_is_free_when_the_lock_delay_after_an_expiry_is_over() {
    let (mut bench, grant) = held(Duration::ZERO, secs(15));
    bench.pass(TTL).apply_time();
    assert_eq!((bench.ends(), bench.woken(), left(&bench)), (vec![LeaseEnd::Expired], vec![], Some(secs(15))));
    assert_eq!(bench.status(grant.token), TokenStatus::Ended);
    bench.pass(secs(15)).apply_time();
    assert_eq!(bench.woken(), [(B, 1)]);
    assert_eq!(bench.claim(B, 1).granted().previous_end, Some(LeaseEnd::Expired));
}

#[test]
fn a_release_leaves_no_lock_delay() {
    let (mut bench, grant) = held(Duration::ZERO, secs(15));
    assert_eq!(bench.release(&grant), ReleaseOutcome::Released);
    assert_eq!(bench.woken(), [(B, 1)]);
}

/// In Consul the old holder itself has to wait (hashicorp/consul#430).
#[test]
fn the_late_release_of_its_holder_ends_a_lock_delay_and_nothing_else_does() {
    let (mut bench, grant) = held(Duration::ZERO, secs(15));
    bench.pass(TTL).apply_time();
    let other = Grant { lease_id: LeaseId(Uuid::from_u128(77)), ..grant };
    assert_eq!(bench.release(&other), ReleaseOutcome::Gone(Gone { fate: Fate::Unknown, successor: None }));
    assert_eq!(bench.renew(&grant, None), RenewOutcome::Lost(ended(LeaseEnd::Expired, None)));
    assert_eq!(left(&bench), Some(secs(15)));
    assert_eq!(bench.pass(secs(1)).release(&grant), ReleaseOutcome::Gone(ended(LeaseEnd::Expired, None)));
    assert_eq!((bench.woken(), left(&bench)), (vec![(B, 1)], None));
    let next = bench.claim(B, 1).granted();
    assert_eq!(next.previous_end, Some(LeaseEnd::Expired));
    let late = ReleaseOutcome::Gone(ended(LeaseEnd::Expired, Some(next.token)));
    assert_eq!(bench.release(&grant), late, "again");
}

#[test]
fn a_late_release_does_not_end_a_min_hold() {
    let (mut bench, grant) = held(secs(40), secs(60));
    bench.pass(TTL).apply_time();
    assert_eq!(left(&bench), Some(secs(60)), "the longer of the two");
    bench.pass(secs(5)).release(&grant);
    assert_eq!((bench.woken(), left(&bench)), (vec![], Some(secs(5))), "40 s after the grant");
}

#[test]
fn a_lease_whose_stream_ends_leaves_a_lock_delay() {
    let (mut bench, grant) = held(Duration::ZERO, secs(15));
    bench.attach(&grant, 1, stream(1));
    bench.turn(|turn| turn.disconnect(grant.lease_id, stream(1)));
    assert_eq!((bench.ends(), bench.woken(), left(&bench)), (vec![LeaseEnd::Revoked], vec![], Some(secs(15))));
}

#[test]
fn an_operator_ends_a_lease_and_its_delays_and_a_delay_alone() {
    let (mut bench, grant) = held(secs(60), secs(15));
    let holder = Holder::new(A.to_string()).unwrap();
    assert_eq!(bench.force_release(grant.token), RevokeOutcome::Revoked(holder.clone()));
    assert_eq!((bench.woken(), left(&bench)), (vec![(B, 1)], None));
    let (mut bench, grant) = held(secs(60), secs(15));
    bench.pass(secs(1)).release(&grant);
    let lower = FencingToken::new(grant.token.get() - 1).unwrap();
    assert_eq!(bench.force_release(lower), RevokeOutcome::TokenMismatch(grant.token));
    assert_eq!(left(&bench), Some(secs(59)));
    assert_eq!(bench.force_release(grant.token), RevokeOutcome::Revoked(holder));
    assert_eq!((bench.ends(), bench.woken()), (vec![], vec![(B, 1)]), "its lease had ended");
    assert_eq!(bench.claim(B, 1).granted().previous_end, Some(LeaseEnd::Released));
}

#[test]
fn the_request_of_a_delay_is_remembered_until_ten_seconds_after_it() {
    let (mut bench, grant) = held(secs(60), Duration::ZERO);
    bench.give_up(B, 1);
    bench.release(&grant);
    for _ in 0..6 {
        bench.pass(secs(10)).apply_time();
        assert_eq!(bench.acquire(A, 2), AcquireOutcome::Ended);
        assert_eq!(bench.release(&grant), ReleaseOutcome::Gone(ended(LeaseEnd::Released, None)));
    }
    assert_eq!(left(&bench), None);
    assert_eq!(bench.pass(secs(10) - MICRO).acquire(A, 2), AcquireOutcome::Ended);
    assert_eq!(bench.view().newest_token, Some(grant.token));
    assert_eq!(bench.pass(MICRO).acquire(A, 2).granted().previous_end, None);
}

#[test]
fn a_lock_with_a_delay_is_in_use_and_needs_servers_that_know_it() {
    let mut bench = Bench::new();
    bench.delays = Delays::new(secs(60), Duration::ZERO);
    let grant = bench.acquire(A, 1).granted();
    assert_eq!(bench.lock.needs(), Features::DELAYS);
    bench.release(&grant);
    assert_eq!((bench.lock.needs(), bench.lock.is_in_use(bench.now)), (Features::DELAYS, true));
    bench.pass(secs(60)).apply_time();
    assert_eq!((bench.lock.needs(), bench.lock.is_in_use(bench.now)), (Features::NONE, false));
    assert!(!bench.lock.is_idle(), "its end is remembered");
    bench.pass(secs(10)).apply_time();
    assert!(bench.lock.is_idle());
}

#[test]
fn a_lease_that_expires_unnoticed_is_seen_with_its_delay() {
    let (mut bench, grant) = held(Duration::ZERO, secs(15));
    bench.give_up(B, 1);
    bench.pass(TTL + secs(14));
    let view = bench.view();
    assert_eq!(
        (view.current, view.previous_end, view.newest_token),
        (None, Some(LeaseEnd::Expired), Some(grant.token))
    );
    assert_eq!((view.delay.map(|delay| delay.left), bench.lock.is_in_use(bench.now)), (Some(secs(1)), true));
    bench.pass(secs(1));
    assert_eq!((left(&bench), bench.lock.is_in_use(bench.now)), (None, false));
    assert_eq!(bench.pass(secs(9)).view().previous_end, Some(LeaseEnd::Expired), "9 s after the delay");
}

#[test]
fn a_classic_client_that_takes_the_lock_ends_the_lease_without_a_delay() {
    let (mut bench, _) = held(secs(60), secs(15));
    bench.classic = Some(ClassicHold { left: None });
    bench.apply_time();
    assert_eq!((bench.ends(), left(&bench)), (vec![LeaseEnd::Revoked], None));
}

#[test]
fn a_delay_is_no_longer_than_it_was_asked_for_after_the_clock_stepped_back() {
    let (mut bench, _) = held(Duration::ZERO, secs(15));
    bench.pass(TTL).apply_time();
    bench.step_back(secs(3_600)).apply_time();
    assert_eq!(left(&bench), Some(secs(15)));
    let (mut bench, grant) = held(secs(60), Duration::ZERO);
    bench.step_back(secs(3_600)).release(&grant);
    assert_eq!(left(&bench), Some(secs(60)));
}
