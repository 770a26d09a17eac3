//! The leader, answer by answer.

use super::*;

const NEXT: Stamp = Stamp(9);

/// A leader of three nodes, of which the first two are members that have its first batch.
fn leader() -> Leader {
    let base = Position::default();
    let member = Some(Membership { stamp: Stamp(1), accepted: base });
    let mut leader = Leader::new(Ballot { round: 1, ..Ballot::default() }, base, 0, 0, &[member, member, None]);
    assert_eq!(leader.write(Changes::default()), 1);
    for node in [0, 1] {
        let (purpose, _) = leader.next(node).unwrap();
        assert_eq!(leader.answered(node, purpose, Answer::Done), Heard::Leads);
    }
    assert_eq!(leader.committed(), 1);
    assert!(matches!(leader.next(2), Some((Purpose::Look, _))));
    leader
}

fn confirm(leader: &mut Leader, node: usize) {
    let (purpose, _) = leader.next(node).unwrap();
    assert_eq!(purpose, Purpose::Confirm { stranger: 2, next: NEXT });
    let answer = Answer::Promised { stamp: Stamp(1), accepted: Position::default() };
    leader.answered(node, purpose, answer);
}

#[test]
fn a_stranger_gets_a_snapshot_once_all_others_have_confirmed() {
    let mut leader = leader();
    leader.answered(2, Purpose::Look, Answer::Stranger(NEXT));
    confirm(&mut leader, 0);
    assert!(!leader.wants_snapshot(2));
    // The other one's connection breaks: it is asked again.
    assert!(leader.next(1).is_some());
    leader.reconnected(1);
    confirm(&mut leader, 1);
    assert!(leader.wants_snapshot(2));
}

#[test]
fn a_snapshot_goes_in_pieces_and_is_staged_anew_if_it_is_gone() {
    let mut leader = leader();
    leader.answered(
        2,
        Purpose::Look,
        Answer::Promised { stamp: NEXT, accepted: Position { seq: 7, ..Position::default() } },
    );
    for transfer in [TransferId(1), TransferId(2)] {
        assert!(leader.wants_snapshot(2));
        let key = |number: usize| number.to_be_bytes().as_slice().into();
        let small = (0..=STAGED_RECORDS_MAX).map(|number| (key(number), b"".as_slice().into()));
        let large = (1..4).map(|number| (key(1000 + number), vec![0; STAGED_BYTES_MAX / 2 * number].into()));
        leader.stage(2, transfer, small.chain(large));
        let mut counts = vec![];
        let (purpose, count) = loop {
            match leader.next(2).unwrap() {
                (Purpose::Stage, Request::Stage { piece, .. }) => counts.push(piece.len()),
                (purpose, Request::Admit { count, .. }) => break (purpose, count),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(counts, [STAGED_RECORDS_MAX, 2, 1, 1]);
        assert_eq!(count, STAGED_RECORDS_MAX + 4);
        assert_eq!(leader.next(2), None);
        leader.answered(2, purpose, Answer::Again);
    }
}

#[test]
fn a_node_that_is_further_behind_than_the_ring_gets_a_snapshot() {
    let mut leader = leader();
    leader.answered(2, Purpose::Look, Answer::Promised { stamp: NEXT, accepted: Position::default() });
    for _ in 0..RING_BATCHES_MAX {
        leader.write(Changes::default());
    }
    assert_eq!(leader.next(2), None);
    assert!(leader.wants_snapshot(2) && !leader.wants_snapshot(0));
}

#[test]
fn a_raised_sequencer_means_a_takeover_only_where_no_other_node_has_it_right() {
    let mut leader = leader();
    leader.write(Changes::default());
    let (purpose, _) = leader.next(0).unwrap();
    assert_eq!(leader.answered(0, purpose, Answer::Low(5)), Heard::Leads);
    assert!(leader.wants_snapshot(0));
    let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
    let mut alone = Leader::new(Ballot::default(), Position::default(), 0, 0, &[member]);
    alone.write(Changes::default());
    let (purpose, _) = alone.next(0).unwrap();
    assert_eq!(alone.answered(0, purpose, Answer::Low(5)), Heard::Raised(5));
}

const OWN: Ballot = Ballot { round: 5, server: crate::store::quorum::paxos::ballot::ServerId([0; 12]) };
const OTHERS: Position = Position { ballot: Ballot { round: 4, ..OWN }, seq: 1 };

/// A leader that is to begin a membership of the only node, and the question that it has sent for that.
fn beginner() -> (Leader, Purpose) {
    let mut leader = Leader::begins(OWN, NEXT, 0, Tokens { acknowledged: 7, drawn: 9 });
    assert_eq!(leader.next(0), None);
    leader.write(Changes { token: 9, ..Changes::default() });
    leader.stage(0, TransferId(1), []);
    let (purpose, request) = leader.next(0).unwrap();
    let position = Position { ballot: OWN, seq: 1 };
    let admit = Request::Admit { position, transfer: TransferId(1), count: 0, time: 0, token: 9, stamp: NEXT };
    assert_eq!(request, admit);
    (leader, purpose)
}

#[test]
fn the_only_node_is_admitted_by_who_was_told_to_and_by_nobody_else() {
    let (mut leader, purpose) = beginner();
    leader.write(Changes { token: 11, ..Changes::default() });
    assert_eq!(leader.next(0), None, "it waits for the node");
    assert_eq!(leader.answered(0, purpose, Answer::Done), Heard::Leads);
    assert_eq!((leader.committed(), leader.acknowledged_token()), (1, 9));
    let (purpose, _) = leader.next(0).unwrap();
    assert_eq!(purpose, Purpose::Write { stamp: NEXT, seq: 2 });
    assert_eq!(leader.answered(0, purpose, Answer::Done), Heard::Leads);
    assert_eq!((leader.committed(), leader.acknowledged_token()), (2, 11));
    // It is lost again: that is decided anew.
    leader.answered(0, purpose, Answer::Stranger(Stamp(10)));
    assert!(!leader.wants_snapshot(0));
    assert!(!leader.is_over());
}

#[test]
fn who_is_second_to_admit_the_only_node_has_no_memory_of_it() {
    for promised in [OTHERS.ballot, Ballot { round: 6, ..OWN }] {
        let (mut leader, purpose) = beginner();
        assert_eq!(leader.answered(0, purpose, Answer::No(promised)), Heard::Deposed(promised.max(OWN)));
        assert!(leader.is_over());
    }
    // The answer was lost, and the node is asked.
    for accepted in [OTHERS, Position::default()] {
        let (mut leader, _) = beginner();
        leader.reconnected(0);
        let (purpose, _) = leader.next(0).unwrap();
        let answer = Answer::Promised { stamp: NEXT, accepted };
        assert_eq!(leader.answered(0, purpose, answer), Heard::Deposed(OWN));
        assert!(leader.is_over());
    }
}

#[test]
fn a_leader_of_the_only_node_that_is_deposed_keeps_its_memory_unless_the_membership_is_another() {
    let alone = || {
        let member = Membership { stamp: Stamp(1), accepted: OTHERS };
        let mut leader = Leader::new(OWN, OTHERS, 0, 0, &[Some(member)]);
        leader.write(Changes::default());
        let (purpose, _) = leader.next(0).unwrap();
        (leader, purpose)
    };
    let higher = Ballot { round: 6, ..OWN };
    let (mut leader, purpose) = alone();
    assert_eq!(leader.answered(0, purpose, Answer::No(higher)), Heard::Deposed(higher));
    assert!(!leader.is_over());
    let elsewhere = Position { ballot: higher, seq: 1 };
    for (answer, seen) in [
        (Answer::No(OTHERS.ballot), OWN),
        (Answer::Promised { stamp: Stamp(2), accepted: OTHERS }, OWN),
        (Answer::Promised { stamp: Stamp(1), accepted: elsewhere }, higher),
        (Answer::At(elsewhere), higher),
    ] {
        let (mut leader, purpose) = alone();
        assert_eq!(leader.answered(0, purpose, answer.clone()), Heard::Deposed(seen), "{answer:?}");
        assert!(leader.is_over(), "{answer:?}");
    }
    // A connection that breaks ends nothing.
    for accepted in [OTHERS, Position { ballot: OWN, seq: 1 }] {
        let (mut leader, _) = alone();
        leader.reconnected(0);
        let (purpose, _) = leader.next(0).unwrap();
        assert_eq!(leader.answered(0, purpose, Answer::Promised { stamp: Stamp(1), accepted }), Heard::Leads);
        assert_eq!(leader.next(0).is_some(), accepted == OTHERS);
    }
}
