//! Tests of the guards: the writes that they accept and reject.

use super::{
    Store,
    Written::{self, Accepted, NoSlot, NotRaised, NotShared, Rejected},
};
use crate::{Kind, Scene};
use fencepost_client::facts::{NAME_BYTES_MAX, TOKEN_MAX};
use fencepost_guards::Grant;

fn grant<'a>(lock_name: &'a str, token: u64, grant_id: &'a str) -> Grant<'a> {
    Grant { lock_name, token, grant_id, ..Grant::default() }
}

/// A grant of one permit of a semaphore.
fn permit<'a>(lock_name: &'a str, slot: u32, token: u64, grant_id: &'a str) -> Grant<'a> {
    Grant { permits: 1, slot: Some(slot), ..grant(lock_name, token, grant_id) }
}

#[test]
fn only_the_highest_token_with_its_own_grant_may_write() {
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let mut store = scene.store();
        let steps = [
            (grant("a", 7, "g7"), Accepted),
            (grant("a", 7, "g7"), Accepted),
            (grant("a", 7, "another"), Rejected { highest: 7 }),
            (grant("a", 6, "g6"), Rejected { highest: 7 }),
            (grant("a", 9, "g9"), Accepted),
            (grant("a", 7, "g7"), Rejected { highest: 9 }),
            (grant("a", 8, "g8"), Rejected { highest: 9 }),
            // Another lock has its own fence.
            (grant("b", 1, "g1"), Accepted),
            (grant("a", TOKEN_MAX - 1, "last but one"), Accepted),
            (grant("a", TOKEN_MAX, "last"), Accepted),
            (grant("a", TOKEN_MAX - 1, "last but one"), Rejected { highest: TOKEN_MAX }),
            (grant("a", 9, "g9"), Rejected { highest: TOKEN_MAX }),
        ];
        for (n, (grant, expected)) in steps.into_iter().enumerate() {
            let before = store.read("d");
            assert_eq!(store.write(grant, "d", &n.to_string()), expected, "{kind:?}: step {n}");
            let after = if expected == Accepted { Some(n.to_string()) } else { before };
            assert_eq!(store.read("d"), after, "{kind:?}: step {n}");
        }
    }
}

/// A step of a holder.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    RaiseShared,
    Work,
}

impl Step {
    fn take(self, store: &mut dyn Store, grant: Grant<'_>, body: &str) -> Written {
        match self {
            Self::Write => store.write(grant, "d", body),
            Self::RaiseShared => store.raise_shared(grant),
            Self::Work => store.work(grant, "d", body),
        }
    }
}

#[test]
fn what_readers_have_read_stays_so_until_a_later_writer() {
    use Step::{RaiseShared, Work, Write};
    let steps = [
        (Work, grant("a", 12, "g12"), NotRaised),
        (Write, grant("a", 10, "g10"), Accepted),
        (Work, grant("a", 12, "g12"), NotRaised),
        (RaiseShared, grant("a", 12, "g12"), Accepted),
        (RaiseShared, grant("a", 11, "g11"), Accepted),
        (Work, grant("a", 11, "g11"), Accepted),
        (Work, grant("a", 12, "g12"), Accepted),
        (RaiseShared, grant("a", 12, "g12"), Accepted),
        // No earlier writer gets through, nor one with the token of a reader.
        (Write, grant("a", 10, "g10"), Rejected { highest: 12 }),
        (Write, grant("a", 11, "g11"), Rejected { highest: 12 }),
        (Write, grant("a", 12, "g12"), Rejected { highest: 12 }),
        (RaiseShared, grant("a", 9, "g9"), Rejected { highest: 12 }),
        (Work, grant("a", 9, "g9"), Rejected { highest: 12 }),
        (RaiseShared, grant("a", 10, "another"), Rejected { highest: 12 }),
        (Work, grant("a", 10, "another"), Rejected { highest: 12 }),
        (Write, grant("a", 13, "g"), Accepted),
        (RaiseShared, grant("a", 12, "g12"), Rejected { highest: 13 }),
        (Work, grant("a", 12, "g12"), Rejected { highest: 13 }),
        // A downgraded writer reads with its token, and shuts out its own late writes.
        (Write, grant("a", 13, "g"), Accepted),
        (RaiseShared, grant("a", 13, "g"), Accepted),
        (Work, grant("a", 13, "g"), Accepted),
        (Work, grant("a", 13, "another"), Rejected { highest: 13 }),
        (Write, grant("a", 13, "g"), Rejected { highest: 13 }),
        // An upgrade keeps the grant and draws a new token. A downgrade follows before anything is written.
        (RaiseShared, grant("a", TOKEN_MAX - 1, "g"), Accepted),
        (Write, grant("a", TOKEN_MAX - 1, "g"), Rejected { highest: TOKEN_MAX - 1 }),
        (Work, grant("a", 13, "g"), Accepted),
        (Write, grant("a", TOKEN_MAX, "last"), Accepted),
        (Work, grant("a", TOKEN_MAX - 1, "g"), Rejected { highest: TOKEN_MAX }),
    ];
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let mut store = scene.store();
        for (n, (step, grant, expected)) in steps.into_iter().enumerate() {
            let before = store.read("d");
            let found = step.take(store.as_mut(), grant, &n.to_string());
            assert_eq!(found, expected, "{kind:?}: step {n}, {step:?}");
            let writes = expected == Accepted && !matches!(step, RaiseShared);
            let after = if writes { Some(n.to_string()) } else { before };
            assert_eq!(store.read("d"), after, "{kind:?}: step {n}, {step:?}");
        }
    }
}

#[test]
fn the_holders_of_slots_write_side_by_side() {
    let steps = [
        (permit("a", 2, 11, "g11"), Accepted),
        (permit("a", 1, 10, "g10"), Accepted),
        (permit("a", 2, 11, "g11"), Accepted),
        (permit("a", 1, 10, "another"), Rejected { highest: 10 }),
        (permit("a", 1, 10, "g10"), Accepted),
        // After the next holder of its slot, a holder is stale, and that of the other slot is not.
        (permit("a", 1, 12, "g12"), Accepted),
        (permit("a", 1, 10, "g10"), Rejected { highest: 12 }),
        (permit("a", 2, 11, "g11"), Accepted),
        // The lock itself has another fence.
        (grant("a", 9, "g9"), Accepted),
    ];
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let mut store = scene.store();
        for (n, (grant, expected)) in steps.into_iter().enumerate() {
            assert_eq!(store.write(grant, "d", &n.to_string()), expected, "{kind:?}: step {n}");
        }
    }
}

#[test]
fn what_a_guard_refuses_of_a_semaphore() {
    let several = Grant { permits: 2, ..grant("a", 10, "g10") };
    let one = permit("a", 1, 11, "g11");
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let mut store = scene.store();
        for step in [Step::Write, Step::RaiseShared, Step::Work] {
            assert_eq!(step.take(store.as_mut(), several, "late"), NoSlot, "{kind:?}: {step:?}");
        }
        for step in [Step::RaiseShared, Step::Work] {
            assert_eq!(step.take(store.as_mut(), one, "late"), NotShared, "{kind:?}: {step:?}");
        }
        assert_eq!(store.read("d"), None, "{kind:?}");
    }
}

#[test]
fn a_slot_is_a_part_of_the_name_of_a_fence() {
    let long = "a".repeat(NAME_BYTES_MAX - 2);
    assert_eq!(grant("a", 1, "g").fence_name().as_deref(), Ok("a"));
    assert_eq!(permit("a", 7, 1, "g").fence_name().as_deref(), Ok("a#7"));
    assert_eq!(permit(&long, 7, 1, "g").fence_name().as_deref(), Ok(&*format!("{long}#7")));
    let too_long = permit(&long, 10, 1, "g").fence_name().unwrap_err().to_string();
    assert!(too_long.ends_with("#10 is longer than 512 bytes: give the lock a shorter name"), "{too_long}");
}

#[test]
fn names_are_compared_byte_by_byte() {
    let (long, other) = ("ü".repeat(NAME_BYTES_MAX / 2), "ü".repeat(NAME_BYTES_MAX / 2 - 1) + "ab");
    let names = ["a", "A", "a ", " a", "ä", "a\u{308}", "%s", "a'b\\", &long, &other];
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let mut store = scene.store();
        for (token, name) in (10..).zip(names) {
            assert_eq!(store.enter(grant(name, token, "g")), Accepted, "{kind:?}: {name:?}");
        }
        for (token, name) in (10..).zip(names) {
            let found = store.enter(grant(name, token - 1, "h"));
            assert_eq!(found, Rejected { highest: token }, "{kind:?}: {name:?}");
        }
    }
}

#[test]
fn two_connections_share_one_fence() {
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let (mut one, mut two) = (scene.store(), scene.store());
        assert_eq!(one.write(grant("a", 1, "g1"), "d", "one"), Accepted);
        assert_eq!(two.enter(grant("a", 2, "g2")), Accepted);
        assert_eq!(one.write(grant("a", 1, "g1"), "d", "two"), Rejected { highest: 2 }, "{kind:?}");
        assert_eq!(two.read("d").as_deref(), Some("one"), "{kind:?}");
    }
}
