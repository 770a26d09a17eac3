//! `fencepost doctor` with the URL of Sentinels.

use crate::{
    Redis,
    fake::{Fake, url},
    place,
    world::World,
};
use serde_json::Value;
use std::process::{Command, Output};

fn doctor(url: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["doctor", "--store", url]).args(more).env_remove("FENCEPOST_STORE").output().unwrap()
}

/// The report with this exit status, and its findings of one check.
#[track_caller]
fn findings(output: &Output, code: i32, check: &str) -> Vec<String> {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    all.map(|it| format!("{} {} {}", it["severity"].as_str().unwrap(), it["found"], it["at_stake"])).collect()
}

#[tokio::test]
async fn it_says_what_each_sentinel_says_and_which_redis_it_is() {
    let world = World::start().await;
    let output = doctor(&world.url(), &["--json"]);
    let each = findings(&output, 0, "sentinel");
    assert_eq!(each.len(), 3);
    let [primary, _] = &world.redis;
    let says = format!(
        "names {} (config-epoch 0, quorum 2, down-after 500 ms, 2 other Sentinels, 1 replicas)",
        place(primary)
    );
    for (found, sentinel) in each.iter().zip(&world.sentinels) {
        assert!(found.starts_with("ok ") && found.contains(&format!("127.0.0.1:{} {says}", sentinel.port)), "{found}");
    }
    assert!(findings(&output, 0, "primary")[0].contains(&format!("redis://app:***@{}", place(primary))));
    assert!(findings(&output, 0, "quorum")[0].starts_with("ok \"2 of 3\""));
    // What an ordinary Redis is checked for, and what a failover forgets.
    assert!(findings(&output, 0, "role")[0].contains("this Redis is a primary"));
    assert!(findings(&output, 0, "replicas")[0].contains("a failover forgets what the promoted replica"));

    let few = world.url().replace(&format!(",127.0.0.1:{}", world.sentinels[2].port), "");
    let output = doctor(&few, &["--json"]);
    assert!(findings(&output, 0, "sentinels")[0].starts_with("warning \"the URL names 2\""));
    assert!(findings(&output, 0, "known")[0].contains("they know of 3"));

    let unknown = doctor(&world.url().replace("/main", "/other"), &["--json"]);
    assert!(findings(&unknown, 69, "sentinel")[0].contains("it knows no primary other"));
    assert!(findings(&unknown, 69, "primary")[0].starts_with("error "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_warns_of_sentinels_that_disagree() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let [one, two, three] =
        [Fake::naming(&redis, 5).await, Fake::naming(&other, 6).await, Fake::naming(&redis, 5).await];
    let output = doctor(&url(&[&one, &two, &three]), &["--json"]);
    assert!(
        findings(&output, 0, "agreement")[0].starts_with("warning \"the Sentinels name different primaries"),
        "{output:?}"
    );
    assert!(findings(&output, 0, "primary")[0].contains(&place(&redis)));
    three.ends().await;
    one.names(&redis, 6);
    let output = doctor(&url(&[&one, &two]), &[]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("warning  agreement") && text.contains("ERROR    primary"), "{text}");
}

#[test]
fn a_list_with_sentinels_is_refused_in_words() {
    let list = "redis://:s3cret@a,redis+sentinel://s1,s2/main,redis://c";
    for command in [&["doctor"][..], &["serve"], &["quorum", "status"]] {
        let mut fencepost = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        let output = fencepost.args(command).args(["--store", list]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("names Sentinels in a list of Redis servers"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
