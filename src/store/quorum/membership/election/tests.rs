//! Elections from the view of one server: its view of nodes and servers, and the time of its candidacy.

use super::*;

const PARTITIONS: u16 = 8;
const ME: ServerId = ServerId([1; 12]);
const OTHER: ServerId = ServerId([2; 12]);
const THIRD: ServerId = ServerId([3; 12]);

fn clock(millis: u64) -> StoreTime {
    StoreTime::from_micros(1_000_000_000 + 1_000 * millis)
}

/// Moments of one test.
#[derive(Clone, Copy)]
struct Start(Instant);

impl Start {
    fn at(self, millis: u64) -> Instant {
        self.0 + Duration::from_millis(millis)
    }
}

fn ballot(round: u64, server: ServerId) -> Ballot {
    Ballot { round, server }
}

fn votes(ballot: Ballot, seq: u64) -> Seen {
    Seen::Votes { promised: ballot, accepted: Position { ballot, seq } }
}

fn heartbeat(count: u64) -> Heartbeat {
    Heartbeat { count, ..Heartbeat::default() }
}

/// What all nodes show at this time.
fn all_show(it: &mut Election, now: Instant, seen: &Seen, servers: &[(ServerId, Heartbeat)]) {
    for node in 0..it.nodes.len() {
        it.saw(node, (now, now, clock(7)), vec![seen.clone(); usize::from(PARTITIONS)], servers.to_vec());
    }
}

fn due(it: &Election, now: Instant) -> usize {
    (0..PARTITIONS).filter(|partition| it.is_due(*partition, now)).count()
}

#[test]
fn a_cluster_that_nobody_led_is_led_once_those_that_start_know_each_other() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let nobody = || vec![votes(Ballot::default(), 0); 8];
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    assert_eq!(due(&it, at(0)), 0, "no node is seen");
    for now in [0, 350] {
        it.saw(0, (at(now), at(now), clock(now)), nobody(), vec![]);
        assert_eq!(due(&it, at(now)), 0, "one of three");
    }
    it.saw(1, (at(350), at(350), clock(350)), nobody(), vec![]);
    assert_eq!(due(&it, at(350)), 0, "it may have been seen before others came");
    it.saw(1, (at(700), at(700), clock(700)), nobody(), vec![]);
    assert_eq!(due(&it, at(700)), 8);
    assert_eq!(due(&it, at(1_600)), 0, "what was seen long ago does not count");
    for node in 0..3 {
        it.saw(node, (at(2_000), at(2_000), clock(2_000)), nobody(), vec![]);
    }
    assert_eq!(due(&it, at(2_000)), 0, "others may have come meanwhile");
}

#[test]
fn of_servers_that_start_at_the_same_time_one_campaigns_for_a_partition_first() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    // The first one's heartbeat is before that of the second, which it sees with its next.
    let mut first = Election::new(ME, 1, PARTITIONS, at(0));
    let mut second = Election::new(OTHER, 1, PARTITIONS, at(10));
    let nobody = votes(Ballot::default(), 0);
    all_show(&mut first, at(0), &nobody, &[]);
    all_show(&mut second, at(10), &nobody, &[(ME, heartbeat(1))]);
    for now in (0..350).step_by(10) {
        assert_eq!((due(&first, at(now)), due(&second, at(now))), (0, 0));
    }
    all_show(&mut first, at(350), &nobody, &[(OTHER, heartbeat(1))]);
    all_show(&mut second, at(360), &nobody, &[(ME, heartbeat(2))]);
    let both = |now| {
        let campaigns =
            |it: &Election| (0..PARTITIONS).filter(|partition| it.is_due(*partition, at(now))).collect::<Vec<_>>();
        (campaigns(&first), campaigns(&second))
    };
    for now in [360, 550, 740] {
        let (firsts, seconds) = both(now);
        assert_eq!(firsts.len() + seconds.len(), 8, "{firsts:?}, {seconds:?}");
        assert!(!firsts.is_empty() && firsts.iter().all(|partition| !seconds.contains(partition)));
    }
    let (firsts, seconds) = both(770);
    assert_eq!((firsts.len(), seconds.len()), (8, 8), "the other one does not campaign");
}

#[test]
fn a_leader_is_suspected_after_its_silence_and_by_one_server_after_the_other() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    let mut count = 0;
    let mut show = |it: &mut Election, now, seq| {
        count += 1;
        all_show(it, now, &votes(ballot(4, OTHER), seq), &[(OTHER, heartbeat(7)), (THIRD, heartbeat(count))]);
    };
    for now in (0..3_000).step_by(300) {
        show(&mut it, at(now), now);
        assert_eq!(due(&it, at(now)), 0, "it writes");
    }
    for now in (3_000..3_900).step_by(300) {
        show(&mut it, at(now), 2_700);
        assert_eq!(due(&it, at(now)), 0, "it may be slow");
    }
    show(&mut it, at(3_900), 2_700);
    let first = due(&it, at(3_900));
    assert!(0 < first && first < 8, "the others are the third server's: {first}");
    assert_eq!(due(&it, at(4_100)), first, "it may campaign");
    show(&mut it, at(4_200), 2_700);
    assert_eq!(due(&it, at(4_300)), 8, "which does not campaign");
}

#[test]
fn a_leader_that_writes_to_a_minority_only_is_suspected() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    let (kept, mut due_at) = (vec![votes(ballot(4, OTHER), 1); 8], None);
    for now in (0..3_000).step_by(300) {
        for node in 0..3 {
            let written = if node == 2 { vec![votes(ballot(4, OTHER), 1 + now); 8] } else { kept.clone() };
            it.saw(node, (at(now), at(now), clock(now)), written, vec![(OTHER, heartbeat(1 + now))]);
        }
        if due(&it, at(now)) > 0 {
            due_at = due_at.or(Some(now));
        }
    }
    assert_eq!(due_at, Some(1_200));
    // One that cannot be reached by the leader is no reason.
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    for now in (0..3_000).step_by(300) {
        for node in 0..3 {
            let written = if node < 2 { vec![votes(ballot(4, OTHER), 1 + now); 8] } else { kept.clone() };
            it.saw(node, (at(now), at(now), clock(now)), written, vec![(OTHER, heartbeat(1 + now))]);
        }
        assert_eq!(due(&it, at(now)), 0);
    }
}

#[test]
fn who_sees_that_another_campaigns_waits() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    all_show(&mut it, at(0), &votes(ballot(4, OTHER), 1), &[(OTHER, heartbeat(1))]);
    let promised = Seen::Votes { promised: ballot(5, THIRD), accepted: Position { ballot: ballot(4, OTHER), seq: 1 } };
    all_show(&mut it, at(1_000), &promised, &[(OTHER, heartbeat(1)), (THIRD, heartbeat(1))]);
    all_show(&mut it, at(1_500), &promised, &[(OTHER, heartbeat(1)), (THIRD, heartbeat(1))]);
    assert_eq!(due(&it, at(1_500)), 0);
    all_show(&mut it, at(2_500), &promised, &[(OTHER, heartbeat(1)), (THIRD, heartbeat(1))]);
    assert_eq!(due(&it, at(2_500)), 8, "it died meanwhile");
    // Its own attempts do not hold it back.
    let own = Seen::Votes { promised: ballot(6, ME), accepted: Position { ballot: ballot(4, OTHER), seq: 1 } };
    all_show(&mut it, at(2_600), &own, &[]);
    assert_eq!(due(&it, at(2_600)), 8);
}

#[test]
fn partitions_without_a_voting_majority_have_no_candidates() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    let stranger = Seen::Stranger { next: crate::store::quorum::paxos::ballot::Stamp(1), written: Ballot::default() };
    for (node, seen) in [(0, votes(Ballot::default(), 0)), (1, stranger.clone()), (2, stranger)] {
        it.saw(node, (at(0), at(0), clock(0)), vec![seen; 8], vec![]);
    }
    assert_eq!(due(&it, at(5)), 0);
}

/// How many of all partitions, which this server leads, it hands over.
fn heirs(it: &Election, leaves: bool, now: Instant) -> usize {
    it.heirs(&(0..PARTITIONS).collect::<Vec<_>>(), leaves, now).len()
}

#[test]
fn a_server_that_comes_gets_its_share_once_it_has_settled() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    all_show(&mut it, at(0), &votes(ballot(1, ME), 1), &[(OTHER, heartbeat(1))]);
    assert_eq!(heirs(&it, true, at(0)), 0, "what a node shows at first may be old");
    let mut count = 1;
    for now in (300..=2_100).step_by(300) {
        count += 1;
        all_show(&mut it, at(now), &votes(ballot(1, ME), now), &[(OTHER, heartbeat(count))]);
        assert_eq!((heirs(&it, false, at(now)), heirs(&it, true, at(now))), (if now < 2_000 { 0 } else { 4 }, 8));
    }
    // It may have died: a hand-over that can wait does.
    assert_eq!((heirs(&it, false, at(2_899)), heirs(&it, false, at(2_900)), heirs(&it, true, at(2_900))), (4, 0, 8));
    // One that gives a partition up may be about to leave.
    it.gave(OTHER, at(2_100));
    assert_eq!((heirs(&it, false, at(2_100)), heirs(&it, true, at(2_100))), (0, 8));
    let leaving = Heartbeat { leaves: true, ..heartbeat(count + 1) };
    all_show(&mut it, at(2_400), &votes(ballot(1, ME), 9_999), &[(OTHER, leaving)]);
    assert_eq!((heirs(&it, false, at(2_400)), heirs(&it, true, at(2_400))), (0, 0));
}

#[test]
fn shares_are_levelled_while_each_partition_has_one_leader() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let led = |partition| Led { partition, round: 1, now: clock(5) };
    let shown = |other: &[u16], last: u64| {
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        for (count, now) in (1..).zip((0..=9_000).step_by(300)) {
            let leads = Heartbeat { leads: other.iter().copied().map(led).collect(), ..heartbeat(count) };
            all_show(&mut it, at(now), &votes(ballot(1, ME), now.min(last)), &[(OTHER, leads)]);
        }
        it
    };
    let given = |mine: &[u16], other: &[u16]| shown(other, 9_000).heirs(mine, false, at(9_000));
    let three = given(&[0, 1, 2, 3, 4, 5, 6], &[7]);
    assert_eq!(three.len(), 3, "each leads four then");
    assert!(three.iter().all(|(partition, heir)| *partition < 7 && *heir == OTHER));
    assert_eq!(given(&[0, 1, 2, 3], &[4, 5, 6, 7]), [], "they are equal");
    assert_eq!(given(&[0, 1, 2], &[3, 4, 5, 6, 7]), [], "the other one gives");
    assert_eq!(given(&[0, 1, 2, 3, 4, 5], &[]), [], "two are on their way");
    assert_eq!(given(&[0, 1, 2, 3, 4, 5, 6, 7], &[7]), [], "who leads the last one is not settled yet");
    // Nobody can lead the last two, as nothing has happened there for long.
    let broken = |last| shown(&[], last).heirs(&[0, 1, 2, 3, 4, 5], false, at(9_000)).len();
    assert_eq!((broken(4_200), broken(3_900)), (0, 3));
}

#[test]
fn a_server_that_was_silent_for_long_has_to_settle_again() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    let mut count = 0;
    for now in (0..=9_000).step_by(300) {
        // It stands still for a while.
        count += u64::from(!(3_000..4_500).contains(&now));
        all_show(&mut it, at(now), &votes(ballot(1, ME), now), &[(OTHER, heartbeat(count))]);
        let is_settled = (2_000..3_400).contains(&now) || now >= 6_500;
        assert_eq!(heirs(&it, false, at(now)) > 0, is_settled, "{now}");
    }
}

#[test]
fn the_leader_is_the_living_server_with_the_highest_ballot() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    let led = |round| Led { partition: 3, round, now: clock(5) };
    let leads = |count, round| Heartbeat { leads: vec![led(round)], ..heartbeat(count) };
    for count in 1..=2 {
        let servers = [(OTHER, leads(count, 5)), (THIRD, leads(count, 4))];
        all_show(&mut it, at(300 * count), &votes(ballot(5, OTHER), count), &servers);
    }
    let known = it.leader(3, at(601)).unwrap();
    assert_eq!(known, Known { ballot: ballot(5, OTHER), time: clock(5), heard: clock(7) });
    assert_eq!(it.leader(2, at(601)), None);
    assert_eq!(it.leader(3, at(1_800)), None, "both are silent");
    for now in (900..=31_000).step_by(300) {
        assert_eq!(it.gone(at(now)), if now < 30_600 { vec![] } else { vec![OTHER, THIRD] }, "{now}");
        all_show(&mut it, at(now), &votes(ballot(5, OTHER), 2), &[(OTHER, leads(2, 5)), (THIRD, leads(2, 4))]);
    }
}

#[test]
fn who_was_away_takes_nobody_for_gone_and_deposes_nobody() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    for (count, now) in [(1, 0), (2, 300)] {
        all_show(&mut it, at(now), &votes(ballot(4, OTHER), count), &[(OTHER, heartbeat(count))]);
    }
    let back = 60_000;
    assert_eq!(it.gone(at(back)), [], "it has not looked");
    it.saw(0, (at(back), at(back), clock(7)), vec![votes(ballot(4, OTHER), 199); 8], vec![]);
    assert_eq!(it.forget_gone(at(back)), []);
    all_show(&mut it, at(back + 1), &votes(ballot(4, OTHER), 200), &[(OTHER, heartbeat(200))]);
    assert_eq!((it.forget_gone(at(back + 300)), due(&it, at(back + 300))), (vec![], 0));
}

#[test]
fn the_time_of_a_leader_is_never_ahead_of_it_even_where_the_clock_is_faster() {
    let known = Known { ballot: ballot(1, OTHER), time: clock(0), heard: clock(500) };
    assert_eq!(known.at(clock(500)), clock(0));
    // The leader's clock shows a day. This server's one gained 1 % less a second.
    let day = 24 * 60 * 60 * 1_000;
    assert!(known.at(clock(500 + day + day / 100 - 1_000)) < clock(day));
    assert!(known.at(clock(500 + 1_000)) >= clock(990), "it does not fall behind more than that");
}

#[test]
fn who_reaches_a_minority_of_the_nodes_gets_nothing_handed_over() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let given = |reached: usize| {
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        for (count, now) in (1..).zip((0..=3_000).step_by(300)) {
            for node in 0..reached {
                let seen = vec![votes(ballot(1, ME), now); usize::from(PARTITIONS)];
                it.saw(node, (at(now), at(now), clock(7)), seen, vec![(OTHER, heartbeat(count))]);
            }
        }
        assert_eq!(it.living(at(3_000)).count(), 2);
        heirs(&it, true, at(3_000))
    };
    assert_eq!([1, 2, 3].map(given), [0, 8, 8]);
}

#[test]
fn waiters_are_awaited_of_who_may_live_until_it_has_left_and_was_heard_out() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let left = |count| Heartbeat { leaves: true, left: true, ..heartbeat(count) };
    let mut it = Election::new(ME, 3, PARTITIONS, at(0));
    all_show(&mut it, at(0), &votes(ballot(1, ME), 1), &[(OTHER, heartbeat(1)), (THIRD, left(9))]);
    assert_eq!(it.gateways(at(0)), [OTHER], "one has just come, one left long ago");
    assert_eq!(it.gateways(at(900)), [], "it never beat again");
    all_show(&mut it, at(1_000), &votes(ballot(1, ME), 2), &[(OTHER, heartbeat(2))]);
    assert_eq!(it.gateways(at(1_000)), [OTHER]);
    all_show(&mut it, at(1_300), &votes(ballot(1, ME), 3), &[(OTHER, left(3))]);
    assert_eq!(it.gateways(at(1_399)), [OTHER], "what it said last may be on its way");
    assert_eq!(it.gateways(at(1_400)), []);
}

#[test]
fn who_does_not_beat_is_dead_unless_this_server_was_away_itself() {
    let start = Start(Instant::now());
    let at = |millis| start.at(millis);
    let mut it = Election::new(ME, 1, PARTITIONS, at(0));
    let shows = |it: &mut Election, millis, other, third| {
        all_show(it, at(millis), &votes(ballot(1, ME), 1), &[(OTHER, heartbeat(other)), (THIRD, heartbeat(third))]);
        it.dead(at(millis)).collect::<Vec<_>>()
    };
    for heartbeat in 0..4 {
        assert_eq!(shows(&mut it, heartbeat * 300, 1 + heartbeat, 1 + heartbeat), []);
    }
    // The other one sends no heartbeats any more.
    for heartbeat in 4..7 {
        assert_eq!(shows(&mut it, heartbeat * 300, 4, 1 + heartbeat), []);
    }
    assert_eq!(shows(&mut it, 2_100, 4, 8), [OTHER]);
    assert_eq!(shows(&mut it, 2_400, 5, 9), [], "it lives after all");
    // This server saw nothing for a while. What the others did meanwhile it does not know.
    assert_eq!(it.dead(at(6_000)).count(), 0);
    assert_eq!(shows(&mut it, 6_000, 5, 9), []);
    for heartbeat in 1..4 {
        assert_eq!(shows(&mut it, 6_000 + heartbeat * 300, 5, 9 + heartbeat), []);
    }
    assert_eq!(shows(&mut it, 7_200, 5, 20), [OTHER]);
}
