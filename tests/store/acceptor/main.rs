//! The scripts of a node against its twin: random requests to both, and every answer and all that is kept compared,
//! while Redis is restarted, emptied, promoted, or gets an older copy of its data.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod both;
mod kept;
mod op;
#[path = "../../support/redis.rs"]
mod redis_server;
mod requests;
mod told;

use both::Both;
use deadpool_redis::redis;
use fencepost::{
    node::NodeError,
    store::quorum::{
        ballot::{Position, Stamp, TransferId},
        content::Changes,
        message::{Answer, Request},
        node::Said,
        wire,
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
    "Beat: strangers only",
    "Mark: List, as before",
    "Mark: Marked, as before",
    "Mark: Marked, changed",
    "Mark: Other, as before",
    "Promise: List, as before",
    "Promise: No, member, as before",
    "Promise: Other, as before",
    "Promise: Promised, member, as before",
    "Promise: Promised, member, changed",
    "Promise: Stranger, stranger, as before",
    "Promise: Stranger, stranger, changed",
    "Promise: Unmarked, as before",
    "Read: List, as before",
    "Read: No, member, as before",
    "Read: Other, as before",
    "Read: Stranger, stranger, changed",
    "Read: Unmarked, as before",
    "Read: a piece of a member",
    "Read: a piece of a stranger",
    "Read: pieces of a member",
    "Stage: Done, member, as before",
    "Stage: Done, member, changed",
    "Stage: Done, stranger, changed",
    "Stage: List, as before",
    "Stage: Other, as before",
    "Stage: Unmarked, as before",
    "Write: At, member, as before",
    "Write: Done, member, as before",
    "Write: Done, member, changed",
    "Write: List, as before",
    "Write: Low, member, as before",
    "Write: No, member, as before",
    "Write: Other, as before",
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
    let ask = both.of_partition(Knows::It, partition, request);
    match both.send(vec![ask]).unwrap().remove(0) {
        Said::OfPartition(answer) => answer,
        said => panic!("{said:?}"),
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
    redis::cmd("SET").arg("fp:{q0}:c").arg("not ours").exec(&mut both.raw).unwrap();
    let writes =
        [0, 1].map(|partition| both.of_partition(Knows::It, partition, write(stamps[usize::from(partition)], 2, 7)));
    let [call] = &wire::calls(&both.run_id, &writes).unwrap()[..] else { panic!("one run") };
    let said = call.said(both.run(call)).unwrap();
    assert!(matches!(&said[..], [Err(NodeError::Corrupt(_)), Ok(Said::OfPartition(Answer::Done))]), "{said:?}");
    let token: String = redis::cmd("GET").arg("fp:{q0}:s").query(&mut both.raw).unwrap();
    assert_eq!(token, "6", "nothing was done");
}

/// A replica has the replication id of its primary, and the header too. If an operator lets it be written to, a server
/// that was connected before it became a replica could count it as a second member.
#[test]
fn a_replica_that_may_be_written_to_does_not_vote() {
    let mut both = Both::start();
    both.send(vec![both.mark(Knows::It)]).unwrap();
    let stamp = member(&mut both, 0);
    let ask = both.of_partition(Knows::It, 0, write(stamp, 2, 7));
    assert_eq!(both.send(vec![ask]).unwrap(), [Said::OfPartition(Answer::Done)]);
    let mut replica = Both::start();
    replica.send(vec![replica.mark(Knows::It)]).unwrap();
    member(&mut replica, 0);
    let write = [both.of_partition(Knows::It, 0, write(stamp, 3, 8))];
    let call = wire::calls(&replica.run_id, &write).unwrap().remove(0);
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
    evalsha.arg(call.script.script.sha()).arg(0).arg(&call.script.args);
    let said = call.said(evalsha.query(&mut replica.raw).unwrap()).unwrap();
    assert!(matches!(said[..], [Ok(Said::OfPartition(Answer::Stranger(_)))]), "{said:?}");
}
