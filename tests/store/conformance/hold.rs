//! Renewal, attachment, release and revocation of leases.

use crate::{
    bench::{Bench, Harness, TTL, acquire, attachment, call, candidate, granted, name, terms, try_acquire},
    notices::RecordingNotices,
};
use fencepost::testing::{
    domain::{
        command::{Acquire, Candidate, Command},
        ids::LeaseId,
        lease::{Delays, Extra, LeaseEnd, MaxHold, Terms},
        limits::ENDED_MEMORY,
        name::Reason,
        outcome::{AcquireOutcome, Fate, Gone, Grant, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
        token::FencingToken,
    },
    store::Store,
};
use std::time::Duration;
use uuid::Uuid;

fn gone(fate: Fate, successor: Option<FencingToken>) -> Gone {
    Gone { fate, successor }
}

fn left(outcome: RenewOutcome) -> Duration {
    match outcome {
        RenewOutcome::Renewed(Renewed { left, .. }) => left,
        other => panic!("expected a renewal: {other:?}"),
    }
}

pub(crate) async fn a_repeated_release_returns_the_same_end_and_releases_no_other_lease(bench: &Bench<impl Harness>) {
    let release = async |lease_id| bench.run::<ReleaseOutcome>(Command::Release(lease_id)).await;
    let old = bench.acquire(1).await;
    assert_eq!(release(old.lease_id).await, ReleaseOutcome::Released);
    let new = bench.acquire(2).await;
    let repeat = ReleaseOutcome::Gone(gone(Fate::Ended(LeaseEnd::Released), Some(new.token)));
    assert_eq!(release(old.lease_id).await, repeat);
    let stranger = LeaseId(Uuid::new_v4());
    assert_eq!(release(stranger).await, ReleaseOutcome::Gone(gone(Fate::Superseded, Some(new.token))));
    assert_eq!(bench.view().await.current.unwrap().token, new.token);
    assert_eq!(release(new.lease_id).await, ReleaseOutcome::Released);
    bench.pass(ENDED_MEMORY).await;
    assert_eq!(release(new.lease_id).await, ReleaseOutcome::Gone(gone(Fate::Unknown, None)));
}

pub(crate) async fn a_renewal_never_shortens_and_never_revives_a_lease(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    let renew = async |ttl| bench.run::<RenewOutcome>(Command::Renew { lease_id: grant.lease_id, ttl }).await;
    bench.pass(TTL / 2).await;
    assert_eq!(left(renew(None).await), TTL);
    assert_eq!(left(renew(Some(TTL * 2)).await), TTL * 2);
    assert_eq!(left(renew(Some(TTL)).await), TTL * 2);
    bench.pass(TTL * 2).await;
    assert_eq!(renew(None).await, RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Expired), None)));
    assert_eq!(bench.view().await.current, None, "the expired lease is not revived even if the lock is free");
    let next = bench.acquire(2).await;
    let lost = RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Expired), Some(next.token)));
    assert_eq!(renew(Some(TTL)).await, lost);
}

pub(crate) async fn a_stream_renews_its_lease_and_never_revives_it(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    let renew = async || bench.renew_kept(grant, 10).await;
    bench.attach(grant, 10, 1).await;
    for _ in 0..3 {
        bench.pass(TTL - Duration::from_micros(1)).await;
        assert_eq!(left(renew().await), TTL);
    }
    bench.pass(TTL).await;
    assert_eq!(renew().await, RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Expired), None)));
    assert_eq!(RecordingNotices::take(&bench.notices().ended), [(attachment(10), LeaseEnd::Expired)]);
    assert_eq!(bench.view().await.current, None);
}

pub(crate) async fn only_the_newest_attachment_renews_the_lease(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    let attach = async |number, attempt| bench.attach(grant, number, attempt).await;
    let renew = async |number| bench.renew_kept(grant, number).await;
    bench.pass(TTL / 2).await;
    assert_eq!(left(attach(10, 1).await), TTL, "an attachment renews");
    assert_eq!(left(attach(20, 2).await), TTL);
    assert_eq!(RecordingNotices::take(&bench.notices().detached), [attachment(10)]);
    assert_eq!(renew(10).await, RenewOutcome::AttachedElsewhere);
    assert_eq!(attach(11, 1).await, RenewOutcome::AttachedElsewhere);
    assert_eq!(left(attach(21, 2).await), TTL, "among equal attempts the latest wins");
    assert_eq!(left(renew(21).await), TTL);
    bench.detach(grant, 20).await;
    assert_eq!(left(renew(21).await), TTL, "a detach of an older attachment does nothing");
    bench.detach(grant, 21).await;
    assert_eq!(renew(21).await, RenewOutcome::AttachedElsewhere);
    assert_eq!(left(attach(30, 1).await), TTL, "after a detach, attempts start again at 1");
}

pub(crate) async fn a_stream_that_ends_revokes_only_leases_still_attached_to_it(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    bench.queue([2]).await;
    bench.attach(grant, 10, 1).await;
    bench.attach(grant, 20, 2).await;
    bench.disconnect(grant, 10).await;
    assert_eq!(bench.view().await.current.unwrap().token, grant.token);
    bench.disconnect(grant, 20).await;
    assert_eq!(granted(bench.claim(2).await).previous_end, Some(LeaseEnd::Revoked));
}

pub(crate) async fn force_release_revokes_only_the_lease_with_the_expected_token(bench: &Bench<impl Harness>) {
    let reason = Reason::new("test".into()).unwrap();
    let force =
        async |expected| bench.run::<RevokeOutcome>(Command::ForceRelease { expected, reason: reason.clone() }).await;
    let grant = bench.acquire(1).await;
    let other = FencingToken::new(grant.token.get() - 1).unwrap();
    assert_eq!(force(other).await, RevokeOutcome::TokenMismatch(grant.token));
    assert!(matches!(force(grant.token).await, RevokeOutcome::Revoked(holder) if holder.as_str() == "holder"));
    assert_eq!(force(grant.token).await, RevokeOutcome::NotHeld);
    let renewed: RenewOutcome = bench.run(Command::Renew { lease_id: grant.lease_id, ttl: None }).await;
    assert_eq!(renewed, RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Revoked), None)));
}

pub(crate) async fn a_stream_is_notified_once_of_the_end_of_its_lease(bench: &Bench<impl Harness>) {
    let expired = bench.acquire(1).await;
    bench.attach(expired, 10, 1).await;
    bench.pass(TTL).await;
    let released = bench.acquire(2).await;
    bench.attach(released, 20, 1).await;
    bench.release(released).await;
    let unattached = bench.acquire(3).await;
    bench.release(unattached).await;
    bench.pass(TTL).await;
    let ended = RecordingNotices::take(&bench.notices().ended);
    assert_eq!(ended, [(attachment(10), LeaseEnd::Expired), (attachment(20), LeaseEnd::Released)]);
}

pub(crate) async fn many_leases_are_renewed_together_each_with_its_own_outcome(bench: &Bench<impl Harness>) {
    let mut leases = Vec::new();
    for number in 0..1_000_u128 {
        let lock = name(&format!("lock/{number}"));
        let grant = granted(bench.run_on(&lock, Command::Acquire(try_acquire(number))).await);
        leases.push((lock, grant));
    }
    let each = async |command: &dyn Fn(LeaseId) -> Command| {
        let commands = leases.iter().map(|(lock, grant)| (lock, command(grant.lease_id))).collect();
        let answers = bench.store().renew_each(commands).await.into_iter();
        answers.map(|answer| answer.unwrap().of::<RenewOutcome>().unwrap().outcome).collect::<Vec<_>>()
    };
    let attachment = attachment(1);
    let attached = each(&|lease_id| Command::Attach { lease_id, attempt: 1, attachment }).await;
    assert!(attached.into_iter().all(|outcome| left(outcome) == TTL));
    for (lock, grant) in leases.iter().step_by(3) {
        bench.run_on::<ReleaseOutcome>(lock, Command::Release(grant.lease_id)).await;
    }
    let outcomes = each(&|lease_id| Command::RenewKept(lease_id, attachment)).await;
    assert_eq!(outcomes.len(), leases.len());
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let lost = outcome == RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Released), None));
        assert_eq!(lost, number % 3 == 0, "{number}");
    }
}

pub(crate) async fn a_lease_may_be_attached_by_its_grant(bench: &Bench<impl Harness>) {
    let attached = |number, stream| Acquire {
        candidate: Candidate { attachment: Some(attachment(stream)), ..candidate() },
        ..acquire(number)
    };
    let first = granted(bench.request(attached(1, 11)).await);
    assert_eq!(left(bench.renew_kept(first, 11).await), TTL);
    let claimed = attached(2, 12).candidate;
    assert_eq!(bench.request(attached(2, 12)).await, AcquireOutcome::Queued);
    bench.revoke(first).await;
    let ended = RecordingNotices::take(&bench.notices().ended);
    assert_eq!(ended, [(attachment(11), LeaseEnd::Revoked)], "its stream is notified");
    let second = granted(bench.run(Command::Claim(call(2, 1), claimed)).await);
    assert_eq!(left(bench.renew_kept(second, 12).await), TTL);
    assert_eq!(left(bench.attach(second, 13, 2).await), TTL);
    assert_eq!(bench.renew_kept(second, 12).await, RenewOutcome::AttachedElsewhere);
}

pub(crate) async fn no_renewal_extends_a_lease_beyond_its_max_hold(bench: &Bench<impl Harness>) {
    let terms = Terms { max_hold: MaxHold::new(2 * TTL), ..terms() };
    let grant = granted(bench.request(Acquire { terms, ..try_acquire(1) }).await);
    bench.attach(grant, 10, 1).await;
    bench.pass(TTL / 2).await;
    assert_eq!(left(bench.renew_kept(grant, 10).await), TTL);
    bench.pass(TTL / 2).await;
    assert_eq!(left(bench.renew_kept(grant, 10).await), TTL, "it ends just then");
    bench.pass(TTL / 2).await;
    let renew = async |ttl| bench.run::<RenewOutcome>(Command::Renew { lease_id: grant.lease_id, ttl }).await;
    assert_eq!((left(renew(None).await), left(renew(Some(TTL)).await)), (TTL / 2, TTL / 2));
    bench.pass(TTL / 2).await;
    assert_eq!(renew(None).await, RenewOutcome::Lost(gone(Fate::Ended(LeaseEnd::Expired), None)));
    assert_eq!(RecordingNotices::take(&bench.notices().ended), [(attachment(10), LeaseEnd::Expired)]);
    assert_eq!(bench.acquire(2).await.previous_end, Some(LeaseEnd::Expired));
}

pub(crate) async fn a_lock_stays_unavailable_for_its_min_hold(bench: &Bench<impl Harness>) {
    let terms = Terms { extra: Extra::of_delays(Delays::new(2 * TTL, Duration::ZERO)), ..terms() };
    let Some(grant) = granted_with_delays(bench, 1, terms).await else { return };
    bench.release(grant).await;
    assert_eq!(bench.request(acquire(2)).await, AcquireOutcome::Queued);
    bench.pass(TTL).await;
    assert_eq!(left_of_delay(bench).await, Some(TTL));
    assert!(matches!(bench.request(try_acquire(3)).await, AcquireOutcome::Contended(it) if it.delay.is_some()));
    assert_eq!(bench.request(try_acquire(1)).await, AcquireOutcome::Ended, "its end is remembered as long");
    bench.pass(TTL).await;
    assert_eq!(left_of_delay(bench).await, None);
    assert_eq!(granted(bench.claim(2).await).previous_end, Some(LeaseEnd::Released));
}

pub(crate) async fn a_late_release_or_an_operator_ends_a_lock_delay(bench: &Bench<impl Harness>) {
    let lock_delay = Duration::from_secs(60);
    let terms = Terms { extra: Extra::of_delays(Delays::new(Duration::ZERO, lock_delay)), ..terms() };
    let delayed = async |number| {
        let grant = granted_with_delays(bench, number, terms.clone()).await?;
        bench.pass(TTL).await;
        assert_eq!(left_of_delay(bench).await, Some(lock_delay));
        Some(grant)
    };
    let Some(grant) = delayed(1).await else { return };
    let expired = gone(Fate::Ended(LeaseEnd::Expired), None);
    let late = bench.run::<ReleaseOutcome>(Command::Release(grant.lease_id));
    assert_eq!(late.await, ReleaseOutcome::Gone(expired));
    assert_eq!(left_of_delay(bench).await, None);
    let grant = delayed(2).await.unwrap();
    let force = Command::ForceRelease { expected: grant.token, reason: Reason::new("again".into()).unwrap() };
    assert!(matches!(bench.run(force).await, RevokeOutcome::Revoked(_)));
    assert_eq!(bench.acquire(3).await.previous_end, Some(LeaseEnd::Expired));
}

/// The grant; `None` if classic clients share the lock, which have the request refused.
async fn granted_with_delays<H: Harness>(bench: &Bench<H>, number: u128, terms: Terms) -> Option<Grant> {
    let outcome = bench.request(Acquire { terms, ..try_acquire(number) }).await;
    if H::IS_SHARED {
        assert_eq!(outcome, AcquireOutcome::BesideClassic);
        granted(bench.request(try_acquire(number + 1)).await);
        return None;
    }
    Some(granted(outcome))
}

/// How long the lock stays unavailable after its last lease.
async fn left_of_delay(bench: &Bench<impl Harness>) -> Option<Duration> {
    bench.view().await.delay.map(|delay| delay.left)
}
