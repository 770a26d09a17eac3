//! `fencepost doctor` with the URL of a Redis Cluster.

use crate::{
    RedisCluster,
    cluster::{OTHER, PRIMARY, REPLICA, SLOT},
};
use serde_json::Value;
use std::process::{Command, Output};

fn doctor(url: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["doctor", "--json", "--store", url]).env_remove("FENCEPOST_STORE").output().unwrap()
}

/// The findings of one check.
#[track_caller]
fn findings(output: &Output, check: &str) -> Vec<String> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    all.map(|it| format!("{} {}", it["severity"].as_str().unwrap(), it["found"].as_str().unwrap())).collect()
}

#[test]
fn it_says_what_each_member_says_and_where_the_slot_is() {
    let mut cluster = RedisCluster::start();
    let url = cluster.url();
    let output = doctor(&url);
    let says =
        |member: usize| format!("ok {} names {} (config epoch 2)", cluster.address(member), cluster.address(PRIMARY));
    let members = findings(&output, "member");
    // Those of the URL, the other primary, and the replica of the slot.
    assert_eq!(members.len(), 5, "{members:?}");
    assert!([0, 1, 2, REPLICA, 5].iter().all(|member| members.contains(&says(*member))), "{members:?}");
    assert_eq!(findings(&output, "slot"), [format!("ok {} has slot {SLOT} ({{fp}})", cluster.address(PRIMARY))]);
    assert_eq!(findings(&output, "failover"), [format!("ok replicas of the primary: {}", cluster.address(REPLICA))]);
    assert_eq!(findings(&output, "primaries"), ["ok 3 primaries have slots and vote"]);
    assert_eq!(findings(&output, "primary"), [format!("ok the node is redis://{}", cluster.address(PRIMARY))]);
    assert_eq!(findings(&output, "cluster"), [""; 0]);
    // What an ordinary Redis is checked for.
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(findings(&output, "keys"), ["ok keys that begin with {fp}: may be read and written"]);
    assert_eq!(findings(&output, "channels"), ["ok messages may be sent"]);
    assert_eq!(findings(&output, "role"), ["ok this Redis is a primary"]);

    // Another name is in another slot.
    let mut named = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    let output = named.args(["doctor", "--json", "--store-prefix", "team-a", "--store", &url]).output().unwrap();
    assert_eq!(findings(&output, "slot"), [format!("ok {} has slot 983 ({{team-a}})", cluster.address(OTHER))]);
    assert_eq!(findings(&output, "keys"), ["ok keys that begin with {team-a}: may be read and written"]);

    cluster.begin_to_move(PRIMARY, OTHER);
    let moving = findings(&doctor(&url), "slot");
    assert!(
        moving[0].starts_with("warning ")
            && moving[0].contains(&format!("moves it to the member {}", cluster.id(OTHER))),
        "{moving:?}"
    );
    for member in [PRIMARY, OTHER] {
        cluster.ok(member, &["CLUSTER", "SETSLOT", &SLOT.to_string(), "STABLE"]);
    }

    cluster.members[REPLICA].kill();
    cluster.until("the replica is known to be gone", |_| {
        let output = doctor(&url);
        findings(&output, "failover")[0].starts_with("warning the primary of slot")
    });

    // Nobody can be promoted now.
    cluster.members[PRIMARY].kill();
    cluster.until("the slot is known to have no primary", |_| {
        let output = doctor(&url);
        output.status.code() == Some(69)
            && findings(&output, "primary")[0].starts_with("error ")
            && findings(&output, "member").iter().any(|it| it.contains("its cluster_state is fail"))
    });
}

#[test]
fn a_list_with_a_cluster_is_refused_in_words() {
    let list = "redis://:s3cret@a,redis+cluster://m1,m2,redis://c";
    for command in [&["doctor"][..], &["serve"], &["quorum", "status"]] {
        let mut fencepost = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        let output = fencepost.args(command).args(["--store", list]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains("names a Redis Cluster in a list of Redis servers"),
            "{said}"
        );
        assert!(!said.contains("s3cret"), "{said}");
    }
}
