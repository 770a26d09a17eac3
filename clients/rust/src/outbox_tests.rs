//! What goes out on a stream, in which order, and from when it counts.

use super::*;
use crate::validity::Reading;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(10);

fn lease(key: LeaseKey) -> Arc<LeaseState> {
    let now = Moment::now();
    let lease = v1::Lease { lock_name: "x".repeat(500), lease_id: "y".repeat(36), ..Default::default() };
    Arc::new(LeaseState::new(key, lease, Reading { sent: now, read: now, held_for: Duration::ZERO, ttl: TTL }, TTL))
}

fn attached(message: Option<Message>) -> Vec<v1::LeaseAttachment> {
    match message {
        Some(Message::Attach(attach)) => attach.leases,
        other => panic!("not an attach: {other:?}"),
    }
}

#[test]
fn a_released_lease_is_detached_before_any_answer_goes_out() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.attach(lease(1), now);
    let handle = attached(outbox.next(now))[0].handle;
    outbox.answer(1);
    outbox.detach(1);
    assert_eq!(outbox.next(now), Some(Message::Detach(v1::DetachLeases { handles: vec![handle] })));
    assert_eq!(outbox.next(now), Some(Message::Answer(v1::BeatAnswer { beat: 1 })));
    assert_eq!(outbox.next(now), None);
}

#[test]
fn a_lease_released_before_it_was_attached_is_never_mentioned() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.attach(lease(1), now);
    outbox.detach(1);
    assert_eq!(outbox.next(now), None);
}

#[test]
fn long_lists_are_split() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    for key in 0..300 {
        outbox.attach(lease(key), now);
    }
    let mut seen = std::collections::HashSet::new();
    while let Some(Message::Attach(attach)) = outbox.next(now) {
        let bytes: usize = attach.leases.iter().map(|l| l.lock_name.len() + l.lease_id.len() + ATTACHMENT_BYTES).sum();
        assert!(bytes <= 64 * 1024);
        seen.extend(attach.leases.iter().map(|lease| lease.handle));
    }
    assert_eq!(seen.len(), 300);
}

#[test]
fn an_answer_counts_from_when_it_was_sent_and_the_memory_of_answers_is_bounded() {
    let (mut outbox, start) = (Outbox::default(), Moment::now());
    for beat in 1..=100 {
        outbox.answer(beat);
        outbox.next(start.plus(Duration::from_secs(beat)));
    }
    assert_eq!(outbox.answered(100), Some(start.plus(Duration::from_secs(100))));
    assert_eq!(outbox.answered(36), None);
    assert_eq!(outbox.answered.len(), ANSWERS);
}

#[test]
fn a_lease_attached_again_gets_a_new_handle_and_a_higher_number() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    let lease = lease(1);
    outbox.attach(lease.clone(), now);
    let first = attached(outbox.next(now)).remove(0);
    assert!(outbox.take(first.handle).is_some_and(|attachment| attachment.is_latest()));
    outbox.attach(lease, now);
    let second = attached(outbox.next(now)).remove(0);
    assert!(second.handle != first.handle && second.attempt > first.attempt);
    assert!(outbox.attachment(first.handle).is_none());
}

#[test]
fn a_closed_outbox_takes_nothing_in() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.close();
    outbox.attach(lease(1), now);
    assert_eq!(outbox.next(now), None);
}
