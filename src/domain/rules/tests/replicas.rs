//! Several server replicas on one store.

use super::*;

impl Bench {
    /// Replica 1 carries the holder; `waiters` are requests with their replicas.
    fn shared(waiters: &[(u128, u128)]) -> (Self, Grant) {
        let mut bench = Self { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Self::new() };
        let grant = bench.acquire(A, 1).granted();
        for (request, replica) in waiters {
            assert_eq!(bench.from(*replica).acquire(*request, 1), AcquireOutcome::Queued);
        }
        (bench, grant)
    }

    fn from(&mut self, replica: u128) -> &mut Self {
        self.replica = replica;
        self
    }

    /// A replica is heard of.
    fn beats(&mut self, replica: u128) -> &mut Self {
        self.from(replica).beat();
        self
    }

    /// A replica is found dead.
    fn find_dead(&mut self, replica: u128) -> bool {
        self.replicas.found_dead(ReplicaId(Uuid::from_u128(replica)), self.now)
    }

    /// The replicas and requests that the last command woke.
    fn woken_at(&self) -> Vec<(u128, u128)> {
        let woken = self.effects.iter().filter_map(|effect| match effect {
            Effect::LookAgain { replica, request, .. } => Some((replica.0.as_u128(), request.0.as_u128())),
            _ => None,
        });
        woken.collect()
    }
}

#[test]
fn waiters_of_all_replicas_are_served_in_order_and_woken_at_their_own_replica() {
    let (mut bench, mut grant) = Bench::shared(&[(B, 2), (C, 3), (D, 2)]);
    for (request, replica) in [(B, 2), (C, 3), (D, 2)] {
        bench.from(1).release(&grant);
        assert_eq!(bench.woken_at(), [(replica, request)]);
        grant = bench.from(replica).claim(request, 1).granted();
    }
}

#[test]
fn waiters_of_a_silent_replica_are_skipped_and_keep_their_queue_positions() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    bench.pass(secs(2)).beats(3);
    bench.pass(secs(1)).release(&grant);
    assert_eq!(bench.woken_at(), [(3, C)], "replica 2 was silent for 3 s");
    let grant = bench.from(3).claim(C, 1).granted();
    assert_eq!(bench.from(3).acquire(D, 1), AcquireOutcome::Queued);
    bench.beats(2).from(3).release(&grant);
    assert_eq!(bench.woken_at(), [(2, B)], "replica 2 came back, and B was before D");
}

#[test]
fn an_offer_to_a_waiter_of_a_replica_that_is_found_dead_passes_to_the_next() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 2), (D, 3)]);
    bench.from(1).release(&grant);
    assert_eq!(bench.woken_at(), [(2, B)]);
    assert!(bench.find_dead(2));
    bench.from(1).apply_time();
    assert_eq!(bench.woken_at(), [(3, D)]);
    // It lives: its claim comes late, and nobody has two offers or loses one.
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Queued);
    let grant = bench.from(3).claim(D, 1).granted();
    bench.from(3).release(&grant);
    assert_eq!(bench.woken_at(), [(2, B)], "it is where it was");
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn a_replica_that_is_found_dead_and_has_the_only_waiter_is_offered_the_lock_when_it_comes_back() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.from(1).release(&grant);
    assert!(bench.find_dead(2));
    bench.from(1).apply_time();
    assert_eq!((bench.lock.offered_until(), bench.woken_at()), (None, vec![]));
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn a_call_that_is_alive_claims_although_a_repeat_of_it_was_at_a_replica_that_is_dead() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    bench.call_id = 2;
    assert_eq!(bench.from(4).acquire(B, 1), AcquireOutcome::Queued, "a proxy's repeat");
    bench.call_id = 1;
    bench.from(1).release(&grant);
    assert_eq!(bench.woken_at(), [(4, B)]);
    assert!(bench.find_dead(4));
    bench.from(1).apply_time();
    assert_eq!(bench.woken_at(), [(3, C)]);
    assert!(bench.lock.skipped(RequestId(Uuid::from_u128(B))).is_some(), "so its other calls are told");
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Queued);
    let grant = bench.from(3).claim(C, 1).granted();
    bench.from(3).release(&grant);
    assert_eq!(bench.woken_at(), [(2, B)]);
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn waiters_of_a_replica_that_is_gone_are_deleted() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    for _ in 0..30 {
        bench.pass(secs(1)).beats(3).renew(&grant, None);
    }
    assert_eq!(bench.view().waiters, 1);
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Unknown, "it learns so when it returns");
    assert_eq!(bench.from(3).acquire(B, 2), AcquireOutcome::Queued, "its client may retry");
}

#[test]
fn a_waiter_that_missed_its_offer_is_offered_the_lock_again_when_it_claims() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.from(1).release(&grant);
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.lock.offered_until(), None, "nobody else waits");
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn a_retry_through_another_replica_keeps_its_queue_position_and_is_served_there() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 2)]);
    bench.from(3).acquire(B, 2);
    assert_eq!(bench.woken_at(), [(2, B)], "the older call is woken at its own replica");
    bench.from(1).release(&grant);
    assert_eq!(bench.woken_at(), [(3, B)]);
}

#[test]
fn a_request_whose_offer_one_replica_declined_may_be_claimed_through_another() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 2)]);
    bench.call_id = 2;
    assert_eq!(bench.from(3).acquire(B, 1), AcquireOutcome::Queued, "a proxy's repeat");
    bench.drop_call(B, 1);
    bench.call_id = 1;
    bench.from(1).release(&grant);
    assert_eq!(bench.woken_at(), [(3, B)]);
    bench.from(2).decline(B, 1);
    assert_eq!(
        bench.lock.offered_until(),
        Some(bench.now.after(CLAIM_WINDOW)),
        "the offer was not made to that replica"
    );
    bench.from(3).decline(B, 1);
    assert_eq!(bench.woken_at(), [(2, C)]);
    let grant = bench.from(2).claim(C, 1).granted();
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Queued, "it is live and not overtaken");
    bench.release(&grant);
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn a_request_that_declined_its_offer_and_does_not_claim_ends_after_3_s() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.from(1).release(&grant);
    bench.from(2).decline(B, 1);
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Ended);
    bench.from(1).acquire(C, 1).granted();
}

#[test]
fn a_stream_is_notified_at_its_own_replica() {
    let (mut bench, grant) = Bench::shared(&[]);
    bench.from(2).attach(&grant, 1, stream(7));
    bench.from(3).attach(&grant, 2, stream(8));
    let replica = ReplicaId(Uuid::from_u128(2));
    let detached = Effect::Detached { replica, lease_id: grant.lease_id, attachment: stream(7) };
    assert_eq!(bench.effects.as_slice(), [detached]);
    bench.from(1).release(&grant);
    let Effect::Ended { lease, .. } = &bench.effects[0] else { panic!("the end is not announced") };
    assert_eq!(lease.attachment_replica, ReplicaId(Uuid::from_u128(3)));
}

/// Torture found it: the request stayed in the queue for as long as the second server lived.
#[test]
fn a_request_with_a_call_at_a_server_that_was_killed_leaves_the_queue() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    // The same attempt comes through another server, after the first one was killed, and leaves.
    bench.call_id = 2;
    assert_eq!(bench.from(3).acquire(B, 1), AcquireOutcome::Queued);
    bench.from(3).drop_call(B, 1);
    bench.from(1).release(&grant);
    assert_eq!(bench.woken_at(), [(3, B)], "the call at the server that was killed is still bound");
    bench.pass(CLAIM_WINDOW).beats(3).apply_time();
    let due = bench.lock.queue.as_ref().and_then(|queue| queue.next_due());
    assert_eq!((bench.view().waiters, due), (1, Some(bench.now.after(MISSED_GRACE))));
    // A call that lives would have claimed by then.
    bench.pass(MISSED_GRACE - MICRO).beats(3).apply_time();
    assert_eq!(bench.view().waiters, 1);
    bench.pass(MICRO);
    assert_eq!(bench.view().waiters, 0, "the view shows it before any command applies it");
    bench.beats(3).apply_time();
    assert_eq!(bench.lock.next_due(), None);
    // Its request has not ended: a call that lives all the same asks again.
    assert_eq!(bench.from(3).claim(B, 1), AcquireOutcome::Unknown);
    bench.from(3).acquire(B, 1).granted();
}

#[test]
fn a_call_that_claims_late_keeps_its_place() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    bench.from(1).release(&grant);
    bench.pass(CLAIM_WINDOW).beats(2).beats(3).apply_time();
    assert_eq!(bench.woken_at(), [(3, C)], "B has missed its offer");
    let grant = bench.from(3).claim(C, 1).granted();
    bench.pass(MISSED_GRACE - MICRO).beats(2).beats(3);
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.from(3).acquire(D, 1), AcquireOutcome::Queued);
    bench.pass(MISSED_GRACE).beats(2).beats(3).release(&grant);
    assert_eq!((bench.woken_at(), bench.view().waiters), (vec![(2, B)], 2));
    // A clock that steps back keeps nobody for longer.
    bench.pass(CLAIM_WINDOW).beats(2).apply_time();
    bench.step_back(secs(3_600)).beats(2).apply_time();
    bench.beats(3).apply_time();
    let due = bench.now.after(MISSED_GRACE);
    assert!(bench.lock.queue.as_ref().and_then(|queue| queue.next_due()).is_some_and(|at| at <= due));
}
