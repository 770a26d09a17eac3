//! Beside clients that hold the same lock past the rules.

use super::*;

const HOLD: ClassicHold = ClassicHold { left: Some(Duration::from_secs(9)) };

#[test]
fn what_a_classic_client_holds_is_held() {
    let mut bench = Bench::new();
    bench.classic = Some(HOLD);
    let AcquireOutcome::Contended(contention) = bench.try_acquire(A, 1) else { panic!("it is held") };
    assert_eq!((contention.current, contention.classic, contention.waiters), (None, Some(HOLD), 0));
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [], "it is on offer to nobody");
    bench.classic = None;
    bench.settle();
    assert_eq!(bench.woken(), [(B, 1)], "whoever comes by next finds it free");
    bench.claim(B, 1).granted();
}

#[test]
fn an_offer_is_taken_back_when_a_classic_client_was_faster() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.classic = Some(HOLD);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.classic = None;
    bench.settle();
    assert_eq!(bench.woken(), [(B, 1)], "it kept its place");
    let grant = bench.claim(B, 1).granted();
    assert_eq!(grant.previous_end, Some(LeaseEnd::Released), "the classic hold left no trace");
}

#[test]
fn the_offer_of_one_who_only_tries_ends_its_wait() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    bench.classic = Some(HOLD);
    let AcquireOutcome::TimedOut(contention) = bench.try_acquire(B, 2) else { panic!("its wait is over") };
    assert_eq!((contention.classic, contention.waiters), (Some(HOLD), 0));
}

#[test]
fn a_lease_beside_a_classic_client_is_over() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
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
fn a_lease_that_expired_first_has_expired() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[]);
    bench.classic = Some(HOLD);
    bench.pass(TTL).settle();
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.status(held.token), TokenStatus::Ended);
}
