//! Shared leases: readers hold a lock together. How these leases end is in `shared_ends`, how readers wait in
//! `shared_queue`.

use super::*;
use crate::domain::{
    features::Features,
    mode::{PermitLimit, Permits},
};

/// A request that is exclusive in these tests.
pub(super) const W: u128 = 20;

impl Bench {
    /// A bench where these requests share the lock.
    pub(super) fn held_by_readers<const N: usize>(readers: [u128; N]) -> (Self, [Grant; N]) {
        let mut bench = Self::new();
        let grants = readers.map(|reader| bench.read(reader).granted());
        (bench, grants)
    }

    pub(super) fn read(&mut self, request: u128) -> AcquireOutcome {
        self.mode = Mode::Shared;
        self.acquire(request, 1)
    }

    pub(super) fn write(&mut self, request: u128) -> AcquireOutcome {
        self.mode = Mode::Exclusive;
        self.acquire(request, 1)
    }

    /// The tokens and the times left of those who share the lock, as anybody sees them.
    pub(super) fn shares(&self) -> Vec<(FencingToken, Duration)> {
        let Some(shared) = self.view().shared else { return vec![] };
        assert_eq!(shared.count, shared.holders.len());
        shared.holders.iter().map(|holder| (holder.token, holder.left)).collect()
    }

    /// The requests whose leases the last command ended, in the order in which it told so.
    pub(super) fn ended_requests(&self) -> Vec<u128> {
        let ended = self.effects.iter().filter_map(|effect| match effect {
            Effect::Ended { lease, .. } => Some(lease.request.0.as_u128()),
            _ => None,
        });
        ended.collect()
    }
}

#[test]
fn readers_hold_a_lock_together_each_with_its_own_token_and_time() {
    let mut bench = Bench::new();
    let first = bench.read(A).granted();
    assert_eq!(bench.effects.as_slice(), [Effect::Granted(first.token)]);
    let second = bench.pass(secs(10)).read(B).granted();
    assert_eq!(bench.effects.as_slice(), [Effect::Granted(second.token)]);
    assert!(second.token > first.token && second.lease_id != first.lease_id);
    assert_eq!((second.left, second.previous_end), (TTL, None));
    assert_eq!(bench.shares(), [(first.token, secs(20)), (second.token, TTL)]);
    let view = bench.view();
    assert_eq!((view.current, view.newest_token, view.waiters), (None, Some(second.token), 0));
    assert!(bench.lock.is_in_use(bench.now) && bench.lock.lease().is_none());
    assert_eq!(bench.lock.leases().map(|lease| lease.token).collect::<Vec<_>>(), [first.token, second.token]);
    assert_eq!(bench.lock.next_due(), Some(bench.now.after(secs(20))));
}

#[test]
fn a_reader_may_share_a_lock_after_a_writer_and_a_writer_may_have_it_after_all_readers() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.read(B), AcquireOutcome::Queued);
    bench.release(&held);
    let reader = bench.claim(B, 1).granted();
    assert_eq!(bench.view().current, None);
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    bench.release(&reader);
    let writer = bench.claim(W, 1).granted();
    let view = bench.view();
    assert_eq!((view.current.map(|current| current.token), view.shared), (Some(writer.token), None));
    assert!(held.token < reader.token && reader.token < writer.token);
}

#[test]
fn a_view_shows_the_first_8_readers_and_counts_all_that_live() {
    let (mut bench, grants) = Bench::held_by_readers([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    bench.release(&grants[0]);
    bench.pass(secs(1)).drop_call(2, 1);
    for (passed, first, count) in [(secs(0), 1, 9), (secs(3), 2, 8), (TTL, 10, 0)] {
        let shared = bench.pass(passed).view().shared;
        let shown = shared.iter().flat_map(|shared| shared.holders.iter().map(|holder| holder.token));
        assert!(shown.eq(grants.iter().skip(first).take(8).map(|grant| grant.token)));
        assert_eq!(shared.map_or(0, |shared| shared.count), count, "also before a command applies an expiry");
    }
    assert!(!bench.lock.is_in_use(bench.now));
}

#[test]
fn the_token_of_each_reader_is_current_until_its_own_end() {
    let (mut bench, [a, b, c]) = Bench::held_by_readers([A, B, C]);
    let status = |bench: &Bench| [a, b, c].map(|grant| bench.status(grant.token));
    let (current, ended) = (TokenStatus::Current, TokenStatus::Ended);
    assert_eq!(status(&bench), [current; 3]);
    let around = [a.token.get() - 1, c.token.get() + 1].map(|token| FencingToken::new(token).unwrap());
    assert_eq!(around.map(|token| bench.status(token)), [TokenStatus::Stale, TokenStatus::Unknown]);
    bench.release(&c);
    assert_eq!(status(&bench), [current, current, ended]);
    bench.pass(secs(5)).release(&b);
    assert_eq!(status(&bench), [current, TokenStatus::Stale, ended]);
    bench.pass(secs(10) - MICRO);
    assert_eq!(status(&bench), [current, TokenStatus::Stale, ended], "10 s after the last end");
    bench.pass(MICRO);
    assert_eq!(status(&bench), [current, TokenStatus::Unknown, TokenStatus::Unknown]);
    assert_eq!(bench.view().newest_token, Some(a.token));
    bench.renew(&a, None);
    bench.pass(TTL);
    assert_eq!(bench.status(a.token), ended);
}

#[test]
fn a_repeat_returns_the_lease_of_its_own_request() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.pass(secs(10));
    let again = |grant: Grant| Grant { left: secs(20), ..grant };
    assert_eq!(bench.read(A).granted(), again(a));
    assert_eq!(bench.claim(B, 1).granted(), again(b));
    assert!(bench.effects.is_empty());
    assert_eq!(bench.acquire(A, 2).granted(), again(a));
    assert_eq!(bench.woken(), [(A, 1)], "the older attempt");
    assert_eq!(bench.claim(A, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.give_up(B, 1).granted(), again(b));
    assert_eq!(bench.lock.shared().count(), 2);
}

#[test]
fn a_request_id_is_bound_to_its_mode() {
    let (mut bench, [a]) = Bench::held_by_readers([A]);
    assert_eq!(bench.write(A), AcquireOutcome::OtherTerms, "while it shares the lock");
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    assert_eq!(bench.read(W), AcquireOutcome::OtherTerms, "while it waits");
    bench.release(&a);
    assert_eq!(bench.write(A), AcquireOutcome::OtherTerms, "after its end");
}

#[test]
fn renewals_streams_and_drops_act_on_one_reader() {
    let (mut bench, [a, b, c]) = Bench::held_by_readers([A, B, C]);
    bench.pass(secs(10));
    assert_eq!(bench.renew(&a, secs(60)).left(), secs(60));
    assert_eq!(bench.attach(&b, 1, stream(1)).left(), TTL);
    assert_eq!(bench.attach(&a, 1, stream(2)).left(), secs(60));
    assert_eq!(bench.renew_attached(&a, stream(1)), RenewOutcome::AttachedElsewhere);
    bench.drop_call(C, 1);
    bench.drop_call(B, 1);
    let shares = [(a.token, secs(60)), (b.token, TTL), (c.token, secs(3))];
    assert_eq!(bench.shares(), shares, "only C had not heard of its lease");
    bench.turn(|turn| turn.disconnect(a.lease_id, stream(1)));
    assert_eq!(bench.ends(), [], "that stream keeps B's");
    bench.turn(|turn| turn.detach(b.lease_id, stream(1)));
    bench.turn(|turn| turn.disconnect(b.lease_id, stream(1)));
    assert_eq!(bench.ends(), []);
    bench.turn(|turn| turn.disconnect(a.lease_id, stream(2)));
    assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Revoked], vec![A]));
    assert_eq!(bench.renew(&a, None), RenewOutcome::Lost(ended(LeaseEnd::Revoked, Some(c.token))));
    bench.pass(secs(3)).apply_time();
    assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Expired], vec![C]));
    assert_eq!(bench.shares(), [(b.token, TTL - secs(3))]);
}

#[test]
fn a_retry_restores_the_ttl_of_a_shared_lease_that_was_cut_short() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.drop_call(A, 1);
    assert_eq!(bench.pass(secs(2)).acquire(A, 2).granted(), a);
    assert_eq!(bench.shares(), [(a.token, TTL), (b.token, TTL - secs(2))]);
}

#[test]
fn a_clock_that_steps_back_leaves_each_reader_its_ttl_from_now_and_no_more() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.pass(secs(10)).drop_call(B, 1);
    let shares = [(a.token, TTL), (b.token, secs(3))];
    assert_eq!(bench.step_back(secs(3_600)).shares(), shares);
    bench.apply_time();
    assert_eq!(bench.shares(), shares);
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.ended_requests(), [B]);
    bench.step_back(secs(3_600)).apply_time();
    bench.pass(TTL).apply_time();
    assert_eq!(bench.ended_requests(), [A]);
    bench.pass(secs(10)).apply_time();
    assert!(bench.lock.is_idle());
}

#[test]
fn a_classic_client_that_takes_the_lock_ends_the_leases_of_all_readers() {
    let (mut bench, [..]) = Bench::held_by_readers([A, B]);
    bench.classic = Some(ClassicHold { left: None });
    bench.apply_time();
    assert_eq!((bench.ends(), bench.ended_requests()), (vec![LeaseEnd::Revoked; 2], vec![A, B]));
    assert_eq!(bench.read(C), AcquireOutcome::Queued);
    bench.classic = None;
    bench.apply_time();
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn a_lock_that_is_shared_or_waited_for_by_readers_needs_servers_that_know_it() {
    let (mut bench, [a]) = Bench::held_by_readers([A]);
    assert_eq!(bench.lock.needs(), Features::SHARED);
    bench.release(&a);
    assert_eq!(bench.lock.needs(), Features::NONE);
    bench.write(W).granted();
    assert_eq!(bench.lock.needs(), Features::NONE);
    assert_eq!(bench.read(B), AcquireOutcome::Queued);
    assert_eq!(bench.lock.needs(), Features::SHARED);
}

#[test]
fn a_journal_is_told_of_the_readers_whose_leases_a_turn_changed() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    let of = |grant: Grant| (grant.token, grant.grant_id);
    assert_eq!(bench.changed_shares, [of(b)]);
    bench.pass(secs(1)).renew(&a, None);
    assert_eq!(bench.changed_shares, [of(a)]);
    bench.drop_call(B, 1);
    assert_eq!(bench.changed_shares, [of(b)]);
    bench.claim(A, 1).granted();
    assert_eq!(bench.changed_shares, []);
    bench.release(&a);
    assert_eq!(bench.changed_shares, [of(a)]);
    bench.pass(secs(3)).write(W).granted();
    assert_eq!(bench.changed_shares, [of(b)], "an exclusive lease is no share");
}

/// Found by the oracle.
#[test]
fn a_journal_is_told_of_the_readers_whose_leases_a_clock_that_stepped_back_cut() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.step_back(secs(3_600)).apply_time();
    assert_eq!(bench.changed_shares, [(a.token, a.grant_id), (b.token, b.grant_id)]);
    bench.apply_time();
    assert_eq!(bench.changed_shares, []);
}

#[test]
fn a_lease_that_a_leader_granted_whose_clock_was_ahead_lasts_for_its_ttl_and_no_more() {
    let permit = Mode::Semaphore(Box::new(Permits::new(1, PermitLimit { permits: 2, version: 0 }).unwrap()));
    for mode in [Mode::Exclusive, Mode::Shared, permit] {
        let mut ahead = Bench { mode: mode.clone(), ..Bench::new() };
        let grant = ahead.pass(secs(3_600)).acquire(A, 1).granted();
        let lease = ahead.lock.lease_of(grant.token).unwrap().clone();
        let mut bench = Bench::new();
        match mode {
            Mode::Exclusive => bench.lock = Lock::kept(Some(lease), vec![]),
            _ => assert!(bench.lock.keep_shared(lease)),
        }
        bench.apply_time();
        bench.pass(TTL).apply_time();
        assert_eq!(bench.ends(), [LeaseEnd::Expired], "{mode:?}");
    }
}
