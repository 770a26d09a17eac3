//! Memories that a server keeps, its messages about them, and its decisions.

use super::*;

const ME: ServerId = ServerId([1; 12]);
const OTHER: ServerId = ServerId([2; 12]);
const NEXT: Stamp = Stamp(7);
const START: StoreTime = StoreTime::from_micros(1_000_000);

fn ballot(round: u64) -> Ballot {
    Ballot { round, ..Ballot::default() }
}

fn at(round: u64, seq: u64) -> Position {
    Position { ballot: ballot(round), seq }
}

fn votes(promised: u64, accepted: Position) -> Seen {
    Seen::Votes { promised: ballot(promised), accepted }
}

fn stranger(kept: u64) -> Seen {
    Seen::Stranger { next: NEXT, written: ballot(kept) }
}

fn seconds(seconds: u64) -> StoreTime {
    START.after(Duration::from_secs(seconds))
}

/// A server that remembers a ballot, in a membership that it has begun.
fn with_memory(round: u64) -> Alone {
    let mut it = Alone::new(ME);
    it.remembers(&Leader::begins(ballot(round), Stamp(1), 0, Tokens::all_answered(0)), START);
    it
}

fn clocks(own: u64, node: u64) -> WallClocks {
    WallClocks::of(StoreTime::from_micros(own), [node])
}

fn report_of(memory: Option<u64>, written: u64, token: u64) -> StrangerReport {
    let memory = memory.map(ballot);
    StrangerReport { partition: 0, next: NEXT, memory, written: ballot(written), highest: ballot(written), token }
}

/// What a server decides so long after it saw the stranger, if the other one reported this.
fn decision(it: &Alone, waited: StoreTime, other: Option<StrangerReport>, other_lives: bool) -> Decision {
    let mine = it.report(0, Known::default()).unwrap();
    let reports = [Some((ME, mine)), other.map(|other| (OTHER, other))].into_iter().flatten().collect();
    let living = [Some(ME), Some(OTHER).filter(|_| other_lives)].into_iter().flatten().collect();
    let turn = Duration::from_millis(200);
    it.decides(
        Known::default(),
        &Situation { now: waited, reports: &reports, living: &living, turn, clocks: clocks(0, 0) },
    )
}

fn with_stranger(mut it: Alone, kept: u64) -> Alone {
    assert_eq!(it.sees(&stranger(kept), seconds(1), seconds(1)), Sight::Stranger(NEXT));
    it
}

#[test]
fn memory_is_kept_until_somebody_else_has_written() {
    let mut it = with_memory(2);
    assert_eq!(it.sees(&votes(3, at(2, 5)), seconds(1), seconds(1)), Sight::Nothing);
    assert_eq!((it.memory(), it.highest()), (Some(ballot(2)), ballot(3)));
    assert_eq!(it.sees(&votes(3, at(3, 1)), seconds(2), seconds(2)), Sight::Outlived);
    assert_eq!(it.memory(), None);
}

#[test]
fn a_batch_of_a_lower_ballot_is_of_another_membership_unless_it_was_read() {
    let mut it = with_memory(4);
    assert_eq!(it.sees(&votes(4, at(3, 1)), seconds(1), seconds(1)), Sight::Outlived);
    let member = crate::store::quorum::paxos::progress::Membership { stamp: Stamp(1), accepted: at(3, 1) };
    it.remembers(&Leader::new(ballot(4), at(3, 1), 0, 0, &[Some(member)]), START);
    assert_eq!(it.sees(&votes(4, at(3, 1)), seconds(1), seconds(1)), Sight::Nothing);
    assert_eq!(it.sees(&votes(4, at(3, 2)), seconds(1), seconds(1)), Sight::Outlived);
}

#[test]
fn replies_that_are_older_than_what_is_known_change_nothing() {
    let mut it = with_memory(2);
    assert_eq!(it.sees(&votes(9, at(9, 1)), START, seconds(5)), Sight::Nothing, "asked before the memory began");
    assert_eq!((it.memory(), it.highest()), (Some(ballot(2)), ballot(9)));
    it.sees(&votes(2, at(2, 1)), seconds(3), seconds(3));
    assert_eq!(it.sees(&stranger(0), seconds(2), seconds(5)), Sight::Nothing, "asked before the last one");
    assert_eq!(it.report(0, Known::default()), None);
}

#[test]
fn a_server_tells_what_it_has_and_what_it_has_seen() {
    let mut it = with_memory(2);
    it.sees(&votes(3, at(2, 5)), seconds(1), seconds(1));
    let it = with_stranger(it, 1);
    let known = Known { highest: ballot(4), token: 9 };
    let (memory, written, highest) = (Some(ballot(2)), ballot(2), ballot(4));
    let expected = StrangerReport { partition: 5, next: NEXT, memory, written, highest, token: 9 };
    assert_eq!(it.report(5, known), Some(expected));
    // It has not seen its own batch there yet.
    let written = with_stranger(with_memory(2), 1).report(5, known).map(|report| report.written);
    assert_eq!(written, Some(ballot(2)));
}

#[test]
fn the_memory_of_the_highest_ballot_is_recalled_when_all_living_have_reported() {
    let it = with_stranger(with_memory(2), 0);
    let recall = |above, skip| Decision::Recall(Admission { next: NEXT, above: ballot(above), skip });
    let lower = Some(report_of(Some(1), 1, 70_000_000));
    assert_eq!(decision(&it, seconds(1), lower, true), Decision::Wait, "a second is waited for");
    assert_eq!(decision(&it, seconds(2), lower, true), recall(2, 70_000_000));
    assert_eq!(decision(&it, seconds(2), None, true), Decision::Wait, "it has not reported");
    let of_before = lower.map(|report| StrangerReport { next: Stamp(1), ..report });
    assert_eq!(decision(&it, seconds(9), of_before, true), Decision::Wait, "it reported another loss");
    assert_eq!(decision(&it, seconds(2), of_before, false), recall(2, 60_000_000), "it is dead");
    assert_eq!(decision(&it, seconds(2), Some(report_of(Some(3), 1, 0)), true), Decision::Wait, "it has more");
    assert_eq!(decision(&it, seconds(9), Some(report_of(None, 3, 0)), true), go_on(3), "nobody has all");
}

fn go_on(above: u64) -> Decision {
    Decision::GoOn(Admission { next: NEXT, above: ballot(above), skip: 60_000_000 })
}

#[test]
fn what_the_node_kept_has_to_do_when_nobody_living_has_more() {
    let it = with_stranger(Alone::new(ME), 0);
    let (has, has_none) = (Some(report_of(Some(3), 3, 0)), Some(report_of(None, 3, 0)));
    assert_eq!(decision(&it, seconds(9), has, true), Decision::Wait);
    assert_eq!(decision(&it, seconds(9), has, false), Decision::Wait, "it may be busy with writing it back");
    assert_eq!(decision(&it, seconds(12), has, false), go_on(3), "what the dead reported counts");
    assert_eq!(decision(&it, seconds(4), has_none, true), Decision::Wait, "not its turn");
    assert_eq!(decision(&it, seconds(5), has_none, true), go_on(3));
    // The node kept more than anybody has.
    assert_eq!(decision(&with_stranger(with_memory(2), 3), seconds(9), None, false), go_on(3));
}

#[test]
fn what_the_node_kept_is_gone_on_with_when_the_earlier_clock_shows_what_the_later_one_showed() {
    let it = with_stranger(Alone::new(ME), 0);
    let reports = [(ME, it.report(0, Known::default()).unwrap())].into();
    let (living, turn) = ([ME].into(), Duration::ZERO);
    let decides = |waited: u64| {
        let clocks = clocks(40_000_000 + waited * 1_000_000, waited * 1_000_000);
        let situation = Situation { now: seconds(1 + waited), reports: &reports, living: &living, turn, clocks };
        it.decides(Known::default(), &situation)
    };
    assert_eq!((decides(3), decides(39)), (Decision::Wait, Decision::Wait));
    // 60 s above what the later one showed at the loss.
    let admission = Admission { next: NEXT, above: ballot(0), skip: 100_000_000 };
    assert_eq!(decides(40), Decision::GoOn(admission));
}

#[test]
fn who_has_begun_a_membership_waits_for_the_node() {
    let mut it = with_stranger(with_memory(2), 0);
    it.remembers(&Leader::begins(ballot(3), NEXT, 0, Tokens::all_answered(0)), seconds(2));
    assert_eq!(decision(&it, seconds(9), None, false), Decision::Wait);
    // The node is lost again before it has taken that.
    let again = Seen::Stranger { next: Stamp(8), written: ballot(0) };
    assert_eq!(it.sees(&again, seconds(10), seconds(10)), Sight::Stranger(Stamp(8)));
    let lost = it.report(0, Known::default()).unwrap();
    assert_eq!((lost.next, lost.memory), (Stamp(8), Some(ballot(3))));
    let reports = [(ME, lost)].into();
    let (living, turn) = ([ME].into(), Duration::ZERO);
    let situation = Situation { now: seconds(12), reports: &reports, living: &living, turn, clocks: clocks(5, 5) };
    let admission = Admission { next: Stamp(8), above: ballot(3), skip: 60_000_005 };
    assert_eq!(it.decides(Known::default(), &situation), Decision::Recall(admission));
}

#[test]
fn grants_that_were_not_answered_get_tokens_above_the_skip() {
    let mut leader = Leader::begins(ballot(1), NEXT, 0, Tokens { acknowledged: 10, drawn: 12 });
    let renumbering = Renumbering::of(&leader, 100);
    assert_eq!([9, 10, 11, 12].map(|token| renumbering.token(token)), [9, 10, 101, 102].map(Some));
    assert_eq!(renumbering.token(TOKEN_END - 20), None);
    let next = renumbering.begins(ballot(2), Stamp(8), 3, 12).unwrap();
    assert_eq!((next.token_and_time(), next.acknowledged_token()), ((102, 3), 100));
    assert_eq!(renumbering.begins(ballot(2), Stamp(8), 3, TOKEN_END - 20), None);
    // Nothing was drawn since.
    leader = Leader::begins(ballot(1), NEXT, 0, Tokens::all_answered(10));
    let next = Renumbering::of(&leader, 100).begins(ballot(2), Stamp(8), 3, 10).unwrap();
    assert_eq!((next.token_and_time().0, next.acknowledged_token()), (100, 100));
}
