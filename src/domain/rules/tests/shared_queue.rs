//! Readers and writers in one queue, first come, first served: neighbours that share are served together.

use super::{shared::W, *};
use crate::domain::{
    lease::Lease,
    limits::{HOLDERS_MAX, OFFERS_MAX},
};

/// Another request that is exclusive in these tests.
const X: u128 = 21;

impl Bench {
    /// A bench that a writer holds, with these requests behind it: [`W`] and [`X`] write, others read.
    fn written_with_queue(queue: &[u128]) -> (Self, Grant) {
        let (mut bench, held) = Self::held_with_waiters(&[]);
        bench.queue(queue);
        (bench, held)
    }

    fn queue(&mut self, queue: &[u128]) {
        for request in queue {
            let outcome = if [W, X].contains(request) { self.write(*request) } else { self.read(*request) };
            assert_eq!(outcome, AcquireOutcome::Queued);
        }
    }

    /// The requests that the lock is offered to.
    fn offered(&self) -> Vec<u128> {
        let mut offered: Vec<_> = self.lock.offers().map(|request| request.0.as_u128()).collect();
        offered.sort_unstable();
        offered
    }
}

#[test]
fn a_writer_waits_for_all_readers() {
    let (mut bench, [a, b, c]) = Bench::held_by_readers([A, B, C]);
    bench.queue(&[W]);
    for grant in [b, c] {
        bench.release(&grant);
        assert_eq!((bench.woken(), bench.claim(W, 1)), (vec![], AcquireOutcome::Queued));
    }
    bench.release(&a);
    assert_eq!((bench.woken(), bench.offered()), (vec![(W, 1)], vec![W]));
    assert!(bench.claim(W, 1).granted().token > c.token);
}

#[test]
fn a_writer_is_served_when_the_last_reader_expires_or_is_cut_off() {
    let (mut bench, [_, b]) = Bench::held_by_readers([A, B]);
    bench.queue(&[W]);
    bench.pass(secs(1)).renew(&b, None);
    bench.drop_call(A, 1);
    bench.pass(secs(3)).apply_time();
    assert_eq!((bench.ends(), bench.woken()), (vec![LeaseEnd::Expired], vec![]));
    bench.pass(TTL - secs(3)).apply_time();
    assert_eq!((bench.ends(), bench.woken()), (vec![LeaseEnd::Expired], vec![(W, 1)]));
}

#[test]
fn neighbours_in_the_queue_that_share_are_offered_the_lock_in_one_turn() {
    let (mut bench, held) = Bench::written_with_queue(&[B, C, W, D]);
    bench.release(&held);
    assert_eq!((bench.woken(), bench.offered()), (vec![(B, 1), (C, 1)], vec![B, C]));
    let c = bench.claim(C, 1).granted();
    assert_eq!((bench.claim(W, 1), bench.claim(D, 1)), (AcquireOutcome::Queued, AcquireOutcome::Queued));
    let b = bench.pass(secs(2)).claim(B, 1).granted();
    assert!(b.token > c.token, "in the order of the claims");
    assert_eq!((b.left, bench.lock.shared().count()), (TTL, 2));
    bench.release(&c);
    assert_eq!(bench.woken(), []);
    bench.release(&b);
    assert_eq!(bench.woken(), [(W, 1)], "D came after it");
    let writer = bench.claim(W, 1).granted();
    assert_eq!(bench.claim(D, 1), AcquireOutcome::Queued);
    bench.release(&writer);
    assert_eq!(bench.woken(), [(D, 1)]);
}

#[test]
fn a_reader_waits_behind_a_waiting_writer() {
    let (mut bench, [a, b]) = Bench::held_by_readers([A, B]);
    bench.queue(&[W]);
    bench.mode = Mode::Shared;
    let AcquireOutcome::Contended(contention) = bench.try_acquire(C, 1) else { panic!("passed a writer") };
    let shared = contention.shared.unwrap();
    let holders: Vec<_> = shared.holders.iter().map(|it| (it.holder.as_str(), it.token, it.left)).collect();
    assert_eq!(holders, [("1", a.token, TTL), ("2", b.token, TTL)]);
    assert_eq!((shared.count, shared.has_token), (2, false));
    assert_eq!((contention.current, contention.waiters), (None, 1));
    bench.queue(&[C]);
    bench.release(&a);
    bench.release(&b);
    assert_eq!(bench.woken(), [(W, 1)]);
    let writer = bench.claim(W, 1).granted();
    bench.release(&writer);
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn readers_wait_while_the_lock_is_offered_to_a_writer_and_the_reverse() {
    let (mut bench, held) = Bench::written_with_queue(&[W]);
    bench.release(&held);
    bench.mode = Mode::Shared;
    let AcquireOutcome::Contended(contention) = bench.try_acquire(B, 1) else { panic!("offered to a writer") };
    assert_eq!((contention.current, contention.shared), (None, None));
    assert_eq!(bench.read(B), AcquireOutcome::Queued);
    let (mut bench, held) = Bench::written_with_queue(&[B]);
    bench.release(&held);
    bench.read(C).granted();
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    assert_eq!(bench.offered(), [B], "C took nothing away from it");
    bench.claim(B, 1).granted();
}

/// A reader holds the lock; a writer, then readers wait. When the writer no longer does, they are served at once.
#[test]
fn a_writer_that_leaves_the_queue_lets_the_readers_behind_it_in() {
    let leave: [fn(&mut Bench); 3] = [
        |bench| assert!(bench.give_up(W, 1).is_timed_out()),
        |bench| bench.drop_call(W, 1),
        |bench| {
            bench.mode = Mode::Exclusive;
            assert!(bench.try_acquire(W, 1).is_timed_out());
        },
    ];
    for leave in leave {
        let (mut bench, [a]) = Bench::held_by_readers([A]);
        bench.queue(&[W, B, C, X, D]);
        leave(&mut bench);
        assert_eq!(bench.offered(), [B, C]);
        let woken = bench.woken();
        assert_eq!(woken.iter().filter(|(request, _)| *request != W).copied().collect::<Vec<_>>(), [(B, 1), (C, 1)]);
        let [b, c] = [B, C].map(|reader| bench.claim(reader, 1).granted());
        for grant in [a, b, c] {
            assert_eq!(bench.offered(), []);
            bench.release(&grant);
        }
        assert_eq!(bench.woken(), [(X, 1)]);
    }
}

#[test]
fn the_answer_to_a_writer_that_gives_up_counts_the_readers_that_hold_and_wait() {
    let (mut bench, [_]) = Bench::held_by_readers([A]);
    bench.queue(&[W, B, C]);
    let AcquireOutcome::TimedOut(contention) = bench.give_up(W, 1) else { panic!("its wait is over") };
    assert_eq!((contention.shared.map(|shared| shared.count), contention.waiters), (Some(1), 2));
}

#[test]
fn a_writer_that_misses_its_offer_lets_the_readers_behind_it_in_and_is_next_when_it_claims() {
    let (mut bench, held) = Bench::written_with_queue(&[W, B, C, D]);
    bench.release(&held);
    assert_eq!((bench.woken(), bench.offered()), (vec![(W, 1)], vec![W]));
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.woken(), [(B, 1), (C, 1), (D, 1)]);
    let b = bench.claim(B, 1).granted();
    assert_eq!(bench.claim(W, 1), AcquireOutcome::Queued);
    assert!(bench.give_up(D, 1).is_timed_out());
    assert_eq!(bench.read(5), AcquireOutcome::Queued, "behind it");
    bench.release(&b);
    assert_eq!((bench.woken(), bench.offered()), (vec![], vec![C]), "it waits for offers too");
    let c = bench.claim(C, 1).granted();
    bench.release(&c);
    assert_eq!(bench.woken(), [(W, 1)]);
}

#[test]
fn a_writer_that_comes_back_to_its_place_stops_the_readers_that_come_after() {
    let (mut bench, [a]) = Bench::held_by_readers([A]);
    bench.queue(&[W]);
    bench.drop_call(W, 1);
    let b = bench.pass(secs(1)).read(B).granted();
    bench.mode = Mode::Exclusive;
    assert_eq!(bench.acquire(W, 2), AcquireOutcome::Queued);
    assert_eq!(bench.read(C), AcquireOutcome::Queued);
    bench.release(&a);
    bench.release(&b);
    assert_eq!(bench.woken(), [(W, 2)]);
}

#[test]
fn a_reader_that_comes_back_to_its_place_before_a_writer_is_served_beside_the_others() {
    let (mut bench, held) = Bench::written_with_queue(&[B, C, W, D]);
    bench.release(&held);
    bench.pass(secs(2)).claim(C, 1).granted();
    bench.pass(secs(1)).apply_time();
    assert_eq!((bench.woken(), bench.offered()), (vec![], vec![]), "B missed its offer, W waits for C");
    bench.claim(B, 1).granted();
    assert_eq!(bench.claim(D, 1), AcquireOutcome::Queued);
}

#[test]
fn each_offer_has_its_own_window() {
    let (mut bench, held) = Bench::written_with_queue(&[B, W, C]);
    bench.release(&held);
    let (start, window) = (bench.now, CLAIM_WINDOW);
    bench.pass(secs(1)).give_up(W, 1);
    assert_eq!((bench.offered(), bench.woken()), (vec![B, C], vec![(C, 1)]));
    assert_eq!(bench.lock.next_due(), Some(start.after(window)));
    bench.pass(secs(2)).apply_time();
    assert_eq!((bench.offered(), bench.lock.next_due()), (vec![C], Some(start.after(secs(1) + window))));
    bench.pass(secs(1)).apply_time();
    assert_eq!((bench.offered(), bench.woken()), (vec![], vec![]));
    for waiter in [C, B] {
        assert_eq!(bench.offered(), [], "both are skipped until they claim");
        bench.claim(waiter, 1).granted();
    }
}

#[test]
fn a_reader_whose_call_is_dropped_leaves_the_others_their_offers() {
    let (mut bench, held) = Bench::written_with_queue(&[B, C, W, D]);
    bench.release(&held);
    bench.drop_call(B, 1);
    assert_eq!((bench.offered(), bench.woken()), (vec![C], vec![]));
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken);
    assert!(bench.give_up(C, 1).is_timed_out());
    assert_eq!((bench.offered(), bench.woken()), (vec![W], vec![(W, 1)]));
}

#[test]
fn a_clock_that_steps_back_leaves_each_offer_its_window_from_now() {
    let (mut bench, held) = Bench::written_with_queue(&[B, C, W]);
    bench.release(&held);
    bench.step_back(secs(3_600)).apply_time();
    bench.pass(secs(3) - MICRO).apply_time();
    assert_eq!(bench.offered(), [B, C]);
    bench.pass(MICRO).apply_time();
    assert_eq!((bench.offered(), bench.woken()), (vec![W], vec![(W, 1)]));
}

#[test]
fn a_reader_that_declines_its_offer_leaves_the_others_theirs() {
    let (mut bench, held) = Bench::written_with_queue(&[B, C, W]);
    bench.release(&held);
    bench.decline(B, 1);
    assert_eq!((bench.offered(), bench.woken()), (vec![C], vec![]));
    bench.decline(C, 1);
    assert_eq!((bench.offered(), bench.woken()), (vec![W], vec![(W, 1)]));
}

#[test]
fn a_writer_whose_server_is_silent_keeps_no_reader_out() {
    let mut bench = Bench { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Bench::new() };
    let a = bench.read(A).granted();
    bench.replica = 2;
    bench.queue(&[W]);
    bench.replica = 1;
    bench.queue(&[B]);
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.read(C).granted();
    bench.replica = 2;
    assert_eq!(bench.claim(W, 1), AcquireOutcome::Queued, "it is back");
    bench.replica = 1;
    assert_eq!(bench.read(D), AcquireOutcome::Queued);
    let [b, c] = [B, C].map(|reader| bench.claim(reader, 1).granted());
    for grant in [a, b, c] {
        assert_eq!(bench.offered(), []);
        bench.release(&grant);
    }
    assert_eq!(bench.offered(), [W]);
}

#[test]
fn offers_to_readers_whose_server_is_dead_pass_to_those_behind_them() {
    let mut bench = Bench { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Bench::new() };
    let held = bench.write(X).granted();
    for (request, replica) in [(B, 2), (C, 1), (D, 2), (W, 1)] {
        bench.replica = replica;
        bench.queue(&[request]);
    }
    bench.replica = 1;
    bench.release(&held);
    assert_eq!(bench.offered(), [B, C, D]);
    assert!(bench.replicas.found_dead(ReplicaId(Uuid::from_u128(2)), bench.now));
    bench.apply_time();
    assert_eq!((bench.offered(), bench.woken()), (vec![C], vec![]));
    let c = bench.claim(C, 1).granted();
    bench.release(&c);
    assert_eq!(bench.woken(), [(W, 1)]);
    bench.replica = 2;
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued, "it lives, and is before W, which is served now");
    bench.replica = 1;
    assert!(bench.give_up(W, 1).is_timed_out());
    assert_eq!(bench.offered(), [B, D]);
}

#[test]
fn more_readers_than_a_batch_are_offered_the_lock_in_steps() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.waiters_max = 1_000;
    let first = 100;
    let beyond = first + OFFERS_MAX as u128;
    let waiters: Vec<_> = (first..beyond + 6).collect();
    bench.queue(&waiters);
    bench.release(&held);
    assert_eq!(bench.offered(), waiters[..OFFERS_MAX]);
    assert_eq!(bench.read(99), AcquireOutcome::Queued);
    assert_eq!(bench.claim(beyond, 1), AcquireOutcome::Queued);
    bench.claim(first + 1, 1).granted();
    bench.apply_time();
    assert_eq!((bench.offered().len(), bench.offered().contains(&beyond)), (OFFERS_MAX, true));
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.offered(), [99, 165, 166, 167, 168, 169], "those that missed their offers are skipped");
    for waiter in [99, beyond, beyond + 5, first] {
        bench.claim(waiter, 1).granted();
    }
    assert_eq!(bench.lock.shared().count(), 5);
}

#[test]
fn a_reader_waits_where_as_many_are_offered_the_lock_as_can_be() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.waiters_max = 1_000;
    let waiters: Vec<_> = (100..100 + OFFERS_MAX as u128).collect();
    bench.queue(&waiters);
    bench.release(&held);
    assert_eq!(bench.offered(), waiters);
    assert_eq!(bench.read(99), AcquireOutcome::Queued);
    bench.claim(100, 1).granted();
    bench.claim(99, 1).granted();
}

#[test]
fn a_lock_has_a_greatest_number_of_readers() {
    let mut bench = Bench::new();
    let first = bench.read(100_000).granted();
    let lease = bench.lock.lease_of(first.token).unwrap().clone();
    // Without a turn for each, which would take seconds.
    for number in 1..HOLDERS_MAX as u128 {
        let id = Uuid::from_u128(100_000 + number);
        let (request, lease_id, grant_id) = (RequestId(id), LeaseId(id), GrantId(id));
        let token = bench.sequencer.draw(0).unwrap();
        assert!(bench.lock.keep_shared(Lease { request, lease_id, grant_id, token, ..lease.clone() }));
    }
    assert_eq!(bench.view().shared.map(|shared| shared.count), Some(HOLDERS_MAX));
    bench.mode = Mode::Shared;
    assert!(matches!(bench.try_acquire(A, 1), AcquireOutcome::Contended(_)));
    bench.queue(&[A, B, C]);
    bench.release(&first);
    assert_eq!(bench.woken(), [(A, 1)]);
    bench.release(&Grant { lease_id: LeaseId(Uuid::from_u128(100_007)), ..first });
    assert_eq!((bench.woken(), bench.offered()), (vec![(B, 1)], vec![A, B]));
    bench.claim(B, 1).granted();
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
}
