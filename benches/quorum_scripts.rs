//! What a batch costs a node: the script that writes it, on a `redis-server` of its own, as a leader sends it. A pair
//! of acquire and release puts a lock, of which the next batch says that it is gone; the ended requests of a batch are
//! one record, which goes four batches later. And what a beat costs it, which each server sends three times a second.
//! `cargo bench --bench quorum_scripts -- [batches]`.
//!
//! A machine that does other things too disturbs some of the time, so it is measured in short windows: the least is
//! what it costs, the median what it cost here.
#![allow(clippy::unwrap_used, missing_docs, reason = "it says what is wrong by failing")]

#[path = "../tests/support/redis.rs"]
mod redis_server;

use fencepost::testing::{
    node::{Connection, Node, RedisUrl},
    store::{
        content::{Bytes, Changes},
        quorum::{
            nodes::{
                keys::Keys,
                scripts::{self, Call},
            },
            paxos::{
                ballot::{Ballot, Position, ServerId, Stamp, TransferId},
                message::{Answer, Request},
                node::{ClusterId, Mark, NodeAnswer, NodeRequest},
            },
        },
    },
};
use redis_server::Redis;
use std::sync::Arc;

const BALLOT: Ballot = Ballot { round: 7, server: ServerId([0x9c; 12]) };
/// A record of a lock with short metadata.
const RECORD_BYTES: usize = 300;
/// What is remembered of one ended request.
const ENDED_BYTES: usize = 40;
/// Batches after which ended requests are gone.
const ENDED_BATCHES: u64 = 4;
/// Batches of a window.
const WINDOW: u64 = 100;
/// The payload of a heartbeat of a server that leads a third of 32 partitions.
const PAYLOAD_BYTES: usize = 400;
/// Calls that are under way.
const UNDER_WAY: usize = 4;

fn of_partition(partition: u16, number: u64, request: Request) -> NodeRequest {
    let fresh = Stamp((u128::from(number) << 64) + 1);
    NodeRequest::OfPartition { cluster: ClusterId(1), list: 1, partition, fresh, request }
}

async fn answers(connection: &Connection, requests: &[NodeRequest]) -> Vec<NodeAnswer> {
    let mut all = Vec::new();
    for call in scripts::calls(&Keys::default(), &connection.info().run_id, requests).unwrap() {
        let reply = connection.run(call.script.script, &call.script.keys, &call.script.args).await.unwrap();
        all.extend(call.answers(reply).unwrap().into_iter().map(Result::unwrap));
    }
    all
}

/// Makes the node a member of so many partitions, with this ballot, and gives the stamps.
async fn join(connection: &Connection, partitions: u16) -> Vec<Stamp> {
    let members = Arc::from([Arc::from("redis://here")]);
    let mark = Mark { cluster: ClusterId(1), partitions, list: 1, members, rebuild: None };
    answers(connection, &[NodeRequest::Mark(mark)]).await;
    let mut stamps = Vec::new();
    for partition in 0..partitions {
        let look = of_partition(partition, 1, Request::Promise(BALLOT));
        let [NodeAnswer::OfPartition(Answer::Stranger(stamp))] = answers(connection, &[look]).await[..] else {
            panic!()
        };
        let position = Position { ballot: BALLOT, seq: 0 };
        let admit = Request::Admit { position, transfer: TransferId(1), count: 0, time: 0, token: 0, stamp };
        let done = answers(connection, &[of_partition(partition, 1, admit)]).await;
        assert_eq!(done, [NodeAnswer::OfPartition(Answer::Done)]);
        stamps.push(stamp);
    }
    stamps
}

fn key(kind: char, number: u64, pair: u64) -> Bytes {
    format!("{kind}orders/{number:08}/{pair:04}").into_bytes().into()
}

/// The batches of this number, one for each partition, in one call.
fn batches(run_id: &str, stamps: &[Stamp], number: u64, pairs: u64) -> Call {
    let requests: Vec<NodeRequest> = (0..)
        .zip(stamps)
        .map(|(partition, stamp)| {
            let mut put: Vec<_> =
                (0..pairs).map(|pair| (key('l', number, pair), vec![7; RECORD_BYTES].into())).collect();
            let ended = ENDED_BYTES * usize::try_from(pairs).unwrap();
            put.push((key('e', number, 0), vec![7; ended].into()));
            let mut gone: Vec<_> = (0..pairs).map(|pair| key('l', number - 1, pair)).collect();
            gone.push(key('e', number.saturating_sub(ENDED_BATCHES), 0));
            let changes = Arc::new(Changes { time: 1_800_000_000_000_000 + number, token: number * pairs, put, gone });
            let at = |seq| Position { ballot: BALLOT, seq };
            let write = Request::Write { stamp: *stamp, before: at(number - 1), position: at(number), changes };
            of_partition(partition, number, write)
        })
        .collect();
    let mut calls = scripts::calls(&Keys::default(), run_id, &requests).unwrap();
    assert_eq!(calls.len(), 1, "one run of the script");
    calls.remove(0)
}

/// A sum of fields of the answer of INFO.
fn sum(redis: &Redis, section: &str, fields: &[&str]) -> f64 {
    fields.iter().map(|field| redis.info(section, field).parse::<f64>().unwrap()).sum()
}

/// Microseconds within scripts since the counters were reset.
fn within(redis: &Redis) -> f64 {
    let text = redis.info("commandstats", "cmdstat_evalsha");
    text.split(',').find_map(|field| field.strip_prefix("usec=")).unwrap().parse().unwrap()
}

async fn measure(redis: &Redis, connection: &Connection, partitions: u16, pairs: u64, windows: u64) {
    redis.command(&["FLUSHALL"]);
    let stamps = join(connection, partitions).await;
    let (mut scripts, mut all, mut number) = (Vec::new(), Vec::new(), 0);
    redis.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..windows {
        let calls: Vec<Call> = (0..WINDOW)
            .map(|_| {
                number += 1;
                batches(&connection.info().run_id, &stamps, number, pairs)
            })
            .collect();
        redis.command(&["CONFIG", "RESETSTAT"]);
        let before = cpu(redis);
        for calls in calls.chunks(UNDER_WAY) {
            for (call, reply) in calls.iter().zip(connection.run_all(calls).await) {
                for answer in call.answers(reply.unwrap()).unwrap() {
                    assert_eq!(answer, Ok(NodeAnswer::OfPartition(Answer::Done)));
                }
            }
        }
        all.push((cpu(redis) - before) / WINDOW as f64);
        scripts.push(within(redis) / WINDOW as f64);
    }
    let commands = ["mget", "mset", "hset", "hdel", "get", "info"].map(|name| redis.calls(name) as f64);
    let commands = commands.iter().sum::<f64>() / WINDOW as f64;
    scripts.sort_by(f64::total_cmp);
    all.sort_by(f64::total_cmp);
    let total = f64::from(partitions) * pairs as f64;
    let middle = scripts.len() / 2;
    println!(
        "{total:>4} pairs in {partitions:>2} batches: script {:>6.1} to {:>6.1} µs, {:>5.2} to {:>5.2} a pair; all of Redis \
         {:>6.1} to {:>6.1} µs, {:>5.2} to {:>5.2} a pair; {commands:.0} commands",
        scripts[0],
        scripts[middle],
        scripts[0] / total,
        scripts[middle] / total,
        all[0],
        all[middle],
        all[0] / total,
        all[middle] / total,
    );
}

fn cpu(redis: &Redis) -> f64 {
    sum(redis, "cpu", &["used_cpu_sys_main_thread", "used_cpu_user_main_thread"]) * 1e6
}

/// A node that votes in all partitions, and as many servers.
async fn measure_beats(redis: &Redis, connection: &Connection, partitions: u16, servers: u8, windows: u64) {
    redis.command(&["FLUSHALL"]);
    join(connection, partitions).await;
    let heartbeat = |server, number: u64| NodeRequest::Heartbeat {
        cluster: ClusterId(1),
        list: 1,
        partitions,
        fresh: Stamp(2),
        server: ServerId([server; 12]),
        payload: vec![number.to_le_bytes()[0]; PAYLOAD_BYTES].into(),
        gone: Vec::new(),
    };
    for server in 1..servers {
        answers(connection, &[heartbeat(server, 0)]).await;
    }
    let (mut scripts, mut all) = (Vec::new(), Vec::new());
    for _ in 0..windows {
        redis.command(&["CONFIG", "RESETSTAT"]);
        let before = cpu(redis);
        for number in 0..WINDOW {
            let answers = answers(connection, &[heartbeat(0, number)]).await;
            let [NodeAnswer::Heartbeats { partitions: seen, servers: payloads }] = &answers[..] else {
                panic!("{answers:?}")
            };
            assert_eq!((seen.len(), payloads.len()), (partitions.into(), servers.into()));
        }
        all.push((cpu(redis) - before) / WINDOW as f64);
        scripts.push(within(redis) / WINDOW as f64);
    }
    scripts.sort_by(f64::total_cmp);
    all.sort_by(f64::total_cmp);
    let middle = scripts.len() / 2;
    println!(
        "a heartbeat of {partitions:>2} partitions and {servers} servers: script {:>5.1} to {:>5.1} µs; all of Redis {:>5.1} \
         to {:>5.1} µs",
        scripts[0], scripts[middle], all[0], all[middle],
    );
}

#[tokio::main]
async fn main() {
    let windows = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(2_000) / WINDOW;
    let redis = Redis::start(&[]);
    let node = Arc::new(Node::new(RedisUrl::parse(&redis.url()).unwrap()));
    let connecting = Arc::clone(&node);
    let connecting = tokio::spawn(async move { connecting.run().await });
    node.up().wait_for(|up| *up).await.unwrap();
    let connection = node.connection(0).unwrap();
    for (partitions, pairs) in [(1, 1), (1, 4), (1, 16), (1, 64), (4, 1), (10, 1), (16, 1), (16, 4), (32, 2)] {
        measure(&redis, &connection, partitions, pairs, windows).await;
    }
    for (partitions, servers) in [(16, 3), (32, 3), (64, 3), (32, 5)] {
        measure_beats(&redis, &connection, partitions, servers, windows).await;
    }
    connecting.abort();
}
