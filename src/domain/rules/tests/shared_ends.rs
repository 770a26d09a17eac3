//! The ends of shared leases: what their holders and the next ones hear, and the batches in which they expire.

use super::{shared::W, *};

/// More readers than one turn ends: requests 100 to 139.
fn held_by_40() -> (Bench, [Grant; 40]) {
    let mut readers = 100..140;
    Bench::held_by_readers([(); 40].map(|()| readers.next().unwrap()))
}

#[test]
fn who_lost_a_shared_lease_hears_of_the_newest_of_the_others() {
    let (mut bench, [a, b, c]) = Bench::held_by_readers([A, B, C]);
    assert_eq!(bench.release(&a), ReleaseOutcome::Released);
    assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Released], vec![A]));
    let lost = ended(LeaseEnd::Released, Some(c.token));
    assert_eq!(bench.release(&a), ReleaseOutcome::Gone(lost));
    assert_eq!(bench.renew(&a, None), RenewOutcome::Lost(lost));
    assert_eq!(bench.attach(&a, 1, stream(1)), RenewOutcome::Lost(lost));
    assert_eq!(bench.read(A), AcquireOutcome::Ended);
    bench.release(&c);
    assert_eq!(bench.release(&a), ReleaseOutcome::Gone(ended(LeaseEnd::Released, Some(b.token))));
}

#[test]
fn a_lease_whose_end_is_forgotten_is_superseded_by_a_writer_and_not_by_readers() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.release(&a);
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.pass(secs(10));
    let unknown = Gone { fate: Fate::Unknown, successor: Some(b.token) };
    assert_eq!(bench.release(&a), ReleaseOutcome::Gone(unknown));
    assert_eq!(bench.renew(&a, None), RenewOutcome::Lost(unknown));
    bench.release(&b);
    let writer = bench.claim(W, 1).granted();
    let superseded = Gone { fate: Fate::Superseded, successor: Some(writer.token) };
    assert_eq!(bench.renew(&a, None), RenewOutcome::Lost(superseded));
}

#[test]
fn force_release_ends_the_one_lease_with_the_token() {
    let (mut bench, [a, b, c]) = Bench::held_by_readers([A, B, C]);
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    for other in [a.token.get() - 1, c.token.get() + 1] {
        let outcome = bench.force_release(FencingToken::new(other).unwrap());
        assert_eq!(outcome, RevokeOutcome::TokenMismatch(c.token));
    }
    assert!(bench.effects.is_empty());
    for (grant, request) in [(b, B), (c, C), (a, A)] {
        let holder = Holder::new(request.to_string()).unwrap();
        assert_eq!(bench.woken(), []);
        assert_eq!(bench.force_release(grant.token), RevokeOutcome::Revoked(holder));
        assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Revoked], vec![request]));
    }
    assert_eq!(bench.woken(), [(W, 1)], "in the turn that ended the last one");
    assert_eq!(bench.force_release(a.token), RevokeOutcome::NotHeld);
    assert_eq!(bench.claim(W, 1).granted().previous_end, Some(LeaseEnd::Revoked));
}

#[test]
fn readers_hand_the_worst_end_on_to_the_next_writer() {
    use LeaseEnd::{Expired, Released, Revoked};
    let end = |bench: &mut Bench, grant: &Grant, end| match end {
        Released => assert_eq!(bench.release(grant), ReleaseOutcome::Released),
        Revoked => assert!(matches!(bench.force_release(grant.token), RevokeOutcome::Revoked(_))),
        Expired => bench.pass(grant.left).apply_time(),
    };
    for (of_writer, of_reader, heard) in [
        (Released, Released, Released),
        (Released, Revoked, Revoked),
        (Released, Expired, Expired),
        (Revoked, Released, Revoked),
        (Revoked, Revoked, Revoked),
        (Revoked, Expired, Expired),
        (Expired, Released, Expired),
        (Expired, Revoked, Expired),
        (Expired, Expired, Expired),
    ] {
        let (mut bench, writer) = Bench::held_with_waiters(&[]);
        end(&mut bench, &writer, of_writer);
        let reader = bench.read(B).granted();
        assert_eq!((reader.previous_end, bench.view().previous_end), (Some(of_writer), Some(of_writer)));
        end(&mut bench, &reader, of_reader);
        assert_eq!(bench.view().previous_end, Some(heard));
        let next = bench.write(W).granted();
        assert_eq!(next.previous_end, Some(heard), "after {of_writer:?} and {of_reader:?}");
        bench.release(&next);
        assert_eq!(bench.read(C).granted().previous_end, Some(Released), "a writer hands on its own end");
    }
}

#[test]
fn an_expiry_is_handed_on_through_all_readers_that_heard_of_it() {
    let (mut bench, _) = Bench::held_with_waiters(&[]);
    bench.pass(TTL);
    let readers = [B, C].map(|reader| bench.read(reader).granted());
    assert_eq!(readers.map(|grant| grant.previous_end), [Some(LeaseEnd::Expired); 2]);
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.pass(secs(20));
    for grant in &readers {
        bench.release(grant);
    }
    assert_eq!(bench.claim(W, 1).granted().previous_end, Some(LeaseEnd::Expired), "20 s after it");
}

#[test]
fn what_readers_hand_on_is_what_the_last_one_did() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.force_release(b.token);
    assert_eq!(bench.view().previous_end, None, "that of the reader that is there");
    let c = bench.read(C).granted();
    assert_eq!((c.previous_end, bench.view().previous_end), (Some(LeaseEnd::Revoked), Some(LeaseEnd::Revoked)));
    bench.release(&a);
    bench.release(&c);
    assert_eq!(bench.write(W).granted().previous_end, Some(LeaseEnd::Revoked));
}

#[test]
fn readers_expire_in_the_order_of_time_each_at_its_own() {
    let mut bench = Bench::new();
    let spans = [(A, 20), (B, 5), (C, 20), (D, 10)];
    for (reader, ttl) in spans {
        bench.ttl = secs(ttl);
        bench.read(reader).granted();
    }
    bench.pass(secs(20));
    assert_eq!((bench.shares(), bench.view().previous_end), (vec![], Some(LeaseEnd::Expired)));
    bench.apply_time();
    assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Expired; 4], vec![B, D, A, C]));
    assert_eq!(bench.acquire(D, 2).granted().previous_end, Some(LeaseEnd::Expired), "forgotten 10 s after its end");
    assert_eq!(bench.pass(secs(10) - MICRO).acquire(A, 2), AcquireOutcome::Ended);
}

/// Found by the oracle: the end of an older lease brought the token back.
#[test]
fn a_newer_token_that_is_forgotten_stays_forgotten_when_an_older_reader_ends() {
    for is_noticed in [true, false] {
        let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
        bench.release(&b);
        bench.pass(secs(10));
        let status = |bench: &Bench| [a, b].map(|grant| bench.status(grant.token));
        assert_eq!(status(&bench), [TokenStatus::Current, TokenStatus::Unknown]);
        bench.pass(TTL - secs(10));
        if is_noticed {
            bench.apply_time();
        }
        assert_eq!(bench.view().newest_token, Some(a.token));
        assert_eq!(status(&bench), [TokenStatus::Ended, TokenStatus::Unknown]);
    }
}

#[test]
fn dropped_waiters_and_readers_end_in_the_order_of_time() {
    let mut bench = Bench::new();
    bench.read(A).granted();
    bench.pass(secs(2)).read(B).granted();
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.pass(secs(26)).drop_call(W, 1);
    bench.pass(secs(5)).apply_time();
    assert_eq!((bench.ended_requests(), bench.woken()), (vec![A, B], vec![]));
    assert_eq!(bench.pass(secs(8) - MICRO).acquire(W, 2), AcquireOutcome::Ended, "10 s after its place was given up");
    bench.pass(MICRO).acquire(W, 2).granted();
}

#[test]
fn more_readers_than_a_batch_end_over_several_turns_and_none_of_them_lives() {
    let (mut bench, grants) = held_by_40();
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.pass(TTL);
    assert!(matches!(bench.renew(&grants[39], None), RenewOutcome::Lost(_)), "its time is over, although it is there");
    assert_eq!(bench.ended_requests(), (100..132).collect::<Vec<_>>());
    assert_eq!((bench.woken(), bench.shares()), (vec![], vec![]), "a writer waits for all ends");
    assert!(bench.lock.next_due().is_some_and(|due| due <= bench.now), "the expiry task goes on");
    assert_eq!(bench.status(grants[39].token), TokenStatus::Ended);
    bench.apply_time();
    assert_eq!((bench.ended_requests(), bench.woken()), ((132..140).collect::<Vec<_>>(), vec![(W, 1)]));
    let lost = RenewOutcome::Lost(ended(LeaseEnd::Expired, None));
    assert_eq!(grants.map(|grant| bench.renew(&grant, None)), [lost; 40]);
    assert_eq!(bench.claim(W, 1).granted().previous_end, Some(LeaseEnd::Expired));
}

#[test]
fn what_is_left_of_an_expired_batch_is_used_by_nobody() {
    let expired = || {
        let (mut bench, grants) = held_by_40();
        bench.pass(TTL);
        (bench, grants[39])
    };
    let (mut bench, _) = expired();
    bench.mode = Mode::Exclusive;
    let AcquireOutcome::Contended(contention) = bench.try_acquire(W, 1) else { panic!("beside a shared lease") };
    assert_eq!((contention.shared, contention.waiters), (None, 0));
    bench.try_acquire(W, 1).granted();
    type Act = fn(&mut Bench, &Grant) -> bool;
    let acts: [Act; 5] = [
        |bench, grant| matches!(bench.release(grant), ReleaseOutcome::Gone(_)),
        |bench, grant| matches!(bench.attach(grant, 1, stream(1)), RenewOutcome::Lost(_)),
        |bench, _| bench.read(139) == AcquireOutcome::Ended,
        |bench, _| bench.claim(139, 1) == AcquireOutcome::Ended,
        |bench, grant| !matches!(bench.force_release(grant.token), RevokeOutcome::Revoked(_)),
    ];
    for (number, act) in acts.into_iter().enumerate() {
        let (mut bench, grant) = expired();
        assert!(act(&mut bench, &grant), "{number}");
        assert_eq!(bench.ends(), [LeaseEnd::Expired; 32], "{number}");
    }
}
