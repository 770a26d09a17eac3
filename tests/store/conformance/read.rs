//! Views, listings and events.

use crate::{
    bench::{Bench, Harness, TTL, acquire, granted, name, terms, try_acquire},
    notices::RecordingNotices,
};
use fencepost::testing::{
    domain::{
        command::{Acquire, Command},
        lease::{LeaseEnd, MaxHold, Terms},
        limits::ENDED_MEMORY,
        name::Reason,
        outcome::{LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome, TokenStatus},
        token::FencingToken,
    },
    store::{EventKind, Store, StoreError},
};
use std::{collections::HashSet, sync::atomic::Ordering, time::Duration};

pub(crate) async fn a_view_shows_the_holder_and_the_last_end(bench: &Bench<impl Harness>) {
    assert_eq!(bench.view().await, LockView::default());
    let grant = bench.acquire(1).await;
    bench.queue([2]).await;
    bench.pass(Duration::from_secs(2)).await;
    let view = bench.view().await;
    let current = view.current.unwrap();
    assert_eq!((current.token, current.grant_id, current.ttl), (grant.token, grant.grant_id, TTL));
    assert!(current.left <= TTL - Duration::from_secs(2) && current.held >= Duration::from_secs(2));
    assert_eq!((view.waiters, view.newest_token, view.previous_end), (1, Some(grant.token), None));
    bench.give_up(2).await;
    bench.release(grant).await;
    let view = bench.view().await;
    assert_eq!((view.current, view.newest_token), (None, Some(grant.token)));
    assert_eq!(view.previous_end, Some(LeaseEnd::Released));
    bench.pass(ENDED_MEMORY).await;
    assert_eq!(bench.view().await, LockView::default(), "an idle lock has no state");
}

pub(crate) async fn a_token_is_current_until_its_lease_ends(bench: &Bench<impl Harness>) {
    let check = async |token: FencingToken| {
        let view = bench.view().await;
        (view.token_status(token), view.newest_token)
    };
    let first = bench.acquire(1).await.token;
    assert_eq!(check(first).await, (TokenStatus::Current, Some(first)));
    let above = FencingToken::new(first.get() + 1).unwrap();
    assert_eq!(check(above).await.0, TokenStatus::Unknown);
    bench.pass(TTL).await;
    assert_eq!(check(first).await, (TokenStatus::Ended, Some(first)));
    let second = bench.acquire(2).await.token;
    assert_eq!(check(first).await, (TokenStatus::Stale, Some(second)));
    assert_eq!(check(second).await.0, TokenStatus::Current);
    bench.pass(TTL + ENDED_MEMORY).await;
    assert_eq!(check(second).await, (TokenStatus::Unknown, None));
}

pub(crate) async fn a_listing_has_each_lock_in_use_once(bench: &Bench<impl Harness>) {
    let mut expected = HashSet::new();
    for number in 0..300_u128 {
        let (held, other, freed) =
            (name(&format!("a/{number}")), name(&format!("b/{number}")), name(&format!("a/freed/{number}")));
        for lock in [&held, &other] {
            granted(bench.run_on(lock, Command::Acquire(try_acquire(number))).await);
        }
        let grant = granted(bench.run_on(&freed, Command::Acquire(try_acquire(number))).await);
        bench.run_on::<ReleaseOutcome>(&freed, Command::Release(grant.lease_id)).await;
        expected.insert(held);
    }
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = bench.store().list("a/", from.as_deref(), 11).await.unwrap();
        assert!(page.locks.len() <= 11);
        found.extend(page.locks.into_iter().map(|(lock, view)| {
            assert!(view.current.is_some());
            lock
        }));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), expected.len(), "no lock is listed twice");
    assert_eq!(found.into_iter().collect::<HashSet<_>>(), expected);
    assert_eq!(bench.store().list("", Some("nonsense"), 1).await, Err(StoreError::BadPageToken));
}

pub(crate) async fn events_arrive_in_order_and_only_if_the_store_is_watched(bench: &Bench<impl Harness>) {
    let unwatched = bench.acquire(1).await;
    bench.release(unwatched).await;
    assert_eq!(RecordingNotices::take(&bench.notices().events), []);
    bench.notices().watched.store(true, Ordering::SeqCst);
    bench.store().watch().await.unwrap();
    let released = bench.acquire(2).await;
    bench.release(released).await;
    let revoked = bench.acquire(3).await;
    bench.request(acquire(4)).await;
    let reason = Reason::new("because".into()).unwrap();
    bench.run::<RevokeOutcome>(Command::ForceRelease { expected: revoked.token, reason }).await;
    let expired = granted(bench.claim(4).await);
    bench.pass(TTL).await;
    // A store may notice an expiry late, but at the latest with the next command.
    bench.run::<RenewOutcome>(Command::Renew { lease_id: expired.lease_id, ttl: None }).await;
    let events: Vec<_> =
        RecordingNotices::take(&bench.notices().events).into_iter().map(|event| (event.kind, event.token)).collect();
    assert_eq!(
        events,
        [
            (EventKind::Granted, released.token),
            (EventKind::Released, released.token),
            (EventKind::Granted, revoked.token),
            (EventKind::Revoked("because".into()), revoked.token),
            (EventKind::Granted, expired.token),
            (EventKind::Expired, expired.token),
        ]
    );
}

pub(crate) async fn an_event_tells_that_a_lease_ended_by_its_max_hold(bench: &Bench<impl Harness>) {
    bench.notices().watched.store(true, Ordering::SeqCst);
    bench.store().watch().await.unwrap();
    for (number, max_hold) in [(1, MaxHold::new(TTL)), (2, MaxHold::new(2 * TTL))] {
        let terms = Terms { max_hold, ..terms() };
        let grant = granted(bench.request(Acquire { terms, ..try_acquire(number) }).await);
        bench.pass(TTL).await;
        bench.run::<RenewOutcome>(Command::Renew { lease_id: grant.lease_id, ttl: None }).await;
    }
    let events = RecordingNotices::take(&bench.notices().events);
    let told: Vec<_> = events.into_iter().map(|event| (event.kind, event.max_hold)).collect();
    let (granted, expired) = (EventKind::Granted, EventKind::Expired);
    assert_eq!(
        told,
        [(granted.clone(), None), (expired.clone(), MaxHold::new(TTL)), (granted, None), (expired, None)],
        "the second one was not renewed"
    );
}
