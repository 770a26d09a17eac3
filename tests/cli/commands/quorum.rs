//! `quorum create` and `quorum status`, and a server whose locks a majority of three Redis servers has.

use crate::{
    redis::Redis,
    support::{Ended, Process, Server, await_that, fencepost},
};
use std::time::{Duration, Instant};

fn three() -> [Redis; 3] {
    [(); 3].map(|()| Redis::start(&["--requirepass", "s3cret"]))
}

fn store(nodes: &[Redis]) -> String {
    nodes.iter().map(Redis::url).collect::<Vec<_>>().join(",")
}

fn quorum(what: &str, store: &str, more: &[&str]) -> Ended {
    let ended = Process::start(fencepost(&["quorum", what, "--store", store]).args(more)).ended();
    assert!(!ended.out.contains("s3cret") && !ended.err.contains("s3cret"), "{ended:?}");
    ended
}

#[test]
fn a_store_is_made_once_and_serves_without_one_of_its_nodes() {
    let mut nodes = three();
    let store = store(&nodes);
    quorum("status", &store, &[]).expect(1).says("fencepost quorum create");
    let made = quorum("create", &store, &[]).expect(0);
    // A try that was broken off is repeated so.
    assert_eq!(quorum("create", &store, &[]).expect(0).out, made.out);
    let server = Server::start_with(&["--store", &store]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    assert!(server.run(&["status"]).out.contains("store quorum"));
    let held = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    quorum("create", &store, &[]).expect(1).says("belongs to a cluster already");
    let json = quorum("status", &store, &["--json"]).expect(0).json();
    assert_eq!((&json["kept"], &json["nodes"][2]["votes"]), (&json["partitions"], &json["partitions"]));
    nodes[1].kill();
    server.run(&["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"]).expect(0);
    let status = quorum("status", &store, &[]).expect(0);
    let away = status.out.lines().nth(2).unwrap();
    assert!(away.starts_with(&format!("127.0.0.1:{}  no answer", nodes[1].port)), "{status:?}");
    assert!(status.out.ends_with("a majority has the locks of all partitions\n"), "{status:?}");
    nodes[2].kill();
    quorum("status", &store, &[]).expect(69).says("no majority of the nodes");
    let left = server.run(&["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"]);
    assert_eq!(left.code, 69, "{left:?}");
}

/// What is left at one node of three may be old, and a majority that forgot knows nothing: nobody may be told anything.
#[test]
fn two_nodes_that_forget_at_once_stop_the_store() {
    let mut nodes = three();
    let store = store(&nodes);
    quorum("create", &store, &[]).expect(0);
    let server = Server::start_with(&["--store", &store]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    let held = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    nodes[..2].iter_mut().for_each(Redis::kill);
    nodes[..2].iter_mut().for_each(|node| node.restart(false));
    await_that("the nodes are told their cluster", || quorum("status", &store, &[]).code != 69);
    let newer = Server::start_with(&["--store", &store]);
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        for server in [&server, &newer] {
            server.run(&["acquire", "b", "--ttl", "1m"]).expect(69);
            server.run(&["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"]).expect(69);
            server.run(&["get", "a"]).expect(69);
        }
    }
    let status = quorum("status", &store, &[]).expect(1);
    assert!(status.out.ends_with("32 partitions have no majority: their locks are unavailable\n"), "{status:?}");
}

#[test]
fn what_is_no_quorum_is_refused() {
    let nodes = three();
    quorum("create", &store(&nodes[..2]), &[]).expect(2).says("three or five");
    quorum("create", &nodes[0].url(), &[]).expect(2).says("three or five");
    let away = format!("redis://127.0.0.1:1,{}", store(&nodes[..2]));
    quorum("create", &away, &[]).expect(69).says("127.0.0.1:1: ").says("nothing was done");
    quorum("create", &store(&nodes), &[]).expect(0);
    // Two of the same nodes and another one would have a majority beside the cluster's.
    let other = Redis::start(&[]);
    let mixed = format!("{},{}", store(&nodes[..2]), other.url());
    quorum("status", &mixed, &[]).expect(1).says("the cluster has the nodes");
    quorum("create", &mixed, &[]).expect(1).says("belongs to a cluster already");
    let given = ["serve", "--listen", "127.0.0.1:0", "--store", &store(&nodes[..2])];
    Process::start(&mut fencepost(&given)).ended().expect(78).says("names 2 Redis servers");
}

#[test]
fn doctor_checks_each_node() {
    let nodes = three();
    let store = store(&nodes);
    let shown = Process::start(&mut fencepost(&["doctor", "--store", &store])).ended().expect(0);
    for node in &nodes {
        let heading = format!("redis://:***@127.0.0.1:{}\n", node.port);
        assert_eq!(shown.out.matches(&heading).count(), 1, "{shown:?}");
    }
    let json = Process::start(&mut fencepost(&["doctor", "--json", "--store", &store])).ended().expect(0);
    assert_eq!(json.out.lines().count(), 3, "{json:?}");
}
