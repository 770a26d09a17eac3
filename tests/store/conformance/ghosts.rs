//! Ghosts: leases beside others that have ended and still occupy their places.

use crate::bench::{Bench, Harness, TTL, acquire, granted, try_acquire};
use fencepost::testing::domain::{
    command::{Acquire, Command},
    lease::{Delays, Extra, LeaseEnd, Terms},
    mode::{Mode, PermitLimit, Permits},
    name::Reason,
    outcome::{AcquireOutcome, Grant, LockView, ReleaseOutcome, RevokeOutcome, TokenStatus},
};
use std::{num::NonZeroU32, time::Duration};

const NONE: Duration = Duration::ZERO;

fn asking(acquire: Acquire, mode: Mode, (min_hold, lock_delay): (Duration, Duration)) -> Acquire {
    let extra = Extra::of_delays(Delays::new(min_hold, lock_delay));
    Acquire { terms: Terms { mode, extra, ..acquire.terms }, ..acquire }
}

/// One of two permits.
fn permit() -> Mode {
    Mode::Semaphore(Box::new(Permits::new(1, PermitLimit { permits: 2, version: 0 }).unwrap()))
}

/// The grant of a request; `None` if classic clients share the lock, which have it refused.
async fn grant<H: Harness>(bench: &Bench<H>, acquire: Acquire) -> Option<Grant> {
    let outcome = bench.request(acquire).await;
    if H::IS_SHARED {
        assert_eq!(outcome, AcquireOutcome::BesideClassic);
        return None;
    }
    Some(granted(outcome))
}

async fn delayed_by(bench: &Bench<impl Harness>, grant: Grant) -> bool {
    let view: Box<LockView> = bench.run(Command::View { token: Some(grant.token) }).await;
    view.delay.is_some_and(|delay| delay.token == grant.token)
}

pub(crate) async fn the_place_of_a_reader_keeps_writers_out_for_its_lock_delay(bench: &Bench<impl Harness>) {
    let delays = (NONE, 2 * TTL);
    let Some(gone) = grant(bench, asking(try_acquire(1), Mode::Shared, delays)).await else { return };
    bench.pass(TTL).await;
    assert!(delayed_by(bench, gone).await);
    let reader = granted(bench.request(asking(try_acquire(2), Mode::Shared, (NONE, NONE))).await);
    assert_eq!(reader.previous_end, Some(LeaseEnd::Expired));
    assert_eq!(bench.request(acquire(3)).await, AcquireOutcome::Queued);
    bench.release(reader).await;
    assert_eq!(bench.claim(3).await, AcquireOutcome::Queued);
    // The holder of the first lease says that it has stopped.
    bench.run::<ReleaseOutcome>(Command::Release(gone.lease_id)).await;
    assert_eq!(granted(bench.claim(3).await).previous_end, Some(LeaseEnd::Expired));
}

pub(crate) async fn the_permit_and_the_slot_of_a_released_lease_stay_used_for_its_min_hold(
    bench: &Bench<impl Harness>,
) {
    let delays = (3 * TTL, NONE);
    let Some(gone) = grant(bench, asking(try_acquire(1), permit(), delays)).await else { return };
    bench.release(gone).await;
    let held = granted(bench.request(asking(try_acquire(2), permit(), (NONE, NONE))).await);
    assert_eq!([gone.slot, held.slot], [NonZeroU32::new(1), NonZeroU32::new(2)]);
    let refused = bench.request(asking(try_acquire(3), permit(), (NONE, NONE))).await;
    let AcquireOutcome::Contended(contention) = refused else { panic!("{refused:?}") };
    let shared = contention.shared.unwrap();
    assert_eq!((shared.count, shared.semaphore.unwrap().used), (1, 2));
    bench.release(held).await;
    let view: Box<LockView> = bench.run(Command::View { token: Some(gone.token) }).await;
    assert_eq!(view.token_status(gone.token), TokenStatus::Stale, "a newer one was granted");
    bench.pass(3 * TTL).await;
    assert!(!delayed_by(bench, gone).await);
    let next = granted(bench.request(asking(try_acquire(4), permit(), delays)).await);
    assert_eq!(next.slot, NonZeroU32::new(1));
    bench.release(next).await;
    let force = Command::ForceRelease { expected: next.token, reason: Reason::new("a test".into()).unwrap() };
    assert!(matches!(bench.run(force).await, RevokeOutcome::Revoked(_)));
    granted(bench.request(try_acquire(5)).await);
}
