//! Renewal, attachment and revocation of leases.

use super::*;

#[test]
fn a_renewal_sets_the_time_left_to_the_ttl() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.pass(secs(20)).renew(&grant, None).left(), TTL, "set, not added");
    assert_eq!(bench.renew(&grant, secs(60)).left(), secs(60));
    assert_eq!(bench.pass(secs(30)).renew(&grant, None).left(), secs(60), "the renewal's TTL replaced the lease's own");
    assert_eq!(bench.claim(A, 1).granted().token, grant.token, "the token stays");
}

#[test]
fn a_renewal_never_shortens_a_lease() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.pass(secs(10)).renew(&grant, secs(1)).left(), secs(20));
    assert_eq!(bench.pass(secs(19)).renew(&grant, secs(1)).left(), secs(1));
    assert_eq!(bench.renew(&grant, secs(2)).left(), secs(2));
}

#[test]
fn an_attachment_renews_and_so_does_each_renewal_through_it() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.pass(secs(10)).attach(&grant, 1, stream(1)).left(), TTL);
    assert_eq!(bench.pass(secs(10)).renew_attached(&grant, stream(1)).left(), TTL);
    assert_eq!(bench.renew_attached(&grant, stream(2)), RenewOutcome::AttachedElsewhere);
}

#[test]
fn the_newest_attachment_wins_and_the_replaced_one_is_notified() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    bench.attach(&grant, 1, stream(1)).left();
    assert!(bench.effects.is_empty());
    bench.attach(&grant, 2, stream(2)).left();
    let detached = |number| Effect::Detached {
        replica: ReplicaId(Uuid::nil()),
        lease_id: grant.lease_id,
        attachment: stream(number),
    };
    assert_eq!(bench.effects.as_slice(), [detached(1)]);
    assert_eq!(bench.renew_attached(&grant, stream(1)), RenewOutcome::AttachedElsewhere);
    assert_eq!(bench.attach(&grant, 1, stream(3)), RenewOutcome::AttachedElsewhere, "a late attempt of a lower number");
    assert!(bench.effects.is_empty());
    bench.attach(&grant, 2, stream(4)).left();
    assert_eq!(bench.effects.as_slice(), [detached(2)], "among equal numbers the latest wins");
}

#[test]
fn a_lease_may_be_attached_by_its_grant() {
    let (mut bench, first) = Bench::held_with_waiters(&[B]);
    bench.attachment = Some(stream(1));
    bench.release(&first);
    let grant = bench.claim(B, 1).granted();
    assert_eq!(bench.pass(secs(10)).renew_attached(&grant, stream(1)).left(), TTL);
    bench.attachment = Some(stream(2));
    assert_eq!(bench.acquire(B, 2).granted().lease_id, grant.lease_id);
    assert_eq!(bench.renew_attached(&grant, stream(2)), RenewOutcome::AttachedElsewhere, "a repeat does not attach");
    assert_eq!(bench.attach(&grant, 2, stream(2)).left(), TTL, "the client's next attachment is attempt 2");
    assert_eq!(bench.attach(&grant, 1, stream(1)), RenewOutcome::AttachedElsewhere);
}

#[test]
fn an_attached_lease_whose_client_never_learned_of_it_is_cut_short() {
    let mut bench = Bench::new();
    bench.attachment = Some(stream(1));
    bench.acquire(A, 1).granted();
    bench.drop_call(A, 1);
    assert_eq!(bench.pass(secs(3)).acquire(B, 1).granted().previous_end, Some(LeaseEnd::Expired));
}

#[test]
fn a_repeated_attachment_replaces_nothing() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    bench.attach(&grant, 1, stream(1)).left();
    bench.attach(&grant, 1, stream(1)).left();
    assert!(bench.effects.is_empty());
}

#[test]
fn a_detached_lease_lives_on_and_its_attempts_start_again_at_1() {
    let (mut bench, grant) = Bench::held_with_waiters(&[]);
    bench.attach(&grant, 2, stream(2)).left();
    bench.turn(|turn| turn.detach(grant.lease_id, stream(1)));
    assert_eq!(
        bench.attach(&grant, 1, stream(1)),
        RenewOutcome::AttachedElsewhere,
        "a detach by another stream changes nothing"
    );
    bench.renew_attached(&grant, stream(2)).left();
    bench.turn(|turn| turn.detach(grant.lease_id, stream(2)));
    assert_eq!(bench.renew_attached(&grant, stream(2)), RenewOutcome::AttachedElsewhere);
    assert_eq!(bench.pass(secs(10)).view().current.unwrap().left, secs(20));
    assert_eq!(bench.attach(&grant, 1, stream(3)).left(), TTL, "a new owner starts at attempt 1");
    assert!(bench.effects.is_empty());
}

#[test]
fn a_stream_that_ends_revokes_only_leases_still_attached_to_it() {
    let (mut bench, grant) = Bench::held_with_waiters(&[B]);
    bench.attach(&grant, 1, stream(1)).left();
    bench.attach(&grant, 2, stream(2)).left();
    bench.turn(|turn| turn.disconnect(grant.lease_id, stream(1)));
    assert!(bench.effects.is_empty());
    bench.turn(|turn| turn.disconnect(grant.lease_id, stream(2)));
    assert_eq!(bench.ends(), [LeaseEnd::Revoked]);
    assert_eq!(bench.woken(), [(B, 1)]);
    assert_eq!(bench.renew(&grant, None), RenewOutcome::Lost(ended(LeaseEnd::Revoked, None)));
}

#[test]
fn force_release_revokes_only_the_lease_with_the_expected_token() {
    let (mut bench, grant) = Bench::held_with_waiters(&[B]);
    bench.attach(&grant, 1, stream(1)).left();
    let wrong = FencingToken::new(grant.token.get() - 1).unwrap();
    assert_eq!(bench.force_release(wrong), RevokeOutcome::TokenMismatch(grant.token));
    assert!(bench.effects.is_empty());
    assert_eq!(bench.force_release(grant.token), RevokeOutcome::Revoked(Holder::new("1".into()).unwrap()));
    let Effect::Ended { lease, end } = &bench.effects[0] else { panic!("no effect for the victim's stream") };
    assert_eq!((lease.attachment, *end), (Some(stream(1)), LeaseEnd::Revoked));
    assert_eq!(bench.woken(), [(B, 1)]);
    assert_eq!(bench.status(grant.token), TokenStatus::Ended, "refused at once");
    assert_eq!(bench.force_release(grant.token), RevokeOutcome::NotHeld);
    assert_eq!(bench.renew_attached(&grant, stream(1)), RenewOutcome::Lost(ended(LeaseEnd::Revoked, None)));
    assert_eq!(bench.acquire(A, 2), AcquireOutcome::Ended);
    let next = bench.claim(B, 1).granted();
    assert_eq!(next.previous_end, Some(LeaseEnd::Revoked));
    assert_eq!(bench.force_release(grant.token), RevokeOutcome::TokenMismatch(next.token), "the successor is safe");
}

#[test]
fn a_waiter_with_a_short_ttl_does_not_shorten_the_holders() {
    let (mut bench, _) = Bench::held_with_waiters(&[]);
    bench.ttl = secs(1);
    bench.acquire(B, 1);
    bench.try_acquire(C, 1);
    bench.pass(TTL - MICRO).apply_time();
    assert_eq!(bench.ends(), []);
    bench.pass(MICRO).apply_time();
    assert_eq!(bench.claim(B, 1).granted().left, secs(1));
}
