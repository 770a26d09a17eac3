//! `max_hold`: the bound on all the time that a request holds the lock.

use super::*;

const MAX: Duration = secs(70);

/// A bench where A holds the lock, at most for [`MAX`].
fn held() -> (Bench, Grant) {
    let mut bench = Bench::new();
    bench.max_hold = MaxHold::new(MAX);
    let grant = bench.acquire(A, 1).granted();
    (bench, grant)
}

#[test]
fn renewals_extend_a_lease_up_to_its_max_hold_and_answer_what_is_left() {
    let (mut bench, grant) = held();
    assert_eq!(grant.left, TTL);
    assert_eq!(bench.pass(secs(25)).renew(&grant, None).left(), TTL);
    assert_eq!(bench.pass(secs(25)).renew(&grant, None).left(), secs(20), "70 s after the grant");
    assert_eq!(bench.pass(secs(15)).renew(&grant, None).left(), secs(5));
    assert_eq!(bench.renew(&grant, secs(60)).left(), secs(5), "a longer TTL moves no bound");
    assert_eq!(bench.attach(&grant, 1, stream(1)).left(), secs(5));
    assert_eq!(bench.renew_attached(&grant, stream(1)).left(), secs(5));
    assert_eq!(bench.acquire(A, 2).granted().left, secs(5));
    assert_eq!(bench.pass(secs(5)).renew(&grant, None), RenewOutcome::Lost(ended(LeaseEnd::Expired, None)));
}

#[test]
fn who_waits_is_served_when_the_max_hold_is_over() {
    let (mut bench, grant) = held();
    bench.max_hold = None;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    for left in [30, 30, 30, 30, 20, 10] {
        assert_eq!(bench.pass(secs(10)).renew(&grant, None).left(), secs(left));
    }
    bench.pass(secs(10)).apply_time();
    assert_eq!((bench.ends(), bench.woken()), (vec![LeaseEnd::Expired], vec![(B, 1)]));
    let next = bench.claim(B, 1).granted();
    assert_eq!(next.previous_end, Some(LeaseEnd::Expired));
    for _ in 0..20 {
        assert_eq!(bench.pass(secs(10)).renew(&next, None).left(), TTL, "the bound is that of A's request");
    }
}

#[test]
fn a_waiter_is_granted_its_own_max_hold_from_its_grant_on() {
    let (mut bench, first) = Bench::held_with_waiters(&[]);
    bench.max_hold = MaxHold::new(MAX);
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    bench.pass(secs(20)).release(&first);
    let grant = bench.claim(B, 1).granted();
    bench.pass(secs(25)).renew(&grant, None).left();
    bench.pass(secs(25)).renew(&grant, None).left();
    assert_eq!(bench.pass(secs(19)).renew(&grant, None).left(), secs(1));
}

#[test]
fn a_lease_that_is_armed_again_keeps_its_max_hold() {
    let mut bench = Bench::new();
    bench.max_hold = MaxHold::new(secs(32));
    bench.acquire(A, 1).granted();
    bench.drop_call(A, 1);
    assert_eq!(bench.pass(secs(2)).acquire(A, 2).granted().left, TTL);
    bench.drop_call(A, 2);
    assert_eq!(bench.pass(secs(2)).acquire(A, 3).granted().left, secs(28), "32 s after the grant");
}

#[test]
fn only_a_lease_that_expires_at_its_max_hold_says_so() {
    let (mut bench, grant) = held();
    assert_eq!(bench.lock.lease().unwrap().max_hold_reached(), None, "its TTL is shorter");
    bench.pass(secs(25)).renew(&grant, None).left();
    assert_eq!(bench.lock.lease().unwrap().max_hold_reached(), None);
    bench.pass(secs(20)).renew(&grant, None).left();
    assert_eq!(bench.lock.lease().unwrap().max_hold_reached(), MaxHold::new(MAX));
}

#[test]
fn a_max_hold_below_the_ttl_bounds_the_grant_itself() {
    let mut bench = Bench::new();
    bench.max_hold = MaxHold::new(secs(10));
    let grant = bench.acquire(A, 1).granted();
    assert_eq!((grant.left, bench.renew(&grant, None).left()), (secs(10), secs(10)));
}
