//! Tests of the fence row: the writes that it accepts and rejects.

use crate::fence::{Pass, Store, Written};

fn pass(lock_name: &str, token: u64, grant_id: &str) -> Pass {
    Pass { lock_name: lock_name.to_owned(), token, grant_id: grant_id.to_owned() }
}

#[test]
fn only_the_highest_token_with_its_own_grant_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("a.sqlite")).unwrap();
    let steps = [
        (pass("a", 7, "g7"), Written::Accepted),
        (pass("a", 7, "g7"), Written::Accepted),
        (pass("a", 7, "another"), Written::Rejected { highest: 7 }),
        (pass("a", 6, "g6"), Written::Rejected { highest: 7 }),
        (pass("a", 9, "g9"), Written::Accepted),
        (pass("a", 7, "g7"), Written::Rejected { highest: 9 }),
        (pass("a", 8, "g8"), Written::Rejected { highest: 9 }),
        // Another lock has its own row.
        (pass("b", 1, "g1"), Written::Accepted),
        (pass("a", (1 << 53) - 1, "last"), Written::Accepted),
        (pass("a", 9, "g9"), Written::Rejected { highest: (1 << 53) - 1 }),
    ];
    for (n, (pass, expected)) in steps.into_iter().enumerate() {
        let before = store.read("d").unwrap();
        assert_eq!(store.write(&pass, "d", &n.to_string()).unwrap(), expected, "step {n}");
        let after = if expected == Written::Accepted { Some(n.to_string()) } else { before };
        assert_eq!(store.read("d").unwrap(), after, "step {n}");
    }
}

#[test]
fn two_connections_share_one_fence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    let (mut one, mut two) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    assert_eq!(one.write(&pass("a", 1, "g1"), "d", "one").unwrap(), Written::Accepted);
    assert_eq!(two.enter(&pass("a", 2, "g2")).unwrap(), Written::Accepted);
    assert_eq!(one.write(&pass("a", 1, "g1"), "d", "two").unwrap(), Written::Rejected { highest: 2 });
    assert_eq!(two.read("d").unwrap().as_deref(), Some("one"));
}
