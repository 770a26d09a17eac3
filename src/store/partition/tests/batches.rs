//! The contents of batches.

use super::*;
use crate::domain::limits::{ENDED_MEMORY, METADATA_BYTES_MAX};

const MEMORY_OVER: Duration = ENDED_MEMORY;

fn renew(ttl: Option<Duration>) -> impl Fn(LeaseId) -> Command {
    move |lease_id| Command::Renew { lease_id, ttl }
}

#[test]
fn a_pair_in_one_batch_costs_a_share_of_one_record() {
    let mut leader = Leader::new();
    for number in 0..20 {
        let lease = leader.take(&name(number), number.into(), SECOND).lease_id;
        leader.run(&name(number), Command::Release(lease));
    }
    assert!(leader.partition.snapshot().is_none(), "there are changes that no batch has");
    assert_eq!(counts(&leader.write()), (1, 0));
    leader.pass(MEMORY_OVER - Duration::from_micros(1));
    assert_eq!(counts(&leader.write()), (0, 0));
    leader.pass(Duration::from_micros(1));
    assert_eq!(counts(&leader.write()), (0, 1));
    assert!(leader.content.0.is_empty() && leader.partition.sizes().0 == 0);
}

#[test]
fn a_lock_has_a_record_while_it_is_held() {
    let mut leader = Leader::new();
    let lease = leader.take(&name(1), 1, SECOND).lease_id;
    assert_eq!(counts(&leader.write()), (1, 0));
    leader.run(&name(1), Command::Release(lease));
    assert_eq!(counts(&leader.write()), (1, 1), "its end takes its place");
    let lease = leader.take(&name(1), 2, SECOND).lease_id;
    leader.run(&name(1), Command::Release(lease));
    leader.take(&name(1), 3, SECOND);
    assert_eq!(counts(&leader.write()), (2, 0));
    leader.pass(SECOND);
    assert_eq!(counts(&leader.write()), (1, 1), "an expiry is written like a release");
}

#[test]
fn renewals_are_written_for_long_ttls_alone() {
    let mut leader = Leader::new();
    let mut puts = |ttl: u64, commands: &[&dyn Fn(LeaseId) -> Command]| {
        let number = u32::try_from(leader.now.as_micros() / 1_000).unwrap();
        let lease_id = leader.take(&name(1), number, Duration::from_secs(ttl)).lease_id;
        leader.write();
        let written: Vec<_> = commands
            .iter()
            .map(|command| {
                leader.pass(Duration::from_millis(10));
                leader.run(&name(1), command(lease_id));
                counts(&leader.write()).0
            })
            .collect();
        leader.run(&name(1), Command::Release(lease_id));
        leader.write();
        written
    };
    let (same, longer) = (renew(None), renew(Some(Duration::from_secs(31))));
    let stream = AttachmentId(id(1));
    let attach = |lease_id| Command::Attach { lease_id, attempt: 1, attachment: stream };
    let keep = |lease_id| Command::RenewKept(lease_id, stream);
    let detach = |lease_id| Command::Detach(lease_id, stream);
    // The first renewal tells that the holder has heard of its lease.
    assert_eq!(puts(30, &[&same, &same, &same]), [1, 0, 0]);
    assert_eq!(puts(31, &[&same, &same, &same]), [1, 1, 1]);
    assert_eq!(puts(30, &[&same, &longer, &longer]), [1, 1, 1]);
    assert_eq!(puts(30, &[&attach, &keep, &attach, &detach, &detach, &same]), [1, 0, 0, 1, 0, 0]);
}

/// An upgrade and a downgrade between two batches leave a shared lease with another token.
#[test]
fn a_shared_lease_that_was_exclusive_in_between_keeps_its_record() {
    for is_written in [false, true] {
        let mut leader = Leader::new();
        let lease_id = leader.take(&name(1), 1, 40 * SECOND).lease_id;
        let mut token = leader.convert(&name(1), lease_id, ConvertTo::Shared);
        if is_written {
            leader.write();
        }
        for to in [ConvertTo::Exclusive, ConvertTo::Shared] {
            token = leader.convert(&name(1), lease_id, to);
        }
        leader.write();
        let successor = leader.successor();
        let slot = successor.find(&name(1), hash(&name(1))).unwrap();
        assert_eq!(
            slot.lock.shared().map(|lease| (lease.lease_id, lease.token)).collect::<Vec<_>>(),
            [(lease_id, token)]
        );
    }
}

#[test]
fn what_time_takes_from_a_lock_is_removed() {
    let mut leader = Leader::new();
    let overtaken = Call { request: RequestId(id(1)), attempt: 1, id: CallId(1) };
    leader.run(&name(1), Command::DropCall(overtaken));
    assert_eq!(counts(&leader.write()), (1, 0), "a tombstone is kept");
    leader.pass(COMMAND_WINDOW);
    assert_eq!(counts(&leader.write()), (0, 0));
    leader.pass(Duration::from_micros(1));
    assert_eq!(leader.partition.sizes().0, 1, "the nodes have it still");
    assert_eq!(counts(&leader.write()), (0, 1));
    assert_eq!(leader.partition.sizes().0, 0);
}

#[test]
fn an_end_that_is_over_before_it_is_written_is_removed_later() {
    let mut leader = Leader::new();
    let lease = leader.take(&name(1), 1, SECOND).lease_id;
    leader.run(&name(1), Command::Release(lease));
    leader.pass(MEMORY_OVER);
    assert_eq!(counts(&leader.write()), (1, 0));
    assert_eq!(counts(&leader.write()), (0, 1));
    assert!(leader.content.0.is_empty());
}

#[test]
fn a_full_batch_is_within_what_a_node_takes() {
    let big = Metadata::new([("k".to_owned(), "v".repeat(METADATA_BYTES_MAX - 1))]).unwrap();
    for metadata in [Metadata::default(), big] {
        let mut leader = Leader::new();
        let mut number = 0;
        for _ in 0..5 {
            // Leaves many records of ended requests, which are all due later.
            for _ in 0..200 {
                number += 1;
                let lease = leader.take(&LockName::new(number.to_string()).unwrap(), number, SECOND).lease_id;
                leader.run(&LockName::new(number.to_string()).unwrap(), Command::Release(lease));
                leader.write();
            }
            leader.pass(MEMORY_OVER);
            while !leader.partition.is_batch_full() {
                number += 1;
                let call = Call { request: RequestId(id(number)), attempt: 1, id: CallId(1) };
                let terms = Terms { metadata: metadata.clone(), ..terms(10 * SECOND) };
                let command = Acquire { call, terms, wait: false, candidate: candidate(number) };
                let lock = LockName::new(format!("{number:0>100}")).unwrap();
                leader.run(&lock, Command::Acquire(command));
            }
            let changes = leader.write();
            let bytes = changes.put.iter().map(|(key, record)| key.len() + record.len()).sum::<usize>()
                + changes.gone.iter().map(|key| key.len()).sum::<usize>();
            let (put, gone) = counts(&changes);
            assert!(put + gone <= BATCH_RECORDS_MAX && bytes <= BATCH_BYTES_MAX, "{put} {gone} {bytes}");
            let is_full = put + gone > BATCH_RECORDS_MAX / 2 || bytes > BATCH_BYTES_MAX / 2;
            assert!(gone > 0 && is_full, "{put} {gone} {bytes}");
        }
    }
}

#[test]
fn a_lock_that_grows_after_its_first_change_fills_the_batch() {
    let metadata = Metadata::new([("k".to_owned(), "v".repeat(METADATA_BYTES_MAX - 1))]).unwrap();
    let mut leader = Leader::new();
    let mut number = 0;
    while !leader.partition.is_batch_full() {
        number += 1;
        let lock = LockName::new(number.to_string()).unwrap();
        let overtaken = Call { request: RequestId(id(1)), attempt: 1, id: CallId(1) };
        leader.run(&lock, Command::DropCall(overtaken));
        let call = Call { request: RequestId(id(1_000 + number)), ..overtaken };
        let terms = Terms { metadata: metadata.clone(), ..terms(10 * SECOND) };
        let acquire = Acquire { call, terms, wait: false, candidate: candidate(number) };
        leader.run(&lock, Command::Acquire(acquire));
    }
    let changes = leader.write();
    let bytes: usize = changes.put.iter().map(|(key, record)| key.len() + record.len()).sum();
    assert!((BATCH_BYTES_MAX / 2..=BATCH_BYTES_MAX).contains(&bytes), "{bytes}");
}
