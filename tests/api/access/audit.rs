//! The audit log: what was denied, and what operators did.

use crate::{
    operations::{Operation, carry_out},
    support::{acquire_request, until, within},
    world::{Credentials, Files, World, rule, token},
};
use fencepost_proto::v1::ForceReleaseRequest;
use serde_json::Value;
use std::{fs, time::Duration};

#[tokio::test]
async fn denials_force_releases_drains_and_reloads_are_noted_without_secrets() {
    let files = Files::new();
    let rules = |mode: &str| {
        format!("mode = \"{mode}\"\n")
            + &(token("app", "secret-app") + &token("operator", "secret-operator"))
            + &rule("app", &["acquire"], &["a/"])
            + &rule("operator", &["force", "operate"], &[""])
    };
    files.rules(&rules("enforce"));
    let world = World::start_with(&files, |config| config.audit_log = Some(files.path("audit.log"))).await;
    let lines = || {
        let text = fs::read_to_string(files.path("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let (app, operator) = (Credentials::bearer("secret-app"), Credentials::bearer("secret-operator"));
    carry_out(&world, &Credentials::bearer("secret-wrong"), Operation::Get, "a/1").await.unwrap_err();
    carry_out(&world, &app, Operation::Acquire, "b/1").await.unwrap_err();
    carry_out(&world, &app, Operation::List, "b/").await.unwrap_err();
    let leased = within(world.locks(&app).acquire(acquire_request("a/1", Duration::from_secs(60)))).await.unwrap();
    let lease = leased.into_inner().lease.unwrap();
    let revoke = |token| ForceReleaseRequest { lock_name: "a/1".into(), expected_token: token, reason: "stuck".into() };
    let mut admin = world.operator(world.admin, &operator);
    within(admin.force_release(revoke(lease.fencing_token + 1))).await.unwrap();
    within(admin.force_release(revoke(lease.fencing_token))).await.unwrap();
    files.rules("mode = 1");
    until(async || lines().len() >= 6).await;
    // As logrotate does.
    fs::rename(files.path("audit.log"), files.path("audit.log.1")).unwrap();
    until(async || files.path("audit.log").exists()).await;
    carry_out(&world, &operator, Operation::DrainOnAdminPort, "").await.unwrap();
    until(async || !lines().is_empty()).await;

    let before = fs::read_to_string(files.path("audit.log.1")).unwrap();
    let after = fs::read_to_string(files.path("audit.log")).unwrap();
    for text in [&before, &after] {
        assert!(!text.contains("secret") && !text.contains(&lease.lease_id), "{text}");
    }
    let all: Vec<Value> = (before + &after).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let kept: Vec<_> = all
        .iter()
        .map(|line| {
            ["event", "outcome", "reason", "identity", "verb", "lock_name", "prefix"].map(|name| told(line, name))
        })
        .collect();
    let why = kept[5][2].clone();
    assert!(why.starts_with("line 1, column 8"), "{why}");
    assert_eq!(
        kept,
        [
            ["denied", "refused", "credentials_invalid", "", "read", "a/1", ""],
            ["denied", "refused", "not_permitted", "app", "acquire", "b/1", ""],
            ["denied", "refused", "not_permitted", "app", "read", "", "b/"],
            ["force_release", "token_mismatch", "stuck", "operator", "", "a/1", ""],
            ["force_release", "revoked", "stuck", "operator", "", "a/1", ""],
            ["access_reload", "failed", &why, "", "", "", ""],
            ["drain", "begun", "", "operator", "", "", ""],
        ]
    );
    assert_eq!(all[4]["fencing_token"].as_u64(), Some(lease.fencing_token));
    assert!(told(&all[1], "peer").starts_with("127.0.0.1:") && told(&all[3], "peer").starts_with("127.0.0.1:"));
    assert!(all.iter().all(|line| told(line, "time").ends_with('Z') && !told(line, "server").is_empty()));
}
