//! Order and timing of outgoing messages.

use super::*;
use crate::validity::Reading;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(10);

fn lease(key: LeaseKey) -> Arc<LeaseState> {
    let now = Moment::now();
    let lease = crate::Lease { lock_name: "x".repeat(500), lease_id: "y".repeat(36), ..Default::default() };
    Arc::new(LeaseState::new(key, lease, Reading { sent: now, read: now, held_for: Duration::ZERO, ttl: TTL }))
}

fn next_message(outbox: &mut Outbox, now: Moment) -> Option<Message> {
    outbox.next(now).and_then(|request| request.message)
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
    let handle = attached(next_message(&mut outbox, now))[0].handle;
    outbox.answer(1);
    outbox.detach(1);
    assert_eq!(next_message(&mut outbox, now), Some(Message::Detach(v1::DetachLeases { handles: vec![handle] })));
    assert_eq!(next_message(&mut outbox, now), Some(Message::Answer(v1::BeatAnswer { beat: 1 })));
    assert_eq!(next_message(&mut outbox, now), None);
}

#[test]
fn a_lease_released_before_it_was_attached_is_never_mentioned() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.attach(lease(1), now);
    outbox.detach(1);
    assert_eq!(next_message(&mut outbox, now), None);
}

#[test]
fn long_lists_are_split() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    for key in 0..300 {
        outbox.attach(lease(key), now);
    }
    let mut seen = std::collections::HashSet::new();
    while let Some(Message::Attach(attach)) = next_message(&mut outbox, now) {
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
    let first = attached(next_message(&mut outbox, now)).remove(0);
    assert!(outbox.take(first.handle).is_some_and(|attachment| attachment.is_latest()));
    outbox.attach(lease, now);
    let second = attached(next_message(&mut outbox, now)).remove(0);
    assert!(second.handle != first.handle && second.attempt > first.attempt);
    assert!(outbox.attachment(first.handle).is_none());
}

#[test]
fn a_closed_outbox_takes_nothing_in() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    drop(outbox.close());
    outbox.attach(lease(1), now);
    assert_eq!(next_message(&mut outbox, now), None);
}

/// A permit for one operation, and the sender of its outcome.
fn pending_call() -> (oneshot::Sender<Outcome>, OwnedSemaphorePermit) {
    let permit = Arc::new(tokio::sync::Semaphore::new(1));
    (oneshot::channel().0, permit.try_acquire_owned().unwrap())
}

fn acquire(outbox: &mut Outbox) -> u64 {
    let (caller, permit) = pending_call();
    outbox.acquire(v1::AcquireRequest::default(), None, caller, permit)
}

fn release(outbox: &mut Outbox, key: LeaseKey) -> u64 {
    let (caller, permit) = pending_call();
    outbox.release(key, v1::ReleaseRequest::default(), caller, permit)
}

#[test]
fn a_release_goes_before_any_answer_and_held_leases_before_new_acquires() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.attach(lease(1), now);
    next_message(&mut outbox, now);
    acquire(&mut outbox);
    outbox.attach(lease(2), now);
    outbox.answer(1);
    let number = release(&mut outbox, 1);
    let first = outbox.next(now).unwrap();
    assert_eq!((first.operation, first.message), (number, Some(Message::Release(v1::ReleaseRequest::default()))));
    assert!(matches!(next_message(&mut outbox, now), Some(Message::Answer(_))));
    assert!(matches!(next_message(&mut outbox, now), Some(Message::Attach(_))));
    assert!(matches!(next_message(&mut outbox, now), Some(Message::Acquire(_))));
    assert_eq!(outbox.next(now), None);
}

#[test]
fn an_operation_counts_from_when_it_is_handed_to_the_transport() {
    let (mut outbox, start) = (Outbox::default(), Moment::now());
    let number = acquire(&mut outbox);
    assert!(outbox.operation_answered(number, false).is_none(), "not sent yet");
    let sent = start.plus(Duration::from_secs(3));
    let message = outbox.next(sent).unwrap();
    let Some(Message::Acquire(acquire)) = message.message else { panic!("{message:?}") };
    let operation = outbox.operation_answered(message.operation, false).unwrap();
    assert_eq!((operation.sent, operation.handle), (Some(sent), Some(acquire.handle)));
    assert!(outbox.operation_answered(number, false).is_none(), "answered once");
}

#[test]
fn an_unsent_operation_is_dropped_and_a_sent_one_is_cancelled_once() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    let (first, second) = (acquire(&mut outbox), acquire(&mut outbox));
    assert!(!outbox.give_up(first));
    assert_eq!(outbox.next(now).unwrap().operation, second);
    assert!(outbox.give_up(second) && outbox.give_up(second));
    let cancel = Message::Cancel(v1::CancelOperation { operation: second });
    assert_eq!(outbox.next(now), Some(v1::SessionRequest { operation: 0, message: Some(cancel) }));
    assert_eq!(outbox.next(now), None);
    assert!(outbox.operation_answered(second, false).is_some(), "and answered all the same");
}

#[test]
fn a_failed_release_detaches_its_lease() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    for (key, sent) in [(1, true), (2, false)] {
        outbox.attach(lease(key), now);
        let handle = attached(next_message(&mut outbox, now))[0].handle;
        let number = release(&mut outbox, key);
        if sent {
            next_message(&mut outbox, now);
            outbox.operation_answered(number, true);
        } else {
            outbox.give_up(number);
        }
        assert_eq!(next_message(&mut outbox, now), Some(Message::Detach(v1::DetachLeases { handles: vec![handle] })));
        assert_eq!(outbox.next(now), None);
    }
}

#[test]
fn a_lease_is_attached_from_its_grant_on() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    acquire(&mut outbox);
    let message = outbox.next(now).unwrap();
    let handle = outbox.operation_answered(message.operation, false).unwrap().handle.unwrap();
    let lease = Arc::new(Arc::into_inner(lease(1)).unwrap().attached_by_grant());
    outbox.granted(handle, lease.clone(), now);
    assert!(outbox.is_attached(1) && outbox.attachment(handle).unwrap().is_latest());
    assert_eq!(outbox.next(now), None, "no message is needed");
    assert_eq!(lease.next_attachment(now), 2, "the next attachment is the second");
}

#[test]
fn an_attachment_is_confirmed_by_a_renewal_in_its_name_and_never_before_it_is_sent() {
    let (mut outbox, now) = (Outbox::default(), Moment::now());
    outbox.attach(lease(1), now);
    assert!(outbox.confirm(1).is_none() && !outbox.is_confirmed(), "not sent");
    let handle = attached(next_message(&mut outbox, now))[0].handle;
    assert!(!outbox.is_confirmed());
    assert_eq!(outbox.confirm(handle).map(|(_, sent)| sent), Some(now));
    assert!(outbox.is_confirmed());
    outbox.attach(lease(2), now);
    assert_eq!((outbox.is_confirmed(), outbox.confirmed()), (false, 1));
}
