//! Convert: downgrades and upgrades.

use super::{shared::W, *};
use crate::domain::{
    limits::DROP_GRACE,
    mode::{ConvertTo, PermitLimit, Permits},
    outcome::{ConvertOutcome, Renewed},
};
use ConvertTo::{Exclusive, Shared};

impl Bench {
    fn convert(&mut self, grant: &Grant, token: FencingToken, to: ConvertTo) -> ConvertOutcome {
        self.turn(|turn| turn.convert(grant.lease_id, token, to))
    }

    /// The token that the lease has then.
    #[track_caller]
    fn converted(&mut self, grant: &Grant, token: FencingToken, to: ConvertTo) -> FencingToken {
        match self.convert(grant, token, to) {
            ConvertOutcome::Converted(lease) => lease.token,
            other => panic!("not converted: {other:?}"),
        }
    }

    fn holders(&self) -> Vec<FencingToken> {
        self.lock.leases().map(|lease| lease.token).collect()
    }
}

#[test]
fn a_writer_becomes_a_reader_and_readers_come_in_beside_it() {
    let mut bench = Bench::new();
    let writer = bench.write(W).granted();
    assert_eq!([bench.read(A), bench.write(B), bench.read(C)], [const { AcquireOutcome::Queued }; 3]);
    let lease = Renewed { token: writer.token, ttl: TTL, left: secs(20) };
    bench.pass(secs(10));
    assert_eq!(bench.convert(&writer, writer.token, Shared), ConvertOutcome::Converted(lease));
    assert_eq!(bench.effects[0], Effect::Changed { token: writer.token, was: writer.token });
    assert_eq!(bench.woken(), [(A, 1)], "the writer that waits comes before the reader behind it");
    let reader = bench.claim(A, 1).granted();
    assert_eq!((bench.holders(), reader.previous_end), (vec![writer.token, reader.token], None));
    assert!(reader.token > writer.token);
    bench.release(&writer);
    bench.release(&reader);
    let next = bench.claim(B, 1).granted();
    assert!(next.token > reader.token && next.previous_end == Some(LeaseEnd::Released));
}

#[test]
fn the_only_reader_becomes_a_writer_with_a_new_token_ahead_of_those_that_wait() {
    let mut bench = Bench::new();
    let [first, second] = [A, B].map(|reader| bench.read(reader).granted());
    assert_eq!(bench.write(W), AcquireOutcome::Queued);
    let refused = bench.convert(&first, first.token, Exclusive);
    assert!(matches!(&refused, ConvertOutcome::Contended(it) if it.shared.as_ref().is_some_and(|it| it.count == 2)));
    assert_eq!(bench.holders(), [first.token, second.token], "nothing was changed");
    bench.release(&second);
    let token = bench.converted(&first, first.token, Exclusive);
    assert!(token > second.token, "the other reader may have raised its own");
    assert_eq!(bench.effects.as_slice(), [Effect::Changed { token, was: first.token }]);
    assert_eq!((bench.holders(), bench.lock.shared().count()), (vec![token], 0));
    assert_eq!([first.token, token].map(|it| bench.status(it)), [TokenStatus::Stale, TokenStatus::Current]);
    assert_eq!(bench.read(C), AcquireOutcome::Queued);
    assert!(matches!(bench.renew(&first, None), RenewOutcome::Renewed(lease) if lease.token == token));
    bench.release(&first);
    assert_eq!(bench.woken(), [(W, 1)]);
}

#[test]
fn a_reader_that_is_offered_the_lock_is_in_the_way_of_an_upgrade() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    assert_eq!([bench.read(B), bench.read(C)], [const { AcquireOutcome::Queued }; 2]);
    bench.release(&held);
    let reader = bench.claim(B, 1).granted();
    assert!(matches!(bench.convert(&reader, reader.token, Exclusive), ConvertOutcome::Contended(_)));
    bench.claim(C, 1).granted();
}

#[test]
fn a_repeat_answers_the_same_and_a_late_copy_changes_nothing() {
    let mut bench = Bench::new();
    let grant = bench.read(A).granted();
    let first = bench.converted(&grant, grant.token, Exclusive);
    assert_eq!(bench.converted(&grant, grant.token, Exclusive), first, "the answer was lost");
    assert!(bench.effects.is_empty());
    assert_eq!(bench.converted(&grant, first, Shared), first, "a downgrade keeps it");
    assert_eq!(bench.convert(&grant, grant.token, Exclusive), ConvertOutcome::TokenOutdated);
    assert_eq!(bench.lock.shared().count(), 1);
    let second = bench.converted(&grant, first, Exclusive);
    assert_eq!(bench.convert(&grant, first, Shared), ConvertOutcome::TokenOutdated);
    assert!(bench.lock.lease().is_some_and(|lease| lease.token == second));
}

/// Its holder got no answer to the downgrade, and asked to be a writer.
#[test]
fn a_late_downgrade_does_not_undo_an_upgrade() {
    let mut bench = Bench::new();
    let writer = bench.write(W).granted();
    let token = bench.converted(&writer, writer.token, Exclusive);
    assert_eq!(bench.effects.as_slice(), [Effect::Changed { token, was: writer.token }]);
    assert_eq!(bench.convert(&writer, writer.token, Shared), ConvertOutcome::TokenOutdated);
    assert_eq!((bench.holders(), bench.lock.shared().count()), (vec![token], 0));
    assert_eq!(bench.converted(&writer, writer.token, Exclusive), token, "a repeat of the upgrade");
}

#[test]
fn a_lease_that_has_ended_is_not_converted() {
    let mut bench = Bench::new();
    let grant = bench.write(A).granted();
    bench.release(&grant);
    let lost = ConvertOutcome::Lost(ended(LeaseEnd::Released, None));
    assert_eq!(bench.convert(&grant, grant.token, Shared), lost);
    let reader = bench.read(B).granted();
    bench.pass(TTL);
    let lost = ConvertOutcome::Lost(ended(LeaseEnd::Expired, None));
    assert_eq!(bench.convert(&reader, reader.token, Exclusive), lost);
}

#[test]
fn a_lease_of_a_semaphore_is_not_converted() {
    let mut bench = Bench::new();
    bench.mode = Mode::Semaphore(Box::new(Permits::new(1, PermitLimit { permits: 2, version: 0 }).unwrap()));
    let permit = bench.acquire(A, 1).granted();
    for to in [Exclusive, Shared] {
        assert_eq!(bench.convert(&permit, permit.token, to), ConvertOutcome::NotConvertible);
    }
}

/// The holder knows the lease id, so it has heard of the lease.
#[test]
fn a_converted_lease_is_not_cut_short_by_a_call_that_was_dropped() {
    for (to, mode) in [(Shared, Mode::Exclusive), (Exclusive, Mode::Shared)] {
        let mut bench = Bench { mode, ..Bench::new() };
        let grant = bench.acquire(A, 1).granted();
        let token = bench.converted(&grant, grant.token, to);
        bench.drop_call(A, 1);
        bench.pass(DROP_GRACE);
        assert!(matches!(bench.renew(&grant, None), RenewOutcome::Renewed(lease) if lease.token == token));
    }
}

#[test]
fn without_a_token_left_a_reader_stays_one() {
    let mut bench = Bench::new();
    let reader = bench.read(A).granted();
    bench.sequencer = Sequencer::after(crate::domain::limits::TOKEN_END - 1);
    assert_eq!(bench.convert(&reader, reader.token, Exclusive), ConvertOutcome::TokensExhausted);
    assert_eq!((bench.holders(), bench.lock.shared().count()), (vec![reader.token], 1));
}

/// Who keeps the lock is told of both records.
#[test]
fn a_conversion_changes_the_records_of_the_lease() {
    let mut bench = Bench::new();
    let writer = bench.write(A).granted();
    bench.convert(&writer, writer.token, Shared);
    assert_eq!(bench.changed_shares, [(writer.token, writer.grant_id)]);
    bench.convert(&writer, writer.token, Exclusive);
    assert_eq!(bench.changed_shares, [(writer.token, writer.grant_id)]);
    assert!(bench.lock.lease().is_some_and(|lease| lease.grant_id == writer.grant_id));
}

#[test]
fn a_holder_that_asks_for_the_mode_that_it_has_keeps_its_lease() {
    let mut bench = Bench::new();
    let reader = bench.read(A).granted();
    let kept = ConvertOutcome::Converted(Renewed { token: reader.token, ttl: TTL, left: TTL });
    assert_eq!(bench.convert(&reader, reader.token, Shared), kept);
    // The cleanup of its call comes late.
    bench.drop_call(A, 1);
    bench.pass(DROP_GRACE);
    let again = bench.convert(&reader, reader.token, Shared);
    assert!(matches!(again, ConvertOutcome::Converted(_)), "that was promised");
    let mut bench = Bench::new();
    let reader = bench.read(A).granted();
    bench.drop_call(A, 1);
    assert_eq!(bench.convert(&reader, reader.token, Shared), kept, "its holder has heard of it");
}
