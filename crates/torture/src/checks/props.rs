//! Random legal histories pass; the same with one error do not.
#![allow(clippy::ptr_arg, reason = "all corruptions have one type")]

use super::{
    check,
    index::{History, MEMORY, SECOND},
    lease::{Lease, is_local_expiry},
    sim::{ClientPlan, TTL, plans, run},
};
use crate::{
    history::{AcquireEnd, Final, Grant, Nanos, Record, Renewed},
    steps::StoreStep,
    verdict::{Check, Verdict},
};
use proptest::{prelude::*, sample::Index};

/// Corrupts a history and returns the check that must find it; `None` if the history has nothing to corrupt.
type Corruption = fn(&mut Vec<Record>, Index) -> Option<Check>;

/// All corruptions, by name.
const CORRUPTIONS: [(&str, Corruption); 11] = [
    ("one token twice", one_token_twice),
    ("tokens swapped", tokens_swapped),
    ("a lease too long", lease_too_long),
    ("a reversed verdict of the store", verdict_reversed),
    ("a wrong number of the store", number_wrong),
    ("an end without a record", end_unrecorded),
    ("a late answer", answer_late),
    ("another token for the retry", retry_granted_again),
    ("a lease revived", revived),
    ("a remaining waiter", waiter_left),
    ("a token too high", token_too_high),
];

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn legal_histories_pass(plans in plans()) {
        let verdict = check(&run(&plans));
        let revokes_only = verdict.excused.iter().all(|one| one.excuse.as_deref() == Some("force-release"));
        prop_assert!(verdict.is_good() && revokes_only, "{:#?}\n{}", verdict, listed(&run(&plans)));
    }

    #[test]
    fn corrupted_histories_do_not_pass(plans in plans(), pick in any::<Index>(), which in any::<Index>()) {
        let (name, corrupt) = CORRUPTIONS[which.index(CORRUPTIONS.len())];
        let mut records = run(&plans);
        if let Some(must) = corrupt(&mut records, pick) {
            prop_assert!(has_violation(&check(&records), must), "{}: not {}\n{}", name, must, listed(&records));
        }
    }

    #[test]
    fn the_order_of_the_lines_does_not_matter(plans in plans()) {
        let mut records = run(&plans);
        let verdict = check(&records);
        records.reverse();
        prop_assert_eq!(verdict.counts, check(&records).counts);
    }
}

/// Each corruption applies to many of the histories: otherwise the test above tests nothing.
#[test]
fn there_is_enough_to_corrupt() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let drawn: Vec<(Vec<ClientPlan>, Index)> =
        (0..60).map(|_| (plans(), any::<Index>()).new_tree(&mut runner).unwrap().current()).collect();
    for (name, corrupt) in CORRUPTIONS {
        let corrupted = drawn.iter().filter(|(plans, pick)| corrupt(&mut run(plans), *pick).is_some()).count();
        assert!(corrupted >= 10, "{name}: {corrupted} of {}", drawn.len());
    }
}

fn has_violation(verdict: &Verdict, check: Check) -> bool {
    verdict.violations.iter().any(|one| one.check == check)
}

fn listed(records: &[Record]) -> String {
    records.iter().map(|record| format!("{record:?}\n")).collect()
}

fn picked<T>(mut items: Vec<T>, pick: Index) -> Option<T> {
    (!items.is_empty()).then(|| items.swap_remove(pick.index(items.len())))
}

fn grants(records: &mut [Record]) -> Vec<&mut Grant> {
    let grant = |record| match record {
        &mut Record::Acquire(ref mut acquire) => match &mut acquire.end {
            AcquireEnd::Acquired(grant) => Some(grant),
            _ => None,
        },
        _ => None,
    };
    records.iter_mut().filter_map(grant).collect()
}

/// What `of` finds among the leases of the history.
fn find<T>(records: &[Record], pick: Index, of: impl Fn(&[Lease<'_>]) -> Vec<T>) -> Option<T> {
    let history = History::of(records);
    picked(of(&history.locks.first()?.leases), pick)
}

/// Pairs of leases of which the second was requested when the first was known.
fn in_order(leases: &[Lease<'_>]) -> Vec<(u64, u64)> {
    let later = |first: &Lease<'_>| {
        let (by, token) = (first.made_by(), first.token);
        leases.iter().filter(move |one| one.asked_from() > by).map(move |one| (token, one.token)).collect::<Vec<_>>()
    };
    leases.iter().flat_map(later).collect()
}

fn one_token_twice(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let tokens = |leases: &[Lease<'_>]| leases.windows(2).map(|pair| (pair[0].token, pair[1].token)).collect();
    let (first, second) = find(records, pick, tokens)?;
    grants(records).into_iter().filter(|grant| grant.token == second).for_each(|grant| grant.token = first);
    Some(Check::C1)
}

fn tokens_swapped(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let (first, second) = find(records, pick, in_order)?;
    for grant in grants(records) {
        grant.token = match grant.token {
            token if token == first => second,
            token if token == second => first,
            token => token,
        };
    }
    Some(Check::C2)
}

fn lease_too_long(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let pairs = |leases: &[Lease<'_>]| {
        let usable: Vec<_> = leases.iter().filter(|lease| lease.was_usable()).collect();
        let pairs = usable.windows(2).filter(|pair| pair[0].revokes.is_empty() && pair[1].revokes.is_empty());
        let pairs = pairs.filter(|pair| pair[1].intervals().iter().any(|(from, until)| until - from > 1_000));
        pairs.map(|pair| (pair[0].token, pair[1].intervals()[0].1)).collect()
    };
    let (token, until): (u64, Nanos) = find(records, pick, pairs)?;
    records.retain(|record| match record {
        Record::Release(one) => one.token != token,
        Record::Lost(one) => one.token != token,
        _ => true,
    });
    let longer = |grant: &mut Grant| grant.valid_until = until;
    grants(records).into_iter().filter(|grant| grant.token == token).for_each(longer);
    Some(Check::C3)
}

fn steps(records: &mut [Record]) -> Vec<&mut StoreStep> {
    let step = |record| match record {
        &mut Record::Store(ref mut step) => Some(step),
        _ => None,
    };
    records.iter_mut().filter_map(step).collect()
}

fn verdict_reversed(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let step = picked(steps(records), pick)?;
    step.accepted = !step.accepted;
    Some(Check::C4)
}

fn number_wrong(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let step = picked(steps(records), pick)?;
    match step.seq % 4 {
        0 => step.fenced += 1,
        1 => step.writer += 1,
        2 => step.shared += 1,
        _ => step.control += 2,
    }
    Some(Check::C4)
}

fn end_unrecorded(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let killed = records.iter().any(|record| matches!(record, Record::Fault(_)));
    let ended = |leases: &[Lease<'_>]| {
        leases.iter().filter(|lease| lease.was_usable() && lease.stopped().is_some()).map(|lease| lease.token).collect()
    };
    let token: u64 = find(records, pick, ended)?;
    records.retain(|record| match record {
        Record::Release(one) => one.token != token,
        Record::Lost(one) => one.token != token,
        _ => true,
    });
    (!killed).then_some(Check::C8)
}

fn answer_late(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let acquires = records.iter_mut().filter_map(|record| match record {
        Record::Acquire(acquire) if acquire.end == AcquireEnd::TimedOut => Some(acquire),
        _ => None,
    });
    let acquire = picked(acquires.collect(), pick)?;
    acquire.ret = acquire.invoke + acquire.wait + 100 * SECOND;
    Some(Check::C5)
}

fn retry_granted_again(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let again = |leases: &[Lease<'_>]| {
        let soon = |lease: &&Lease<'_>| lease.answers.iter().all(|one| one.0.ret < lease.ended_from() + MEMORY);
        let two = leases.iter().filter(|lease| lease.answers.len() > 1).filter(soon);
        two.map(|lease| (lease.token, lease.answers[1].0.ret)).collect()
    };
    let (token, ret): (u64, Nanos) = find(records, pick, again).or_else(|| retry_added(records, pick))?;
    for record in records.iter_mut() {
        let Record::Acquire(acquire) = record else { continue };
        let is_it = acquire.ret == ret;
        match &mut acquire.end {
            AcquireEnd::Acquired(grant) if is_it && grant.token == token => {
                grant.token += 500;
                grant.grant = "another".into();
            }
            _ => {}
        }
    }
    Some(Check::C7)
}

/// Adds a second answer to a request that was sent once. A request that was sent before may have ended and been
/// forgotten.
fn retry_added(records: &mut Vec<Record>, pick: Index) -> Option<(u64, Nanos)> {
    let once = |leases: &[Lease<'_>]| {
        let once = leases.iter().filter(|lease| lease.was_usable() && lease.transmissions.len() == 1);
        once.map(|lease| (lease.answers[0].0.clone(), lease.token)).collect()
    };
    let (mut again, token) = find(records, pick, once)?;
    again.attempt += 1;
    again.invoke = again.ret + 1;
    again.ret += 2;
    let ret = again.ret;
    records.push(Record::Acquire(again));
    Some((token, ret))
}

/// Renews a lease after the server has reported its loss. A renewal after a `deadline` is legal: the server may renew a
/// lease that has ended only by its holder's clock.
fn revived(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    let lost = |leases: &[Lease<'_>]| {
        let lost = leases.iter().filter_map(|lease| lease.losses.first());
        lost.filter(|lost| !is_local_expiry(lost)).map(|lost| (lost.client, lost.token, lost.at)).collect()
    };
    let (client, token, over): (u32, u64, Nanos) = find(records, pick, lost)?;
    let (lock, sent, at) = ("lock".to_owned(), over + 1, over + 1_000);
    records.push(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until: at + TTL }));
    Some(Check::C8)
}

fn waiter_left(records: &mut Vec<Record>, _: Index) -> Option<Check> {
    records.iter_mut().find_map(|record| match record {
        Record::Final(Final { waiters, .. }) => {
            *waiters = 1;
            Some(Check::C5)
        }
        _ => None,
    })
}

fn token_too_high(records: &mut Vec<Record>, pick: Index) -> Option<Check> {
    picked(grants(records), pick)?.token += 1 << 53;
    Some(Check::C11)
}
