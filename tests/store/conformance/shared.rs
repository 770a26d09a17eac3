//! Shared leases: readers together, writers alone.

use crate::bench::{Bench, Harness, TTL, acquire, granted, try_acquire};
use fencepost::testing::domain::{
    command::{Acquire, Command},
    lease::{LeaseEnd, Terms},
    mode::Mode,
    name::Reason,
    outcome::{
        AcquireOutcome, Fate, Gone, Grant, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, SharedView,
        TokenStatus,
    },
};

fn shared(acquire: Acquire) -> Acquire {
    Acquire { terms: Terms { mode: Mode::Shared, ..acquire.terms }, ..acquire }
}

/// The grants of so many readers; `None` if classic clients share the lock, which have readers refused.
async fn readers<H: Harness>(bench: &Bench<H>, numbers: std::ops::Range<u128>) -> Option<Vec<Grant>> {
    let mut grants = Vec::new();
    for number in numbers {
        let outcome = bench.request(shared(try_acquire(number))).await;
        if H::IS_SHARED {
            assert_eq!(outcome, AcquireOutcome::BesideClassic);
            return None;
        }
        grants.push(granted(outcome));
    }
    Some(grants)
}

async fn view_of<H: Harness>(bench: &Bench<H>, grant: Grant) -> LockView {
    *bench.run::<Box<LockView>>(Command::View { token: Some(grant.token) }).await
}

pub(crate) async fn readers_share_a_lock_and_a_writer_waits_for_all_of_them(bench: &Bench<impl Harness>) {
    let Some(grants) = readers(bench, 1..4).await else { return };
    assert!(grants.is_sorted_by(|one, next| one.token < next.token), "tokens rise from reader to reader");
    for grant in &grants {
        let view = view_of(bench, *grant).await;
        assert_eq!(view.token_status(grant.token), TokenStatus::Current);
        let Some(SharedView { holders, count: 3, .. }) = view.shared.as_deref() else { panic!("{view:?}") };
        assert_eq!(holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [0, 1, 2].map(|it| grants[it].token));
    }
    assert_eq!(bench.request(acquire(4)).await, AcquireOutcome::Queued);
    for grant in &grants {
        assert_eq!(bench.claim(4).await, AcquireOutcome::Queued);
        bench.release(*grant).await;
    }
    let writer = granted(bench.claim(4).await);
    assert!(writer.token > grants[2].token && writer.previous_end == Some(LeaseEnd::Released));
    let refused = bench.request(shared(try_acquire(5))).await;
    assert!(matches!(refused, AcquireOutcome::Contended(it) if it.current.is_some() && it.shared.is_none()));
    assert_eq!(view_of(bench, grants[0]).await.token_status(grants[0].token), TokenStatus::Stale);
}

pub(crate) async fn a_reader_never_overtakes_a_writer_that_waits(bench: &Bench<impl Harness>) {
    let Some(grants) = readers(bench, 1..2).await else { return };
    assert_eq!(bench.request(acquire(2)).await, AcquireOutcome::Queued);
    let refused = bench.request(shared(try_acquire(3))).await;
    assert!(matches!(refused, AcquireOutcome::Contended(it) if it.shared.is_some() && it.waiters == 1));
    for reader in [4, 5] {
        assert_eq!(bench.request(shared(acquire(reader))).await, AcquireOutcome::Queued);
    }
    // The writer gives up: the readers behind it come in.
    assert!(matches!(bench.give_up(2).await, AcquireOutcome::TimedOut(it) if it.waiters == 2));
    let together = [granted(bench.claim(4).await), granted(bench.claim(5).await)];
    assert!(together.iter().all(|grant| grant.token > grants[0].token));
    assert_eq!(view_of(bench, grants[0]).await.shared.unwrap().count, 3);
}

pub(crate) async fn each_reader_has_a_lease_of_its_own(bench: &Bench<impl Harness>) {
    let Some(grants) = readers(bench, 1..4).await else { return };
    bench.pass(TTL * 3 / 4).await;
    let renew =
        async |grant: Grant| bench.run::<RenewOutcome>(Command::Renew { lease_id: grant.lease_id, ttl: None }).await;
    assert!(matches!(renew(grants[0]).await, RenewOutcome::Renewed(it) if it.left == TTL));
    let force = Command::ForceRelease { expected: grants[1].token, reason: Reason::new("a test".into()).unwrap() };
    assert!(matches!(bench.run(force).await, RevokeOutcome::Revoked(_)));
    assert_eq!(bench.request(acquire(4)).await, AcquireOutcome::Queued);
    bench.pass(TTL / 4).await;
    for (grant, end) in [(grants[1], LeaseEnd::Revoked), (grants[2], LeaseEnd::Expired)] {
        let lost = Gone { fate: Fate::Ended(end), successor: Some(grants[0].token) };
        assert_eq!(renew(grant).await, RenewOutcome::Lost(lost));
        assert_eq!(bench.run::<ReleaseOutcome>(Command::Release(grant.lease_id)).await, ReleaseOutcome::Gone(lost));
    }
    assert_eq!(bench.view().await.shared.unwrap().count, 1);
    bench.release(grants[0]).await;
    let writer = granted(bench.claim(4).await);
    assert_eq!(writer.previous_end, Some(LeaseEnd::Released), "of the reader that ended last");
}

pub(crate) async fn a_writer_learns_how_the_writer_before_ended_though_readers_came_between(
    bench: &Bench<impl Harness>,
) {
    bench.acquire(1).await;
    bench.pass(TTL).await;
    let Some(grants) = readers(bench, 2..4).await else { return };
    assert!(grants.iter().all(|grant| grant.previous_end == Some(LeaseEnd::Expired)));
    for grant in grants {
        bench.release(grant).await;
    }
    let writer = bench.acquire(4).await;
    assert_eq!(writer.previous_end, Some(LeaseEnd::Expired));
    bench.release(writer).await;
    assert_eq!(bench.acquire(5).await.previous_end, Some(LeaseEnd::Released));
}
