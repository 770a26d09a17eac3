//! What happens to a node in random sequences. What a request names is chosen by what the node has just then, so that
//! most requests are of a server that knows it, and the others are nearly so.

use fencepost::testing::store::quorum::paxos::ballot::{Ballot, ServerId};
use proptest::{collection::vec, option::of, prelude::*};

/// Partitions of a node.
pub(crate) const PARTITIONS: u16 = 2;
/// What is no sequencer: not a number to Redis, or one that no token follows.
pub(crate) const SPOILT: [&str; 9] =
    ["", "abc", "-3", " 7", "007", "1.5", "0x10", "9007199254740992", "99999999999999999999"];
/// Classic keys of each partition.
pub(crate) const CLASSIC_KEYS: u8 = 3;
/// In their order as numbers. As strings, or as numbers with signs, some would be in another one.
const BALLOTS: [(u64, [u8; 12]); 9] = [
    (0, [0; 12]),
    (1, [0; 12]),
    (1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    (1, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
    (1, [0x7f; 12]),
    (1, [0x80; 12]),
    (2, [b'a'; 12]),
    (256, [b'B'; 12]),
    (1 << 47, [0xff; 12]),
];

/// Servers that beat. The bytes of the last one are not text.
pub(crate) fn server(number: u8) -> ServerId {
    ServerId(if number == 3 { [0xfe; 12] } else { [number; 12] })
}

pub(crate) fn ballot(index: usize) -> Ballot {
    let (round, server) = BALLOTS[index % BALLOTS.len()];
    Ballot { round, server: ServerId(server) }
}

/// One of two things: what the node has, or something else.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    Present,
    Other(usize),
}

/// A request, by what it names.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Promise(usize),
    Write { stamp: Pick, before: Pick, ballot: Pick, token: i64, put: Vec<u8>, gone: Vec<u8>, many: u16 },
    Read { stamp: Pick, ballot: Pick },
    Stage { transfer: u8, seq: u8, put: Vec<u8> },
    Admit { stamp: Pick, ballot: Pick, seq: Pick, transfer: u8, is_counted: bool, token: u64 },
    Classic { ballot: Pick, seq: u64, key: u8, wish: u8 },
}

/// What the server that sends it knows of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Knows {
    It,
    Older,
    Newer,
    /// Its cluster, and another list with the number of the node's.
    Rival,
    Another,
}

/// A heartbeat of a server.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub(crate) partitions: u16,
    pub(crate) server: u8,
    pub(crate) payload: Vec<u8>,
    pub(crate) gone: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A request about a partition.
    Request(Knows, u16, What),
    /// Requests in one run of a script, as far as one takes them: perhaps a beat before them.
    Together(Option<Beat>, Vec<(u16, What)>),
    /// The whole transfer of a snapshot.
    Snapshot { partition: u16, ballot: usize, put: Vec<u8>, many: u16 },
    /// A mark.
    Mark(Knows),
    /// A beat.
    Beat(Knows, Beat),
    /// One of three prefixes of classic keys.
    Prefix(Knows, usize),
    /// A classic client takes a key, with a text or with something else, or deletes it.
    Classic(u16, u8, Option<bool>),
    /// What was sent so many sends before comes again.
    Again(usize),
    /// Somebody raises the sequencer by hand.
    Raise(u16, u32),
    /// Somebody deletes the sequencer.
    DeleteSequencer(u16),
    /// It is something else than a number that a token can follow: by its place in [`SPOILT`].
    SpoilSequencer(u16, usize),
    /// Somebody damages the header of a partition, by a text or by another type. If it is damaged, it is removed.
    Damage(u16, bool),
    /// Redis forgets the scripts.
    ForgetScripts,
    /// FLUSHALL.
    Flush,
    /// A restart with its data, or without.
    Restart(bool),
    /// It becomes a replica and a primary again.
    Promote,
    /// Its data is copied.
    Save,
    /// A restart with the copy.
    Restore,
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![9 => Just(Pick::Present), 1 => (0..9_usize).prop_map(Pick::Other)]
}

fn what() -> impl Strategy<Value = What> {
    let keys = || vec(0..12_u8, 0..4);
    let many = prop_oneof![30 => Just(0_u16), 1 => 500..1_300_u16];
    let token = prop_oneof![3 => Just(0_i64), 2 => Just(1), 4 => 2..1_000_i64, 1 => Just(-1_i64)];
    let seq = prop_oneof![4 => Just(Pick::Present), 1 => (0..3_usize).prop_map(Pick::Other)];
    prop_oneof![
        3 => (0..9_usize).prop_map(What::Promise),
        8 => (pick(), pick(), pick(), token, keys(), keys(), many).prop_map(
            |(stamp, before, ballot, token, put, gone, many)| {
                What::Write { stamp, before, ballot, token, put, gone, many }
            }
        ),
        5 => (pick(), pick()).prop_map(|(stamp, ballot)| What::Read { stamp, ballot }),
        4 => (0..3_u8, 0..3_u8, keys()).prop_map(|(transfer, seq, put)| What::Stage { transfer, seq, put }),
        5 => (pick(), pick(), seq, 0..3_u8, any::<bool>(), 0..5_000_u64).prop_map(
            |(stamp, ballot, seq, transfer, is_counted, token)| {
                What::Admit { stamp, ballot, seq, transfer, is_counted, token }
            }
        ),
        6 => (pick(), 1..9_u64, 0..CLASSIC_KEYS, 0..4_u8)
            .prop_map(|(ballot, seq, key, wish)| What::Classic { ballot, seq, key, wish }),
    ]
}

fn beat() -> impl Strategy<Value = Beat> {
    let each = (1..=PARTITIONS + 2, 0..4_u8, vec(any::<u8>(), 0..90), vec(0..5_u8, 0..3));
    each.prop_map(|(partitions, server, payload, gone)| Beat { partitions, server, payload, gone })
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let mostly = || {
        let it = Just(Knows::It);
        prop_oneof![15 => it, 1 => Just(Knows::Older), 1 => Just(Knows::Newer), 1 => Just(Knows::Another)]
    };
    let (knows, heartbeats, prefixes) = (mostly(), mostly(), mostly());
    let classic = prop_oneof![2 => Just(None), 1 => Just(Some(true)), 1 => Just(Some(false))];
    let any_knows =
        prop_oneof![Just(Knows::It), Just(Knows::Older), Just(Knows::Newer), Just(Knows::Rival), Just(Knows::Another)];
    let partition = || 0..PARTITIONS;
    let many = prop_oneof![5 => Just(0_u16), 1 => 500..1_300_u16];
    prop_oneof![
        120 => (knows, partition(), what()).prop_map(|(knows, partition, what)| Op::Request(knows, partition, what)),
        16 => (of(beat()), vec((partition(), what()), 2..5)).prop_map(|(beat, whats)| Op::Together(beat, whats)),
        20 => (partition(), 0..9_usize, vec(0..12_u8, 0..6), many)
            .prop_map(|(partition, ballot, put, many)| Op::Snapshot { partition, ballot, put, many }),
        4 => any_knows.prop_map(Op::Mark),
        16 => (heartbeats, beat()).prop_map(|(knows, beat)| Op::Beat(knows, beat)),
        6 => (prefixes, 0..3_usize).prop_map(|(knows, number)| Op::Prefix(knows, number)),
        8 => (partition(), 0..CLASSIC_KEYS, classic)
            .prop_map(|(partition, key, what)| Op::Classic(partition, key, what)),
        20 => (0..8_usize).prop_map(Op::Again),
        2 => (partition(), 1..50_u32).prop_map(|(partition, by)| Op::Raise(partition, by)),
        3 => partition().prop_map(Op::DeleteSequencer),
        2 => (partition(), 0..SPOILT.len()).prop_map(|(partition, what)| Op::SpoilSequencer(partition, what)),
        1 => (partition(), any::<bool>()).prop_map(|(partition, is_text)| Op::Damage(partition, is_text)),
        2 => Just(Op::ForgetScripts),
        2 => Just(Op::Flush),
        1 => any::<bool>().prop_map(Op::Restart),
        2 => Just(Op::Promote),
        2 => Just(Op::Save),
        1 => Just(Op::Restore),
    ]
}
