//! Classic clients, which hold the same lock outside the rules.

use super::*;

const HOLD: ClassicHold = ClassicHold { left: Some(Duration::from_secs(9)) };

#[test]
fn a_lock_that_a_classic_client_holds_is_held() {
    let mut bench = Bench::new();
    bench.classic = Some(HOLD);
    let AcquireOutcome::Contended(contention) = bench.try_acquire(A, 1) else { panic!("the lock is held") };
    assert_eq!((contention.current, contention.classic, contention.waiters), (None, Some(HOLD), 0));
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [], "it is not offered");
    bench.classic = None;
    bench.apply_time();
    assert_eq!(bench.woken(), [(B, 1)], "the next command offers it");
    bench.claim(B, 1).granted();
}

#[test]
fn an_offer_is_withdrawn_if_a_classic_client_was_faster() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.classic = Some(HOLD);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.classic = None;
    bench.apply_time();
    assert_eq!(bench.woken(), [(B, 1)], "B kept its queue position");
    let grant = bench.claim(B, 1).granted();
    assert_eq!(grant.previous_end, Some(LeaseEnd::Released), "a classic hold is not a lease");
}

#[test]
fn a_try_of_an_offered_request_times_out_while_a_classic_client_holds_the_lock() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    bench.classic = Some(HOLD);
    let AcquireOutcome::TimedOut(contention) = bench.try_acquire(B, 2) else { panic!("the wait goes on") };
    assert_eq!((contention.classic, contention.waiters), (Some(HOLD), 0));
}

#[test]
fn a_lease_is_revoked_if_a_classic_client_holds_the_lock() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.classic = Some(HOLD);
    let lost = RenewOutcome::Lost(Gone { fate: Fate::Ended(LeaseEnd::Revoked), successor: None });
    assert_eq!(bench.renew(&held, None), lost);
    assert_eq!(bench.ends(), [LeaseEnd::Revoked]);
    assert_eq!(bench.woken(), []);
    bench.classic = None;
    assert_eq!(bench.renew(&held, None), lost, "an ended lease is never revived");
    bench.claim(B, 1).granted();
}

#[test]
fn a_lease_that_expired_before_a_classic_client_took_the_lock_has_expired() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.classic = Some(HOLD);
    bench.pass(TTL).apply_time();
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.status(held.token), TokenStatus::Ended);
}
