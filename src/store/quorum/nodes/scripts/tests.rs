//! Grouping of requests, bounds, and replies that no script sends.

use super::*;
use crate::store::{
    content::{Bytes, Changes},
    quorum::paxos::{
        acceptor::Seen,
        ballot::{Ballot, Position, ServerId, Stamp, TransferId},
        classic::{KeyState, Step, Wish},
        message::{Answer, Cursor},
        node::{ClusterId, Mark},
    },
};
use proptest::{collection::vec, prelude::*};
use std::sync::Arc;

const RUN_ID: &str = "0123456789012345678901234567890123456789";

fn of_partition(partition: u16, request: Request) -> NodeRequest {
    NodeRequest::OfPartition { cluster: ClusterId(1), list: 1, partition, fresh: Stamp(2), request }
}

fn promise(partition: u16) -> NodeRequest {
    of_partition(partition, Request::Promise(Ballot { round: 1, server: ServerId([3; 12]) }))
}

fn write(partition: u16, records: usize, length: usize) -> NodeRequest {
    let put = (0..records).map(|number| (number.to_be_bytes().as_slice().into(), vec![0; length].into())).collect();
    let changes = Arc::new(Changes { time: 1, token: 1, put, gone: Vec::new() });
    let position = Position { ballot: Ballot::default(), seq: 1 };
    of_partition(partition, Request::Write { stamp: Stamp(4), before: Position::default(), position, changes })
}

fn heartbeat(list: u64) -> NodeRequest {
    let (server, payload, gone) = (ServerId([3; 12]), Bytes::default(), Vec::new());
    NodeRequest::Heartbeat { cluster: ClusterId(1), list, partitions: 2, fresh: Stamp(2), server, payload, gone }
}

fn grouped(requests: &[NodeRequest]) -> Vec<usize> {
    calls(&Keys::default(), RUN_ID, requests).unwrap().iter().map(|call| call.requests).collect()
}

#[test]
fn neighbours_of_one_kind_share_a_run() {
    let read = of_partition(1, Request::Read { stamp: Stamp(4), ballot: Ballot::default(), from: Cursor::default() });
    let older = NodeRequest::OfPartition {
        cluster: ClusterId(1),
        list: 0,
        partition: 1,
        fresh: Stamp(2),
        request: Request::Promise(Ballot::default()),
    };
    assert_eq!(grouped(&[promise(1), promise(2), write(1, 1, 9), write(2, 1, 9), promise(3)]), [2, 2, 1]);
    assert_eq!(grouped(&[read.clone(), read]), [1, 1], "its answer may be large");
    assert_eq!(grouped(&[promise(1), older]), [1, 1], "another list");
    let (heartbeat, older) = (heartbeat(1), heartbeat(0));
    assert_eq!(grouped(&[heartbeat.clone(), write(1, 0, 0), write(2, 0, 0), promise(1)]), [3, 1]);
    assert_eq!(grouped(&[older, write(1, 0, 0)]), [1, 1], "another list");
    assert_eq!(grouped(&[write(1, 0, 0), heartbeat.clone(), heartbeat]), [1, 1, 1], "it comes first");
    assert_eq!(grouped(&[]), [0; 0]);
}

#[test]
fn a_run_is_bounded() {
    assert_eq!(grouped(&[write(1, 300, 1), write(2, 212, 1), write(3, 1, 1)]), [2, 1], "records");
    assert_eq!(grouped(&[write(1, 1, 200_000), write(2, 1, 50_000), write(3, 1, 50_000)]), [2, 1], "bytes");
    assert_eq!(
        grouped(&[write(1, 1, 1), write(2, 5_000, 1), write(3, 1, 1)]),
        [1, 1, 1],
        "one larger batch goes alone"
    );
}

#[test]
fn a_number_that_does_not_fit_is_refused() {
    let round = |round| of_partition(1, Request::Promise(Ballot { round, server: ServerId::default() }));
    assert!(calls(&Keys::default(), RUN_ID, &[round((1 << 48) - 1)]).is_ok());
    assert!(
        calls(&Keys::default(), RUN_ID, &[promise(1), round(1 << 48)]).is_err(),
        "it would be taken for a lower one"
    );
    let admit = |time, token| {
        let (position, transfer, stamp) = (Position::default(), TransferId(1), Stamp(1));
        of_partition(1, Request::Admit { position, transfer, count: 0, time, token, stamp })
    };
    let most = (1 << 53) - 1;
    assert!(calls(&Keys::default(), RUN_ID, &[admit(most, most)]).is_ok());
    assert!(calls(&Keys::default(), RUN_ID, &[admit(most + 1, 0)]).is_err());
    assert!(calls(&Keys::default(), RUN_ID, &[admit(0, most + 1)]).is_err(), "Lua would round it");
}

fn one() -> Call {
    calls(&Keys::default(), RUN_ID, &[promise(1)]).unwrap().remove(0)
}

fn text(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

#[test]
fn what_refuses_the_server_answers_all_its_requests() {
    let call = calls(&Keys::default(), RUN_ID, &[promise(1), promise(2)]).unwrap().remove(0);
    let answers = call.answers(Value::Array(vec![text(b"unmarked")])).unwrap();
    assert_eq!(answers, [Ok(NodeAnswer::Unmarked), Ok(NodeAnswer::Unmarked)]);
    call.answers(Value::Array(vec![text(b"done")])).unwrap_err();
    let done = || Value::Array(vec![text(b"done")]);
    let broken = Value::Array(vec![text(b"broken"), text(b"WRONGTYPE of key")]);
    let answers = call.answers(Value::Array(vec![broken, done()])).unwrap();
    assert!(
        matches!(&answers[..], [Err(NodeError::Corrupt(_)), Ok(NodeAnswer::OfPartition(Answer::Done))]),
        "{answers:?}"
    );
    call.answers(Value::Array(vec![done(), done(), done()])).unwrap_err();
}

#[test]
fn a_step_goes_alone_and_a_key_without_a_ttl_has_none() {
    let step = |position| {
        let wish = Wish::Hold { value: Bytes::default(), ms: 1 };
        of_partition(1, Request::Classic(Arc::new(Step { position, key: Bytes::default(), wish })))
    };
    let position = |round| Position { ballot: Ballot { round, server: ServerId([3; 12]) }, seq: 1 };
    assert_eq!(grouped(&[step(position(1)), step(position(1))]), [1, 1]);
    assert!(calls(&Keys::default(), RUN_ID, &[step(position(1 << 48))]).is_err());
    for (ms, left) in [("-1", None), ("-2", None), ("0", Some(0)), ("60000", Some(60_000))] {
        let answers = one().answers(Value::Array(vec![text(b"theirs"), text(ms.as_bytes())])).unwrap();
        assert_eq!(answers, [Ok(NodeAnswer::OfPartition(Answer::Classic(KeyState::Theirs(left))))]);
    }
    one().answers(Value::Array(vec![text(b"theirs"), text(b"soon")])).unwrap()[0].as_ref().unwrap_err();
}

#[test]
fn a_mark_comes_back_as_it_was_sent() {
    let members = ["redis://a:1", "rediss://[::1]:2/\"\n"].map(Arc::from).into();
    let mark = Mark { cluster: ClusterId(u128::MAX), partitions: 64, list: 7, members, rebuild: Some(u64::MAX) };
    let call = calls(&Keys::default(), RUN_ID, &[NodeRequest::Mark(mark.clone())]).unwrap().remove(0);
    let [Arg::Bytes(bytes)] = &call.script.args[..] else { panic!("{call:?}") };
    let answers = call.answers(Value::Array(vec![text(b"list"), text(bytes)])).unwrap();
    assert_eq!(answers, [Ok(NodeAnswer::List(mark))]);
}

fn value() -> impl Strategy<Value = Value> {
    let words = [
        "done", "free", "ours", "theirs", "prefix", "denied", "again", "promised", "no", "at", "low", "stranger",
        "piece", "other", "list", "broken", "beats",
    ];
    let lengths = [0_usize, 1, 6, 12, 16, 18, 22, 24, 25, 139];
    let leaf = prop_oneof![
        proptest::sample::select(words.to_vec()).prop_map(|word| text(word.as_bytes())),
        (proptest::sample::select(lengths.to_vec()), any::<u8>()).prop_map(|(length, byte)| text(&vec![byte; length])),
        any::<i64>().prop_map(Value::Int),
        Just(Value::Nil),
        Just(text(b"99999999999999999999")),
    ];
    leaf.prop_recursive(3, 24, 7, |inner| vec(inner, 0..7).prop_map(Value::Array))
}

proptest! {
    #[test]
    fn a_strange_reply_is_an_error(reply in value()) {
        // It may be an answer by chance; it never panics.
        drop(one().answers(reply));
    }
}

#[test]
fn fields_of_another_length_are_strange() {
    for (word, right) in [(&b"no"[..], 18), (b"at", 24), (b"stranger", 16), (b"other", 16)] {
        for length in [0, right - 1, right, right + 1] {
            let reply = Value::Array(vec![text(word), text(&vec![1; length])]);
            assert_eq!(one().answers(reply).unwrap()[0].is_ok(), length == right, "{word:?} {length}");
        }
    }
    for strange in [&b"-1"[..], b"", b"1.5", b"18446744073709551616", &[0xff]] {
        assert!(one().answers(Value::Array(vec![text(b"low"), text(strange)])).unwrap()[0].is_err());
    }
}

#[test]
fn a_strange_beat_is_an_error_and_a_strange_server_is_none() {
    let heartbeats = |seen: Value, server: usize| {
        let servers = vec![text(&vec![7; server]), text(b"payload")];
        let reply = Value::Array(vec![text(b"beats"), Value::Array(vec![seen]), Value::Array(servers)]);
        one().answers(reply).unwrap().remove(0)
    };
    let header = |length| text(&vec![0; length]);
    let stranger = |stamp, ballot| Value::Array(vec![text(b"stranger"), header(stamp), header(ballot)]);
    let seen = vec![Seen::Votes { promised: Ballot::default(), accepted: Position::default() }];
    let servers = vec![(ServerId([7; 12]), b"payload".as_slice().into())];
    assert_eq!(heartbeats(header(139), 12), Ok(NodeAnswer::Heartbeats { partitions: seen.clone(), servers }));
    assert_eq!(heartbeats(header(139), 11), Ok(NodeAnswer::Heartbeats { partitions: seen, servers: Vec::new() }));
    assert!(heartbeats(header(137), 12).is_err());
    assert!(heartbeats(stranger(16, 18), 12).is_ok());
    for strange in [stranger(15, 18), stranger(16, 19), Value::Nil, Value::Array(vec![text(b"broken")])] {
        assert!(heartbeats(strange.clone(), 12).is_err(), "{strange:?}");
    }
}
