//! The scripts of a node against its twin: random requests to both, and every answer and all that is kept compared,
//! while Redis is restarted, emptied, promoted, or gets an older copy of its data.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod answers;
mod both;
mod kept;
mod lives;
mod op;
#[path = "../../support/redis.rs"]
mod redis_server;
mod requests;

use both::Both;
use deadpool_redis::redis;
use fencepost::testing::{
    node::NodeError,
    store::{
        content::Changes,
        quorum::{
            nodes::{keys::Keys, scripts},
            paxos::{
                acceptor::Seen,
                ballot::{Position, ServerId, Stamp, TransferId},
                message::{Answer, Cursor, Request},
                node::{NodeAnswer, NodeRequest},
            },
        },
    },
};
use op::{Knows, ballot};
use proptest::{
    collection::vec,
    test_runner::{Config, TestCaseError, TestRunner},
};
use std::{cell::RefCell, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Each way in which each request can be answered.
const ANSWERS: &[&str] = &[
    "Admit: Again, member, as before",
    "Admit: Again, member, changed",
    "Admit: Again, stranger, as before",
    "Admit: Again, stranger, changed",
    "Admit: At, member, as before",
    "Admit: Done, member, changed",
    "Admit: Done, stranger, changed",
    "Admit: damage",
    "Admit: List, as before",
    "Admit: No, member, as before",
    "Admit: Other, as before",
    "Admit: Stranger, stranger, as before",
    "Admit: Stranger, stranger, changed",
    "Admit: Unmarked, as before",
    "Beat: List, as before",
    "Beat: Other, as before",
    "Beat: Unmarked, as before",
    "Beat: a stranger that kept a batch",
    "Beat: a voter",
    "Beat: as before",
    "Beat: damage",
    "Beat: strangers only",
    "Classic: At, member, as before",
    "Classic: Free, member, as before",
    "Classic: Free, member, changed",
    "Classic: List, as before",
    "Classic: No, member, as before",
    "Classic: Other, as before",
    "Classic: Ours, member, as before",
    "Classic: Ours, member, changed",
    "Classic: Stranger, stranger, as before",
    "Classic: Theirs, member, as before",
    "Classic: Unmarked, as before",
    "Classic: damage",
    "Mark: List, as before",
    "Mark: Marked, as before",
    "Mark: Marked, changed",
    "Mark: Other, as before",
    "Prefix: List, as before",
    "Prefix: Other, as before",
    "Prefix: Prefix, as before",
    "Prefix: Prefix, changed",
    "Prefix: Unmarked, as before",
    "Promise: damage",
    "Promise: List, as before",
    "Promise: No, member, as before",
    "Promise: Other, as before",
    "Promise: Promised, member, as before",
    "Promise: Promised, member, changed",
    "Promise: Stranger, member, changed",
    "Promise: Stranger, stranger, as before",
    "Promise: Stranger, stranger, changed",
    "Promise: Unmarked, as before",
    "Read: List, as before",
    "Read: No, member, as before",
    "Read: Other, as before",
    "Read: Stranger, stranger, changed",
    "Read: Unmarked, as before",
    "Read: damage",
    "Read: a piece of a member",
    "Read: a piece of a stranger",
    "Read: pieces of a member",
    "Stage: Done, member, as before",
    "Stage: Done, member, changed",
    "Stage: Done, stranger, changed",
    "Stage: damage",
    "Stage: List, as before",
    "Stage: Other, as before",
    "Stage: Unmarked, as before",
    "Write: At, member, as before",
    "Write: Done, member, as before",
    "Write: Done, member, changed",
    "Write: damage",
    "Write: List, as before",
    "Write: Low, member, as before",
    "Write: No, member, as before",
    "Write: Other, as before",
    "Write: Stranger, member, changed",
    "Write: Stranger, stranger, as before",
    "Write: Stranger, stranger, changed",
    "Write: Unmarked, as before",
];

#[test]
fn the_scripts_do_what_the_twin_does() {
    let both = RefCell::new(Both::start());
    let asked = std::env::var("FENCEPOST_SEQUENCES").ok();
    let sequences = asked.map_or(150, |count| count.parse::<u32>().expect("a number"));
    let config = Config { cases: sequences, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let result = TestRunner::new(config).run(&vec(op::op(), 1..=80), |ops| {
        let mut both = both.borrow_mut();
        both.forget();
        for op in &ops {
            both.step(op).map_err(|why| TestCaseError::fail(format!("{op:?}: {why}")))?;
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    let both = both.borrow();
    println!("{sequences} sequences, {} requests, each answered alike", both.requests);
    for (label, count) in &both.seen {
        println!("{count:>7} {label}");
    }
    let missing: Vec<_> = ANSWERS.iter().filter(|label| !both.seen.contains_key(**label)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

fn request(both: &mut Both, partition: u16, request: Request) -> Answer {
    let request = both.of_partition(Knows::It, partition, request);
    match both.send(vec![request]).unwrap().remove(0) {
        NodeAnswer::OfPartition(answer) => answer,
        answer => panic!("{answer:?}"),
    }
}

/// Makes the node a member, empty, and gives its stamp.
fn member(both: &mut Both, partition: u16) -> Stamp {
    let stamp = match request(both, partition, Request::Promise(ballot(0))) {
        Answer::Stranger(stamp) => stamp,
        answer => panic!("{answer:?}"),
    };
    let (position, transfer) = (Position { ballot: ballot(1), seq: 1 }, TransferId(1));
    let admit = Request::Admit { position, transfer, count: 0, time: 5, token: 6, stamp };
    assert_eq!(request(both, partition, admit), Answer::Done);
    stamp
}

fn write(stamp: Stamp, seq: u64, token: u64) -> Request {
    let (before, position) = (Position { ballot: ballot(1), seq: seq - 1 }, Position { ballot: ballot(1), seq });
    let put = vec![(b"key".as_slice().into(), b"record".as_slice().into())];
    Request::Write { stamp, before, position, changes: Arc::new(Changes { time: 6, token, put, gone: Vec::new() }) }
}

#[test]
fn a_damaged_partition_does_not_hinder_the_others() {
    let mut both = Both::start();
    both.send(vec![both.mark(Knows::It)]).unwrap();
    let stamps = [member(&mut both, 0), member(&mut both, 1)];
    redis::cmd("SET").arg("{fp}:q0:c").arg("not ours").exec(&mut both.raw).unwrap();
    let writes =
        [0, 1].map(|partition| both.of_partition(Knows::It, partition, write(stamps[usize::from(partition)], 2, 7)));
    let [call] = &scripts::calls(&Keys::default(), &both.run_id, &writes).unwrap()[..] else { panic!("one run") };
    let answers = call.answers(both.run(call)).unwrap();
    assert!(
        matches!(&answers[..], [Err(NodeError::Corrupt(_)), Ok(NodeAnswer::OfPartition(Answer::Done))]),
        "{answers:?}"
    );
    let token: String = redis::cmd("GET").arg("{fp}:q0:s").query(&mut both.raw).unwrap();
    assert_eq!(token, "7", "the sequencer may be ahead: then tokens are skipped");
}

/// What somebody did to the keys of a partition, in which the node is a member or a stranger, and what cannot be done
/// there then.
const DAMAGES: [(bool, &[&str], &str); 6] = [
    (true, &["SET", "{fp}:q0:h", "cut off"], "promise write read stage admit beat"),
    (true, &["APPEND", "{fp}:q0:h", "no time"], "read"),
    (true, &["SET", "{fp}:q0:c", "no hash"], "write read"),
    (
        true,
        &["SET", "{fp}:q0:t:1-000000000000000000000000-3-00000000000000000000000000000001", "no hash"],
        "stage admit",
    ),
    (false, &["HSET", "{fp}:q0:v", "no", "text"], "promise write read stage admit beat"),
    (false, &["HSET", "{fp}:q0:s", "no", "text"], "promise write read stage admit beat"),
];

#[test]
fn damage_is_an_answer_of_its_partition_alone() {
    let mut both = Both::start();
    for (is_member, damage, broken) in DAMAGES {
        both.forget();
        both.send(vec![both.mark(Knows::It)]).unwrap();
        let stamps = [if is_member { member(&mut both, 0) } else { Stamp(9) }, member(&mut both, 1)];
        let (position, transfer) = (Position { ballot: ballot(1), seq: 3 }, TransferId(1));
        redis::cmd("DEL").arg("{fp}:q0:v").exec(&mut both.raw).unwrap();
        redis::cmd(damage[0]).arg(&damage[1..]).exec(&mut both.raw).unwrap();
        let requests = |stamp| {
            let read = Request::Read { stamp, ballot: ballot(1), from: Cursor::default() };
            let stage = Request::Stage { position, transfer, piece: [(b"k".as_slice().into(), Arc::default())].into() };
            let admit = Request::Admit { position, transfer, count: 1, time: 7, token: 8, stamp };
            let promise = Request::Promise(ballot(1));
            [("promise", promise), ("read", read), ("write", write(stamp, 2, 7)), ("stage", stage), ("admit", admit)]
        };
        for ((name, of_it), (_, of_other)) in requests(stamps[0]).into_iter().zip(requests(stamps[1])) {
            let requests = [(0, of_it), (1, of_other)].map(|(at, request)| both.of_partition(Knows::It, at, request));
            let mut answers = Vec::new();
            for call in scripts::calls(&Keys::default(), &both.run_id, &requests).unwrap() {
                answers.extend(call.answers(both.run(&call)).unwrap());
            }
            let [of_it, of_other] = &answers[..] else { panic!("{answers:?}") };
            let expected = broken.split(' ').any(|of| of == name);
            assert_eq!(matches!(of_it, Err(NodeError::Corrupt(_))), expected, "{damage:?} {name}: {of_it:?}");
            assert!(matches!(of_other, Ok(NodeAnswer::OfPartition(_))), "{damage:?} {name}: {of_other:?}");
        }
        let (server, payload, gone) = (ServerId([1; 12]), b"here".as_slice().into(), Vec::new());
        let (cluster, list) = both.knows(Knows::It);
        let heartbeat = NodeRequest::Heartbeat { cluster, list, partitions: 2, fresh: Stamp(5), server, payload, gone };
        let [call] = &scripts::calls(&Keys::default(), &both.run_id, &[heartbeat]).unwrap()[..] else {
            panic!("one run")
        };
        let answers = call.answers(both.run(call)).unwrap();
        let [Ok(NodeAnswer::Heartbeats { partitions, servers })] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(matches!(partitions[0], Seen::Broken(_)), broken.contains("beat"), "{damage:?}: {partitions:?}");
        assert!(matches!(partitions[1], Seen::Votes { .. }), "{partitions:?}");
        assert_eq!(servers.len(), 1);
    }
}

/// A replica has the replication id of its primary, and the header too. If an operator lets it be written to, a server
/// that was connected before it became a replica could count it as a second member.
#[test]
fn a_replica_that_may_be_written_to_does_not_vote() {
    let mut both = Both::start();
    both.send(vec![both.mark(Knows::It)]).unwrap();
    let stamp = member(&mut both, 0);
    let request = both.of_partition(Knows::It, 0, write(stamp, 2, 7));
    assert_eq!(both.send(vec![request]).unwrap(), [NodeAnswer::OfPartition(Answer::Done)]);
    let mut replica = Both::start();
    replica.send(vec![replica.mark(Knows::It)]).unwrap();
    member(&mut replica, 0);
    let write = [both.of_partition(Knows::It, 0, write(stamp, 3, 8))];
    let call = scripts::calls(&Keys::default(), &replica.run_id, &write).unwrap().remove(0);
    // The script is there from now on.
    drop(replica.run(&call));
    let port = both.redis.port.to_string();
    replica.redis.command(&["CONFIG", "SET", "replica-read-only", "no"]);
    replica.redis.command(&["REPLICAOF", "127.0.0.1", &port]);
    let until = Instant::now() + Duration::from_secs(20);
    while replica.redis.info("replication", "master_link_status") != "up" {
        assert!(Instant::now() < until, "the replica follows");
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = |both: &Both| both.redis.info("replication", "master_replid");
    assert_eq!(id(&replica), id(&both), "as Redis is made");
    let mut evalsha = redis::cmd("EVALSHA");
    evalsha.arg(call.script.script.sha()).arg(call.script.keys.len()).arg(&call.script.keys).arg(&call.script.args);
    let answers = call.answers(evalsha.query(&mut replica.raw).unwrap()).unwrap();
    assert!(matches!(answers[..], [Ok(NodeAnswer::OfPartition(Answer::Stranger(_)))]), "{answers:?}");
}
