//! Scripts of the store while the slot of their keys is moved: a batch, and a snapshot, is executed whole or not at
//! all.

use crate::{
    Kept, RedisCluster,
    cluster::{OTHER, PRIMARY},
};
use fencepost::testing::{
    node::Connection,
    store::{
        content::{Bytes, Changes},
        quorum::{
            nodes::{keys::Keys, scripts},
            paxos::{
                ballot::{Ballot, Position, ServerId, Stamp, TransferId},
                message::{Answer, Request},
                node::{ClusterId, Mark, NodeAnswer, NodeRequest},
            },
        },
    },
};
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(7);
/// What another life of the node would have said in the handshake.
const OTHER_RUN: &str = "another life of the node: 40 characters!";

fn at(seq: u64) -> Position {
    Position { ballot: Ballot { round: 1, server: ServerId([1; 12]) }, seq }
}

fn record(text: &str) -> (Bytes, Bytes) {
    (text.as_bytes().into(), text.as_bytes().into())
}

async fn send(connection: &Connection, run_id: &str, request: NodeRequest) -> NodeAnswer {
    let calls = scripts::calls(&Keys::default(), run_id, &[request]).unwrap();
    let reply = connection.run_all(&calls).await.remove(0).unwrap();
    calls[0].answers(reply).unwrap().remove(0).unwrap()
}

async fn of_partition(connection: &Connection, run_id: &str, request: Request) -> Answer {
    let fresh = Stamp(if run_id == OTHER_RUN { 2 } else { 1 });
    let request = NodeRequest::OfPartition { cluster: CLUSTER, list: 1, partition: 0, fresh, request };
    match send(connection, run_id, request).await {
        NodeAnswer::OfPartition(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn admit(seq: u64, count: usize, stamp: Stamp) -> Request {
    Request::Admit { position: at(seq), transfer: TransferId(1), count, time: 5, token: 6, stamp }
}

/// A node that votes in a partition and has one record there.
async fn member(connection: &Connection) {
    let run_id = &connection.info().run_id;
    let members = ["node".into()].into();
    let mark = Mark { cluster: CLUSTER, partitions: 1, list: 1, members, rebuild: None };
    assert_eq!(send(connection, run_id, NodeRequest::Mark(mark)).await, NodeAnswer::Marked);
    let promise = Request::Promise(at(1).ballot);
    assert_eq!(of_partition(connection, run_id, promise).await, Answer::Stranger(Stamp(1)));
    assert_eq!(of_partition(connection, run_id, admit(1, 0, Stamp(1))).await, Answer::Done);
    let changes = Arc::new(Changes { time: 6, token: 7, put: vec![record("old")], gone: vec![] });
    let write = Request::Write { stamp: Stamp(1), before: at(1), position: at(2), changes };
    assert_eq!(of_partition(connection, run_id, write).await, Answer::Done);
}

#[tokio::test]
async fn a_snapshot_is_admitted_whole() {
    let cluster = RedisCluster::start_patient();
    let kept = Kept::to(&cluster.url_of(&[PRIMARY]));
    kept.moves_to(&cluster.address(PRIMARY)).await;
    let connection = kept.node.connection(0).unwrap();
    member(&connection).await;
    // In its next life it is a stranger that has all keys of the script, so Redis does not refuse it at its begin.
    let piece = [record("new")].into();
    let stage = Request::Stage { position: at(3), transfer: TransferId(1), piece };
    assert_eq!(of_partition(&connection, OTHER_RUN, stage).await, Answer::Done);
    cluster.begin_to_move(PRIMARY, OTHER);
    assert_eq!(of_partition(&connection, OTHER_RUN, admit(3, 1, Stamp(2))).await, Answer::Done);
    let primary = &cluster.members[PRIMARY];
    assert_eq!(primary.command(&["HGETALL", "{fp}:q0:c"]).text(), "new new");
    assert_eq!(primary.command(&["EXISTS", "{fp}:q0:h", "{fp}:q0:s"]).text(), "2");
}

#[tokio::test]
async fn a_batch_is_written_whole() {
    let cluster = RedisCluster::start_patient();
    let kept = Kept::to(&cluster.url_of(&[PRIMARY]));
    kept.moves_to(&cluster.address(PRIMARY)).await;
    let connection = kept.node.connection(0).unwrap();
    member(&connection).await;
    let primary = &cluster.members[PRIMARY];
    // A voter has no such key, for which Redis would refuse each batch.
    primary.command(&["SET", "{fp}:q0:v", "left over"]);
    cluster.begin_to_move(PRIMARY, OTHER);
    let gone = vec![record("old").0];
    let changes = Arc::new(Changes { time: 7, token: 8, put: vec![record("new")], gone });
    let write = Request::Write { stamp: Stamp(1), before: at(2), position: at(3), changes };
    let run_id = connection.info().run_id.clone();
    assert_eq!(of_partition(&connection, &run_id, write).await, Answer::Done);
    assert_eq!(primary.command(&["HGETALL", "{fp}:q0:c"]).text(), "new new");
    assert_eq!(primary.command(&["GET", "{fp}:q0:s"]).text(), "8");
}
