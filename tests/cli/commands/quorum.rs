//! `quorum create`, `quorum status` and `quorum replace`, and a server whose locks a majority of three Redis servers
//! has.

use crate::{
    redis::Redis,
    support::{Ended, Process, Server, await_that, fencepost},
};
use std::time::Duration;
use tokio::time::Instant;

fn three() -> [Redis; 3] {
    [(); 3].map(|()| Redis::start(&["--requirepass", "s3cret"]))
}

fn store(nodes: &[Redis]) -> String {
    nodes.iter().map(Redis::url).collect::<Vec<_>>().join(",")
}

fn place(node: &Redis) -> String {
    format!("127.0.0.1:{}", node.port)
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
    quorum("create", &store, &[]).expect(1).says("already keeps a store");
    let json = quorum("status", &store, &["--json"]).expect(0).json();
    assert_eq!((&json["kept"], &json["nodes"][2]["votes"]), (&json["partitions"], &json["partitions"]));
    nodes[1].kill();
    server.run(&["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"]).expect(0);
    let status = quorum("status", &store, &[]).expect(0);
    let away = status.out.lines().nth(2).unwrap();
    assert!(away.starts_with(&format!("127.0.0.1:{}  nothing listens there", nodes[1].port)), "{status:?}");
    assert!(status.out.ends_with("a majority has the locks of all partitions\n"), "{status:?}");
    nodes[2].kill();
    quorum("status", &store, &[]).expect(69).says("no majority of the Redis servers");
    let left = server.run(&["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"]);
    assert_eq!(left.code, 69, "{left:?}");
}

#[test]
fn a_store_has_the_name_and_the_partitions_that_were_asked_for() {
    let nodes = three();
    let store = store(&nodes);
    let options = ["--store-prefix", "team-a", "--partitions", "16"];
    let made = quorum("create", &store, &options).expect(0);
    assert!(made.out.contains("start servers with the same --store and --store-prefix team-a; 2 of 3"), "{made:?}");
    quorum("create", &store, &options[..2]).expect(1).says("repeat it with --partitions 16");
    let status = quorum("status", &store, &options[..2]).expect(0);
    assert!(status.out.contains(", 16 partitions\n"), "{status:?}");
    // The other store of these servers is not there.
    quorum("status", &store, &[]).expect(1);
    let server = Server::start_with(&["--store", &store, "--store-prefix", "team-a"]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
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
    assert!(status.out.contains("4 partitions have no majority: their locks are unavailable\n"), "{status:?}");
    assert!(status.out.ends_with("then run fencepost quorum rebuild\n"), "{status:?}");
}

#[test]
fn a_store_goes_on_with_what_the_third_node_has() {
    let mut nodes = three();
    let store = store(&nodes);
    quorum("rebuild", &store, &["--yes"]).expect(1).says("create a new store with fencepost quorum create");
    quorum("create", &store, &[]).expect(0);
    let server = Server::start_with(&["--store", &store]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    let held = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    let newest = server.run(&["acquire", "b", "--ttl", "1m"]).expect(0);
    quorum("rebuild", &store, &["--yes"]).expect(1).says("there is nothing to rebuild");
    nodes[..2].iter_mut().for_each(|node| node.restart(false));
    await_that("the nodes are told their cluster", || quorum("status", &store, &[]).code == 1);
    let shown = quorum("rebuild", &store, &[]).expect(1).says("4 of 4 partitions have no majority").says("--yes");
    assert!(shown.err.contains(&format!("{} has the locks of 4 of 4 partitions", place(&nodes[2]))), "{shown:?}");
    let before = quorum("status", &store, &[]).expect(1);
    // As if one had been broken off when it had one node, and then all.
    let own = "local it = redis.call('GET', '{fp}:node')
               it = it:sub(1, 16) .. struct.pack('>I6', 2) .. it:sub(23, -2) .. ARGV[1]
               return redis.call('SET', '{fp}:node', it)";
    let give = |node: &Redis| assert_eq!(node.command(&["EVAL", own, "0", r#","rebuild":7}"#]).text(), "OK");
    give(&nodes[0]);
    assert!(quorum("status", &store, &[]).expect(1).out.contains("repeat fencepost quorum rebuild"));
    give(&nodes[1]);
    give(&nodes[2]);
    quorum("status", &store, &[]).expect(69).says("repeat fencepost quorum rebuild");
    let done = quorum("rebuild", &store, &["--yes"]).expect(0);
    assert!(before.out.contains("list 1,"), "nothing was done until then: {before:?}");
    let from = format!("list 4: 4 partitions were rebuilt (4 from {})", place(&nodes[2]));
    assert!(done.out.contains(&from), "{done:?}");
    let renew = ["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"];
    await_that("the server goes on", || server.run(&renew).code == 0);
    quorum("status", &store, &[]).expect(0);
    server.run(&["release", "b", "--lease-id", newest.field("lease id")]).expect(0);
    let token = |ended: &Ended| ended.field("token").parse::<u64>().unwrap();
    let next = server.run(&["acquire", "b", "--ttl", "1m"]).expect(0);
    let (_, above) = done.out.split_once("tokens go on above ").unwrap();
    let above: u64 = above.lines().next().unwrap().parse().unwrap();
    assert!(token(&newest) < above && above < token(&next), "{newest:?}, {done:?}, {next:?}");
    // The two that forgot have it all now.
    nodes[2].kill();
    await_that("two of them are enough", || server.run(&renew).code == 0);
}

#[test]
fn a_node_is_replaced_while_a_server_runs() {
    let mut nodes = three();
    let (before, new) = (store(&nodes), Redis::start(&["--requirepass", "s3cret"]));
    let after = format!("{},{}", store(&nodes[..2]), new.url());
    let (old_place, new_place) = (place(&nodes[2]), place(&new));
    let replace = |store: &str, more: &[&str]| quorum("replace", store, more);
    replace(&before, &[&old_place, &new_place]).expect(1).says("fencepost quorum create");
    quorum("create", &before, &[]).expect(0);
    let server = Server::start_with(&["--store", &before]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    let held = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    replace(&before, &[&new_place, &old_place]).expect(1).says("is already a node of the store");
    replace(&before, &[&old_place, &old_place]).expect(1).says("is already a node of the store");
    let secret =
        replace(&before, &[&old_place, "redis://me:t0p@b:1"]).expect(2).says("NEW: invalid address of a Redis");
    assert!(!secret.err.contains("t0p"), "{secret:?}");
    let away = format!("127.0.0.1:{}", Redis::free_port());
    replace(&before, &[&old_place, &away]).expect(69).says(&away).says("nothing was done");
    // One that is dead is what is replaced most.
    nodes[2].kill();
    let done = replace(&before, &[&old_place, &new_place]).expect(0).says("the servers bring it up to date");
    assert!(done.out.contains(&format!("list 2: {new_place} has the locks of all partitions")), "{done:?}");
    assert!(done.out.contains(&format!("name {},{},{new_place} in --store", place(&nodes[0]), place(&nodes[1]))));
    assert_eq!(replace(&after, &[&old_place, &new_place]).expect(0).out, done.out, "it may be repeated");
    let renew = ["renew", "a", "--lease-id", held.field("lease id"), "--ttl", "1m"];
    await_that("the server goes on with it", || server.run(&renew).code == 0);
    let status = quorum("status", &before, &[]).expect(0);
    assert!(
        status.out.contains(&format!("--store names other nodes: change it to {}", place(&nodes[0]))),
        "{status:?}"
    );
    let json = quorum("status", &after, &["--json"]).expect(0).json();
    assert_eq!((&json["list"], &json["nodes"][2]["votes"]), (&2.into(), &json["partitions"]));
    assert_eq!(json.get("advice"), None);
    nodes[0].kill();
    server.run(&renew).expect(0);
}

#[test]
fn what_is_no_quorum_is_refused() {
    let nodes = three();
    quorum("create", &store(&nodes[..2]), &[]).expect(2).says("one, or three, or five");
    let away = format!("redis://127.0.0.1:1,{}", store(&nodes[..2]));
    quorum("create", &away, &[]).expect(69).says("127.0.0.1:1: ").says("nothing was done");
    quorum("create", &store(&nodes), &[]).expect(0);
    // Two of the same nodes and another one would have a majority beside the cluster's.
    let other = Redis::start(&[]);
    let mixed = format!("{},{}", store(&nodes[..2]), other.url());
    quorum("status", &mixed, &[]).expect(1).says("the store is on");
    quorum("create", &mixed, &[]).expect(1).says("already keeps a store");
    let given = ["serve", "--listen", "127.0.0.1:0", "--store", &store(&nodes[..2])];
    Process::start(&mut fencepost(&given)).ended().expect(78).says("names 2 Redis servers");
}

/// A server would wait for 3 s before it makes the store.
#[test]
fn the_store_of_one_redis_may_be_made_at_once() {
    let redis = Redis::start(&[]);
    let made = quorum("create", &redis.url(), &[]).expect(0);
    assert!(made.out.contains(&place(&redis)) && !made.out.contains("must be up"), "{made:?}");
    let server = Server::start_with(&["--store", &redis.url()]);
    await_that("the server serves", || server.run(&["acquire", "a", "--ttl", "1m"]).code == 0);
}

/// Two that are fit, and one that is not.
fn with_one(args: &[&str]) -> ([Redis; 3], String) {
    let nodes = [Redis::start(&[]), Redis::start(&[]), Redis::start(args)];
    let store = store(&nodes);
    (nodes, store)
}

#[test]
fn a_node_in_cluster_mode_is_refused() {
    let (nodes, store) = with_one(&["--cluster-enabled", "yes"]);
    let place = format!("127.0.0.1:{}: ", nodes[2].port);
    quorum("create", &store, &[]).expect(69).says(&place).says("cluster mode").says("nothing was done");
    let server = Server::start_with(&["--store", &store]);
    await_that("the server says why", || server.log().contains("this Redis is in cluster mode"));
    server.run(&["acquire", "a"]).expect(69);
    let doctor = Process::start(&mut fencepost(&["doctor", "--store", &store])).ended().expect(1);
    let (fit, unfit) = doctor.out.split_once(&format!("{}\n", nodes[2].url())).unwrap();
    assert!(unfit.contains("ERROR    cluster      this Redis is in cluster mode"), "{unfit}");
    assert!(!fit.contains("ERROR"), "{fit}");
}

#[test]
fn a_node_that_may_evict_is_refused_until_it_may_not() {
    let (nodes, store) = with_one(&["--maxmemory-policy", "allkeys-lfu"]);
    let place = format!("127.0.0.1:{}: ", nodes[2].port);
    quorum("create", &store, &[]).expect(69).says(&place).says("maxmemory-policy is allkeys-lfu");
    Process::start(&mut fencepost(&["doctor", "--store", &store])).ended().expect(1);
    nodes[2].command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    quorum("create", &store, &[]).expect(0);
    let server = Server::start_with(&["--store", &store]);
    let serves = |server: &Server| server.run(&["status"]).code == 0;
    await_that("the server is ready", || serves(&server));
    for node in &nodes[..2] {
        node.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    }
    // It does not trust the two any more, and one is no majority.
    await_that("the server stops", || !serves(&server));
    assert!(server.log().contains("redis may evict locks"), "{}", server.log());
    let careless = Server::start_with(&["--store", &store, "--allow-eviction"]);
    await_that("the careless one goes on", || careless.run(&["acquire", "a"]).code == 0);
    nodes[0].command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    await_that("the server goes on", || serves(&server));
}

/// Those in docs/operating/redis.md.
#[test]
fn few_permissions_are_enough() {
    let nodes = [(); 3].map(|()| Redis::start(&[]));
    let rules = "+@scripting +@pubsub +@read +@write +@connection +info +time ~{fp}:* &{fp}:to:*";
    let user: Vec<&str> =
        ["ACL", "SETUSER", "few", "reset", "on", ">s3cret"].into_iter().chain(rules.split(' ')).collect();
    nodes.iter().for_each(|node| assert_eq!(node.command(&user).text(), "OK"));
    let store = nodes.each_ref().map(|node| format!("redis://few:s3cret@127.0.0.1:{}", node.port)).join(",");
    quorum("create", &store, &[]).expect(0);
    let servers = [(); 2].map(|()| Server::start_with(&["--store", &store]));
    for server in &servers {
        await_that("the server is ready", || server.run(&["status"]).code == 0);
    }
    for number in 0..8 {
        let lock = format!("orders/{number}");
        let held = servers[number % 2].run(&["acquire", &lock, "--ttl", "1m"]).expect(0);
        servers[(number + 1) % 2].run(&["release", &lock, "--lease-id", held.field("lease id")]).expect(0);
    }
    quorum("status", &store, &[]).expect(0);
    let doctor = Process::start(&mut fencepost(&["doctor", "--store", &store])).ended().expect(0);
    assert!(!doctor.out.contains("warning"), "{doctor:?}");
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
    // None is there that keeps anything on disk, and none has to.
    assert!(!shown.out.contains("warning") && shown.out.contains("persistence  not needed"), "{shown:?}");
    for rule in
        [vec!["-@all", "+@connection", "+info", "+time", "+@scripting"], vec!["resetkeys"], vec!["resetchannels"]]
    {
        nodes[1]
            .command(&[&["ACL", "SETUSER", "few", "on", ">pw", "~{fp}:*", "&{fp}:to:*", "+@all"], &rule[..]].concat());
        let url = format!("redis://few:pw@127.0.0.1:{}", nodes[1].port);
        let store = [nodes[0].url(), url, nodes[2].url()].join(",");
        let shown = Process::start(&mut fencepost(&["doctor", "--store", &store])).ended();
        let parts: Vec<&str> = shown.out.split("redis://").collect();
        assert!(!parts[1].contains("NOPERM") && !parts[3].contains("NOPERM"), "{shown:?}");
        assert!(parts[2].contains("NOPERM"), "{rule:?}: {shown:?}");
    }
}
