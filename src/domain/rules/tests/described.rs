//! Descriptions, bounds of waiting, and what holders are told of it.

use super::*;
use crate::domain::{
    lease::Lease,
    limits::REPLICA_SILENT,
    mode::{ConvertTo, ModeName},
    name::Owner,
    outcome::DescribeOutcome,
};

fn describe(bench: &mut Bench, lease_id: LeaseId, text: &str, number: u64) -> DescribeOutcome {
    let metadata = Metadata::new([("at".to_owned(), text.to_owned())]).unwrap();
    bench.turn(|turn| turn.describe(lease_id, (metadata, None), number))
}

fn said(bench: &Bench) -> Vec<(String, u64)> {
    let text = |lease: &Lease| lease.terms.metadata.pairs().map(|(_, value)| value.to_owned()).collect::<String>();
    let number = |lease: &Lease| lease.terms.extra.as_ref().map_or(0, |extra| extra.description);
    bench.lock.leases().map(|lease| (text(lease), number(lease))).collect()
}

#[test]
fn the_highest_number_wins_and_a_repeat_changes_nothing() {
    let mut bench = Bench::new();
    let grant = bench.acquire(A, 1).granted();
    assert_eq!(describe(&mut bench, grant.lease_id, "a", 2), DescribeOutcome::Described(2));
    assert_eq!(bench.effects.as_slice(), [Effect::Changed { token: grant.token, was: grant.token }]);
    assert_eq!(describe(&mut bench, grant.lease_id, "late", 1), DescribeOutcome::Outdated(2));
    assert_eq!(describe(&mut bench, grant.lease_id, "again", 2), DescribeOutcome::Described(2));
    assert!(bench.effects.is_empty(), "a repeat is no change");
    assert_eq!(said(&bench), [("a".to_owned(), 2)]);
    assert_eq!(describe(&mut bench, grant.lease_id, "b", 0), DescribeOutcome::Described(3));
    assert_eq!(said(&bench), [("b".to_owned(), 3)]);
    bench.release(&grant);
    let lost = DescribeOutcome::Lost(ended(LeaseEnd::Released, None));
    assert_eq!(describe(&mut bench, grant.lease_id, "c", 0), lost);
}

#[test]
fn a_request_does_not_wait_behind_as_many_as_it_says() {
    let mut bench = Bench::new();
    bench.acquire(A, 1).granted();
    let bounded = |bench: &mut Bench, request: u128| {
        let mut acquire = bench.acquire_command(request, 1);
        acquire.terms.extra = Extra { waiters_max: 1, ..Extra::default() }.boxed();
        bench.turn(|turn| turn.acquire(acquire))
    };
    assert_eq!(bounded(&mut bench, B), AcquireOutcome::Queued);
    assert!(matches!(bounded(&mut bench, C), AcquireOutcome::Contended(contention) if contention.waiters == 1));
    assert_eq!(bounded(&mut bench, B), AcquireOutcome::Queued, "a repeat of a request that waits");
}

#[test]
fn those_that_wait_at_a_server_that_is_gone_do_not_count() {
    let mut bench = Bench { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Bench::new() };
    bench.acquire(A, 1).granted();
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    bench.replica = 2;
    let bounded = |bench: &mut Bench, request: u128| {
        let mut acquire = bench.acquire_command(request, 1);
        acquire.terms.extra = Extra { waiters_max: 1, ..Extra::default() }.boxed();
        bench.turn(|turn| turn.acquire(acquire))
    };
    assert!(matches!(bounded(&mut bench, C), AcquireOutcome::Contended(_)));
    bench.pass(REPLICA_SILENT);
    assert_eq!(bounded(&mut bench, D), AcquireOutcome::Queued);
}

#[test]
fn a_holder_that_converts_its_lease_is_told_anew() {
    let mut bench = Bench::new();
    bench.attachment = Some(stream(1));
    let mut acquire = bench.acquire_command(A, 1);
    acquire.terms.extra = Extra { tell_when_wanted: true, ..Extra::default() }.boxed();
    let grant = bench.turn(|turn| turn.acquire(acquire)).granted();
    bench.attachment = None;
    bench.mode = Mode::Shared;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(wanted(&bench), [(stream(1), ModeName::Shared)]);
    bench.mode = Mode::Exclusive;
    assert_eq!(bench.acquire(C, 1), AcquireOutcome::Queued);
    bench.turn(|turn| turn.convert(grant.lease_id, grant.token, ConvertTo::Shared));
    assert_eq!(wanted(&bench), [(stream(1), ModeName::Exclusive)]);
}

#[test]
fn a_holder_that_asked_is_told_once_for_each_attachment_that_somebody_waits() {
    let mut bench = Bench::new();
    bench.attachment = Some(stream(1));
    let mut acquire = bench.acquire_command(A, 1);
    let owner = Owner::new("job".to_owned()).unwrap();
    acquire.terms.extra = Extra { owner, tell_when_wanted: true, ..Extra::default() }.boxed();
    let grant = bench.turn(|turn| turn.acquire(acquire)).granted();
    assert_eq!(wanted(&bench), []);
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(wanted(&bench), [(stream(1), ModeName::Exclusive)]);
    assert_eq!(bench.acquire(C, 1), AcquireOutcome::Queued);
    assert_eq!(wanted(&bench), [], "it knows");
    bench.attach(&grant, 2, stream(2));
    assert_eq!(wanted(&bench), [(stream(2), ModeName::Exclusive)], "its new stream does not");
}

fn wanted(bench: &Bench) -> Vec<(AttachmentId, ModeName)> {
    let wanted = bench.effects.iter().filter_map(|effect| match effect {
        Effect::Wanted { attachment, mode, .. } => Some((*attachment, *mode)),
        _ => None,
    });
    wanted.collect()
}
