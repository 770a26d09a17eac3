use super::*;
use crate::domain::ids::RequestId;

const ONE: ServerId = ServerId([1; 12]);

fn hint() -> Notice {
    Notice::LookAgain(RequestId(Uuid::nil()), 1)
}

#[test]
fn a_beat_that_is_older_than_a_watch_does_not_end_it() {
    let (transport, server) = (Transport::new(), ServerId([1; 12]));
    transport.watches(server, 6, false);
    transport.watches(server, 8, true);
    transport.watches(server, 7, false);
    assert!(transport.is_watched());
    transport.watches(server, 9, true);
    transport.watches(server, 10, false);
    assert!(!transport.is_watched());
}

#[test]
fn what_is_on_its_way_is_not_missing_however_soon_a_beat_follows_another() {
    let (it, now) = (Transport::new(), Instant::now());
    assert!(!it.received(ONE, 1, 4));
    assert!(!it.announced(ONE, 1, 5, now));
    assert!(!it.announced(ONE, 2, 6, now + HEARTBEAT_PERIOD / 300), "another node's");
    assert!(!it.received(ONE, 5, 1));
    assert!(!it.announced(ONE, 4, 7, now + HEARTBEAT_PERIOD));
    assert!(it.announced(ONE, 7, 7, now + 2 * HEARTBEAT_PERIOD), "6 and 7 never came");
    assert!(!it.announced(ONE, 10, 7, now + 3 * HEARTBEAT_PERIOD), "that is told once");
}

#[test]
fn a_server_that_was_forgotten_and_lives_finds_what_is_missing() {
    let (it, other) = (Transport::new(), Transport::new());
    // Takes the notices that are to be sent. Unless they are lost, whether the other one misses some before them.
    let taken = |lost: bool| {
        let frames = it.take(&BTreeSet::new()).into_iter().flat_map(|(_, frames)| frames);
        let missing = frames.filter(|_| !lost).map(|frame| match frame {
            Frame::Notices { first, notices } => other.received(ONE, first, notices.len()),
            other => panic!("{other:?}"),
        });
        missing.fold(false, |any, is_missing| any | is_missing)
    };
    it.notify(ONE, hint());
    assert!(!taken(false));
    it.forget(ONE);
    it.notify(ONE, hint());
    taken(true);
    it.notify(ONE, hint());
    assert!(taken(false));
    it.miss(ONE);
    it.notify(ONE, hint());
    assert!(taken(false));
}

#[test]
fn the_notices_of_a_frame_are_bounded() {
    let it = Transport::new();
    (0..=LIST_MAX).for_each(|_| it.notify(ONE, hint()));
    let lengths = it.take(&BTreeSet::new()).into_iter().flat_map(|(_, frames)| frames).map(|frame| match frame {
        Frame::Notices { notices, .. } => notices.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [LIST_MAX, 1]);
}
