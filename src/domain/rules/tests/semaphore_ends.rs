//! How permits come back: from servers that are dead, to classic clients, and many at once.

use super::*;
use crate::domain::{
    limits::SHARED_ENDS_PER_TURN,
    mode::{PermitLimit, Permits},
};

impl Bench {
    /// A request for so many of `limit` permits.
    fn take_some(&mut self, request: u128, count: u32, limit: u32) -> AcquireOutcome {
        let limit = PermitLimit { permits: limit, version: 0 };
        self.mode = Mode::Semaphore(Box::new(Permits::new(count, limit).unwrap()));
        self.acquire(request, 1)
    }

    fn used(&self) -> Option<u64> {
        self.view().shared?.semaphore.map(|semaphore| semaphore.used)
    }
}

#[test]
fn permits_offered_to_a_dead_server_go_to_those_behind() {
    let mut bench = Bench { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Bench::new() };
    let held = bench.take_some(A, 3, 3).granted();
    for (request, replica, count) in [(B, 2, 2), (C, 1, 1), (D, 1, 2)] {
        bench.replica = replica;
        assert_eq!(bench.take_some(request, count, 3), AcquireOutcome::Queued);
    }
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1), (C, 1)]);
    assert!(bench.replicas.found_dead(ReplicaId(Uuid::from_u128(2)), bench.now));
    bench.apply_time();
    assert_eq!(bench.woken(), [(D, 1)]);
    for request in [C, D] {
        bench.claim(request, 1).granted();
    }
    assert_eq!(bench.used(), Some(3));
}

#[test]
fn a_classic_client_takes_all_permits_back_and_withdraws_offers() {
    let mut bench = Bench::new();
    let held = [(A, 2), (B, 1)].map(|(request, count)| bench.take_some(request, count, 3).granted());
    assert_eq!(bench.take_some(C, 1, 3), AcquireOutcome::Queued);
    bench.release(&held[1]);
    assert_eq!(bench.woken(), [(C, 1)]);
    bench.classic = Some(ClassicHold { left: None });
    bench.apply_time();
    assert_eq!((bench.ends(), bench.woken(), bench.used()), (vec![LeaseEnd::Revoked], vec![], None));
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
    bench.classic = None;
    let next = bench.claim(C, 1).granted();
    assert_eq!((next.slot.map(u32::from), next.previous_end), (Some(1), Some(LeaseEnd::Revoked)));
}

#[test]
fn more_leases_than_a_batch_give_their_permits_back_in_steps() {
    let count = u32::try_from(SHARED_ENDS_PER_TURN).unwrap() + 8;
    let mut bench = Bench::new();
    for request in 0..count {
        bench.take_some(100 + u128::from(request), 1, count).granted();
    }
    assert_eq!(bench.take_some(A, count, count), AcquireOutcome::Queued);
    bench.pass(TTL);
    assert_eq!(bench.used(), None, "none is shown");
    bench.apply_time();
    assert_eq!((bench.ends().len(), bench.woken()), (SHARED_ENDS_PER_TURN, vec![]));
    assert!(bench.lock.next_due().is_some_and(|due| due <= bench.now), "the rest is due at once");
    bench.apply_time();
    assert_eq!((bench.ends().len(), bench.woken()), (8, vec![(A, 1)]));
    bench.claim(A, 1).granted();
    assert_eq!(bench.used(), Some(count.into()));
}
