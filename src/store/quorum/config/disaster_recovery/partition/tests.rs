use super::*;
use crate::store::{
    content::Bytes,
    quorum::paxos::{
        acceptor::{Acceptor, Incarnation, PIECE_RECORDS_MAX},
        ballot::ServerId,
    },
};
use std::collections::VecDeque;

const PRESENT: Incarnation = Incarnation(1);
const LATER: Incarnation = Incarnation(2);

fn ballot(round: u64) -> Ballot {
    Ballot { round, server: ServerId([9; 12]) }
}

fn at(round: u64, seq: u64) -> Position {
    Position { ballot: ballot(round), seq }
}

fn record(number: usize) -> (Bytes, Bytes) {
    (number.to_be_bytes().as_slice().into(), [0; 1024].as_slice().into())
}

/// A node that votes, with so many records.
fn voter(node: u128, position: Position, records: usize, token: u64) -> Acceptor {
    let mut it = Acceptor::default();
    let (stamp, transfer) = (Stamp(node), TransferId(1));
    it.answer(PRESENT, stamp, &Request::Promise(Ballot::default()));
    let piece = (0..records).map(record).collect();
    it.answer(PRESENT, stamp, &Request::Stage { position, transfer, piece });
    let admit = Request::Admit { position, transfer, count: records, time: 70 + position.seq, token, stamp };
    assert_eq!(it.answer(PRESENT, stamp, &admit), Answer::Done);
    it
}

/// Runs to the end, at nodes in these lives.
fn run(nodes: &mut [(Acceptor, Incarnation)], ballot: Ballot) -> Step {
    let (mut it, mut step) = Rebuilding::new(ballot, 1_000, TransferId(7), nodes.len());
    let mut queue = VecDeque::new();
    loop {
        match step {
            Step::Send(requests) => queue.extend(requests),
            Step::Wait => {}
            over => return over,
        }
        let (node, request) = queue.pop_front().expect("it waits for nothing");
        let (acceptor, life) = &mut nodes[node];
        let fresh = Stamp(100 + u128::try_from(node).unwrap());
        step = it.answered(node, acceptor.answer(*life, fresh, &request));
    }
}

fn all_are(nodes: &[(Acceptor, Incarnation)], position: Position, (time, token, records): (u64, u64, usize)) {
    for (acceptor, life) in nodes {
        let header = acceptor.header.as_ref().unwrap();
        assert_eq!((header.incarnation, header.promised, header.accepted), (*life, position.ballot, position));
        assert_eq!((header.time, acceptor.token, acceptor.content.0.len()), (time, Some(token), records));
        assert!(acceptor.staged.is_empty());
    }
}

#[test]
fn all_get_the_best_copy_and_vote() {
    let records = 2 * PIECE_RECORDS_MAX + 1;
    // The first one votes, and has less than what the second one kept; the third one is empty.
    let mut nodes =
        [(voter(1, at(4, 6), 3, 50), PRESENT), (voter(2, at(4, 7), records, 60), LATER), (Acceptor::default(), LATER)];
    let rebuilt = Rebuilt { from: 1, was_at: at(4, 7), records, token: 1_000 };
    assert_eq!(run(&mut nodes, ballot(5)), Step::Done(rebuilt));
    all_are(&nodes, at(5, 1), (77, 1_000, records));
    assert_eq!(nodes[0].0.header.as_ref().map(|header| header.stamp), Some(Stamp(1)), "it is in no other membership");
}

#[test]
fn tokens_go_on_above_every_sequencer() {
    let mut nodes = [(voter(1, at(1, 1), 1, 7), PRESENT), (voter(2, at(0, 0), 0, 5_000), LATER)];
    let rebuilt = Rebuilt { from: 0, was_at: at(1, 1), records: 1, token: 5_000 };
    assert_eq!(run(&mut nodes, ballot(2)), Step::Done(rebuilt));
    all_are(&nodes, at(2, 1), (71, 5_000, 1));
}

#[test]
fn it_needs_a_ballot_above_all_that_is_kept() {
    let mut nodes = [(voter(1, at(4, 6), 3, 50), PRESENT), (voter(2, at(6, 7), 1, 60), LATER)];
    let before = nodes.clone();
    assert_eq!(run(&mut nodes, ballot(3)), Step::Above(ballot(4)), "promised");
    assert_eq!(nodes[0], before[0]);
    assert_eq!(run(&mut nodes, ballot(6)), Step::Above(ballot(6)), "kept");
    assert!(matches!(run(&mut nodes, ballot(7)), Step::Done(_)));
    // Once more, after it was broken off: what it wrote is read like anything else.
    nodes[0] = (Acceptor::default(), LATER);
    let rebuilt = Rebuilt { from: 1, was_at: at(7, 1), records: 1, token: 1_000 };
    assert_eq!(run(&mut nodes, ballot(8)), Step::Done(rebuilt));
    all_are(&nodes, at(8, 1), (77, 1_000, 1));
}

#[test]
fn a_node_that_changes_ends_it() {
    let of = |answers: &[(usize, Answer)]| {
        let (mut it, mut step) = Rebuilding::new(ballot(2), 0, TransferId(7), 2);
        for (node, answer) in answers {
            step = it.answered(*node, answer.clone());
        }
        step
    };
    let piece = || Answer::Piece { position: at(1, 1), time: 0, token: 0, records: vec![], next: None };
    let named = |node| (node, Answer::Stranger(Stamp(1)));
    let both = [named(0), named(1), (0, piece()), (1, piece())];
    assert!(matches!(of(&both), Step::Send(_)));
    for node in [0, 1] {
        // Before it is read, and before it is admitted: another life, another membership, or what was staged is gone.
        for answer in [Answer::Stranger(Stamp(3)), Answer::No(ballot(1)), Answer::Again] {
            assert_eq!(of(&[named(0), named(1), (node, answer.clone())]), Step::Changed(node));
            assert_eq!(of(&[&both[..], &[(node, answer)]].concat()), Step::Changed(node));
        }
    }
}
