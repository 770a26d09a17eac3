//! A lease with an explicit clock.

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn reading(sent: Moment) -> Reading {
    Reading { sent, read: sent, held_for: Duration::ZERO, ttl: TTL }
}

fn lease(sent: Moment) -> LeaseState {
    let (lock_name, lease_id) = ("orders/42".into(), "secret".into());
    let lease = Lease { lock_name, lease_id, token: 5, ..Default::default() };
    LeaseState::new(1, lease, reading(sent))
}

fn after(start: Moment, millis: u64) -> Moment {
    start.plus(Duration::from_millis(millis))
}

#[test]
fn a_process_that_was_paused_past_the_end_finds_its_lease_lost_at_once() {
    let start = Moment::now();
    let lease = lease(start);
    assert_eq!(lease.valid_for(after(start, 9_399)), Some(Duration::from_millis(1)));
    // No timer has fired and no message has arrived: the read itself checks the clock.
    assert_eq!(lease.valid_for(after(start, 9_400)), None);
    assert_eq!(lease.lost(start).map(|lost| lost.cause), Some(LossCause::Silence), "and it stays lost");
}

#[test]
fn a_lease_that_ends_by_its_max_hold_misses_no_renewal() {
    let start = Moment::now();
    let lease = lease(start);
    let renewed = |at: u64, ttl: u64| {
        let sent = after(start, at);
        lease.renewed(Reading { sent, read: sent, held_for: Duration::ZERO, ttl: Duration::from_millis(ttl) });
    };
    renewed(4_000, 10_000);
    assert!(lease.snapshot(after(start, 10_000)).is_overdue(after(start, 10_000)), "no answer came for a while");
    renewed(10_000, 8_000);
    let late = after(start, 17_000);
    assert!(!lease.snapshot(late).is_overdue(late));
    renewed(17_000, 1_000);
    assert_eq!(lease.status(after(start, 17_900)), Status::Held);
    assert_eq!(lease.ttl(), TTL);
    assert_eq!(lease.lost(after(start, 18_000)).map(|lost| lost.cause), Some(LossCause::MaxHold));
}

#[test]
fn a_renewal_after_the_end_revives_nothing() {
    let start = Moment::now();
    let lease = lease(start);
    let read = after(start, 9_500);
    lease.renewed(Reading { sent: after(start, 9_000), read, held_for: Duration::ZERO, ttl: TTL });
    assert_eq!(lease.lost(read).map(|lost| lost.cause), Some(LossCause::Silence));
}

#[test]
fn an_end_is_only_replaced_by_a_later_one() {
    let start = Moment::now();
    let lease = lease(start);
    lease.renewed(reading(after(start, 3_000)));
    assert_eq!(lease.valid_for(start), Some(Duration::from_millis(12_400)));
    lease.renewed(reading(after(start, 1_000)));
    assert_eq!(lease.valid_for(start), Some(Duration::from_millis(12_400)));
}

#[test]
fn at_risk_and_back() {
    let start = Moment::now();
    let lease = lease(start);
    let mut changes = lease.changes();
    lease.at_risk(after(start, 5_000), "no renewal");
    assert_eq!(lease.status(after(start, 5_000)), Status::AtRisk { valid_until: after(start, 9_400) });
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    lease.renewed(reading(after(start, 6_000)));
    assert_eq!(lease.status(after(start, 6_000)), Status::Held);
    assert!(changes.has_changed().unwrap());
}

#[test]
fn the_first_end_is_kept() {
    let start = Moment::now();
    let lease = lease(start);
    let revoked = Loss::from_server(crate::v1::LeaseEnd::Revoked, 7);
    assert!(lease.end(revoked));
    assert!(!lease.end(Loss::new(LossCause::Released)));
    let lost = lease.lost(after(start, 60_000)).unwrap();
    assert_eq!((lost.name.as_str(), lost.token), ("orders/42", 5));
    assert_eq!((lost.cause, lost.successor_token), (LossCause::Revoked, Some(7)));
    assert_eq!(lost.to_string(), "orders/42 (token 5) is lost: the lease was revoked; token 7 holds it now");
}

#[test]
fn a_lease_id_is_never_shown() {
    assert!(!format!("{:?}", lease(Moment::now())).contains("secret"));
}
