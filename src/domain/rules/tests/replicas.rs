//! Several server replicas on one store, and several lives of that store.

use super::*;
use crate::domain::outcome::Polled;

impl Bench {
    /// Replica 1 carries the holder; the waiters come from the replicas named with them.
    fn shared(waiters: &[(u128, u128)]) -> (Self, Grant) {
        let mut bench = Self { replicas: Replicas::many(), replica: 1, ..Self::new() };
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

    fn poll(&mut self, replica: u128) -> Polled {
        self.from(replica).turn(|turn| turn.poll())
    }

    /// Which replicas the last command told, of which request.
    fn told(&self) -> Vec<(u128, u128)> {
        let told = self.effects.iter().filter_map(|effect| match effect {
            Effect::LookAgain { replica, request, .. } => Some((replica.0.as_u128(), request.0.as_u128())),
            _ => None,
        });
        told.collect()
    }
}

#[test]
fn the_order_holds_across_replicas_and_each_hint_goes_to_the_replica_of_its_calls() {
    let (mut bench, mut grant) = Bench::shared(&[(B, 2), (C, 3), (D, 2)]);
    for (request, replica) in [(B, 2), (C, 3), (D, 2)] {
        bench.from(1).release(&grant);
        assert_eq!(bench.told(), [(replica, request)]);
        grant = bench.from(replica).claim(request, 1).granted();
    }
}

#[test]
fn waiters_of_a_silent_replica_are_passed_over_and_keep_their_places() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    bench.pass(secs(2)).poll(3);
    bench.pass(secs(1)).release(&grant);
    assert_eq!(bench.told(), [(3, C)], "replica 2 was silent for 3 s");
    let grant = bench.from(3).claim(C, 1).granted();
    assert_eq!(bench.from(3).acquire(D, 1), AcquireOutcome::Queued);
    bench.poll(2);
    bench.release(&grant);
    assert_eq!(bench.told(), [(2, B)], "it came back, and B was before D");
}

#[test]
fn waiters_of_a_replica_that_is_gone_are_deleted_and_it_is_told_when_it_returns() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 3)]);
    for _ in 0..30 {
        assert_eq!(bench.pass(secs(1)).poll(3).waiters, 1);
        bench.from(3).renew(&grant, None);
    }
    assert_eq!(bench.view().waiters, 1);
    assert_eq!(bench.poll(2), Polled { offered: None, waiters: 0, first_place: Some(1) });
    assert!(bench.effects.contains(&Effect::ReplicaReturned));
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Unknown);
    assert_eq!(bench.from(3).acquire(B, 2), AcquireOutcome::Queued, "its client may ask again");
}

#[test]
fn a_poll_finds_the_offer_whose_hint_was_lost() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.release(&grant);
    let request = RequestId(Uuid::from_u128(B));
    assert_eq!(bench.poll(2), Polled { offered: Some((request, 1)), waiters: 0, first_place: None });
    assert_eq!(
        bench.poll(1),
        Polled { offered: None, waiters: 0, first_place: None },
        "another's offer is none of its business"
    );
}

#[test]
fn an_offer_that_lapsed_comes_back_with_the_poll_of_its_replica() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.release(&grant);
    bench.pass(secs(3)).settle();
    let polled = bench.poll(2);
    assert_eq!(polled.offered, Some((RequestId(Uuid::from_u128(B)), 1)));
    bench.claim(B, 1).granted();
}

#[test]
fn a_retry_through_another_replica_keeps_its_place_and_is_served_there() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 2)]);
    bench.from(3).acquire(B, 2);
    assert_eq!(bench.told(), [(2, B)], "the older call is told where it waits");
    bench.from(1).release(&grant);
    assert_eq!(bench.told(), [(3, B)]);
}

#[test]
fn an_offer_declined_where_no_call_is_left_waits_for_the_call_elsewhere() {
    let (mut bench, grant) = Bench::shared(&[(B, 2), (C, 2)]);
    bench.call_id = 2;
    assert_eq!(bench.from(3).acquire(B, 1), AcquireOutcome::Queued, "a proxy's repeat");
    bench.drop_call(B, 1);
    bench.call_id = 1;
    bench.from(1).release(&grant);
    assert_eq!(bench.told(), [(3, B)]);
    bench.from(2).decline(B, 1);
    assert_eq!(bench.lock.offered_until(), Some(bench.now.after(CLAIM_WINDOW)), "it was not made to that replica");
    bench.from(3).decline(B, 1);
    assert_eq!(bench.told(), [(2, C)]);
    let grant = bench.from(2).claim(C, 1).granted();
    assert_eq!(bench.from(2).claim(B, 1), AcquireOutcome::Queued, "it is alive, and not overtaken");
    bench.release(&grant);
    bench.from(2).claim(B, 1).granted();
}

#[test]
fn an_offer_that_was_declined_and_that_nobody_claims_is_over_after_3_s() {
    let (mut bench, grant) = Bench::shared(&[(B, 2)]);
    bench.from(1).release(&grant);
    bench.from(2).decline(B, 1);
    bench.pass(secs(3)).settle();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Ended);
    bench.from(1).acquire(C, 1).granted();
}

#[test]
fn a_wish_of_a_replica_unknown_here_is_a_heartbeat() {
    let (bench, _) = Bench::shared(&[(B, 2)]);
    assert!(bench.effects.contains(&Effect::ReplicaReturned));
    assert!(bench.replicas.is_alive(ReplicaId(Uuid::from_u128(2)), bench.now));
}

#[test]
fn the_stream_of_another_replica_is_told_there() {
    let (mut bench, grant) = Bench::shared(&[]);
    bench.from(2).attach(&grant, 1, stream(7));
    bench.from(3).attach(&grant, 2, stream(8));
    let replica = ReplicaId(Uuid::from_u128(2));
    let told = Effect::Detached { replica, lease_id: grant.lease_id, attachment: stream(7) };
    assert_eq!(bench.effects.as_slice(), [told]);
    bench.from(1).release(&grant);
    let Effect::Ended { lease, .. } = &bench.effects[0] else { panic!("its end is told") };
    assert_eq!(lease.attachment_replica, ReplicaId(Uuid::from_u128(3)));
}

#[test]
fn a_server_that_talks_to_a_life_of_the_store_that_is_over_is_refused() {
    let (mut bench, grant) = Bench::shared(&[(B, 1)]);
    let first = bench.incarnation;
    bench.release(&grant);
    bench.present = Incarnation(Uuid::from_u128(2));
    bench.incarnation = bench.present;
    let skipped = bench.claim(B, 1).granted();
    assert!(skipped.token.get() > grant.token.get() + 900_000, "the change was skipped over");
    bench.release(&skipped);
    bench.incarnation = first;
    assert_eq!(bench.acquire(C, 1), AcquireOutcome::LeftBehind);
    assert_eq!(bench.claim(C, 1), AcquireOutcome::LeftBehind);
    assert_eq!(bench.view().current, None);
}

#[test]
fn what_a_replica_remembers_raises_the_token_of_a_store_that_forgot() {
    let mut bench = Bench::new();
    let grant = bench.acquire(A, 1).granted();
    bench.known_token = grant.token.get() + 500;
    bench.release(&grant);
    assert_eq!(bench.acquire(B, 1).granted().token.get(), grant.token.get() + 501);
}
